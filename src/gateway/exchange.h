#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/admission.h"
#include "gateway/downstream.h"
#include "gateway/pacer.h"
#include "gateway/routing.h"
#include "gateway/upstream_pool.h"
#include "net/byte_channel.h"
#include "net/timers.h"
#include "wire/http1.h"
#include "wire/http1_answer.h"
#include "wire/http1_body.h"

namespace weir::gateway {

class GatewayWorker;

// One request and its response: finds the route, asks the limits, waits in the queue, then streams
// the request to an upstream server and the response to the client. Reused for the next request of
// its client. For the thread of its loop.
class Exchange final : private net::ChannelOwner, private AdmissionCallback {
 public:
  Exchange(GatewayWorker& worker, Downstream& client);
  ~Exchange();

  // `request` lives until the exchange is over.
  void begin(const wire::HttpRequest& request, const wire::HttpFraming& framing,
             std::string_view upgrade);

  // True if more of the request body is wanted; on_body returns how much of the input it used.
  bool wants_body() const;
  std::size_t on_body(std::string_view input);
  // End of a body that is delimited by the protocol (framing.until_end, HTTP/2). Only while a body
  // is wanted.
  void on_body_end(std::string_view trailers);

  // The client's buffer has space again.
  void on_client_sent();
  // The client has half-closed, or closed, its connection.
  void on_client_end();
  void on_client_gone();
  // The client neither sends nor reads: a timeout of the connection.
  void on_client_late();
  // The process is out of connection memory: ends the exchange, with a 503 if no response has
  // begun.
  void shed();

 private:
  enum class ExchangePhase {
    idle,
    deciding,
    queued,      // admitted, waits for its turn
    connecting,  // to an upstream server
    streaming,
    tunnel,
    draining,  // answered; the rest of the request body is read and dropped
  };
  using Clock = std::chrono::steady_clock;

  // ---- Routing and limits
  bool find_route();
  std::optional<struct RequestError> request_error();
  bool rejects_key(const RequestKey& key);
  void decide();
  void make_keys();
  void ask();
  void on_verdict(const Verdict& verdict) override;
  void enter_queue();
  void deny();

  // ---- The upstream side
  void connect(bool fresh = false);
  void send_request();
  void append_upstream_head(std::string& out);
  void send_body(std::string_view data, std::string_view trailers);
  void on_connected() override;
  void on_input(std::string_view input) override;
  void on_sent() override;
  void on_eof() override;
  void on_error(std::string_view why) override;
  void on_out_of_memory() noexcept override { client_.drop(); }
  void on_shed() noexcept override;
  void fail(UpstreamFailure failure, std::string_view why);
  bool may_retry(UpstreamFailure failure) const;
  void on_upstream_timeout();
  bool server_owes_response() const;

  // ---- The response
  std::size_t read_response(std::string_view input);
  bool on_response_head();
  void forward_interim();
  std::string& response_fields();
  void start_tunnel();
  void start_response();
  void forward_response_body(std::string_view data);
  void finish_response();
  void update_upstream_reading();
  void respond(const struct LocalReply& reply, bool with_rate_headers);
  void respond(int status, std::string_view detail);
  void abort();
  void finish_tunnel();
  void end_tunnel_if_done();

  // ---- Ending
  void leave_queue();
  void return_unused_permits();
  void end_admission();
  void release_upstream(bool reusable);
  void complete(bool keep_alive);
  void finish(int status);
  void charge_bandwidth(std::uint64_t bytes, bool of_request);

  GatewayWorker& worker_;
  Downstream& client_;

  // ---- The request
  ExchangePhase phase_ = ExchangePhase::idle;
  std::uint64_t sequence_ = 0;  // sequence number of the exchange: detects reuse inside a call
  const wire::HttpRequest* request_ = nullptr;
  wire::HttpFraming framing_{};
  std::string_view upgrade_;
  std::shared_ptr<const Routing> routing_;
  const RouteConfig* route_ = nullptr;  // null: no route found
  const Routing::RouteRuntime* runtime_ = nullptr;
  std::vector<wire::HttpField> fields_;
  std::string host_;
  Path path_;
  IpAddress address_;  // of the client, taken from trusted proxies
  std::string id_;
  Clock::time_point started_at_{};
  wire::HttpBody request_body_;

  // ---- The decision
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<Pacer> pacer_;
  bool holds_permits_ = false;
  bool has_verdict_ = false;  // the verdict is reported in headers and logs
  Verdict verdict_;
  PolicyTraits traits_;
  Permits permits_ = 1;
  RouteDecision decision_ = RouteDecision::unlimited;
  Clock::time_point queued_at_{};
  std::chrono::nanoseconds queue_time_{0};

  // ---- The upstream
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<UpstreamConnection> upstream_;
  std::vector<UpstreamServer*> tried_;
  const UpstreamServer* server_ = nullptr;  // the last one that was tried
  Clock::time_point sent_at_{};
  bool body_sent_ = false;  // at least one byte was sent

  // ---- The response
  wire::HttpAnswerParser response_parser_;
  wire::HttpBody response_body_;
  std::string input_;  // from the upstream, not consumed yet
  int status_ = 0;
  bool responding_ = false;  // its head was passed on
  bool keep_alive_ = true;   // the client's connection is reusable
  bool client_ended_ = false;
  bool server_ended_ = false;
  std::uint64_t response_bytes_ = 0;  // response body bytes

  net::Timer queue_timer_;
  net::Timer server_timer_;
  net::Timer total_timer_;
  net::Timer renew_timer_;
};

}  // namespace weir::gateway
