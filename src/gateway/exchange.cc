#include "gateway/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/ascii.h"
#include "base/out_of_memory.h"
#include "base/scratch_buffer.h"
#include "gateway/access_log.h"
#include "gateway/client_address.h"
#include "gateway/cost.h"
#include "gateway/forwarded.h"
#include "gateway/gateway_worker.h"
#include "gateway/local_reply.h"
#include "gateway/request_head.h"

// The client's side of an exchange: routing, limits, request body, and the end. The upstream side
// is in exchange_upstream.cc.

namespace weir::gateway {

namespace {

// Request body that is read and dropped after an early response, so that the connection stays
// usable.
constexpr std::uint64_t kMaxDrained = 64 << 10;

constexpr std::size_t kMaxIdSize = 128;

// The hold time assumed for a policy whose traits are unknown: renewing more often than needed is
// harmless.
constexpr Nanos kAssumedHoldTime = std::chrono::milliseconds{300};

constexpr int kClientClosed = 499;  // client closed request, as nginx logs it

// 128 random bits in hexadecimal.
std::string make_id() {
  thread_local std::mt19937_64 numbers{[] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }()};
  return fmt::format("{:016x}{:016x}", numbers(), numbers());
}

// True if an Upgrade field offers HTTP/2.
bool names_http2(std::string_view list) {
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    one.remove_prefix(std::min(one.find_first_not_of(" \t"), one.size()));
    one = one.substr(0, one.find_first_of(" \t/"));
    if (same_ignoring_case(one, "h2c") || same_ignoring_case(one, "h2")) return true;
  }
  return false;
}

// Methods are case-sensitive, but some servers accept `post`: routes by method could be bypassed.
bool is_upper_case(std::string_view method) {
  return std::ranges::none_of(method, [](char c) { return c >= 'a' && c <= 'z'; });
}

bool is_absolute(std::string_view target) { return !target.starts_with('/') && target != "*"; }

wire::HttpLimits answer_limits() {
  return {.target = 0, .header = 64 << 10, .body = SIZE_MAX, .fields = 200};
}

}  // namespace

Exchange::Exchange(GatewayWorker& worker, Downstream& client)
    : worker_(worker),
      client_(client),
      response_parser_(answer_limits()),
      queue_timer_(worker.loop().timers,
                   [this] {
                     leave_queue();
                     runtime_->metrics->queue_times.add(queue_time_);
                     connect();
                     client_.on_progress();
                   }),
      server_timer_(worker.loop().timers, [this] { on_upstream_timeout(); }),
      total_timer_(
          worker.loop().timers,
          [this] {
            if (phase_ == ExchangePhase::tunnel) return;
            if (responding_) return abort();
            release_upstream(false);
            respond(504, "the response did not complete within the total timeout of this route");
            client_.on_progress();
          }),
      renew_timer_(worker.loop().timers, [this] {
        admission_->renew_hold();
        renew_timer_.set_in(traits_.hold_time / 3);
      }) {}

// (If memory is exhausted some of it is skipped: the request is not logged, and held permits come
// back when their hold time ends.)
Exchange::~Exchange() {
  if (phase_ != ExchangePhase::idle) catch_bad_alloc([this] { on_client_gone(); });
}

// ---- Routing and limits

void Exchange::begin(const wire::HttpRequest& request, const wire::HttpFraming& framing,
                     std::string_view upgrade) {
  phase_ = ExchangePhase::deciding;
  ++sequence_;
  request_ = &request;
  framing_ = framing;
  // An upgrade to HTTP/2 (h2c) would tunnel requests past the limits: request smuggling.
  const bool may_upgrade =
      !upgrade.empty() && !framing.has_body() && request.version == 11 && !names_http2(upgrade);
  upgrade_ = may_upgrade ? upgrade : std::string_view{};
  routing_ = worker_.routing();
  route_ = nullptr;
  runtime_ = nullptr;
  started_at_ = Clock::now();
  holds_permits_ = has_verdict_ = body_sent_ = responding_ = client_ended_ = server_ended_ = false;
  keep_alive_ = request.keep_alive;
  decision_ = RouteDecision::unlimited;
  queue_time_ = {};
  server_ = nullptr;
  tried_.clear();
  status_ = 0;
  response_bytes_ = 0;
  clear_scratch_buffer(input_);
  pacer_ = nullptr;
  request_body_.start(framing);
  fields_.clear();
  for (std::size_t i = 0; i < request.fields.size(); ++i) fields_.push_back(request.fields[i]);
  const std::string_view id = request.field("x-request-id");
  id_ = !id.empty() && id.size() <= kMaxIdSize ? std::string(id) : make_id();
  if (!find_route()) return;
  if (framing.length > route_->max_body) {
    return respond(413, "the request body is larger than this route allows");
  }
  request_body_.start(framing, route_->max_body);
  if (route_->service.timeouts.total != kForever)
    total_timer_.set_in(route_->service.timeouts.total);
  make_keys();
  decide();
}

