#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "server/resp_session.h"
#include "server/texts.h"
#include "server/version.h"

// What Redis clients say on connecting, and when they go.

namespace weir::server {

using wire::RespWriter;

void RespSession::ping(Arguments arguments, std::string& out) {
  arguments.size() == 2 ? answer(out).bulk(arguments[1]) : answer(out).simple("PONG");
}

void RespSession::echo(Arguments arguments, std::string& out) { answer(out).bulk(arguments[1]); }

// The user names no account: it may be "admin" for the token.
bool RespSession::log_in(std::string_view user, std::string_view secret) {
  const Access& access = service_.access;
  const bool admin = !access.admin_token.empty() && same_secret(secret, access.admin_token);
  const bool known =
      user == "default" && !access.password.empty() && same_secret(secret, access.password);
  rights_.admin |= admin && (user == "admin" || user == "default");
  rights_.let_in |= known;
  return known || (admin && (user == "admin" || user == "default"));
}

void RespSession::auth(Arguments arguments, std::string& out) {
  const Access& access = service_.access;
  if (access.password.empty() && access.admin_token.empty()) {
    return answer(out).error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view user = arguments.size() == 3 ? arguments[1] : "default";
  if (log_in(user, arguments.back())) return answer(out).simple("OK");
  answer(out).error("WRONGPASS invalid username-password pair or user is disabled.");
}

void RespSession::hello(Arguments arguments, std::string& out) {
  int protocol = protocol_;
  if (arguments.size() > 1) {
    const auto version = whole_number(arguments[1]);
    if (!version || *version < 2 || *version > 3) {
      return answer(out).error("NOPROTO unsupported protocol version");
    }
    protocol = static_cast<int>(*version);
  }
  std::string_view name = name_;
  Arguments login;  // a user and a secret
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t behind = arguments.size() - 1 - i;
    if (is_word(arguments[i], "AUTH") && behind >= 2) {
      login = arguments.subspan(i + 1, 2);
      i += 2;
    } else if (is_word(arguments[i], "SETNAME") && behind >= 1) {
      name = arguments[++i];
    } else {
      return answer(out).error("ERR Syntax error in HELLO option");
    }
  }
  // (Only now, as an error changes nothing.)
  const bool open = service_.access.password.empty() && service_.access.admin_token.empty();
  if (!login.empty() && !open && !log_in(login[0], login[1])) {
    return answer(out).error("WRONGPASS invalid username-password pair or user is disabled.");
  }
  if (!rights_.may_call(service_.access)) {
    return answer(out).error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  name_ = std::string{name};
  protocol_ = protocol;
  RespWriter say = answer(out);
  say.map(7);
  say.bulk("server");
  say.bulk("weir");
  say.bulk("version");
  say.bulk(kVersion);
  say.bulk("proto");
  say.integer(protocol_);
  say.bulk("id");
  say.integer(static_cast<std::int64_t>(id_));
  say.bulk("mode");
  say.bulk("standalone");
  say.bulk("role");
  say.bulk("master");
  say.bulk("modules");
  say.array(0);
}

void RespSession::client(Arguments arguments, std::string& out) {
  const std::string_view verb = arguments[1];
  if (is_word(verb, "SETNAME") && arguments.size() == 3) {
    name_ = std::string{arguments[2]};
    return answer(out).simple("OK");
  }
  if (is_word(verb, "GETNAME") && arguments.size() == 2) {
    return name_.empty() ? answer(out).null() : answer(out).bulk(name_);
  }
  if (is_word(verb, "ID") && arguments.size() == 2) {
    return answer(out).integer(static_cast<std::int64_t>(id_));
  }
  // What a client says about itself changes nothing here.
  const bool harmless =
      is_word(verb, "SETINFO") || is_word(verb, "NO-EVICT") || is_word(verb, "NO-TOUCH");
  if (harmless) return answer(out).simple("OK");
  answer(out).error(fmt::format("ERR unknown subcommand '{}'.", shortened(verb)));
}

void RespSession::config(Arguments arguments, std::string& out) {
  if (is_word(arguments[1], "GET")) return answer(out).map(0);
  answer(out).error(fmt::format("ERR unknown subcommand '{}'.", shortened(arguments[1])));
}

void RespSession::info(Arguments, std::string& out) { answer(out).bulk(service_.info()); }

void RespSession::select(Arguments arguments, std::string& out) {
  const auto index = whole_number(arguments[1]);
  if (!index) return answer(out).error("ERR value is not an integer or out of range");
  if (*index != 0) return answer(out).error("ERR DB index is out of range");
  answer(out).simple("OK");
}

void RespSession::quit(Arguments, std::string& out) {
  answer(out).simple("OK");
  ends_ = true;
}

void RespSession::reset(Arguments, std::string& out) {
  protocol_ = 2;
  name_.clear();
  rights_ = {.loopback = rights_.loopback};
  answer(out).simple("RESET");
}

}  // namespace weir::server
