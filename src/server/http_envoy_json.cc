// Envoy's rate limit service over HTTP and JSON, as the path /json of envoyproxy/ratelimit.

#include "server/envoy_messages.h"
#include "server/http_handlers.h"
#include "server/thread_link.h"

namespace weir::server {

namespace {

// The bodies of envoyproxy/ratelimit, which say what is wrong only over gRPC.
void refuse(HttpResponder& response, int status) {
  response.respond(status, "text/plain; charset=utf-8",
                   status == 400 ? "Bad Request\n" : "Service Unavailable\n");
}

int status_of(envoy::Code code) {
  switch (code) {
    case envoy::Code::ok:
      return 200;
    case envoy::Code::over_limit:
      return 429;
    case envoy::Code::unknown:
      break;
  }
  return 500;
}

}  // namespace

// Takes any Content-Type, as envoyproxy/ratelimit does. A store failure is a 503: it is not an
// error of the call.
void on_envoy_json(HttpCall& call) {
  const envoy::RateLimitRequest* const envoy_call =
      EnvoyMessages::of_this_thread().read_json(call.request.body);
  if (envoy_call == nullptr || !call.context.envoy.should_rate_limit) {
    return refuse(call.response(), 400);
  }
  call.context.envoy.should_rate_limit(
      *envoy_call, link_of_this_thread(),
      [deferred =
           call.defer()](const Result<envoy::RateLimitResponse, envoy::ServiceError>& result) {
        deferred.send([&](HttpResponder& response) {
          if (!result) return refuse(response, result.error().store ? 503 : 400);
          const int status = status_of(result->overall);
          response.json(status, EnvoyMessages::to_json(*result), status == 200 ? "" : kNoStore);
        });
      });
}

// The readiness of /readyz, at the path where load balancers in front of envoyproxy/ratelimit look.
void show_envoy_health(HttpCall& call) {
  const bool is_draining = call.context.is_draining;
  call.response().respond(is_draining ? 500 : 200, "text/plain; charset=utf-8",
                          is_draining ? "" : "OK");
}

}  // namespace weir::server
