#include "server/grpc_health.h"

#include <grpc/health/v1/health.pb.h>

#include "server/grpc_answer.h"

namespace weir::server {

Health health_of(const Service& service, std::string_view name) {
  // (The first is what envoyproxy/ratelimit calls it.)
  const bool is_envoys =
      name == "ratelimit" || name == "envoy.service.ratelimit.v3.RateLimitService";
  if (!name.empty() && !is_envoys) return Health::service_unknown;
  const bool is_there =
      !is_envoys || (service.envoy.is_configured && service.envoy.is_configured());
  return is_there && !service.ending ? Health::serving : Health::not_serving;
}

bool read_health_request(std::string_view message, std::string& name) {
  grpc::health::v1::HealthCheckRequest request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) return false;
  name = std::move(*request.mutable_service());
  return true;
}

void append_health(std::string& out, Health health) {
  grpc::health::v1::HealthCheckResponse response;
  response.set_status(static_cast<grpc::health::v1::HealthCheckResponse::ServingStatus>(health));
  append_message(out, response);
}

}  // namespace weir::server
