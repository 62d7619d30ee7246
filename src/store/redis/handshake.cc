#include "store/redis/handshake.h"

#include "store/redis/errors.h"

namespace weir::store::redis {

void Handshake::ask(Step step, std::initializer_list<std::string_view> words, std::string& out) {
  append_words(out, {words.begin(), words.size()});
  steps_.push_back(step);
}

void Handshake::begin(std::string& out) {
  steps_ = {};
  complaint_.clear();
  speaks_resp3_ = false;
  say_hello(!login_.only_if_demanded, out);
}

void Handshake::say_hello(bool with_password, std::string& out) {
  const std::string_view name = login_.client_name;
  said_password_ = with_password && !login_.password.empty();
  if (!said_password_) {
    ask(Step::hello, {"HELLO", "3", "SETNAME", name}, out);
    return;
  }
  const std::string_view user = login_.user.empty() ? std::string_view{"default"} : login_.user;
  ask(Step::hello, {"HELLO", "3", "AUTH", user, login_.password, "SETNAME", name}, out);
}

// As servers before version 6 want it, which know no users either.
void Handshake::log_in_the_old_way(std::string& out) {
  if (!login_.user.empty()) {
    ask(Step::needed, {"AUTH", login_.user, login_.password}, out);
  } else if (!login_.password.empty()) {
    ask(Step::needed, {"AUTH", login_.password}, out);
  }
  ask(Step::wanted, {"CLIENT", "SETNAME", login_.client_name}, out);
  settle_in(out);
}

void Handshake::settle_in(std::string& out) {
  if (login_.database != 0) {
    ask(Step::needed, {"SELECT", std::to_string(login_.database)}, out);
  }
  if (login_.to_master) ask(Step::role, {"ROLE"}, out);
  if (login_.version.empty()) return;
  ask(Step::wanted, {"CLIENT", "SETINFO", "LIB-NAME", "weir"}, out);
  ask(Step::wanted, {"CLIENT", "SETINFO", "LIB-VER", login_.version}, out);
}

Handshake::Status Handshake::on_reply(std::span<const wire::RespValue> reply, std::string& out) {
  if (steps_.empty()) return Status::done;
  const Step step = steps_.pop_front();
  const wire::RespValue& head = reply.front();
  if (head.kind == wire::RespValue::Kind::error) return on_complaint(step, head.text, out);
  if (step == Step::role) return on_role(reply);
  if (step == Step::hello) {
    speaks_resp3_ = true;
    settle_in(out);
  }
  return steps_.empty() ? Status::done : Status::more;
}

Handshake::Status Handshake::on_role(std::span<const wire::RespValue> role) {
  if (role.size() > 1 && role[1].text == "master") {
    return steps_.empty() ? Status::done : Status::more;
  }
  complaint_ = "this server is not the master any more, or not yet";
  failure_ = Failure::unavailable;
  return Status::failed;
}

Handshake::Status Handshake::on_complaint(Step step, std::string_view error, std::string& out) {
  // (What is only wanted was said to whom does not know it, and is no reason for anything.)
  if (step == Step::wanted) return steps_.empty() ? Status::done : Status::more;
  complaint_ = error;
  const bool demands_password = error.starts_with("NOAUTH") && !login_.password.empty();
  if (step == Step::hello && demands_password && !said_password_) {
    say_hello(true, out);
    return Status::more;
  }
  const bool knows_no_hello = error.starts_with("ERR") || error.starts_with("NOPROTO");
  if (step == Step::hello && knows_no_hello) {
    log_in_the_old_way(out);
    return Status::more;
  }
  failure_ = meaning_of(error).what == ErrorClass::unavailable ? Failure::unavailable
                                                               : Failure::misconfigured;
  return Status::failed;
}

}  // namespace weir::store::redis
