#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/ascii.h"
#include "base/out_of_memory.h"
#include "base/scratch_buffer.h"
#include "gateway/exchange.h"
#include "gateway/forwarded.h"
#include "gateway/gateway_worker.h"
#include "gateway/local_reply.h"
#include "gateway/request_head.h"
#include "wire/http1_response.h"

// The upstream side of an exchange: sends the request to a server, and reads its response.

namespace weir::gateway {

namespace {

// Idempotent methods (RFC 9110, 9.2.2).
bool is_idempotent(std::string_view method) {
  constexpr auto all =
      std::to_array<std::string_view>({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PROPFIND"});
  return std::ranges::find(all, method) != all.end();
}

std::string_view field_of(const wire::HttpFields& fields, std::string_view name) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (same_ignoring_case(fields[i].name, name)) return fields[i].value;
  }
  return {};
}

std::string host_of(const Upstream& upstream) {
  const bool v6 = upstream.host.find(':') != std::string::npos;
  const bool default_port = upstream.port == (upstream.tls ? 443 : 80);
  std::string host = v6 ? fmt::format("[{}]", upstream.host) : upstream.host;
  return default_port ? host : fmt::format("{}:{}", host, upstream.port);
}

}  // namespace

// ---- The request

void Exchange::connect(bool fresh) {
  phase_ = ExchangePhase::connecting;
  UpstreamServer& server = fresh && !tried_.empty() ? *tried_.back() : backend_->choose(tried_);
  if (!fresh) tried_.push_back(&server);
  server_ = &server;
  server_timer_.set_in(backend_->service().timeouts.connect);
  upstream_ = worker_.upstream_pool().acquire(backend_, server, fresh, *this);
  if (!upstream_)
    return fail(UpstreamFailure::connect,
                "cannot open a socket: the process may be out of file descriptors");
  if (upstream_->reused()) send_request();
}

void Exchange::on_connected() {
  send_request();
  client_.on_progress();
}

void Exchange::send_request() {
  phase_ = ExchangePhase::streaming;
  sent_at_ = Clock::now();
  upstream_->server().metrics().requests.fetch_add(1, std::memory_order_relaxed);
  thread_local std::string head;
  head.clear();
  append_upstream_head(head);
  response_parser_.next();
  input_.clear();
  upstream_->channel().want_input(true);
  upstream_->channel().send(head);
  server_timer_.set_in(backend_->service().timeouts.read);
  if (framing_.wants_continue && !request_body_.is_done() && request_body_.size() == 0) {
    client_.send_continue();
    framing_.wants_continue = false;
  }
}

void Exchange::append_upstream_head(std::string& out) {
  const bool own_host = route_->host == UpstreamHost::keep && !request_->host.empty();
  const std::string host = own_host ? std::string(request_->host) : host_of(server_->upstream());
  const Hop hop{.peer = client_.peer(),
                .trusted = has(routing_->config->trusted_proxies, client_.peer()),
                .tls = client_.has_tls(),
                .port = worker_.state().port,
                .host = request_->host,
                .style = route_->forwarded};
  append_request_head(
      out, {.request = *request_,
            .framing = framing_,
            .path = route_->path == UpstreamPath::normalised ? path_.forwarded : path_.as_sent,
            .host = host,
            .id = id_,
            .upgrade = upgrade_,
            .hop = hop,
            .fields = fields_});
}

void Exchange::on_sent() {
  end_tunnel_if_done();
  client_.on_progress();
}

// ---- The response

void Exchange::on_input(std::string_view input) {
  if (phase_ == ExchangePhase::tunnel) {
    server_timer_.set_in(backend_->service().timeouts.read);
    forward_response_body(input);
    client_.flush();
    update_upstream_reading();
    return client_.on_progress();
  }
  server_timer_.set_in(backend_->service().timeouts.read);
  const bool unbuffered = input_.empty();
  if (!unbuffered) input_.append(input);
  const std::string_view all = unbuffered ? input : std::string_view(input_);
  const std::uint64_t sequence = sequence_;
  const std::size_t used = read_response(all);
  if (sequence != sequence_ || phase_ != ExchangePhase::streaming) {
    // The exchange is over or was reused, or the connection has become a tunnel.
    if (phase_ == ExchangePhase::tunnel) client_.on_progress();
    return;
  }
  if (unbuffered) {
    input_.assign(all.substr(used));
  } else {
    input_.erase(0, used);
  }
  if (input_.empty()) clear_scratch_buffer(input_);
  upstream_->channel().count_owner_memory(input_.capacity());
  client_.flush();
  update_upstream_reading();
  client_.on_progress();
}

// Parses as much as possible and returns the bytes used. The exchange may be over afterwards.
std::size_t Exchange::read_response(std::string_view input) {
  using Status = wire::HttpAnswerParser::Status;
  thread_local std::string scratch;
  const std::uint64_t sequence = sequence_;
  std::size_t used = 0;
  while (sequence == sequence_ && phase_ == ExchangePhase::streaming) {
    const std::string_view rest = input.substr(used);
    if (!responding_) {
      const auto step = response_parser_.parse(rest, request_->head);
      if (step.status == Status::need_more) return used;
      if (step.status == Status::error) {
        fail(UpstreamFailure::garbage, step.reason);
        return used;
      }
      used += step.consumed;
      if (!on_response_head()) {
        if (phase_ == ExchangePhase::tunnel && used < input.size()) {
          forward_response_body(input.substr(used));
          client_.flush();
          used = input.size();
        }
        continue;
      }
    } else if (!response_body_.is_done()) {
      const wire::HttpBody::Fragment piece = response_body_.read(rest, scratch);
      if (piece.error_status != 0) {
        fail(UpstreamFailure::garbage, piece.reason);
        return used;
      }
      used += piece.consumed;
      forward_response_body(piece.data);
      if (!response_body_.is_done()) return used;
    }
    if (responding_ && response_body_.is_done()) {
      // Surplus bytes after a response: the connection is not reusable.
      if (used < input.size()) server_ended_ = true;
      finish_response();
      return input.size();
    }
  }
  return used;
}

// True for the final response, false for an interim one.
bool Exchange::on_response_head() {
  const int status = response_parser_.status();
  if (status == 101) {
    if (upgrade_.empty()) {
      fail(UpstreamFailure::garbage, "it switched protocols although no upgrade was requested");
    } else {
      start_tunnel();
    }
    return false;
  }
  if (status < 200) {
    if (status != 100) forward_interim();
    response_parser_.next();
    return false;
  }
  upstream_->server().record_success();
  upstream_->server().metrics().times.add(Clock::now() - sent_at_);
  status_ = status;
  responding_ = true;
  response_body_.start(response_parser_.framing());
  start_response();
  return true;
}

namespace {

std::vector<wire::HttpField> to_vector(const wire::HttpFields& fields) {
  std::vector<wire::HttpField> all;
  all.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) all.push_back(fields[i]);
  return all;
}

}  // namespace

