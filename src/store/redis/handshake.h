#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/ring_buffer.h"
#include "store/redis/redis_call.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Parameters of the handshake of a connection.
struct LoginOptions {
  std::string user{};      // empty: the default user
  std::string password{};  // empty: none is sent
  std::uint32_t database = 0;
  std::string client_name = "weir";
  bool only_if_demanded = false;  // send the password only after NOAUTH
  bool to_master = false;         // check with ROLE that the server is a master
  std::string version{};          // for the server's CLIENT LIST; empty: not sent
};

// The handshake of a connection: HELLO 3 with password and client name; if the server does not know
// HELLO, AUTH and CLIENT SETNAME in RESP2; then SELECT, ROLE and CLIENT SETINFO. No I/O.
class Handshake {
 public:
  // `login` outlives it.
  explicit Handshake(const LoginOptions& login) : login_(login) {}

  void begin(std::string& out);

  enum class HandshakeProgress : std::uint8_t { more, done, failed };
  HandshakeProgress on_reply(std::span<const wire::RespValue> reply, std::string& out);

  // Valid after `failed`.
  CallFailure failure() const { return failure_; }
  // The server's last error; may be empty, and may have been tolerated.
  const std::string& server_error() const { return server_error_; }
  bool speaks_resp3() const { return speaks_resp3_; }

 private:
  // A command without a reply yet. An error is fatal for `required`, and ignored for `optional`.
  enum class Sent : std::uint8_t { hello, required, optional, role };

  void send_hello(bool with_password, std::string& out);
  void send(Sent sent, std::initializer_list<std::string_view> words, std::string& out);
  void send_resp2_login(std::string& out);
  void send_setup(std::string& out);
  HandshakeProgress on_role(std::span<const wire::RespValue> role);
  HandshakeProgress on_error(Sent sent, std::string_view error, std::string& out);

  const LoginOptions& login_;
  RingBuffer<Sent> sent_;  // in the order of their replies
  bool sent_password_ = false;
  bool speaks_resp3_ = false;
  std::string server_error_;
  CallFailure failure_ = CallFailure::unavailable;
};

}  // namespace weir::store::redis
