#pragma once

#include "server/h2_session.h"
#include "wire/grpc.h"

namespace weir::server {

// A connection that speaks gRPC: Envoy's rate limit service, health, and what there is to ask for.
// Used by the thread that made it.
class GrpcSession final : public H2Session {
 public:
  explicit GrpcSession(Service& service);

  bool look_around() override;

  // Of a message.
  static constexpr std::size_t kMostMessage = 1 << 20;
  // Of one to a method that needs no password, from a client without: enough for a service's name.
  static constexpr std::size_t kMostStrangersMessage = 4 << 10;
  // Said to whom there is no room for, and to those who do not speak TLS.
  static std::string too_many();
  static std::string not_tls();

 private:
  struct Method;
  struct Watcher;

  bool takes_parts(const wire::H2Stream& stream) override;
  std::size_t most_body(const wire::H2Stream& stream) override;
  void on_request(wire::H2Stream& stream) override;
  void on_drain() override;

  static const Method* find(std::string_view path);
  bool refuses(wire::H2Stream& stream, const Method* method);
  bool is_let_in(const wire::H2Stream& stream) const;
  void refuse(wire::H2Stream& stream, wire::GrpcCode code, std::string_view text);
  void take_parts(wire::H2Stream& stream);

  // The methods. `message` is what came with the call.
  void should_rate_limit(wire::H2Stream& stream, std::string_view message);
  void check_health(wire::H2Stream& stream, std::string_view message);
  void watch_health(wire::H2Stream& stream, std::string_view message);

  void tell(wire::H2Stream& stream, Watcher& watcher);
};

}  // namespace weir::server
