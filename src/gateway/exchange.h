#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/claim.h"
#include "gateway/client_side.h"
#include "gateway/link.h"
#include "gateway/pacer.h"
#include "gateway/routing.h"
#include "net/channel.h"
#include "net/timers.h"
#include "wire/http1.h"
#include "wire/http1_answer.h"
#include "wire/http1_body.h"

namespace weir::gateway {

class House;

// One request of a client and its answer: finds the route, asks the limits, waits for its turn,
// sends the request to a server and the answer to the client, both as they come. Used again for the
// next request.
class Exchange final : private net::ChannelOwner, private Claimant {
 public:
  Exchange(House& house, ClientSide& client);
  ~Exchange();

  // The request lives until it is over.
  void begin(const wire::HttpRequest& request, const wire::HttpFraming& framing,
             std::string_view upgrade);

  // Whether more of the request is wanted, and what is used of it.
  bool wants_body() const;
  std::size_t on_body(std::string_view input);
  // Where the body is not told from what is behind it (framing.until_end): it ends here. To be told
  // when a body is wanted.
  void on_body_end(std::string_view trailers);

  // The client has room for more.
  void on_client_sent();
  // The client says nothing more, or has gone.
  void on_client_end();
  void on_client_gone();
  // The client neither sends nor takes anything.
  void on_client_late();
  // All connections hold too much memory: it ends, with an answer that says so if there is none.
  void shed();

 private:
  enum class Phase {
    idle,
    deciding,
    queued,      // waits for its turn
    connecting,  // to a server
    running,
    tunnel,
    discarding,  // is answered; the rest of the request is read for nothing
  };
  using Clock = std::chrono::steady_clock;

  // ---- Before a server is asked
  bool find_route();
  std::optional<struct RequestFlaw> flaw_of_request();
  bool refuses_key(const MadeKey& key);
  void decide();
  void make_keys();
  void ask();
  void on_verdict(const Verdict& verdict) override;
  void wait_for_turn();
  void refuse();

  // ---- The server's side
  void connect(bool fresh = false);
  void send_request();
  void append_head(std::string& out);
  void send_body(std::string_view data, std::string_view trailers);
  void on_connected() override;
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_end() override;
  void on_broken(std::string_view why) override;
  void on_out_of_memory() noexcept override { client_.drop(); }
  void on_shed() noexcept override;
  void fail(ServerFailure failure, std::string_view why);
  bool may_try_again(ServerFailure failure) const;
  void on_server_time();
  bool server_owes() const;

  // ---- The answer
  std::size_t read_answer(std::string_view input);
  bool on_answer_head();
  void pass_hints();
  std::string& answer_fields();
  void start_tunnel();
  void start_answer();
  void pass_answer(std::string_view data);
  void finish_answer();
  void arrange_flow();
  void respond(const struct Answer& answer, bool with_rate_lines);
  void respond(int status, std::string_view detail);
  void abort();
  void finish_tunnel();
  void look_at_tunnel();

  // ---- The end
  void leave_queue();
  void leave_unserved();
  void end_claim();
  void release_link(bool reusable);
  void over(bool keeps);
  void tell(int status);
  void pay(std::uint64_t bytes, bool of_request);

  House& house_;
  ClientSide& client_;

  // Of the request.
  Phase phase_ = Phase::idle;
  std::uint64_t number_ = 0;  // of exchanges: the next one may begin before the last call of this
  const wire::HttpRequest* request_ = nullptr;
  wire::HttpFraming framing_{};
  std::string_view upgrade_;
  std::shared_ptr<const Routing> routing_;
  const Route* route_ = nullptr;  // none: not found yet
  const Routing::Place* place_ = nullptr;
  std::vector<wire::HttpField> fields_;
  std::string host_;
  Path path_;
  Address address_;  // of the client, as trusted proxies tell
  std::string id_;
  Clock::time_point began_{};
  wire::HttpBody in_;

  // Of the decision.
  std::shared_ptr<Claim> claim_;
  std::shared_ptr<Pacer> pacer_;
  bool claimed_ = false;
  bool decided_ = false;  // there is a verdict to tell
  Verdict verdict_;
  PolicyTraits traits_;
  Permits asked_ = 1;
  Ruling ruling_ = Ruling::unlimited;
  Clock::time_point queued_at_{};
  std::chrono::nanoseconds waited_{0};

  // Of the server.
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<UpstreamLink> link_;
  std::vector<Server*> tried_;
  const Server* server_ = nullptr;  // the last one
  Clock::time_point asked_at_{};
  bool body_sent_ = false;  // some of it was

  // Of the answer.
  wire::HttpAnswerParser answer_;
  wire::HttpBody out_;
  std::string kept_;  // of the server's, not used up
  int status_ = 0;
  bool answering_ = false;  // its head was passed on
  bool keeps_ = true;       // the client's connection
  bool client_ended_ = false;
  bool server_ended_ = false;
  std::uint64_t sent_ = 0;  // bytes of bodies

  net::Timer turn_;
  net::Timer server_timer_;
  net::Timer total_;
  net::Timer lease_;
};

}  // namespace weir::gateway
