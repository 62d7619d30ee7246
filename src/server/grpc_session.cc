#include "server/grpc_session.h"

#include <array>
#include <chrono>
#include <optional>

#include "server/envoy_messages.h"
#include "server/grpc_health.h"
#include "server/grpc_reflection.h"
#include "server/grpc_response.h"
#include "server/thread_link.h"

namespace weir::server {

using wire::GrpcCode;
using wire::GrpcMessage;
using wire::H2Stream;
using wire::Http2Server;

namespace {

using SteadyClock = std::chrono::steady_clock;

// A message with its length prefix.
constexpr wire::H2Limits kLimits{.body = GrpcSession::kMaxMessage + wire::kGrpcPrefix};

// None: no deadline.
using CallDeadline = std::optional<SteadyClock::time_point>;

CallDeadline deadline_in(Nanos timeout, SteadyClock::time_point now) {
  if (timeout > SteadyClock::time_point::max() - now) return std::nullopt;
  return now + timeout;
}

}  // namespace

struct GrpcSession::Method {
  using MethodHandler = void (GrpcSession::*)(H2Stream&, std::string_view);

  std::string_view path;
  MethodHandler handler;   // none: a bidirectional stream, whose messages are read as they come
  bool is_public = false;  // needs no password
};

const GrpcSession::Method* GrpcSession::find(std::string_view path) {
  // The most frequent one first.
  static constexpr std::array all{
      Method{"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
             &GrpcSession::should_rate_limit},
      Method{"/grpc.health.v1.Health/Check", &GrpcSession::check_health, true},
      Method{"/grpc.health.v1.Health/Watch", &GrpcSession::watch_health, true},
      Method{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nullptr},
      Method{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", nullptr},
  };
  for (const Method& method : all) {
    if (method.path == path) return &method;
  }
  return nullptr;
}

GrpcSession::GrpcSession(ServerContext& context)
    : H2Session(context, ListenerKind::grpc, kLimits) {}

std::string GrpcSession::overloaded() {
  return Http2Server::refusal(wire::H2Error::calm, "too many connections");
}

std::string GrpcSession::tls_only() {
  return Http2Server::refusal(wire::H2Error::none, "this port speaks TLS only");
}

// ---- Calls

bool GrpcSession::takes_parts(const H2Stream& stream) {
  const Method* const method = find(stream.request().path);
  return method != nullptr && method->handler == nullptr;
}

std::size_t GrpcSession::most_body(const H2Stream& stream) {
  const Method* const method = find(stream.request().path);
  if (method == nullptr) return 0;
  if (is_authenticated(stream)) return SIZE_MAX;
  return method->is_public ? kMaxPublicMessage + wire::kGrpcPrefix : 0;
}

void GrpcSession::on_request(H2Stream& stream) {
  if (!stream.is_answered()) {
    count_request();
    const Method* const method = find(stream.request().path);
    if (refuses(stream, method)) return;
    if (method->handler != nullptr) {
      const std::string_view body = stream.request().body;
      const GrpcMessage read = wire::read_grpc_message(body, kMaxMessage);
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
            return refuse(stream, GrpcCode::unimplemented, "the call has no message");
          }
          [[fallthrough]];
        case GrpcMessage::Status::malformed:
          return refuse(stream, GrpcCode::internal, "the body is not a gRPC message");
      }
      // (The status that gRPC prescribes for a cardinality violation.)
      return refuse(stream, GrpcCode::unimplemented, "the call has more than one message");
    }
    start_streaming(machine_, stream);
  }
  reflect_all(stream);
}

void GrpcSession::refuse(H2Stream& stream, GrpcCode code, std::string_view text) {
  server::refuse(machine_, stream, code, text);
}

bool GrpcSession::is_authenticated(const H2Stream& stream) const {
  return rights_from(stream.request().authorization, context_.access).may_call(context_.access);
}

