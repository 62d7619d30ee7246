#pragma once

#include "server/h2_session.h"
#include "wire/grpc.h"

namespace weir::server {

// A gRPC connection: Envoy's rate limit service, health checks and reflection.
// Used by the thread that made it.
class GrpcSession final : public H2Session {
 public:
  explicit GrpcSession(ServerContext& context);

  bool on_tick() override;

  // Bytes of a message.
  static constexpr std::size_t kMaxMessage = 1 << 20;
  // Bytes of a message to a public method, from a client without the password: enough for the name
  // of a service.
  static constexpr std::size_t kMaxPublicMessage = 4 << 10;
  // Sent to a client that is turned away as there are too many, and to one that does not speak TLS.
  static std::string overloaded();
  static std::string tls_only();

 private:
  struct Method;
  struct HealthWatch;

  bool takes_parts(const wire::H2Stream& stream) override;
  std::size_t most_body(const wire::H2Stream& stream) override;
  void on_request(wire::H2Stream& stream) override;
  void on_drain() override;

  static const Method* find(std::string_view path);
  bool refuses(wire::H2Stream& stream, const Method* method);
  bool is_authenticated(const wire::H2Stream& stream) const;
  void refuse(wire::H2Stream& stream, wire::GrpcCode code, std::string_view text);
  void reflect_all(wire::H2Stream& stream);

  // The unary and server-streaming methods; `message` is the request.
  void should_rate_limit(wire::H2Stream& stream, std::string_view message);
  void check_health(wire::H2Stream& stream, std::string_view message);
  void watch_health(wire::H2Stream& stream, std::string_view message);

  void send_if_changed(wire::H2Stream& stream, HealthWatch& watch);
};

}  // namespace weir::server
