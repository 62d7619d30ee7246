#include "gateway/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/ascii.h"
#include "base/out_of_memory.h"
#include "base/reuse.h"
#include "gateway/access_log.h"
#include "gateway/client_address.h"
#include "gateway/cost.h"
#include "gateway/forwarded.h"
#include "gateway/house.h"
#include "gateway/own_answer.h"
#include "gateway/request_head.h"

// The client's side of an exchange, up to where a server is asked, and its end. (The server's side:
// exchange_server.cc.)

namespace weir::gateway {

namespace {

// What is read of a request for nothing, so that its connection can be used again.
constexpr std::uint64_t kMostDiscarded = 64 << 10;

constexpr std::size_t kLongestId = 128;

// Of a policy of which nothing is known yet: renewing it too often does no harm.
constexpr Nanos kShortLease = std::chrono::milliseconds{300};

constexpr int kGone = 499;  // as nginx logs it

// 128 random bits, as text.
std::string make_id() {
  thread_local std::mt19937_64 numbers{[] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }()};
  return fmt::format("{:016x}{:016x}", numbers(), numbers());
}

// Whether one of the protocols of a list is HTTP/2.
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

// Servers that ignore the case of methods, and routes that do not, would disagree about `post`.
bool is_in_capitals(std::string_view method) {
  return std::ranges::none_of(method, [](char c) { return c >= 'a' && c <= 'z'; });
}

bool is_absolute(std::string_view target) { return !target.starts_with('/') && target != "*"; }

wire::HttpLimits answer_limits() {
  return {.target = 0, .header = 64 << 10, .body = SIZE_MAX, .fields = 200};
}

}  // namespace

Exchange::Exchange(House& house, ClientSide& client)
    : house_(house),
      client_(client),
      answer_(answer_limits()),
      turn_(house.ground().timers,
            [this] {
              leave_queue();
              place_->counts->waits.add(waited_);
              connect();
              client_.go_on();
            }),
      server_timer_(house.ground().timers, [this] { on_server_time(); }),
      total_(house.ground().timers,
             [this] {
               if (phase_ == Phase::tunnel) return;
               if (answering_) return abort();
               release_link(false);
               respond(504, "the answer took too long");
               client_.go_on();
             }),
      lease_(house.ground().timers, [this] {
        claim_->renew();
        lease_.set_in(traits_.lease / 3);
      }) {}

// (Without memory some of it is not done: it is not logged, and permits that are held come back
// when their lease ends.)
Exchange::~Exchange() {
  if (phase_ != Phase::idle) with_memory([this] { on_client_gone(); });
}

// ---- Before a server is asked

void Exchange::begin(const wire::HttpRequest& request, const wire::HttpFraming& framing,
                     std::string_view upgrade) {
  phase_ = Phase::deciding;
  ++number_;
  request_ = &request;
  framing_ = framing;
  // Nobody gets around what is asked here by speaking HTTP/2 through it.
  const bool passes =
      !upgrade.empty() && !framing.has_body() && request.version == 11 && !names_http2(upgrade);
  upgrade_ = passes ? upgrade : std::string_view{};
  routing_ = house_.routing();
  route_ = nullptr;
  place_ = nullptr;
  began_ = Clock::now();
  claimed_ = decided_ = body_sent_ = answering_ = client_ended_ = server_ended_ = false;
  keeps_ = request.keep_alive;
  ruling_ = Ruling::unlimited;
  waited_ = {};
  server_ = nullptr;
  tried_.clear();
  status_ = 0;
  sent_ = 0;
  clear_for_reuse(kept_);
  pacer_ = nullptr;
  in_.start(framing);
  fields_.clear();
  for (std::size_t i = 0; i < request.fields.size(); ++i) fields_.push_back(request.fields[i]);
  const std::string_view id = request.field("x-request-id");
  id_ = !id.empty() && id.size() <= kLongestId ? std::string(id) : make_id();
  if (!find_route()) return;
  if (framing.length > route_->max_body) {
    return respond(413, "the body is too large for this route");
  }
  in_.start(framing, route_->max_body);
  if (route_->service.timeouts.total != kForever) total_.set_in(route_->service.timeouts.total);
  make_keys();
  decide();
}

