#include "gateway/http2_downstream.h"

#include <string>
#include <vector>

#include "gateway/deny_reply.h"
#include "gateway/gateway_worker.h"
#include "gateway/http2_connection.h"
#include "gateway/request_head.h"
#include "wire/h2_fields.h"
#include "wire/http1_body.h"

namespace weir::gateway {

namespace {

// Header fields of a response as HTTP/2 encodes them: names in lower case, no connection-specific
// fields.
class Http2Head {
 public:
  explicit Http2Head(const ResponseHead& head)
      : status_(std::to_string(head.status)), field_lines_(head.fields) {
    fields.push_back({":status", status_, false});
    wire::append_fields(fields, field_lines_);
    if (!head.length.empty()) fields.push_back({"content-length", head.length, false});
  }
  Http2Head(const Http2Head&) = delete;
  Http2Head& operator=(const Http2Head&) = delete;

  std::vector<wire::H2Field> fields;

 private:
  std::string status_;
  std::string field_lines_;
};

}  // namespace

Http2Downstream::Http2Downstream(Http2Connection& connection)
    : connection_(connection),
      timer_(connection.worker().loop().timers, [this] { on_timeout(); }),
      exchange_(connection.worker(), *this) {}

const IpAddress& Http2Downstream::peer() const { return connection_.peer(); }

bool Http2Downstream::has_tls() const { return connection_.has_tls(); }

// ---- The request

void Http2Downstream::begin(wire::H2Stream& stream) {
  stream_ = &stream;
  exchange_over_ = has_body_ = blocked_ = false;
  timeout_ = StreamTimeout::none;
  queued_bytes_ = 0;
  if (stream.flaw() != 0) return reject();
  exchange_.begin(stream.request(), framing_of(stream), {});
  forward_input();
}

void Http2Downstream::reject() {
  connection_.worker().state().metrics.malformed.fetch_add(1, std::memory_order_relaxed);
  const LocalReply answer = problem_reply(stream_->flaw(), stream_->reason());
  const bool has_body = !stream_->request().head;
  const std::string length = std::to_string(answer.body.size());
  send_head(
      {.status = answer.status, .fields = answer.fields, .length = length, .has_body = has_body});
  if (has_body) send_body(answer.body);
  send_end({});
  on_exchange_end(true);
}

void Http2Downstream::on_input() { forward_input(); }

// Forwards as much of the body as the exchange wants; the flow-control window opens by as much.
void Http2Downstream::forward_input() {
  exchange_over_ ? stream_->parts().clear() : forward_body();
  connection_.machine().took(*stream_);
  update_timeout();
}

// (Input is erased only after it was forwarded; the flag keeps nested calls away from it.)
void Http2Downstream::forward_body() {
  if (forwarding_) return;
  std::string& parts = stream_->parts();
  while (!parts.empty() && exchange_.wants_body()) {
    forwarding_ = true;
    const std::size_t used = exchange_.on_body(parts);
    forwarding_ = false;
    if (exchange_over_ || used == 0) return;
    parts.erase(0, used);
  }
  const bool ends = parts.empty() && stream_->is_whole();
  if (ends && exchange_.wants_body()) exchange_.on_body_end(stream_->request_trailers());
}

// ---- The response

void Http2Downstream::send_continue() {
  constexpr wire::H2Field status{":status", "100"};
  connection_.machine().hint(*stream_, {&status, 1});
}

void Http2Downstream::send_interim(const ResponseHead& head) {
  connection_.machine().hint(*stream_, Http2Head(head).fields);
}

void Http2Downstream::send_head(const ResponseHead& head) {
  has_body_ = head.has_body;
  const Http2Head http2_head(head);
  if (has_body_) return connection_.machine().start(*stream_, http2_head.fields);
  connection_.machine().respond(*stream_, http2_head.fields);
}

void Http2Downstream::send_body(std::string_view body) {
  queued_bytes_ += body.size();
  stream_->answer.append(body);
  connection_.machine().go_on(*stream_);
}

void Http2Downstream::send_end(std::string_view trailers) {
  if (!has_body_) return;
  std::string lines = wire::forwardable_trailers(trailers);
  std::vector<wire::H2Field> fields;
  wire::append_fields(fields, lines);
  connection_.machine().finish(*stream_, fields);
}

bool Http2Downstream::has_room() {
  blocked_ = !connection_.has_room(*stream_);
  return !blocked_;
}

void Http2Downstream::on_buffer_space() {
  if (blocked_ && !exchange_over_ && has_room()) exchange_.on_client_sent();
}

// ---- Progress of the exchange

void Http2Downstream::on_progress() {
  if (stream_ == nullptr) return;
  const Http2Connection::OutputBatch batch(connection_);
  forward_input();
}

// HTTP/2 frames delimit requests: the connection stays usable in any case.
void Http2Downstream::on_exchange_end(bool /*keep_alive*/) {
  const Http2Connection::OutputBatch batch(connection_);
  exchange_over_ = true;
  forward_input();
}

void Http2Downstream::abort() {
  const Http2Connection::OutputBatch batch(connection_);
  exchange_over_ = true;
  connection_.machine().reset(*stream_, wire::H2Error::internal);
  forward_input();
}

void Http2Downstream::drop() noexcept { connection_.drop(); }

void Http2Downstream::on_gone() {
  timer_.cancel();
  if (!exchange_over_ && stream_ != nullptr) exchange_.on_client_gone();
  stream_ = nullptr;
  blocked_ = false;
}

// ---- Timeouts

void Http2Downstream::update_timeout() {
  const bool wants_body = exchange_over_ || exchange_.wants_body();
  if (stream_->unsent() > 0) {
    set_timeout(StreamTimeout::sending);
  } else {
    set_timeout(wants_body && !stream_->is_whole() ? StreamTimeout::body : StreamTimeout::none);
  }
}

// While output is unsent, input from the client does not extend the send timeout.
void Http2Downstream::set_timeout(StreamTimeout timeout) {
  if (timeout == StreamTimeout::sending && timeout_ == timeout) return;
  timeout_ = timeout;
  sent_at_timer_ = sent_bytes();
  const ClientLimits& limits = connection_.worker().state().client;
  if (timeout == StreamTimeout::none) return timer_.cancel();
  timer_.set_in(timeout == StreamTimeout::sending ? limits.send : limits.body);
}

void Http2Downstream::on_timeout() {
  const Http2Connection::OutputBatch batch(connection_);
  timeout_ = StreamTimeout::none;
  // The timeout restarts as long as the client takes some of the response.
  if (sent_bytes() > sent_at_timer_) return update_timeout();
  if (exchange_over_) return connection_.machine().reset(*stream_, wire::H2Error::none);
  exchange_.on_client_late();
  forward_input();
}

}  // namespace weir::gateway
