#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

namespace weir::net {

using ClientContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// A TLS client without a socket: the test carries the bytes.
class TlsClient {
 public:
  explicit TlsClient(SSL_CTX* context) : ssl_(SSL_new(context), &SSL_free) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
  }

  SSL* ssl() { return ssl_.get(); }
  bool is_let_in() { return SSL_is_init_finished(ssl()) == 1; }

  // Takes the bytes that the client wants to send.
  std::string said() {
    std::string text(BIO_ctrl_pending(SSL_get_wbio(ssl())), '\0');
    if (!text.empty()) BIO_read(SSL_get_wbio(ssl()), text.data(), static_cast<int>(text.size()));
    return text;
  }
  void hears(std::string_view text) {
    BIO_write(SSL_get_rbio(ssl()), text.data(), static_cast<int>(text.size()));
    step();
  }
  void shake_hands() { step(); }
  void say(std::string_view text) {
    EXPECT_GT(SSL_write(ssl(), text.data(), static_cast<int>(text.size())), 0);
  }
  void say_no_more() { SSL_shutdown(ssl()); }

  std::string received{};  // decrypted
  bool ended = false;      // close_notify was received
  std::string error{};     // why the session has failed

 private:
  void step() {
    char room[1 << 14];
    for (;;) {
      ERR_clear_error();
      const int count = SSL_read(ssl(), room, sizeof room);
      if (count > 0) {
        received.append(room, static_cast<std::size_t>(count));
        continue;
      }
      const int why = SSL_get_error(ssl(), count);
      ended |= why == SSL_ERROR_ZERO_RETURN;
      if (why == SSL_ERROR_SSL) error = ERR_reason_error_string(ERR_peek_last_error());
      return;
    }
  }

  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

}  // namespace weir::net
