#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http_answer.h"
#include "server/service.h"
#include "wire/json.h"

namespace weir::server {

// What a verb answers: a status, and JSON in `body`; `verdict` is what there is to tell in fields.
// Or why it cannot be done.
struct Reply {
  int status = 200;
  std::optional<Verdict> verdict{};
  std::string error{};
  std::string_view error_field{};
};

using Verb = Reply (*)(Service&, const wire::ApiRequest&, std::string& body);

Reply take(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply peek(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply settle(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply reset(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply enter(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply leave(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply explain(Service& service, const wire::ApiRequest& asked, std::string& body);
Reply throttle(Service& service, const wire::ApiRequest& asked, std::string& body);

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
