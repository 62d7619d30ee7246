#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "server/format.h"
#include "server/resp_session.h"
#include "server/version.h"

// The commands of Redis about the connection: PING, AUTH, HELLO, CLIENT, SELECT, QUIT, …

namespace weir::server {

using wire::RespWriter;

void RespSession::ping(RespArguments arguments, std::string& out) {
  arguments.size() == 2 ? reply(out).bulk(arguments[1]) : reply(out).simple("PONG");
}

void RespSession::echo(RespArguments arguments, std::string& out) { reply(out).bulk(arguments[1]); }

// There are two users: "default", whose secret is the password or the token, and "admin", whose
// secret is the token.
bool RespSession::authenticate(std::string_view user, std::string_view secret) {
  const Access& access = context_.access;
  const bool admin = !access.admin_token.empty() && same_secret(secret, access.admin_token);
  const bool known =
      user == "default" && !access.password.empty() && same_secret(secret, access.password);
  rights_.admin |= admin && (user == "admin" || user == "default");
  rights_.has_password |= known;
  return known || (admin && (user == "admin" || user == "default"));
}

void RespSession::auth(RespArguments arguments, std::string& out) {
  const Access& access = context_.access;
  if (access.password.empty() && access.admin_token.empty()) {
    return reply(out).error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view user = arguments.size() == 3 ? arguments[1] : "default";
  if (authenticate(user, arguments.back())) return reply(out).simple("OK");
  reply(out).error("WRONGPASS invalid username-password pair or user is disabled.");
}

void RespSession::hello(RespArguments arguments, std::string& out) {
  int protocol = protocol_;
  if (arguments.size() > 1) {
    const auto version = whole_number(arguments[1]);
    if (!version || *version < 2 || *version > 3) {
      return reply(out).error("NOPROTO unsupported protocol version");
    }
    protocol = static_cast<int>(*version);
  }
  std::string_view name = name_;
  RespArguments credentials;  // a user and a secret
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t behind = arguments.size() - 1 - i;
    if (is_keyword(arguments[i], "AUTH") && behind >= 2) {
      credentials = arguments.subspan(i + 1, 2);
      i += 2;
    } else if (is_keyword(arguments[i], "SETNAME") && behind >= 1) {
      name = arguments[++i];
    } else {
      return reply(out).error("ERR Syntax error in HELLO option");
    }
  }
  // After all options are checked: a HELLO with an error changes nothing.
  const bool has_no_secrets =
      context_.access.password.empty() && context_.access.admin_token.empty();
  if (!credentials.empty() && !has_no_secrets && !authenticate(credentials[0], credentials[1])) {
    return reply(out).error("WRONGPASS invalid username-password pair or user is disabled.");
  }
  if (!rights_.may_call(context_.access)) {
    return reply(out).error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  name_ = std::string{name};
  protocol_ = protocol;
  RespWriter writer = reply(out);
  writer.map(7);
  writer.bulk("server");
  writer.bulk("weir");
  writer.bulk("version");
  writer.bulk(kVersion);
  writer.bulk("proto");
  writer.integer(protocol_);
  writer.bulk("id");
  writer.integer(static_cast<std::int64_t>(id_));
  writer.bulk("mode");
  writer.bulk("standalone");
  writer.bulk("role");
  writer.bulk("master");
  writer.bulk("modules");
  writer.array(0);
}

void RespSession::client(RespArguments arguments, std::string& out) {
  const std::string_view verb = arguments[1];
  if (is_keyword(verb, "SETNAME") && arguments.size() == 3) {
    name_ = std::string{arguments[2]};
    return reply(out).simple("OK");
  }
  if (is_keyword(verb, "GETNAME") && arguments.size() == 2) {
    return name_.empty() ? reply(out).null() : reply(out).bulk(name_);
  }
  if (is_keyword(verb, "ID") && arguments.size() == 2) {
    return reply(out).integer(static_cast<std::int64_t>(id_));
  }
  // Accepted without an effect: client libraries send them on connecting.
  const bool is_ignored =
      is_keyword(verb, "SETINFO") || is_keyword(verb, "NO-EVICT") || is_keyword(verb, "NO-TOUCH");
  if (is_ignored) return reply(out).simple("OK");
  reply(out).error(fmt::format("ERR unknown subcommand '{}'.", shortened(verb)));
}

// redis-benchmark calls CONFIG GET, and works with an empty reply.
void RespSession::config(RespArguments arguments, std::string& out) {
  if (is_keyword(arguments[1], "GET")) return reply(out).map(0);
  reply(out).error(fmt::format("ERR unknown subcommand '{}'.", shortened(arguments[1])));
}

void RespSession::info(RespArguments, std::string& out) { reply(out).bulk(context_.info()); }

void RespSession::select(RespArguments arguments, std::string& out) {
  const auto index = whole_number(arguments[1]);
  if (!index) return reply(out).error("ERR value is not an integer or out of range");
  if (*index != 0) return reply(out).error("ERR DB index is out of range");
  reply(out).simple("OK");
}

void RespSession::quit(RespArguments, std::string& out) {
  reply(out).simple("OK");
  ends_ = true;
}

void RespSession::reset(RespArguments, std::string& out) {
  protocol_ = 2;
  name_.clear();
  rights_ = {.loopback = rights_.loopback};
  reply(out).simple("RESET");
}

}  // namespace weir::server
