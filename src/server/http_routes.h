#pragma once

#include "server/http_call.h"

namespace weir::server {

// Checks the rights of a call and passes it to the handler of its route, or answers with an error.
void route(HttpCall& call);

// True if the response depends on the body. Otherwise `route` answers without the body.
bool needs_body(const ServerContext& context, const wire::HttpRequest& request,
                const net::Peer& peer);

}  // namespace weir::server
