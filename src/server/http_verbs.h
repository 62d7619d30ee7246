#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_responder.h"
#include "server/server_context.h"
#include "wire/json.h"

namespace weir::server {

// The result of a verb: a status and a verdict for the fields of the response, or an error. The
// JSON body comes beside it.
struct Reply {
  int status = 200;
  std::optional<Verdict> verdict{};
  std::string_view limit{};  // of throttle: the limit that came with the call
  std::string error{};
  std::string_view error_field{};
};

// Called once with the result: before the verb returns, or later if the fleet has to be asked. The
// parameters of the call may be gone by then.
using ReplyCallback = std::function<void(const Reply& reply, std::string_view body)>;

void take(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void peek(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void settle(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void reset(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void enter(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void leave(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void explain(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);
void throttle(ServerContext& context, const wire::ApiRequest& params, ReplyCallback done);

// The engine's request. Borrows from the parameters.
Request request_of(const wire::ApiRequest& params);

// Sends a reply, with the rate limit fields. `refused_status` is the status of refusals.
void send_reply(HttpResponder& response, ServerContext& context, std::string_view policy,
                const Reply& reply, std::string_view body, int refused_status = 429);
// Sends the response to a take that was decided.
void send_verdict(HttpResponder& response, ServerContext& context, const Request& request,
                  Verdict& verdict);

// An empty buffer for the body of one response. One for each thread: valid until the next call.
std::string& scratch_body();

}  // namespace weir::server
