#include "server/server_context.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/ascii.h"
#include "server/version.h"

namespace weir::server {

bool same_secret(std::string_view given, std::string_view secret) noexcept {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i] ^ other);
  }
  return difference == 0;
}

Rights rights_from(std::string_view authorization, const Access& access) {
  Rights rights;
  constexpr std::string_view scheme = "Bearer ";
  if (!same_ignoring_case(authorization.substr(0, scheme.size()), scheme)) return rights;
  std::string_view secret = authorization.substr(scheme.size());
  secret.remove_prefix(std::min(secret.find_first_not_of(' '), secret.size()));
  rights.has_password = !access.password.empty() && same_secret(secret, access.password);
  rights.admin = !access.admin_token.empty() && same_secret(secret, access.admin_token);
  return rights;
}

std::string ServerContext::info() const {
  const net::LoopCounts connections = loops.counts();
  return fmt::format(
      "# Server\r\nweir_version:{}\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
      "process_id:{}\r\n\r\n"
      "# Clients\r\nconnected_clients:{}\r\nrejected_connections:{}\r\n\r\n"
      "# Stats\r\ntotal_connections_received:{}\r\n\r\n"
      "# Weir\r\ngeneration:{}\r\npolicies:{}\r\nreloads:{}\r\nfailed_reloads:{}\r\n",
      kVersion, getpid(), connections.open, connections.rejected, connections.accepted,
      engine.generation(), policies.count(), reloads.succeeded.load(), reloads.failed.load());
}

}  // namespace weir::server
