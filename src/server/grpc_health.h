#pragma once

#include <string>
#include <string_view>

#include "server/service.h"

namespace weir::server {

// As grpc.health.v1 numbers them.
enum class Health : std::uint8_t { unknown, serving, not_serving, service_unknown };

// How it is with a service of that name; empty: with all.
Health health_of(const Service& service, std::string_view name);

// The name in a HealthCheckRequest; false if it is none.
bool read_health_request(std::string_view message, std::string& name);

// Appends a message with it.
void append_health(std::string& out, Health health);

}  // namespace weir::server
