#include "server/grpc_health.h"

#include <grpc/health/v1/health.pb.h>

#include "server/grpc_response.h"

namespace weir::server {

HealthStatus health_of(const ServerContext& context, std::string_view name) {
  // (envoyproxy/ratelimit reports its health as "ratelimit".)
  const bool is_rate_limit =
      name == "ratelimit" || name == "envoy.service.ratelimit.v3.RateLimitService";
  if (!name.empty() && !is_rate_limit) return HealthStatus::service_unknown;
  const bool is_configured =
      !is_rate_limit || (context.envoy.is_configured && context.envoy.is_configured());
  return is_configured && !context.is_draining ? HealthStatus::serving : HealthStatus::not_serving;
}

bool read_health_request(std::string_view message, std::string& name) {
  grpc::health::v1::HealthCheckRequest request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) return false;
  name = std::move(*request.mutable_service());
  return true;
}

void append_health(std::string& out, HealthStatus health) {
  grpc::health::v1::HealthCheckResponse response;
  response.set_status(static_cast<grpc::health::v1::HealthCheckResponse::ServingStatus>(health));
  append_message(out, response);
}

}  // namespace weir::server
