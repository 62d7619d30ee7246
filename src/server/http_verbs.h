#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_answer.h"
#include "server/service.h"
#include "wire/json.h"

namespace weir::server {

// What a verb answers: a status, and JSON in a body; `verdict` is what there is to tell in fields.
// Or why it cannot be done.
struct Reply {
  int status = 200;
  std::optional<Verdict> verdict{};
  std::string_view limit{};  // what was asked about, if it is no policy
  std::string error{};
  std::string_view error_field{};
};

// Who is told it, once, perhaps before the verb returns: some have to ask the fleet. What was asked
// is gone by then.
using Told = std::function<void(const Reply& reply, std::string_view body)>;

void take(Service& service, const wire::ApiRequest& asked, Told told);
void peek(Service& service, const wire::ApiRequest& asked, Told told);
void settle(Service& service, const wire::ApiRequest& asked, Told told);
void reset(Service& service, const wire::ApiRequest& asked, Told told);
void enter(Service& service, const wire::ApiRequest& asked, Told told);
void leave(Service& service, const wire::ApiRequest& asked, Told told);
void explain(Service& service, const wire::ApiRequest& asked, Told told);
void throttle(Service& service, const wire::ApiRequest& asked, Told told);

// What a body asks the engine for.
Request request_of(const wire::ApiRequest& asked);

// Sends a reply, with the fields that tell about limits. `refusal` is the status of what was
// refused.
void tell(HttpAnswer& answer, Service& service, std::string_view policy, const Reply& reply,
          std::string_view body, int refusal = 429);
// Sends the answer to a take that was decided.
void tell(HttpAnswer& answer, Service& service, const Request& request, Verdict& verdict);

// For the body of one answer, on memory that is used again.
std::string& scratch_body();

}  // namespace weir::server
