#include "store/redis/handshake.h"

#include "store/redis/errors.h"

namespace weir::store::redis {

void Handshake::send(Sent sent, std::initializer_list<std::string_view> words, std::string& out) {
  append_resp(out, {words.begin(), words.size()});
  sent_.push_back(sent);
}

void Handshake::begin(std::string& out) {
  sent_ = {};
  server_error_.clear();
  speaks_resp3_ = false;
  send_hello(!login_.only_if_demanded, out);
}

void Handshake::send_hello(bool with_password, std::string& out) {
  const std::string_view name = login_.client_name;
  sent_password_ = with_password && !login_.password.empty();
  if (!sent_password_) {
    send(Sent::hello, {"HELLO", "3", "SETNAME", name}, out);
    return;
  }
  const std::string_view user = login_.user.empty() ? std::string_view{"default"} : login_.user;
  send(Sent::hello, {"HELLO", "3", "AUTH", user, login_.password, "SETNAME", name}, out);
}

// For servers before version 6, which do not know HELLO.
void Handshake::send_resp2_login(std::string& out) {
  if (!login_.user.empty()) {
    send(Sent::required, {"AUTH", login_.user, login_.password}, out);
  } else if (!login_.password.empty()) {
    send(Sent::required, {"AUTH", login_.password}, out);
  }
  send(Sent::optional, {"CLIENT", "SETNAME", login_.client_name}, out);
  send_setup(out);
}

void Handshake::send_setup(std::string& out) {
  if (login_.database != 0) {
    send(Sent::required, {"SELECT", std::to_string(login_.database)}, out);
  }
  if (login_.to_master) send(Sent::role, {"ROLE"}, out);
  if (login_.version.empty()) return;
  send(Sent::optional, {"CLIENT", "SETINFO", "LIB-NAME", "weir"}, out);
  send(Sent::optional, {"CLIENT", "SETINFO", "LIB-VER", login_.version}, out);
}

Handshake::HandshakeProgress Handshake::on_reply(std::span<const wire::RespValue> reply,
                                                 std::string& out) {
  if (sent_.empty()) return HandshakeProgress::done;
  const Sent sent = sent_.pop_front();
  const wire::RespValue& head = reply.front();
  if (head.kind == wire::RespValue::Kind::error) return on_error(sent, head.text, out);
  if (sent == Sent::role) return on_role(reply);
  if (sent == Sent::hello) {
    speaks_resp3_ = true;
    send_setup(out);
  }
  return sent_.empty() ? HandshakeProgress::done : HandshakeProgress::more;
}

Handshake::HandshakeProgress Handshake::on_role(std::span<const wire::RespValue> role) {
  if (role.size() > 1 && role[1].text == "master") {
    return sent_.empty() ? HandshakeProgress::done : HandshakeProgress::more;
  }
  server_error_ = "this server is not the master";
  failure_ = CallFailure::unavailable;
  return HandshakeProgress::failed;
}

Handshake::HandshakeProgress Handshake::on_error(Sent sent, std::string_view error,
                                                 std::string& out) {
  // An old server does not know an optional command.
  if (sent == Sent::optional)
    return sent_.empty() ? HandshakeProgress::done : HandshakeProgress::more;
  server_error_ = error;
  const bool demands_password = error.starts_with("NOAUTH") && !login_.password.empty();
  if (sent == Sent::hello && demands_password && !sent_password_) {
    send_hello(true, out);
    return HandshakeProgress::more;
  }
  const bool knows_no_hello = error.starts_with("ERR") || error.starts_with("NOPROTO");
  if (sent == Sent::hello && knows_no_hello) {
    send_resp2_login(out);
    return HandshakeProgress::more;
  }
  failure_ = meaning_of(error).what == ErrorClass::unavailable ? CallFailure::unavailable
                                                               : CallFailure::misconfigured;
  return HandshakeProgress::failed;
}

}  // namespace weir::store::redis
