#pragma once

#include "server/http_call.h"

namespace weir::server {

// Finds who answers a request, and lets it answer.
void route(HttpCall& call);

// Whether the body of a request can change its answer. If not, `route` answers it without.
bool needs_body(const Service& service, const wire::HttpRequest& request, const net::Peer& peer);

}  // namespace weir::server
