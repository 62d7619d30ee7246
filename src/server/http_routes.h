#pragma once

#include "server/http_call.h"

namespace weir::server {

// Finds who answers a request, and lets it answer.
void route(HttpCall& call);

}  // namespace weir::server
