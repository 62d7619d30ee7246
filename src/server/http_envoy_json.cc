// Envoy's rate limit service for those who ask by HTTP: as envoyproxy/ratelimit answers them.

#include "server/envoy_messages.h"
#include "server/http_handlers.h"
#include "server/links.h"

namespace weir::server {

namespace {

// Its words: what is wrong with a call is only told by gRPC.
void refuse(HttpAnswer& answer, int status) {
  answer.respond(status, "text/plain; charset=utf-8",
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

// (Any content type: theirs does not look at it. But that the store cannot be asked is no fault of
// the call.)
void on_envoy_json(HttpCall& call) {
  const envoy::Call* const asked = EnvoyMessages::of_this_thread().read_json(call.request.body);
  if (asked == nullptr || !call.service.envoy.should_rate_limit) return refuse(call.answer(), 400);
  call.service.envoy.should_rate_limit(
      *asked, link_of_this_thread(),
      [later = call.later()](const Result<envoy::Answer, envoy::Failure>& made) {
        later.answer([&](HttpAnswer& answer) {
          if (!made) return refuse(answer, made.error().store ? 503 : 400);
          const int status = status_of(made->overall);
          answer.json(status, EnvoyMessages::to_json(*made), status == 200 ? "" : kNotToKeep);
        });
      });
}

// What /readyz says, where balancers in front of envoyproxy/ratelimit look for it.
void show_envoy_health(HttpCall& call) {
  const bool ending = call.service.ending;
  call.answer().respond(ending ? 500 : 200, "text/plain; charset=utf-8", ending ? "" : "OK");
}

}  // namespace weir::server
