#pragma once

#include <string>
#include <string_view>

#include "net/ground.h"
#include "net/listen.h"
#include "net/stream.h"

namespace weir::net {

// Who has a channel. May close it while it is told something, but not destroy it: that is for the
// end of the turn (Ground::bury).
class ChannelOwner {
 public:
  // Of one that was opened here: it stands, with TLS if it has that.
  virtual void on_connected() {}
  // All of it is taken, or kept by the owner.
  virtual void on_input(std::string_view input) = 0;
  // All that was to be sent is sent, after some of it had to wait.
  virtual void on_sent() = 0;
  // The peer will say nothing more. It may still listen.
  virtual void on_end() = 0;
  // Nothing more comes or goes; `why` is for people.
  virtual void on_broken(std::string_view why) = 0;
  // An allocation has failed in the middle of an event: the owner closes the channel.
  virtual void on_out_of_memory() noexcept = 0;
  // All connections together hold too much memory, and this one is among the largest: the owner
  // ends it, and may say why. Not in the middle of an event.
  virtual void on_shed() noexcept { on_out_of_memory(); }

 protected:
  ~ChannelOwner() = default;
};

// A connection whose two directions are used at the same time. Input comes when it is wanted and at
// no other time, so that whoever passes it on to somebody slow stops reading; what cannot be sent
// at once is kept, and whoever sends looks at `unsent` before it asks for more. What is kept counts
// as memory of the connection, together with what the owner holds for it.
// For the thread of its loop.
class Channel final : public Watcher, public MemoryHolder {
 public:
  // One that stands. Closed if the system watches no more of them, as is one that is opened.
  Channel(Ground& ground, Stream stream, ChannelOwner& owner);
  // One that is opened: `owner` hears whether it stands, not before this returns. With TLS if a
  // context is given.
  Channel(Ground& ground, const Address& to, const TlsContext& context, const std::string& host,
          ChannelOwner& owner);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Whose it is from now on.
  void use_owner(ChannelOwner& owner) { owner_ = &owner; }

  // Whether input is wanted, which it is at first. Who wants none still hears that the peer has
  // gone: as its end.
  void want_input(bool wanted);
  // From now on all input comes before its end, also where none is wanted for a while, and where
  // the peer takes nothing any more: of a peer that goes when it has said everything, and not of
  // one that waits for answers.
  void hear_out() { hears_out_ = true; }
  // What can be sent is sent at once. (A failure is told by the next event.)
  void send(std::string_view bytes);
  std::size_t unsent() const { return unsent_.size() - sent_; }
  // Nothing more will be sent behind what is unsent.
  void finish();
  void close() noexcept;
  // Bytes that the owner holds for this connection.
  void count_owner_memory(std::size_t bytes) {
    if (owner_memory_ != bytes) {
      owner_memory_ = bytes;
      count_memory();
    }
  }
  // Closes it so that the peer notices that something is missing.
  void abort() noexcept;
  bool is_open() const { return stream_.is_open(); }
  const Stream& stream() const { return stream_; }

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void shed() noexcept override { owner_->on_shed(); }

 private:
  void count_memory();
  void serve();
  void connect();
  void read();
  void look();
  void hear_last_words();
  void stop_watching();
  void send_on();
  void fail(std::string_view why);
  void watch();
  Interest wanted() const;

  Ground& ground_;
  Stream stream_;
  ChannelOwner* owner_;
  std::string unsent_;
  std::size_t sent_ = 0;  // of `unsent_`
  std::size_t owner_memory_ = 0;
  Interest interest_ = Interest::read;
  bool connecting_ = false;
  bool wants_input_ = true;
  bool hears_out_ = false;
  bool unwatched_ = false;
  bool told_end_ = false;  // the owner knows that nothing more will come
  bool finishes_ = false;
  bool finished_ = false;
  bool failed_ = false;  // to be told
};

}  // namespace weir::net