// The reason to reject a request that a server may interpret differently from the gateway.
struct RequestError {
  int status = 400;
  std::string_view detail;
};

std::optional<RequestError> Exchange::request_error() {
  if (!is_upper_case(request_->method)) return RequestError{400, "the method is not in upper case"};
  if (request_->method == "CONNECT" || request_->method == "TRACE") {
    return RequestError{405, "the gateway does not support CONNECT and TRACE"};
  }
  const bool names_two_hosts = is_absolute(request_->target) && request_->version == 11 &&
                               !same_ignoring_case(request_->host, request_->field("host"));
  if (names_two_hosts || !read_host(request_->host, host_) || !read_path(request_->path, path_)) {
    return RequestError{400, "the host or the path of this request is malformed"};
  }
  return std::nullopt;
}

// False if no route was found; the request is answered then.
bool Exchange::find_route() {
  using MatchStatus = RouteTable::RouteLookup::MatchStatus;
  const auto error = request_error();
  if (error) {
    // Close the connection: the bytes after a malformed request cannot be trusted (request
    // smuggling).
    keep_alive_ = false;
    worker_.state().metrics.malformed.fetch_add(1, std::memory_order_relaxed);
    respond(error->status, error->detail);
    return false;
  }
  const RouteTable::RouteLookup found = routing_->table.find(host_, path_, request_->method);
  if (found.status != MatchStatus::found) {
    worker_.state().metrics.unrouted.fetch_add(1, std::memory_order_relaxed);
    if (found.status == MatchStatus::ambiguous) keep_alive_ = false;
    found.status == MatchStatus::none
        ? respond(404, "no route matches this request")
        : respond(400, "the path is ambiguous: servers may decode it to paths of different routes");
    return false;
  }
  route_ = &routing_->config->routes[found.route];
  runtime_ = &routing_->runtimes[found.route];
  backend_ = runtime_->backend;
  runtime_->metrics->in_flight.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Exchange::make_keys() {
  const GatewayConfig& config = *routing_->config;
  address_ = client_address(client_.peer(), fields_, config.trusted_proxies, config.client_from);
  const KeyInput input{.method = request_->method,
                       .host = host_,
                       .path = path_,
                       .query = request_->query,
                       .fields = fields_,
                       .client = address_,
                       .now = worker_.state().engine.now()};
  if (!route_->policy.empty()) {
    // (An admission that still waits for an answer of the fleet finishes on its own.)
    if (!admission_ || admission_.use_count() > 1) {
      admission_ = std::make_shared<Admission>(worker_.engine(), worker_.leave_retries());
    }
    admission_->config_owner = routing_;
    make_key(route_->key, route_->jwt.get(), input, admission_->key);
  }
  if (!route_->bandwidth) return;
  const Bandwidth& bandwidth = *route_->bandwidth;
  pacer_ = std::make_shared<Pacer>(worker_.engine(), worker_.loop().timers, bandwidth.policy,
                                   runtime_->bandwidth_capacity);
  pacer_->config_owner = routing_;
  make_key(runtime_->bandwidth_key, route_->jwt.get(), input, pacer_->key);
  pacer_->resume = [this] {
    update_upstream_reading();
    client_.on_progress();
  };
}

// True if the request was answered because its key is ambiguous or empty.
bool Exchange::rejects_key(const RequestKey& key) {
  if (key.status() == RequestKey::KeyStatus::ambiguous) {
    decision_ = RouteDecision::failed;
    respond(400, "the " + key.problem_source() + " is given more than once, with different values");
    return true;
  }
  if (key.status() == RequestKey::KeyStatus::made || !route_->empty_key.deny) return false;
  decision_ = RouteDecision::empty_key;
  respond(empty_key_reply(*route_, key.problem_source()), false);
  return true;
}

void Exchange::decide() {
  if (pacer_) {
    if (rejects_key(pacer_->key)) return;
    if (pacer_->key.status() == RequestKey::KeyStatus::empty) pacer_ = nullptr;
  }
  if (route_->policy.empty()) return connect();
  if (rejects_key(admission_->key)) return;
  const bool announces = has_known_length(*request_, framing_);
  permits_ =
      cost_of(route_->cost, fields_, announces ? std::optional(framing_.length) : std::nullopt);
  holds_permits_ = true;
  traits_ = runtime_->traits;
  ask();
}

void Exchange::ask() {
  const bool needs_receipt = traits_.has_queue || route_->cost.kind == RequestCost::CostKind::bytes;
  admission_->ask(route_->policy, traits_, permits_, needs_receipt, *this);
}

void Exchange::on_verdict(const Verdict& verdict) {
  verdict_ = verdict;
  has_verdict_ = verdict.error.empty();
  if (!has_verdict_ && !traits_.has_concurrency) {
    // A reload may have given the policy concurrency limits; routes learn of it a moment later.
    traits_ = {.has_concurrency = true, .hold_time = kAssumedHoldTime};
    return ask();
  }
  if (!has_verdict_) {
    decision_ = RouteDecision::failed;
    respond(500, verdict.error);
  } else if (!verdict) {
    decision_ = verdict.degraded ? RouteDecision::degraded : RouteDecision::refused;
    deny();
  } else if (verdict.limited_by.empty()) {
    // No limit applied: each counts by a key part that this request does not have.
    has_verdict_ = false;
    connect();
  } else {
    decision_ = verdict.degraded ? RouteDecision::degraded : RouteDecision::allowed;
    if (traits_.has_concurrency) renew_timer_.set_in(traits_.hold_time / 3);
    verdict.decision.wait > Nanos{0} ? enter_queue() : connect();
  }
  client_.on_progress();
}

void Exchange::enter_queue() {
  const Nanos wait = verdict_.decision.wait;
  std::atomic<std::int64_t>& queued = runtime_->metrics->queued;
  const bool is_full =
      queued.load(std::memory_order_relaxed) >= static_cast<std::int64_t>(route_->queue.most);
  if (is_full || wait > route_->queue.longest) {
    runtime_->metrics->queue_overflows.fetch_add(1, std::memory_order_relaxed);
    admission_->return_all();
    holds_permits_ = false;
    decision_ = RouteDecision::refused;
    verdict_.decision.outcome = Outcome::limited;
    verdict_.decision.retry_after = std::max(wait - route_->queue.longest, Nanos{1});
    verdict_.decision.wait = Nanos{0};
    return deny();
  }
  queued.fetch_add(1, std::memory_order_relaxed);
  phase_ = ExchangePhase::queued;
  queued_at_ = Clock::now();
  queue_timer_.set_in(wait);
}

void Exchange::deny() {
  const bool falls_back = refusal_for(*route_, verdict_).fallback != nullptr;
  if (falls_back && verdict_.decision.outcome != Outcome::allowed) {
    backend_ = runtime_->fallback;
    return connect();
  }
  respond(gateway::deny_reply(*route_, routing_->rate_limit_headers, verdict_, permits_), false);
}

// ---- The client's side

bool Exchange::wants_body() const {
  constexpr std::size_t max_unsent = 64 << 10;
  const bool paced = pacer_ && pacer_->is_paused() && route_->bandwidth->requests;
  switch (phase_) {
    case ExchangePhase::streaming:
      return !request_body_.is_done() && upstream_ && upstream_->channel().unsent() < max_unsent &&
             !paced;
    case ExchangePhase::tunnel:
      return !client_ended_ && upstream_ && upstream_->channel().unsent() < max_unsent && !paced;
    case ExchangePhase::draining:
      return !request_body_.is_done();
    default:
      return false;
  }
}

std::size_t Exchange::on_body(std::string_view input) {
  if (!wants_body()) return 0;
  if (phase_ == ExchangePhase::tunnel) {
    upstream_->channel().send(input);
    server_timer_.set_in(backend_->service().timeouts.read);
    charge_bandwidth(input.size(), true);
    return input.size();
  }
  thread_local std::string scratch;
  const wire::HttpBody::Fragment piece = request_body_.read(input, scratch);
  if (piece.error_status != 0) {
    worker_.state().metrics.malformed.fetch_add(1, std::memory_order_relaxed);
    release_upstream(false);
    if (responding_ || phase_ == ExchangePhase::draining) {
      abort();
    } else {
      keep_alive_ = false;
      respond(piece.error_status, piece.reason);
    }
    return 0;
  }
  const std::size_t consumed = piece.consumed;
  if (phase_ == ExchangePhase::draining) {
    if (request_body_.size() > kMaxDrained) {
      keep_alive_ = false;
      complete(false);
    } else if (request_body_.is_done()) {
      complete(keep_alive_);
    }
    return consumed;
  }
  body_sent_ |= consumed > 0;
  send_body(piece.data, request_body_.trailers());
  return consumed;
}

void Exchange::on_body_end(std::string_view trailers) {
  if (request_body_.is_done() || !request_body_.end() || phase_ != ExchangePhase::streaming) return;
  body_sent_ = true;
  send_body({}, trailers);
}

// Uses the framing that the head announced. Trailers follow the last chunk.
void Exchange::send_body(std::string_view data, std::string_view trailers) {
  if (is_sent_chunked(framing_)) {
    thread_local std::string chunks;
    chunks.clear();
    wire::append_chunk(chunks, data);
    if (request_body_.is_done()) {
      wire::append_last_chunk(chunks,
                              passable_request_trailers(trailers, fields_, runtime_->headers_read));
    }
    if (!chunks.empty()) upstream_->channel().send(chunks);
  } else if (!data.empty()) {
    upstream_->channel().send(data);
  }
  server_timer_.set_in(backend_->service().timeouts.read);
  charge_bandwidth(data.size(), true);
}

void Exchange::on_client_sent() { update_upstream_reading(); }

void Exchange::on_client_end() {
  // The response is already complete.
  if (phase_ == ExchangePhase::draining) return complete(false);
  if (phase_ != ExchangePhase::tunnel) {
    on_client_gone();
    return client_.abort();
  }
  client_ended_ = true;
  upstream_->channel().finish();
  end_tunnel_if_done();
}

void Exchange::on_client_gone() {
  if (phase_ == ExchangePhase::idle) return;
  const bool answered = phase_ == ExchangePhase::tunnel || phase_ == ExchangePhase::draining;
  release_upstream(false);
  if (runtime_ != nullptr && !answered) {
    runtime_->metrics->abandoned.fetch_add(1, std::memory_order_relaxed);
  }
  finish(answered ? status_ : kClientClosed);
}

void Exchange::on_client_late() {
  if (phase_ == ExchangePhase::draining) return complete(false);
  if (phase_ == ExchangePhase::streaming && !responding_ && !client_.has_unsent()) {
    release_upstream(false);
    keep_alive_ = false;
    return respond(408, "the request body did not arrive in time");
  }
  on_client_gone();
  client_.abort();
}

void Exchange::shed() {
  if (phase_ == ExchangePhase::idle) return;
  if (phase_ == ExchangePhase::draining) return complete(false);
  if (responding_) return abort();
  release_upstream(false);
  keep_alive_ = false;
  respond(503, kMemoryShedDetail);
  client_.on_progress();
}

// ---- Local replies

void Exchange::respond(int status, std::string_view detail) {
  respond(problem_reply(status, detail), has_verdict_);
}

void Exchange::respond(const LocalReply& reply, bool with_rate_headers) {
  return_unused_permits();
  std::string fields = reply.fields;
  if (with_rate_headers) {
    routing_->rate_limit_headers.append(fields, route_->headers, route_->policy, verdict_,
                                        permits_);
  }
  fields.append("X-Request-Id: ").append(id_).append("\r\n");
  status_ = reply.status;
  responding_ = true;
  response_bytes_ += reply.body.size();
  total_timer_.cancel();
  server_timer_.cancel();
  // A client that waits for 100 Continue may send the body or not after this reply: close, because
  // the next byte could be either.
  const bool rest_is_small = !framing_.chunked && framing_.length <= kMaxDrained;
  const bool queue_times = framing_.wants_continue && !body_sent_;
  if (!request_body_.is_done() && (!rest_is_small || queue_times)) keep_alive_ = false;
  if (worker_.is_draining()) keep_alive_ = false;
  const bool body_allowed = may_have_body(reply);
  const bool has_body = body_allowed && !request_->head && !reply.body.empty();
  const std::string length = body_allowed ? std::to_string(reply.body.size()) : std::string{};
  client_.send_head({.status = reply.status,
                     .fields = fields,
                     .length = length,
                     .has_body = has_body,
                     .keep_alive = keep_alive_});
  if (has_body) client_.send_body(reply.body);
  client_.send_end({});
  client_.flush();
  if (keep_alive_ && !request_body_.is_done() && client_.must_drain_request()) {
    phase_ = ExchangePhase::draining;
    return;
  }
  complete(keep_alive_);
}

// ---- Ending

void Exchange::charge_bandwidth(std::uint64_t bytes, bool of_request) {
  if (!pacer_ || bytes == 0) return;
  if (of_request ? route_->bandwidth->requests : route_->bandwidth->responses)
    pacer_->charge(bytes);
}

void Exchange::leave_queue() {
  if (phase_ != ExchangePhase::queued) return;
  phase_ = ExchangePhase::deciding;
  queue_timer_.cancel();
  queue_time_ = Clock::now() - queued_at_;
  runtime_->metrics->queued.fetch_sub(1, std::memory_order_relaxed);
}

// Leaves the queue. A request that still waits for its turn or its decision returns its permits.
void Exchange::return_unused_permits() {
  leave_queue();
  if (phase_ != ExchangePhase::deciding || !holds_permits_) return;
  admission_->return_all();
  holds_permits_ = false;
}

void Exchange::end_admission() {
  if (!std::exchange(holds_permits_, false)) return;
  admission_->finish(route_ != nullptr ? cost_correction(route_->cost, permits_,
                                                         request_body_.size(), response_bytes_)
                                       : 0);
}

void Exchange::complete(bool keep_alive) {
  if (phase_ == ExchangePhase::idle) return;
  finish(status_);
  client_.on_exchange_end(keep_alive);
}

// Ends the exchange: releases permits and timers, counts and logs it.
void Exchange::finish(int status) {
  return_unused_permits();
  phase_ = ExchangePhase::idle;
  server_timer_.cancel();
  total_timer_.cancel();
  renew_timer_.cancel();
  end_admission();
  if (pacer_) {
    pacer_->end();
    pacer_ = nullptr;
  }
  const std::chrono::nanoseconds duration = Clock::now() - started_at_;
  if (runtime_ != nullptr) {
    RouteMetrics& metrics = *runtime_->metrics;
    metrics.in_flight.fetch_sub(1, std::memory_order_relaxed);
    metrics.decisions[static_cast<std::size_t>(decision_)].fetch_add(1, std::memory_order_relaxed);
    if (status != kClientClosed) {
      metrics.responses[static_cast<std::size_t>(std::clamp(status / 100, 1, 5) - 1)].fetch_add(
          1, std::memory_order_relaxed);
      metrics.times.add(duration);
    }
  }
  if (const auto& log = routing_->log) {
    const KeyLogging logs_key = routing_->config->access_log.key;
    const bool has_key = route_ != nullptr && admission_ && !route_->policy.empty();
    const std::string key =
        has_key && logs_key != KeyLogging::off ? admission_->key.text(logs_key) : std::string{};
    const std::string client = to_text(route_ != nullptr ? address_ : client_.peer());
    log->write(
        {.time = worker_.state().engine.now(),
         .client = client,
         .method = request_->method,
         .target = request_->target,
         .version = request_->version,
         .status = status,
         .received = request_body_.size(),
         .sent = response_bytes_,
         .referer = request_->field("referer"),
         .agent = request_->field("user-agent"),
         .host = request_->host,
         .route = route_ != nullptr ? std::string_view(route_->name) : std::string_view{},
         .decision = route_ != nullptr ? kRouteDecisionNames[static_cast<std::size_t>(decision_)]
                                       : std::string_view{},
         .limit = has_verdict_ ? verdict_.limited_by : std::string_view{},
         .key = logs_key != KeyLogging::off ? std::optional<std::string_view>(key) : std::nullopt,
         .degraded = has_verdict_ && verdict_.degraded,
         .server =
             server_ != nullptr ? std::string_view(server_->upstream().text) : std::string_view{},
         .id = id_,
         .duration = duration,
         .queue_time = queue_time_});
  }
  if (admission_ && admission_.use_count() == 1) admission_->config_owner = nullptr;
  routing_ = nullptr;
  backend_ = nullptr;
}

}  // namespace weir::gateway