// 103 Early Hints and other interim responses.
void Exchange::forward_interim() {
  std::string fields;
  append_response_fields(fields, to_vector(response_parser_.fields()));
  client_.send_interim(
      {.status = response_parser_.status(), .reason = response_parser_.reason(), .fields = fields});
}

// The response's fields and the rate limit headers. Valid until the next call on this thread.
std::string& Exchange::response_fields() {
  thread_local std::string fields;
  fields.clear();
  append_response_fields(fields, to_vector(response_parser_.fields()));
  if (has_verdict_) {
    routing_->rate_limit_headers.append(fields, route_->headers, route_->policy, verdict_,
                                        permits_);
  }
  return fields;
}

void Exchange::start_response() {
  std::string& fields = response_fields();
  if (field_of(response_parser_.fields(), "x-request-id").empty()) {
    fields.append("X-Request-Id: ").append(id_).append("\r\n");
  }
  const wire::HttpFraming& framing = response_parser_.framing();
  const bool tells_length =
      !framing.chunked && response_parser_.declares_length() && status_ != 204;
  if (worker_.is_draining()) keep_alive_ = false;
  client_.send_head({.status = status_,
                     .reason = response_parser_.reason(),
                     .fields = fields,
                     .length = tells_length ? response_parser_.length_text() : std::string_view{},
                     .has_body = framing.has_body(),
                     .keep_alive = keep_alive_});
}

void Exchange::forward_response_body(std::string_view data) {
  response_bytes_ += data.size();
  client_.send_body(data);
  charge_bandwidth(data.size(), false);
}

// Reads from the upstream only as fast as the client takes it (backpressure) and the pacer allows.
void Exchange::update_upstream_reading() {
  if (!upstream_ || (phase_ != ExchangePhase::streaming && phase_ != ExchangePhase::tunnel)) return;
  const bool paced = pacer_ && pacer_->is_paused() && route_->bandwidth->responses;
  upstream_->channel().want_input(client_.has_room() && !paced);
}

void Exchange::finish_response() {
  client_.send_end(response_body_.trailers());
  // Before the last bytes go out: the client's next request may need the same permit.
  end_admission();
  client_.flush();
  const bool request_complete = request_body_.is_done();
  release_upstream(request_complete && response_parser_.keep_alive() && !server_ended_);
  complete(keep_alive_ && request_complete);
}

