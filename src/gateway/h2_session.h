#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/address.h"
#include "gateway/h2_client.h"
#include "gateway/visitor.h"
#include "net/channel.h"
#include "net/protocol.h"
#include "net/timers.h"
#include "wire/h2.h"

namespace weir::gateway {

class House;

// A client's connection that speaks HTTP/2: an exchange on each stream, all at the same time. None
// of them waits for another: each has its share of the memory for what is not taken, and the time
// that a client of HTTP/1 has. For one thread.
class H2Session final : public Visitor, private net::ChannelOwner, private wire::H2Handler {
 public:
  // Takes the channel, unless an exception says that it could not be made.
  H2Session(House& house, std::unique_ptr<net::Channel>& channel, const net::Peer& peer);
  ~H2Session() override;

  // Once, when the house has it: `input` has come.
  void begin(std::string_view input);

  void shut_down() override;
  void close() override { channel_->close(); }

  // ---- For the clients on its streams

  House& house() { return house_; }
  wire::H2Machine& machine() { return machine_; }
  const Address& peer() const { return peer_; }
  bool has_tls() const { return channel_->stream().has_tls(); }
  // Whether more of the answer on that stream should come. If not, its client will be told.
  bool has_room(const wire::H2Stream& stream);

  // Ends the connection at once, without a word.
  void drop() noexcept;

  // Whatever happens to streams happens in a turn. What there is to say goes out at its end, when
  // nobody is in the middle of something: streams end with that.
  class Turn {
   public:
    explicit Turn(H2Session& session) : session_(session) { ++session_.turns_; }
    ~Turn() {
      // (Behind a failure nothing is said: whoever has caught it drops the connection.)
      if (session_.turns_ == 1 && std::uncaught_exceptions() == 0) session_.end_turn_or_drop();
      --session_.turns_;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    H2Session& session_;
  };

 private:
  enum class Wait { nothing, idle, sending, farewell, lingering };

  // Of the machine.
  bool takes_parts(const wire::H2Stream&) override { return true; }
  std::size_t most_body(const wire::H2Stream&) override { return SIZE_MAX; }
  void on_request(wire::H2Stream& stream) override;
  void on_gone(wire::H2Stream& stream) override;

  // Of the connection.
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_end() override;
  void on_broken(std::string_view why) override;
  void on_out_of_memory() noexcept override { drop(); }
  void on_shed() noexcept override;

  void receive(std::string_view input);
  void serve(std::int32_t id);
  void end_turn();
  void end_turn_or_drop() noexcept;
  void send();
  void tell_who_waits();
  void arrange();
  void wait_for(Wait what);
  Nanos patience(Wait what) const;
  std::uint64_t taken() const { return said_ - channel_->unsent(); }
  void on_time();
  void linger();
  void let_all_go() noexcept;

  House& house_;
  const Address peer_;
  std::unique_ptr<net::Channel> channel_;
  net::Timer timer_;
  net::Timer header_timer_;
  Wait wait_ = Wait::nothing;
  std::uint64_t said_ = 0;        // bytes, to the connection
  std::uint64_t taken_then_ = 0;  // of them, when the timer was set
  int turns_ = 0;                 // one in the other
  bool some_wait_ = false;        // clients, for room
  bool told_to_go_ = false;
  std::vector<std::int32_t> heard_of_;            // streams, of which something has come
  std::vector<std::unique_ptr<H2Client>> spare_;  // to be used again
  wire::H2Machine machine_;  // (its streams have clients: they end before the rest)
};

}  // namespace weir::gateway
