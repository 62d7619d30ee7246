#pragma once

#include <string>
#include <string_view>

#include "server/server_context.h"

namespace weir::server {

// Numbered as in grpc.health.v1.
enum class HealthStatus : std::uint8_t { unknown, serving, not_serving, service_unknown };

// The health of the gRPC service with this name; empty: of the whole daemon.
HealthStatus health_of(const ServerContext& context, std::string_view name);

// Reads the service name of a HealthCheckRequest; false if the message is malformed.
bool read_health_request(std::string_view message, std::string& name);

// Appends a HealthCheckResponse.
void append_health(std::string& out, HealthStatus health);

}  // namespace weir::server