// ---- Tunnels

void Exchange::start_tunnel() {
  phase_ = ExchangePhase::tunnel;
  status_ = 101;
  responding_ = true;
  keep_alive_ = false;
  total_timer_.cancel();
  upstream_->server().record_success();
  worker_.state().metrics.tunnels.fetch_add(1, std::memory_order_relaxed);
  const std::string& fields = response_fields();
  client_.send_head({.status = status_,
                     .reason = response_parser_.reason(),
                     .fields = fields,
                     .upgrade = field_of(response_parser_.fields(), "upgrade")});
  client_.flush();
}

// A tunnel ends when both sides have half-closed and the server has received everything. (The
// client's connection sends its own rest.)
void Exchange::end_tunnel_if_done() {
  if (phase_ != ExchangePhase::tunnel || !client_ended_ || !server_ended_) return;
  if (upstream_->channel().unsent() == 0) finish_tunnel();
}

void Exchange::finish_tunnel() {
  release_upstream(false);
  complete(false);
}

// ---- Failures

void Exchange::on_shed() noexcept {
  if (!catch_bad_alloc([this] { shed(); })) client_.drop();
}

void Exchange::release_upstream(bool reusable) {
  if (!upstream_) return;
  upstream_->channel().count_owner_memory(0);
  if (reusable) {
    worker_.upstream_pool().release(std::move(upstream_));
  } else {
    worker_.upstream_pool().close(std::move(upstream_));
  }
}

void Exchange::on_eof() {
  server_ended_ = true;
  if (phase_ == ExchangePhase::tunnel) {
    client_.send_end({});
    end_tunnel_if_done();
    return client_.on_progress();
  }
  if (responding_ && response_body_.end()) return finish_response();
  fail(UpstreamFailure::reset, "it closed the connection");
}

void Exchange::on_error(std::string_view why) {
  if (phase_ == ExchangePhase::tunnel) {
    server_ended_ = true;
    release_upstream(false);
    complete(false);
    return;
  }
  fail(phase_ == ExchangePhase::connecting ? UpstreamFailure::connect : UpstreamFailure::reset,
       why);
}

bool Exchange::server_owes_response() const {
  const bool paced = pacer_ && pacer_->is_paused();
  if (paced || !client_.has_room()) return false;
  return phase_ == ExchangePhase::tunnel || request_body_.is_done() ||
         (upstream_ && upstream_->channel().unsent() > 0);
}

void Exchange::on_upstream_timeout() {
  if (phase_ == ExchangePhase::connecting) {
    fail(UpstreamFailure::timeout, "no connection in time");
  } else if (!server_owes_response()) {
    server_timer_.set_in(backend_->service().timeouts.read);
  } else if (phase_ == ExchangePhase::tunnel) {
    finish_tunnel();
  } else {
    fail(UpstreamFailure::timeout, "it did not respond in time");
  }
}

// A retry must not repeat effects: no response byte has come, and no body byte was sent.
bool Exchange::may_retry(UpstreamFailure failure) const {
  if (responding_ || !input_.empty() || body_sent_) return false;
  if (phase_ == ExchangePhase::connecting) return true;
  const bool was_reset = failure == UpstreamFailure::reset;
  return was_reset && is_idempotent(request_->method) && !framing_.has_body();
}

void Exchange::fail(UpstreamFailure failure, std::string_view why) {
  const bool retry = may_retry(failure);
  // A pooled connection that the server closed as it was reused is no failure of the server: retry
  // on a new connection.
  const bool stale =
      retry && upstream_ && upstream_->reused() && phase_ == ExchangePhase::streaming;
  UpstreamServer& server = *tried_.back();
  release_upstream(false);
  if (stale) {
    connect(true);
    return client_.on_progress();
  }
  server.record_failure(failure, Clock::now());
  if (retry && tried_.size() <= static_cast<std::size_t>(backend_->service().retries)) {
    server.metrics().retries.fetch_add(1, std::memory_order_relaxed);
    connect();
    return client_.on_progress();
  }
  if (responding_) return abort();
  const std::string detail = fmt::format("the upstream server failed: {}", why);
  respond(failure == UpstreamFailure::timeout ? 504 : 502, detail);
  client_.on_progress();
}

// The client has received a part of a response that will never be complete.
void Exchange::abort() {
  client_.flush();
  release_upstream(false);
  finish(status_);
  client_.abort();
}

}  // namespace weir::gateway
