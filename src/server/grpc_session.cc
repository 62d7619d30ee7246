#include "server/grpc_session.h"

#include <array>
#include <chrono>
#include <optional>

#include "server/envoy_messages.h"
#include "server/grpc_answer.h"
#include "server/grpc_health.h"
#include "server/grpc_reflection.h"
#include "server/links.h"

namespace weir::server {

using wire::GrpcCode;
using wire::GrpcMessage;
using wire::H2Machine;
using wire::H2Stream;

namespace {

using Steady = std::chrono::steady_clock;

// A message, with what stands in front of it.
constexpr wire::H2Limits kLimits{.body = GrpcSession::kMostMessage + wire::kGrpcPrefix};

// Until when an answer is of use.
using Deadline = std::optional<Steady::time_point>;

Deadline deadline_in(Nanos timeout, Steady::time_point now) {
  if (timeout > Steady::time_point::max() - now) return std::nullopt;
  return now + timeout;
}

}  // namespace

struct GrpcSession::Method {
  using Handler = void (GrpcSession::*)(H2Stream&, std::string_view);

  std::string_view path;
  Handler handler;              // none: it is taken in parts
  bool is_for_anybody = false;  // also without the password
};

const GrpcSession::Method* GrpcSession::find(std::string_view path) {
  using S = GrpcSession;
  // The most frequent one first.
  static constexpr std::array all{
      Method{"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &S::should_rate_limit},
      Method{"/grpc.health.v1.Health/Check", &S::check_health, true},
      Method{"/grpc.health.v1.Health/Watch", &S::watch_health, true},
      Method{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nullptr},
      Method{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", nullptr},
  };
  for (const Method& method : all) {
    if (method.path == path) return &method;
  }
  return nullptr;
}

GrpcSession::GrpcSession(Service& service) : H2Session(service, DoorName::grpc, kLimits) {}

std::string GrpcSession::too_many() {
  return H2Machine::refusal(wire::H2Error::calm, "too many connections");
}

std::string GrpcSession::not_tls() {
  return H2Machine::refusal(wire::H2Error::none, "this port speaks TLS only");
}

// ---- What a call is

bool GrpcSession::takes_parts(const H2Stream& stream) {
  const Method* const method = find(stream.request().path);
  return method != nullptr && method->handler == nullptr;
}

std::size_t GrpcSession::most_body(const H2Stream& stream) {
  const Method* const method = find(stream.request().path);
  if (method == nullptr) return 0;
  if (is_let_in(stream)) return SIZE_MAX;
  return method->is_for_anybody ? kMostStrangersMessage + wire::kGrpcPrefix : 0;
}

void GrpcSession::on_request(H2Stream& stream) {
  if (!stream.is_answered()) {
    count_request();
    const Method* const method = find(stream.request().path);
    if (refuses(stream, method)) return;
    if (method->handler != nullptr) {
      const std::string_view body = stream.request().body;
      const GrpcMessage read = wire::read_grpc_message(body, kMostMessage);
      switch (read.status) {
        case GrpcMessage::Status::whole:
          if (read.size < body.size()) break;
          return (this->*method->handler)(stream, read.message);
        case GrpcMessage::Status::too_long:
          return refuse(stream, GrpcCode::resource_exhausted, "the message is too long");
        case GrpcMessage::Status::compressed:
          return refuse(stream, GrpcCode::internal,
                        "the message is compressed, but there is no grpc-encoding");
        case GrpcMessage::Status::need_more:
          if (body.empty()) {
            return refuse(stream, GrpcCode::unimplemented, "there is no message, where one is due");
          }
          [[fallthrough]];
        case GrpcMessage::Status::malformed:
          return refuse(stream, GrpcCode::internal, "the body is no message of gRPC");
      }
      // (What gRPC calls a violation of cardinality.)
      return refuse(stream, GrpcCode::unimplemented, "there is more than one message");
    }
    start_answers(machine_, stream);
  }
  take_parts(stream);
}

void GrpcSession::refuse(H2Stream& stream, GrpcCode code, std::string_view text) {
  server::refuse(machine_, stream, code, text);
}

bool GrpcSession::is_let_in(const H2Stream& stream) const {
  return rights_from(stream.request().authorization, service_.access).may_call(service_.access);
}

// Whether it cannot be a call, and has been answered.
bool GrpcSession::refuses(H2Stream& stream, const Method* method) {
  const wire::HttpRequest& request = stream.request();
  const auto refuse_it = [&](GrpcCode code, std::string_view text) {
    refuse(stream, code, text);
    return true;
  };
  const auto refuse_as_http = [&](int status, std::string_view text) {
    refuse_http(machine_, stream, status, text);
    return true;
  };
  if (stream.flaw() == 413)
    return refuse_it(GrpcCode::resource_exhausted, "the message is too long");
  if (stream.flaw() == 431) return refuse_it(GrpcCode::resource_exhausted, stream.reason());
  if (stream.flaw() != 0) return refuse_as_http(stream.flaw(), stream.reason());
  if (request.method != "POST") return refuse_as_http(405, "gRPC is POST only");
  if (!wire::is_grpc(request.content_type)) {
    return refuse_as_http(415, "the content-type must be application/grpc");
  }
  if (method == nullptr) return refuse_it(GrpcCode::unimplemented, "there is no such method");
  if (!method->is_for_anybody && !is_let_in(stream)) {
    return refuse_it(GrpcCode::unauthenticated, "send the password as authorization: Bearer …");
  }
  const std::string_view encoding = request.field("grpc-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return refuse_it(GrpcCode::unimplemented, "messages must not be compressed");
  }
  return false;
}

// ---- Envoy

void GrpcSession::should_rate_limit(H2Stream& stream, std::string_view message) {
  Deadline deadline;
  if (const std::string_view timeout = stream.request().field("grpc-timeout"); !timeout.empty()) {
    const auto parsed = wire::parse_grpc_timeout(timeout);
    if (!parsed) return refuse(stream, GrpcCode::internal, "the grpc-timeout makes no sense");
    deadline = deadline_in(*parsed, received());
    // Nobody waits for what is late already: it must not be charged. (Proxies wait for longer than
    // what came together takes, and need no look at the clock for it.)
    constexpr std::chrono::milliseconds shortest{10};
    if (*parsed < shortest && Later(*this, stream).is_past(*deadline)) {
      return refuse(stream, GrpcCode::deadline_exceeded, "it was too late when it came");
    }
  }
  const envoy::Call* const call = EnvoyMessages::of_this_thread().read(message);
  if (call == nullptr) return refuse(stream, GrpcCode::internal, "this is no RateLimitRequest");
  if (!service_.envoy.should_rate_limit) {
    return refuse(stream, GrpcCode::unknown, "no rate limit configuration loaded");
  }
  service_.envoy.should_rate_limit(
      *call, link_of_this_thread(),
      [later = Later(*this, stream), deadline](const Result<envoy::Answer, envoy::Failure>& made) {
        const bool late = deadline && later.is_past(*deadline);
        later.answer([&](H2Stream& its_stream, H2Machine& machine) {
          if (late) {
            return server::refuse(machine, its_stream, GrpcCode::deadline_exceeded,
                                  "it has taken too long");
          }
          if (!made) {
            const envoy::Failure& failure = made.error();
            return server::refuse(machine, its_stream,
                                  failure.store ? GrpcCode::unavailable : GrpcCode::unknown,
                                  failure.text);
          }
          EnvoyMessages::append(its_stream.answer, *made);
          finish_message(machine, its_stream);
        });
      });
}

// ---- Health

// Who wants to be told of changes, and what it was told.
struct GrpcSession::Watcher final : wire::H2Guest {
  std::string name{};
  Health last = Health::unknown;
};

void GrpcSession::check_health(H2Stream& stream, std::string_view message) {
  std::string name;
  if (!read_health_request(message, name)) {
    return refuse(stream, GrpcCode::internal, "this is no HealthCheckRequest");
  }
  const Health health = health_of(service_, name);
  if (health == Health::service_unknown) {
    return refuse(stream, GrpcCode::not_found, "there is no such service");
  }
  append_health(stream.answer, health);
  finish_message(machine_, stream);
}

void GrpcSession::watch_health(H2Stream& stream, std::string_view message) {
  auto watcher = std::make_unique<Watcher>();
  if (!read_health_request(message, watcher->name)) {
    return refuse(stream, GrpcCode::internal, "this is no HealthCheckRequest");
  }
  start_answers(machine_, stream);
  tell(stream, *watcher);
  if (machine_.is_draining()) {
    return finish_answers(machine_, stream, GrpcCode::unavailable, "weir is ending");
  }
  stream.guest = std::move(watcher);
}

void GrpcSession::tell(H2Stream& stream, Watcher& watcher) {
  const Health health = health_of(service_, watcher.name);
  if (health == watcher.last) return;
  watcher.last = health;
  append_health(stream.answer, health);
  machine_.go_on(stream);
}

bool GrpcSession::look_around() {
  for (H2Stream* const stream : machine_.streams()) {
    if (auto* const watcher = dynamic_cast<Watcher*>(stream->guest.get())) tell(*stream, *watcher);
  }
  return H2Session::look_around() || machine_.has_more();
}

// What would never end is ended.
void GrpcSession::on_drain() {
  for (H2Stream* const stream : machine_.streams()) {
    auto* const watcher = dynamic_cast<Watcher*>(stream->guest.get());
    if (watcher != nullptr) tell(*stream, *watcher);
    const bool is_reflection = stream->is_answered() && takes_parts(*stream);
    if (stream->is_finished() || (watcher == nullptr && !is_reflection)) continue;
    finish_answers(machine_, *stream, GrpcCode::unavailable, "weir is ending");
  }
}

// ---- What there is to ask for

void GrpcSession::take_parts(H2Stream& stream) {
  const auto end = [&](GrpcCode code, std::string_view text) {
    finish_answers(machine_, stream, code, text);
  };
  if (stream.flaw() != 0) return end(GrpcCode::resource_exhausted, "the message is too long");
  if (machine_.unsent() > kLimits.unsent) {
    return end(GrpcCode::resource_exhausted, "the answers are not taken");
  }
  std::string& parts = stream.parts();
  std::size_t used = 0;
  GrpcMessage read;
  while (read = wire::read_grpc_message(std::string_view(parts).substr(used), kMostMessage),
         read.status == GrpcMessage::Status::whole) {
    if (!reflect(read.message, stream.answer)) {
      return end(GrpcCode::internal, "this is no ServerReflectionRequest");
    }
    used += read.size;
  }
  parts.erase(0, used);
  if (read.status != GrpcMessage::Status::need_more) {
    return end(GrpcCode::internal, "the body is no message of gRPC");
  }
  machine_.go_on(stream);
  if (!stream.is_whole()) return;
  parts.empty() ? end(GrpcCode::ok, {}) : end(GrpcCode::internal, "the last message is cut off");
}

}  // namespace weir::server
