#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/ascii.h"
#include "base/out_of_memory.h"
#include "base/reuse.h"
#include "gateway/exchange.h"
#include "gateway/forwarded.h"
#include "gateway/house.h"
#include "gateway/own_answer.h"
#include "gateway/request_head.h"
#include "wire/http1_response.h"

// The server's side of an exchange: the request that is sent to it, and its answer.

namespace weir::gateway {

namespace {

// Methods of which several do the same as one.
bool may_be_repeated(std::string_view method) {
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
  const bool usual = upstream.port == (upstream.tls ? 443 : 80);
  std::string host = v6 ? fmt::format("[{}]", upstream.host) : upstream.host;
  return usual ? host : fmt::format("{}:{}", host, upstream.port);
}

}  // namespace

// ---- The request

void Exchange::connect(bool fresh) {
  phase_ = Phase::connecting;
  Server& server = fresh && !tried_.empty() ? *tried_.back() : backend_->choose(tried_);
  if (!fresh) tried_.push_back(&server);
  server_ = &server;
  server_timer_.set_in(backend_->service().timeouts.connect);
  link_ = house_.links().get(backend_, server, fresh, *this);
  if (!link_) return fail(ServerFailure::connect, "there is no connection to be had");
  if (link_->reused()) send_request();
}

void Exchange::on_connected() {
  send_request();
  client_.go_on();
}

void Exchange::send_request() {
  phase_ = Phase::running;
  asked_at_ = Clock::now();
  link_->server().counts().requests.fetch_add(1, std::memory_order_relaxed);
  thread_local std::string head;
  head.clear();
  append_head(head);
  answer_.next();
  kept_.clear();
  link_->channel().want_input(true);
  link_->channel().send(head);
  server_timer_.set_in(backend_->service().timeouts.read);
  if (framing_.wants_continue && !in_.is_done() && in_.size() == 0) {
    client_.welcome();
    framing_.wants_continue = false;
  }
}

void Exchange::append_head(std::string& out) {
  const bool own_host = route_->host == UpstreamHost::keep && !request_->host.empty();
  const std::string host = own_host ? std::string(request_->host) : host_of(server_->upstream());
  const Hop hop{.peer = client_.peer(),
                .trusted = has(routing_->config->trusted_proxies, client_.peer()),
                .tls = client_.has_tls(),
                .port = house_.common().port,
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
  look_at_tunnel();
  client_.go_on();
}

// ---- The answer

void Exchange::on_input(std::string_view input) {
  if (phase_ == Phase::tunnel) {
    server_timer_.set_in(backend_->service().timeouts.read);
    pass_answer(input);
    client_.flush();
    arrange_flow();
    return client_.go_on();
  }
  server_timer_.set_in(backend_->service().timeouts.read);
  const bool alone = kept_.empty();
  if (!alone) kept_.append(input);
  const std::string_view all = alone ? input : std::string_view(kept_);
  const std::uint64_t number = number_;
  const std::size_t used = read_answer(all);
  if (number != number_ || phase_ != Phase::running) {
    // It is over, or the link is for something else now.
    if (phase_ == Phase::tunnel) client_.go_on();
    return;
  }
  if (alone) {
    kept_.assign(all.substr(used));
  } else {
    kept_.erase(0, used);
  }
  if (kept_.empty()) clear_for_reuse(kept_);
  link_->channel().count_owner_memory(kept_.capacity());
  client_.flush();
  arrange_flow();
  client_.go_on();
}

// As much as can be understood. It may be over behind that.
std::size_t Exchange::read_answer(std::string_view input) {
  using Status = wire::HttpAnswerParser::Status;
  thread_local std::string scratch;
  const std::uint64_t number = number_;
  std::size_t used = 0;
  while (number == number_ && phase_ == Phase::running) {
    const std::string_view rest = input.substr(used);
    if (!answering_) {
      const auto step = answer_.parse(rest, request_->head);
      if (step.status == Status::need_more) return used;
      if (step.status == Status::error) {
        fail(ServerFailure::garbage, step.reason);
        return used;
      }
      used += step.consumed;
      if (!on_answer_head()) {
        if (phase_ == Phase::tunnel && used < input.size()) {
          pass_answer(input.substr(used));
          client_.flush();
          used = input.size();
        }
        continue;
      }
    } else if (!out_.is_done()) {
      const wire::HttpBody::Piece piece = out_.read(rest, scratch);
      if (piece.error_status != 0) {
        fail(ServerFailure::garbage, piece.reason);
        return used;
      }
      used += piece.consumed;
      pass_answer(piece.data);
      if (!out_.is_done()) return used;
    }
    if (answering_ && out_.is_done()) {
      // What comes behind an answer was not asked for.
      if (used < input.size()) server_ended_ = true;
      finish_answer();
      return input.size();
    }
  }
  return used;
}

// Whether it is the answer, and not something before it.
bool Exchange::on_answer_head() {
  const int status = answer_.status();
  if (status == 101) {
    if (upgrade_.empty()) {
      fail(ServerFailure::garbage, "it wants to speak another protocol");
    } else {
      start_tunnel();
    }
    return false;
  }
  if (status < 200) {
    if (status != 100) pass_hints();
    answer_.next();
    return false;
  }
  link_->server().note_success();
  link_->server().counts().times.add(Clock::now() - asked_at_);
  status_ = status;
  answering_ = true;
  out_.start(answer_.framing());
  start_answer();
  return true;
}

namespace {

std::vector<wire::HttpField> listed(const wire::HttpFields& fields) {
  std::vector<wire::HttpField> all;
  all.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) all.push_back(fields[i]);
  return all;
}

}  // namespace

// 103 Early Hints, and what else comes before an answer.
void Exchange::pass_hints() {
  std::string fields;
  append_response_fields(fields, listed(answer_.fields()));
  client_.hint({.status = answer_.status(), .reason = answer_.reason(), .fields = fields});
}

// What the service says, and what is said of limits. Valid until the next one of this thread.
std::string& Exchange::answer_fields() {
  thread_local std::string fields;
  fields.clear();
  append_response_fields(fields, listed(answer_.fields()));
  if (decided_) {
    routing_->lines.append(fields, route_->headers, route_->policy, verdict_, asked_);
  }
  return fields;
}

void Exchange::start_answer() {
  std::string& fields = answer_fields();
  if (field_of(answer_.fields(), "x-request-id").empty()) {
    fields.append("X-Request-Id: ").append(id_).append("\r\n");
  }
  const wire::HttpFraming& framing = answer_.framing();
  const bool tells_length = !framing.chunked && answer_.says_length() && status_ != 204;
  if (house_.is_draining()) keeps_ = false;
  client_.start({.status = status_,
                 .reason = answer_.reason(),
                 .fields = fields,
                 .length = tells_length ? answer_.length_text() : std::string_view{},
                 .has_body = framing.has_body(),
                 .keeps = keeps_});
}

void Exchange::pass_answer(std::string_view data) {
  sent_ += data.size();
  client_.send(data);
  pay(data.size(), false);
}

// Reads of the server what the client takes.
void Exchange::arrange_flow() {
  if (!link_ || (phase_ != Phase::running && phase_ != Phase::tunnel)) return;
  const bool paced = pacer_ && pacer_->is_waiting() && route_->bandwidth->responses;
  link_->channel().want_input(client_.has_room() && !paced);
}

void Exchange::finish_answer() {
  client_.finish(out_.trailers());
  end_claim();  // before the client can know: its next request may be about the same seat
  client_.flush();
  const bool whole = in_.is_done();
  release_link(whole && answer_.keep_alive() && !server_ended_);
  over(keeps_ && whole);
}

// ---- Tunnels

void Exchange::start_tunnel() {
  phase_ = Phase::tunnel;
  status_ = 101;
  answering_ = true;
  keeps_ = false;
  total_.cancel();
  link_->server().note_success();
  house_.common().counts.tunnels.fetch_add(1, std::memory_order_relaxed);
  const std::string& fields = answer_fields();
  client_.start({.status = status_,
                 .reason = answer_.reason(),
                 .fields = fields,
                 .upgrade = field_of(answer_.fields(), "upgrade")});
  client_.flush();
}

// It is over when both have said all, and the server has got it. (What the client has not taken is
// left to its connection.)
void Exchange::look_at_tunnel() {
  if (phase_ != Phase::tunnel || !client_ended_ || !server_ended_) return;
  if (link_->channel().unsent() == 0) finish_tunnel();
}

void Exchange::finish_tunnel() {
  release_link(false);
  over(false);
}

// ---- When it does not go well

void Exchange::on_shed() noexcept {
  if (!with_memory([this] { shed(); })) client_.drop();
}

void Exchange::release_link(bool reusable) {
  if (!link_) return;
  link_->channel().count_owner_memory(0);
  if (reusable) {
    house_.links().keep(std::move(link_));
  } else {
    house_.links().end(std::move(link_));
  }
}

void Exchange::on_end() {
  server_ended_ = true;
  if (phase_ == Phase::tunnel) {
    client_.finish({});
    look_at_tunnel();
    return client_.go_on();
  }
  if (answering_ && out_.end()) return finish_answer();
  fail(ServerFailure::reset, "it ended the connection");
}

void Exchange::on_broken(std::string_view why) {
  if (phase_ == Phase::tunnel) {
    server_ended_ = true;
    release_link(false);
    over(false);
    return;
  }
  fail(phase_ == Phase::connecting ? ServerFailure::connect : ServerFailure::reset, why);
}

bool Exchange::server_owes() const {
  const bool paced = pacer_ && pacer_->is_waiting();
  if (paced || !client_.has_room()) return false;
  return phase_ == Phase::tunnel || in_.is_done() || (link_ && link_->channel().unsent() > 0);
}

void Exchange::on_server_time() {
  if (phase_ == Phase::connecting) {
    fail(ServerFailure::timeout, "no connection in time");
  } else if (!server_owes()) {
    server_timer_.set_in(backend_->service().timeouts.read);
  } else if (phase_ == Phase::tunnel) {
    finish_tunnel();
  } else {
    fail(ServerFailure::timeout, "no answer in time");
  }
}

// Only where nothing can be done twice: no byte of an answer was seen, and nothing of a body sent.
bool Exchange::may_try_again(ServerFailure failure) const {
  if (answering_ || !kept_.empty() || body_sent_) return false;
  if (phase_ == Phase::connecting) return true;
  const bool lost = failure == ServerFailure::reset;
  return lost && may_be_repeated(request_->method) && !framing_.has_body();
}

void Exchange::fail(ServerFailure failure, std::string_view why) {
  const bool again = may_try_again(failure);
  // A connection that was kept may have ended before the request came there: nobody has failed.
  const bool stale = again && link_ && link_->reused() && phase_ == Phase::running;
  Server& server = *tried_.back();
  release_link(false);
  if (stale) {
    connect(true);
    return client_.go_on();
  }
  server.note_failure(failure, Clock::now());
  if (again && tried_.size() <= static_cast<std::size_t>(backend_->service().retries)) {
    server.counts().retries.fetch_add(1, std::memory_order_relaxed);
    connect();
    return client_.go_on();
  }
  if (answering_) return abort();
  const std::string detail = fmt::format("the service behind did not answer: {}", why);
  respond(failure == ServerFailure::timeout ? 504 : 502, detail);
  client_.go_on();
}

// The client has seen a part of an answer that will never be whole.
void Exchange::abort() {
  client_.flush();
  release_link(false);
  tell(status_);
  client_.abort();
}

}  // namespace weir::gateway
