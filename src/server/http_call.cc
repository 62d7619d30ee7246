#include "server/http_call.h"

namespace weir::server {

Rights HttpCall::rights() const {
  Rights rights{.loopback = loopback_};
  constexpr std::string_view scheme = "Bearer ";
  const std::string_view given = request.authorization;
  if (!given.starts_with(scheme)) return rights;
  const std::string_view secret = given.substr(scheme.size());
  const Access& access = service.access;
  rights.let_in = !access.password.empty() && same_secret(secret, access.password);
  rights.admin = !access.admin_token.empty() && same_secret(secret, access.admin_token);
  return rights;
}

}  // namespace weir::server