// True: the call was refused before its message is read.
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
  if (request.method != "POST") return refuse_as_http(405, "gRPC calls use the method POST");
  if (!wire::is_grpc(request.content_type)) {
    return refuse_as_http(415, "the content-type must be application/grpc");
  }
  if (method == nullptr) return refuse_it(GrpcCode::unimplemented, "there is no such method");
  if (!method->is_public && !is_authenticated(stream)) {
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
  CallDeadline deadline;
  if (const std::string_view timeout = stream.request().field("grpc-timeout"); !timeout.empty()) {
    const auto parsed = wire::parse_grpc_timeout(timeout);
    if (!parsed) return refuse(stream, GrpcCode::internal, "the grpc-timeout is malformed");
    deadline = deadline_in(*parsed, received());
    // A call whose deadline has passed must not be charged: its client no longer waits. Only short
    // timeouts are checked here, as reading the clock costs as much as a decision.
    constexpr std::chrono::milliseconds checked_below{10};
    if (*parsed < checked_below && StreamHandle(*this, stream).is_past(*deadline)) {
      return refuse(stream, GrpcCode::deadline_exceeded,
                    "the deadline of this call had already passed");
    }
  }
  const envoy::RateLimitRequest* const call = EnvoyMessages::of_this_thread().read(message);
  if (call == nullptr) {
    return refuse(stream, GrpcCode::internal, "the message is not a RateLimitRequest");
  }
  if (!context_.envoy.should_rate_limit) {
    return refuse(stream, GrpcCode::unknown, "no rate limit configuration loaded");
  }
  context_.envoy.should_rate_limit(
      *call, link_of_this_thread(),
      [handle = StreamHandle(*this, stream),
       deadline](const Result<envoy::RateLimitResponse, envoy::ServiceError>& result) {
        const bool is_late = deadline && handle.is_past(*deadline);
        handle.respond([&](H2Stream& open_stream, Http2Server& machine) {
          if (is_late) {
            return server::refuse(machine, open_stream, GrpcCode::deadline_exceeded,
                                  "the deadline passed before the call was decided");
          }
          if (!result) {
            const envoy::ServiceError& failure = result.error();
            return server::refuse(machine, open_stream,
                                  failure.store ? GrpcCode::unavailable : GrpcCode::unknown,
                                  failure.text);
          }
          EnvoyMessages::append(open_stream.answer, *result);
          respond_ok(machine, open_stream);
        });
      });
}

// ---- Health

// A client that watches the health of a service. Attached to its stream.
struct GrpcSession::HealthWatch final : wire::StreamData {
  std::string name{};
  HealthStatus last = HealthStatus::unknown;  // as last sent
};

void GrpcSession::check_health(H2Stream& stream, std::string_view message) {
  std::string name;
  if (!read_health_request(message, name)) {
    return refuse(stream, GrpcCode::internal, "the message is not a HealthCheckRequest");
  }
  const HealthStatus health = health_of(context_, name);
  if (health == HealthStatus::service_unknown) {
    return refuse(stream, GrpcCode::not_found, "there is no such service");
  }
  append_health(stream.answer, health);
  respond_ok(machine_, stream);
}

void GrpcSession::watch_health(H2Stream& stream, std::string_view message) {
  auto watch = std::make_unique<HealthWatch>();
  if (!read_health_request(message, watch->name)) {
    return refuse(stream, GrpcCode::internal, "the message is not a HealthCheckRequest");
  }
  start_streaming(machine_, stream);
  send_if_changed(stream, *watch);
  if (machine_.is_draining()) {
    return end_streaming(machine_, stream, GrpcCode::unavailable, "weir is shutting down");
  }
  stream.guest = std::move(watch);
}

void GrpcSession::send_if_changed(H2Stream& stream, HealthWatch& watch) {
  const HealthStatus health = health_of(context_, watch.name);
  if (health == watch.last) return;
  watch.last = health;
  append_health(stream.answer, health);
  machine_.go_on(stream);
}

bool GrpcSession::on_tick() {
  for (H2Stream* const stream : machine_.streams()) {
    auto* const watch = dynamic_cast<HealthWatch*>(stream->guest.get());
    if (watch != nullptr) send_if_changed(*stream, *watch);
  }
  return H2Session::on_tick() || machine_.has_more();
}

// Ends the streams that would stay open as long as the client likes: health watches and reflection.
void GrpcSession::on_drain() {
  for (H2Stream* const stream : machine_.streams()) {
    auto* const watch = dynamic_cast<HealthWatch*>(stream->guest.get());
    if (watch != nullptr) send_if_changed(*stream, *watch);
    const bool is_reflection = stream->is_answered() && takes_parts(*stream);
    if (stream->is_finished() || (watch == nullptr && !is_reflection)) continue;
    end_streaming(machine_, *stream, GrpcCode::unavailable, "weir is shutting down");
  }
}

// ---- Reflection

// Answers the messages that have arrived on a reflection stream.
void GrpcSession::reflect_all(H2Stream& stream) {
  const auto end = [&](GrpcCode code, std::string_view text) {
    end_streaming(machine_, stream, code, text);
  };
  if (stream.flaw() != 0) return end(GrpcCode::resource_exhausted, "the message is too long");
  if (machine_.unsent() > kLimits.unsent) {
    return end(GrpcCode::resource_exhausted, "the client does not read the responses");
  }
  std::string& parts = stream.parts();
  std::size_t used = 0;
  GrpcMessage read;
  while (read = wire::read_grpc_message(std::string_view(parts).substr(used), kMaxMessage),
         read.status == GrpcMessage::Status::whole) {
    if (!reflect(read.message, stream.answer)) {
      return end(GrpcCode::internal, "the message is not a ServerReflectionRequest");
    }
    used += read.size;
  }
  parts.erase(0, used);
  if (read.status != GrpcMessage::Status::need_more) {
    return end(GrpcCode::internal, "the body is not a gRPC message");
  }
  machine_.go_on(stream);
  if (!stream.is_whole()) return;
  parts.empty() ? end(GrpcCode::ok, {}) : end(GrpcCode::internal, "the last message is cut off");
}

}  // namespace weir::server
