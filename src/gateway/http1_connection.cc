#include "gateway/http1_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/scratch_buffer.h"
#include "gateway/gateway_worker.h"
#include "gateway/http2_connection.h"
#include "gateway/local_reply.h"
#include "wire/h2.h"
#include "wire/http1_response.h"

namespace weir::gateway {

namespace {

// Time of a lingering close: for the client to read the response and close.
constexpr Nanos kLingerTime = std::chrono::seconds{2};

// Unsent bytes from which on no more is accepted (backpressure).
constexpr std::size_t kMaxUnsent = 64 << 10;

// The first line of the HTTP/2 preface; no HTTP/1 request begins with it.
constexpr std::string_view kPrefaceLine =
    wire::Http2Server::kPreface.substr(0, wire::Http2Server::kPreface.find('\n') + 1);

wire::HttpLimits limits_for(const ClientLimits& client) {
  return {.target = std::min<std::size_t>(client.max_header, 16 << 10),
          .header = client.max_header,
          .body = SIZE_MAX,
          .fields = client.max_header_count};
}

}  // namespace

Http1Connection::Http1Connection(GatewayWorker& worker, net::SocketStream stream,
                                 const net::Peer& peer)
    : worker_(worker),
      net_peer_(peer),
      peer_(parse_address(peer.address).value_or(IpAddress{})),
      channel_(new net::ByteChannel(worker.loop(), std::move(stream), *this)),
      parser_(limits_for(worker.state().client), wire::HttpParser::BodyMode::streamed),
      timer_(worker.loop().timers, [this] { on_timeout(); }),
      exchange_(worker, *this) {
  // A client that sends nothing has the time of a client that sends its head slowly.
  set_timeout(Http1Timeout::head);
}

// ---- Input

void Http1Connection::on_input(std::string_view input) {
  switch (state_) {
    case Http1State::head:
      input_.append(input);
      if (version_unknown_ && matches_preface()) {
        if (has_preface_line()) return switch_to_http2();
        start_head_timeout();
        break;
      }
      version_unknown_ = false;
      parse_requests();
      break;
    case Http1State::exchange: {
      const std::size_t used = input_.empty() ? exchange_.on_body(input) : 0;
      if (!channel_->is_open()) return;
      input_.append(input.substr(used));
      forward_body();
      parse_requests();
      break;
    }
    case Http1State::lingering:
      return;
  }
  update_interest();
}

// Parses pipelined requests while each is answered at once and the client takes the answers.
void Http1Connection::parse_requests() {
  if (parsing_ || forwarding_) return;
  parsing_ = true;
  while (channel_->is_open() && state_ == Http1State::head && !input_.empty() && has_room() &&
         parse_head()) {
  }
  parsing_ = false;
}

void Http1Connection::start_head_timeout() {
  if (!head_started_) set_timeout(Http1Timeout::head);
  head_started_ = true;
}

bool Http1Connection::matches_preface() const {
  const std::size_t size = std::min(input_.size(), kPrefaceLine.size());
  return worker_.state().http2 && input_.starts_with(kPrefaceLine.substr(0, size));
}

bool Http1Connection::has_preface_line() const { return input_.size() >= kPrefaceLine.size(); }

// Continues the connection as HTTP/2.
void Http1Connection::switch_to_http2() {
  timer_.cancel();
  auto http2 = std::make_unique<Http2Connection>(worker_, channel_, net_peer_);
  Http2Connection& successor = *http2;
  worker_.replace(*this, std::move(http2));
  successor.begin(input_);
}

// False if the head is incomplete. True if it is complete or malformed.
bool Http1Connection::parse_head() {
  using Status = wire::HttpParser::Status;
  const wire::HttpParser::ParseResult step = parser_.parse(input_);
  if (step.status == Status::error) {
    worker_.state().metrics.malformed.fetch_add(1, std::memory_order_relaxed);
    reject(step.error_status, step.reason);
    return true;
  }
  input_.erase(0, step.consumed);
  if (step.status == Status::need_more) {
    start_head_timeout();
    return false;
  }
  head_started_ = false;
  set_timeout(Http1Timeout::none);
  state_ = Http1State::exchange;
  output_.clear();
  is_tunnel_ = false;
  keep_alive_ = true;
  exchange_.begin(parser_.request(), parser_.framing(), parser_.upgrade());
  forward_body();
  return true;
}

// (Input is erased only after it was forwarded; the flag keeps nested calls away from it.)
void Http1Connection::forward_body() {
  if (forwarding_) return;
  forwarding_ = true;
  while (channel_->is_open() && state_ == Http1State::exchange && !input_.empty() &&
         exchange_.wants_body()) {
    const std::size_t used = exchange_.on_body(input_);
    if (used == 0) break;
    input_.erase(0, used);
  }
  forwarding_ = false;
  if (half_closed_ && input_.empty() && state_ == Http1State::exchange && channel_->is_open()) {
    half_closed_ = false;
    exchange_.on_client_end();
  }
}

void Http1Connection::on_progress() {
  if (!channel_->is_open()) return;
  forward_body();
  parse_requests();
  update_interest();
}

// Updates read interest (backpressure) and the timer.
void Http1Connection::update_interest() {
  if (!channel_->is_open()) return;
  if (input_.empty()) clear_scratch_buffer(input_, 16 << 10);
  if (output_.empty() && state_ != Http1State::exchange) clear_scratch_buffer(output_, 16 << 10);
  channel_->count_owner_memory(memory());
  switch (state_) {
    case Http1State::head:
      channel_->want_input(has_room());
      if (channel_->unsent() > 0) set_timeout(Http1Timeout::sending);
      break;
    case Http1State::exchange: {
      const bool wants_body = exchange_.wants_body();
      channel_->want_input(wants_body);
      // (The exchange has the idle timeout of a tunnel: traffic in either direction counts.)
      set_timeout(wants_body && !is_tunnel_ ? Http1Timeout::body : Http1Timeout::none);
      break;
    }
    case Http1State::lingering:
      break;
  }
}

std::size_t Http1Connection::memory() const {
  return input_.capacity() + output_.capacity() + parser_.memory();
}

// While output is unsent, the send timeout applies, and input from the client does not extend it.
void Http1Connection::set_timeout(Http1Timeout timeout) {
  if (channel_->unsent() > 0) timeout = Http1Timeout::sending;
  if (timeout == Http1Timeout::sending && timeout_ == timeout) return;
  timeout_ = timeout;
  sent_at_timer_ = sent_bytes();
  timeout == Http1Timeout::none ? timer_.cancel() : timer_.set_in(timeout_of(timeout));
}

Nanos Http1Connection::timeout_of(Http1Timeout timeout) const {
  const ClientLimits& client = worker_.state().client;
  switch (timeout) {
    case Http1Timeout::head:
      return client.header;
    case Http1Timeout::idle:
      return client.idle;
    case Http1Timeout::body:
      return client.body;
    case Http1Timeout::sending:
      return client.send;
    case Http1Timeout::lingering:
      return kLingerTime;
    case Http1Timeout::none:
      break;
  }
  return kForever;
}

// ---- Events of the connection

void Http1Connection::on_sent() {
  timeout_ = Http1Timeout::none;
  if (state_ == Http1State::lingering) return set_timeout(Http1Timeout::lingering);
  if (state_ == Http1State::exchange) exchange_.on_client_sent();
  if (state_ == Http1State::head) {
    set_timeout(head_started_ ? Http1Timeout::head : Http1Timeout::idle);
    parse_requests();
  }
  update_interest();
}

void Http1Connection::on_eof() {
  if (state_ == Http1State::exchange) {
    // Forward the buffered input before the end of the stream.
    half_closed_ = is_tunnel_ && !input_.empty();
    if (!half_closed_) exchange_.on_client_end();
    return update_interest();
  }
  close_now();
}

void Http1Connection::on_error(std::string_view why) {
  const net::SocketStream& stream = channel_->stream();
  if (stream.has_tls() && state_ == Http1State::head && worker_.state().on_tls_failure) {
    worker_.state().on_tls_failure(net_peer_, why);
  }
  if (stream.spoke_plainly()) {
    std::string bytes;
    append_final_reply(bytes, problem_reply(400, "this listener requires TLS: use https://"));
    (void)!::send(stream.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  if (state_ == Http1State::exchange) exchange_.on_client_gone();
  close_now();
}

void Http1Connection::on_timeout() {
  const Http1Timeout timeout = std::exchange(timeout_, Http1Timeout::none);
  // The send timeout restarts as long as the client takes some of the output.
  if (timeout == Http1Timeout::sending && sent_bytes() > sent_at_timer_)
    return set_timeout(timeout);
  switch (state_) {
    case Http1State::head:
      if (timeout == Http1Timeout::head && head_started_)
        return reject(408, "the request head did not arrive in time");
      return close_now();
    case Http1State::exchange:
      exchange_.on_client_late();
      return update_interest();
    case Http1State::lingering:
      return close_now();
  }
}

// ---- Downstream

void Http1Connection::send_continue() { write(wire::kContinue); }

// HTTP/1.0 has no interim responses.
void Http1Connection::send_interim(const ResponseHead& head) {
  if (parser_.request().version == 11) append_http1_head(output_, head, 11, false);
}

void Http1Connection::send_head(const ResponseHead& head) {
  const int version = parser_.request().version;
  const bool unknown_length = head.has_body && head.length.empty();
  chunked_ = unknown_length && version == 11;
  // HTTP/1.0 delimits a body of unknown length by closing the connection.
  keep_alive_ = head.keep_alive && (!unknown_length || chunked_);
  is_tunnel_ = head.status == 101;
  // A tunnel forwards all input before the end of the stream, also while reading is paused.
  if (is_tunnel_) channel_->deliver_all_input();
  ResponseHead head_of_version = head;
  head_of_version.keep_alive = keep_alive_;
  append_http1_head(output_, head_of_version, version, chunked_);
}

void Http1Connection::send_body(std::string_view body) {
  if (chunked_) {
    wire::append_chunk(output_, body);
  } else {
    output_.append(body);
  }
}

void Http1Connection::send_end(std::string_view trailers) {
  if (chunked_) wire::append_last_chunk(output_, trailers);
  if (!is_tunnel_) return;
  flush();
  channel_->finish();
}

void Http1Connection::flush() {
  if (output_.empty()) return;
  write(output_);
  clear_scratch_buffer(output_, 4 * kMaxUnsent);
}

void Http1Connection::write(std::string_view bytes) {
  queued_bytes_ += bytes.size();
  channel_->send(bytes);
}

bool Http1Connection::has_room() { return channel_->unsent() < kMaxUnsent; }

// ---- Ending

void Http1Connection::on_exchange_end(bool keep_alive) {
  parser_.next();
  if (!keep_alive || !keep_alive_ || worker_.is_draining()) return linger();
  state_ = Http1State::head;
  head_started_ = false;
  set_timeout(Http1Timeout::idle);
  parse_requests();
  update_interest();
}

void Http1Connection::reject(int status, std::string_view reason) {
  std::string out;
  append_final_reply(out, problem_reply(status, reason));
  write(out);
  linger();
}

// Lingering close: to close with unread input would reset the connection, and the reset discards
// the last response. So shut down the sending side, then drain input for a while.
void Http1Connection::linger() {
  state_ = Http1State::lingering;
  std::string().swap(input_);
  std::string().swap(output_);
  channel_->count_owner_memory(memory());
  channel_->finish();
  channel_->want_input(true);
  set_timeout(Http1Timeout::lingering);
}

void Http1Connection::abort() {
  channel_->abort();
  close_now();
}

void Http1Connection::on_shed() noexcept {
  const bool can_reply = state_ == Http1State::head && channel_->unsent() == 0;
  const bool ended = catch_bad_alloc([&] {
    if (state_ == Http1State::exchange) return exchange_.shed();
    can_reply ? reject(503, kMemoryShedDetail) : close_now();
  });
  if (!ended) close_now();
}

void Http1Connection::close_now() noexcept {
  state_ = Http1State::lingering;
  timer_.cancel();
  channel_->close();
  worker_.remove(*this);
}

void Http1Connection::shut_down() {
  if (state_ != Http1State::head || !input_.empty() || parser_.in_message()) return;
  channel_->unsent() > 0 ? linger() : close_now();
}

}  // namespace weir::gateway
