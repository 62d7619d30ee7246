#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "store/redis/call.h"
#include "store/redis/ring.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Who we are, and to which database we want.
struct Login {
  std::string user{};      // empty: the default one
  std::string password{};  // empty: none is sent
  std::uint32_t database = 0;
  std::string client_name = "weir";
  bool only_if_demanded = false;  // the password is not sent to who asks for none
  bool to_master = false;         // a replica is not who we want
  std::string version{};          // told to the server, for its CLIENT LIST; empty: not told
};

// The first words on a connection: RESP3 with password and name in one, or, with a server that does
// not know that, one after the other in RESP2; then the database.
class Handshake {
 public:
  // `login` outlives it.
  explicit Handshake(const Login& login) : login_(login) {}

  void begin(std::string& out);

  enum class Status : std::uint8_t { more, done, failed };
  Status on_reply(std::span<const wire::RespValue> reply, std::string& out);

  // When failed.
  Failure failure() const { return failure_; }
  // What the server has last complained about; may be empty, and may have been tolerated.
  const std::string& complaint() const { return complaint_; }
  bool speaks_resp3() const { return speaks_resp3_; }

 private:
  enum class Step : std::uint8_t { hello, needed, wanted, role };

  void say_hello(bool with_password, std::string& out);
  void ask(Step step, std::initializer_list<std::string_view> words, std::string& out);
  void log_in_the_old_way(std::string& out);
  void settle_in(std::string& out);
  Status on_role(std::span<const wire::RespValue> role);
  Status on_complaint(Step step, std::string_view error, std::string& out);

  const Login& login_;
  Ring<Step> steps_;  // sent, and not answered
  bool said_password_ = false;
  bool speaks_resp3_ = false;
  std::string complaint_;
  Failure failure_ = Failure::unavailable;
};

}  // namespace weir::store::redis