// What a request must not be, if it is to mean the same to the service behind.
struct RequestFlaw {
  int status = 400;
  std::string_view detail;
};

std::optional<RequestFlaw> Exchange::flaw_of_request() {
  if (!is_in_capitals(request_->method)) return RequestFlaw{400, "methods are written in capitals"};
  if (request_->method == "CONNECT" || request_->method == "TRACE") {
    return RequestFlaw{405, "a gateway does not do that"};
  }
  const bool names_two_hosts = is_absolute(request_->target) && request_->version == 11 &&
                               !same_ignoring_case(request_->host, request_->field("host"));
  if (names_two_hosts || !read_host(request_->host, host_) || !read_path(request_->path, path_)) {
    return RequestFlaw{400, "host or path are malformed"};
  }
  return std::nullopt;
}

// False if there is none: it is answered then.
bool Exchange::find_route() {
  using Status = RouteTable::Found::Status;
  const auto flaw = flaw_of_request();
  if (flaw) {
    // Who sends such things may mean something else by what comes behind.
    keeps_ = false;
    house_.common().counts.malformed.fetch_add(1, std::memory_order_relaxed);
    respond(flaw->status, flaw->detail);
    return false;
  }
  const RouteTable::Found found = routing_->table.find(host_, path_, request_->method);
  if (found.status != Status::found) {
    house_.common().counts.unrouted.fetch_add(1, std::memory_order_relaxed);
    if (found.status == Status::ambiguous) keeps_ = false;
    found.status == Status::none
        ? respond(404, "there is no route for it")
        : respond(400, "the path can be understood in two ways, which have different routes");
    return false;
  }
  route_ = &routing_->config->routes[found.route];
  place_ = &routing_->places[found.route];
  backend_ = place_->backend;
  place_->counts->in_flight.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Exchange::make_keys() {
  const Config& config = *routing_->config;
  address_ = client_address(client_.peer(), fields_, config.trusted_proxies, config.client_from);
  const Asked asked{.method = request_->method,
                    .host = host_,
                    .path = path_,
                    .query = request_->query,
                    .fields = fields_,
                    .client = address_,
                    .now = house_.common().engine.now()};
  if (!route_->policy.empty()) {
    // (One that still waits for an answer is left to itself.)
    if (!claim_ || claim_.use_count() > 1) {
      claim_ = std::make_shared<Claim>(house_.engine(), house_.farewells());
    }
    claim_->kept = routing_;
    make_key(route_->key, route_->jwt.get(), asked, claim_->key);
  }
  if (!route_->bandwidth) return;
  const Bandwidth& bandwidth = *route_->bandwidth;
  pacer_ = std::make_shared<Pacer>(house_.engine(), house_.ground().timers, bandwidth.policy,
                                   place_->bandwidth_capacity);
  pacer_->kept = routing_;
  make_key(place_->bandwidth_key, route_->jwt.get(), asked, pacer_->key);
  pacer_->resume = [this] {
    arrange_flow();
    client_.go_on();
  };
}

// Whether it is answered here because of what it is counted by.
bool Exchange::refuses_key(const MadeKey& key) {
  if (key.status() == MadeKey::Status::ambiguous) {
    ruling_ = Ruling::failed;
    respond(400, "the " + key.problem_source() + " is given more than once, with different values");
    return true;
  }
  if (key.status() == MadeKey::Status::made || !route_->empty_key.deny) return false;
  ruling_ = Ruling::empty_key;
  respond(deny_empty_key(*route_, key.problem_source()), false);
  return true;
}

void Exchange::decide() {
  if (pacer_) {
    if (refuses_key(pacer_->key)) return;
    if (pacer_->key.status() == MadeKey::Status::empty) pacer_ = nullptr;
  }
  if (route_->policy.empty()) return connect();
  if (refuses_key(claim_->key)) return;
  const bool announces = announces_length(*request_, framing_);
  asked_ =
      cost_of(route_->cost, fields_, announces ? std::optional(framing_.length) : std::nullopt);
  claimed_ = true;
  traits_ = place_->traits;
  ask();
}

void Exchange::ask() {
  const bool gives_back = traits_.queues || route_->cost.kind == Cost::Kind::bytes;
  claim_->ask(route_->policy, traits_, asked_, gives_back, *this);
}

void Exchange::on_verdict(const Verdict& verdict) {
  verdict_ = verdict;
  decided_ = verdict.error.empty();
  if (!decided_ && !traits_.enters) {
    // The policy may have become one that is entered: routes hear of that a moment later.
    traits_ = {.enters = true, .lease = kShortLease};
    return ask();
  }
  if (!decided_) {
    ruling_ = Ruling::failed;
    respond(500, verdict.error);
  } else if (!verdict) {
    ruling_ = verdict.degraded ? Ruling::degraded : Ruling::refused;
    refuse();
  } else if (verdict.limited_by.empty()) {
    // No limit was asked: all count by something that the request does not have.
    decided_ = false;
    connect();
  } else {
    ruling_ = verdict.degraded ? Ruling::degraded : Ruling::allowed;
    if (traits_.enters) lease_.set_in(traits_.lease / 3);
    verdict.decision.wait > Nanos{0} ? wait_for_turn() : connect();
  }
  client_.go_on();
}

void Exchange::wait_for_turn() {
  const Nanos wait = verdict_.decision.wait;
  std::atomic<std::int64_t>& queued = place_->counts->queued;
  const bool full =
      queued.load(std::memory_order_relaxed) >= static_cast<std::int64_t>(route_->queue.most);
  if (full || wait > route_->queue.longest) {
    place_->counts->queue_overflows.fetch_add(1, std::memory_order_relaxed);
    claim_->give_back();
    claimed_ = false;
    ruling_ = Ruling::refused;
    verdict_.decision.outcome = Outcome::limited;
    verdict_.decision.retry_after = std::max(wait - route_->queue.longest, Nanos{1});
    verdict_.decision.wait = Nanos{0};
    return refuse();
  }
  queued.fetch_add(1, std::memory_order_relaxed);
  phase_ = Phase::queued;
  queued_at_ = Clock::now();
  turn_.set_in(wait);
}

void Exchange::refuse() {
  const bool falls_back = refused_by(*route_, verdict_).fallback != nullptr;
  if (falls_back && verdict_.decision.outcome != Outcome::allowed) {
    backend_ = place_->fallback;
    return connect();
  }
  respond(gateway::refuse(*route_, routing_->lines, verdict_, asked_), false);
}

// ---- The client's side

bool Exchange::wants_body() const {
  constexpr std::size_t much = 64 << 10;
  const bool paced = pacer_ && pacer_->is_waiting() && route_->bandwidth->requests;
  switch (phase_) {
    case Phase::running:
      return !in_.is_done() && link_ && link_->channel().unsent() < much && !paced;
    case Phase::tunnel:
      return !client_ended_ && link_ && link_->channel().unsent() < much && !paced;
    case Phase::discarding:
      return !in_.is_done();
    default:
      return false;
  }
}

std::size_t Exchange::on_body(std::string_view input) {
  if (!wants_body()) return 0;
  if (phase_ == Phase::tunnel) {
    link_->channel().send(input);
    server_timer_.set_in(backend_->service().timeouts.read);
    pay(input.size(), true);
    return input.size();
  }
  thread_local std::string scratch;
  const wire::HttpBody::Piece piece = in_.read(input, scratch);
  if (piece.error_status != 0) {
    house_.common().counts.malformed.fetch_add(1, std::memory_order_relaxed);
    release_link(false);
    if (answering_ || phase_ == Phase::discarding) {
      abort();
    } else {
      keeps_ = false;
      respond(piece.error_status, piece.reason);
    }
    return 0;
  }
  const std::size_t consumed = piece.consumed;
  if (phase_ == Phase::discarding) {
    if (in_.size() > kMostDiscarded) {
      keeps_ = false;
      over(false);
    } else if (in_.is_done()) {
      over(keeps_);
    }
    return consumed;
  }
  body_sent_ |= consumed > 0;
  send_body(piece.data, in_.trailers());
  return consumed;
}

void Exchange::on_body_end(std::string_view trailers) {
  if (in_.is_done() || !in_.end() || phase_ != Phase::running) return;
  body_sent_ = true;
  send_body({}, trailers);
}

// In the way that was announced. The trailers are sent behind the last of it.
void Exchange::send_body(std::string_view data, std::string_view trailers) {
  if (passes_in_chunks(framing_)) {
    thread_local std::string chunks;
    chunks.clear();
    wire::append_chunk(chunks, data);
    if (in_.is_done()) {
      wire::append_last_chunk(chunks,
                              passable_request_trailers(trailers, fields_, place_->headers_read));
    }
    if (!chunks.empty()) link_->channel().send(chunks);
  } else if (!data.empty()) {
    link_->channel().send(data);
  }
  server_timer_.set_in(backend_->service().timeouts.read);
  pay(data.size(), true);
}

void Exchange::on_client_sent() { arrange_flow(); }

void Exchange::on_client_end() {
  // (Its answer is said.)
  if (phase_ == Phase::discarding) return over(false);
  if (phase_ != Phase::tunnel) {
    on_client_gone();
    return client_.abort();
  }
  client_ended_ = true;
  link_->channel().finish();
  look_at_tunnel();
}

void Exchange::on_client_gone() {
  if (phase_ == Phase::idle) return;
  const bool answered = phase_ == Phase::tunnel || phase_ == Phase::discarding;
  release_link(false);
  if (place_ != nullptr && !answered) {
    place_->counts->abandoned.fetch_add(1, std::memory_order_relaxed);
  }
  tell(answered ? status_ : kGone);
}

void Exchange::on_client_late() {
  if (phase_ == Phase::discarding) return over(false);
  if (phase_ == Phase::running && !answering_ && !client_.has_unsent()) {
    release_link(false);
    keeps_ = false;
    return respond(408, "the body did not come in time");
  }
  on_client_gone();
  client_.abort();
}

void Exchange::shed() {
  if (phase_ == Phase::idle) return;
  if (phase_ == Phase::discarding) return over(false);
  if (answering_) return abort();
  release_link(false);
  keeps_ = false;
  respond(503, kTooMuchHeld);
  client_.go_on();
}

// ---- Answers of the gateway's own

void Exchange::respond(int status, std::string_view detail) {
  respond(problem(status, detail), decided_);
}

void Exchange::respond(const Answer& answer, bool with_rate_lines) {
  leave_unserved();
  std::string fields = answer.fields;
  if (with_rate_lines) {
    routing_->lines.append(fields, route_->headers, route_->policy, verdict_, asked_);
  }
  fields.append("X-Request-Id: ").append(id_).append("\r\n");
  status_ = answer.status;
  answering_ = true;
  sent_ += answer.body.size();
  total_.cancel();
  server_timer_.cancel();
  // Who was told not to send the body may do so or not: nobody can tell what comes next.
  const bool rest_is_small = !framing_.chunked && framing_.length <= kMostDiscarded;
  const bool waits = framing_.wants_continue && !body_sent_;
  if (!in_.is_done() && (!rest_is_small || waits)) keeps_ = false;
  if (house_.is_draining()) keeps_ = false;
  const bool may_have = may_have_body(answer);
  const bool has_body = may_have && !request_->head && !answer.body.empty();
  const std::string length = may_have ? std::to_string(answer.body.size()) : std::string{};
  client_.start({.status = answer.status,
                 .fields = fields,
                 .length = length,
                 .has_body = has_body,
                 .keeps = keeps_});
  if (has_body) client_.send(answer.body);
  client_.finish({});
  client_.flush();
  if (keeps_ && !in_.is_done() && client_.reads_to_the_end()) {
    phase_ = Phase::discarding;
    return;
  }
  over(keeps_);
}

// ---- The end

void Exchange::pay(std::uint64_t bytes, bool of_request) {
  if (!pacer_ || bytes == 0) return;
  if (of_request ? route_->bandwidth->requests : route_->bandwidth->responses) pacer_->pay(bytes);
}

void Exchange::leave_queue() {
  if (phase_ != Phase::queued) return;
  phase_ = Phase::deciding;
  turn_.cancel();
  waited_ = Clock::now() - queued_at_;
  place_->counts->queued.fetch_sub(1, std::memory_order_relaxed);
}

// It ends here, whatever comes of it. What never came to a server gives back what it took.
void Exchange::leave_unserved() {
  leave_queue();
  if (phase_ != Phase::deciding || !claimed_) return;
  claim_->give_back();
  claimed_ = false;
}

void Exchange::end_claim() {
  if (!std::exchange(claimed_, false)) return;
  claim_->end(route_ != nullptr ? unsettled(route_->cost, asked_, in_.size(), sent_) : 0);
}

void Exchange::over(bool keeps) {
  if (phase_ == Phase::idle) return;
  tell(status_);
  client_.over(keeps);
}

// Counts and logs what came of it, and gives back what was held.
void Exchange::tell(int status) {
  leave_unserved();
  phase_ = Phase::idle;
  server_timer_.cancel();
  total_.cancel();
  lease_.cancel();
  end_claim();
  if (pacer_) {
    pacer_->end();
    pacer_ = nullptr;
  }
  const std::chrono::nanoseconds took = Clock::now() - began_;
  if (place_ != nullptr) {
    RouteCounts& counts = *place_->counts;
    counts.in_flight.fetch_sub(1, std::memory_order_relaxed);
    counts.rulings[static_cast<std::size_t>(ruling_)].fetch_add(1, std::memory_order_relaxed);
    if (status != kGone) {
      counts.answers[static_cast<std::size_t>(std::clamp(status / 100, 1, 5) - 1)].fetch_add(
          1, std::memory_order_relaxed);
      counts.times.add(took);
    }
  }
  if (const auto& log = routing_->log) {
    const LoggedKey logs_key = routing_->config->access_log.key;
    const bool has_key = route_ != nullptr && claim_ && !route_->policy.empty();
    const std::string key =
        has_key && logs_key != LoggedKey::off ? claim_->key.text(logs_key) : std::string{};
    const std::string client = to_text(route_ != nullptr ? address_ : client_.peer());
    log->write(
        {.time = house_.common().engine.now(),
         .client = client,
         .method = request_->method,
         .target = request_->target,
         .version = request_->version,
         .status = status,
         .received = in_.size(),
         .sent = sent_,
         .referer = request_->field("referer"),
         .agent = request_->field("user-agent"),
         .host = request_->host,
         .route = route_ != nullptr ? std::string_view(route_->name) : std::string_view{},
         .ruling = route_ != nullptr ? kRulingNames[static_cast<std::size_t>(ruling_)]
                                     : std::string_view{},
         .limit = decided_ ? verdict_.limited_by : std::string_view{},
         .key = logs_key != LoggedKey::off ? std::optional<std::string_view>(key) : std::nullopt,
         .degraded = decided_ && verdict_.degraded,
         .server =
             server_ != nullptr ? std::string_view(server_->upstream().text) : std::string_view{},
         .id = id_,
         .took = took,
         .waited = waited_});
  }
  if (claim_ && claim_.use_count() == 1) claim_->kept = nullptr;
  routing_ = nullptr;
  backend_ = nullptr;
}

}  // namespace weir::gateway
