#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/protocol.h"
#include "net/tls_context.h"

// A forward declaration, so that OpenSSL's headers stay in the source files.
struct ssl_st;

namespace weir::net {

// TLS options of a listener.
struct TlsOptions {
  // Protocol names for ALPN, separated by spaces: the first one that the client offers is chosen.
  // Empty: offers are ignored.
  std::string alpn{};
  std::string not_tls{};  // sent to a peer that does not speak TLS
  // Called when a handshake fails, with the reason. On any thread.
  std::function<void(const Peer&, std::string_view why)> refused{};
};

// A protocol inside TLS: encrypted bytes in and out, plain bytes for the inner protocol. Keeps at
// most one message of the maximum size in plain text.
class TlsProtocol final : public Protocol {
 public:
  // `options` outlives it.
  TlsProtocol(const TlsContext& context, const TlsOptions& options, const Peer& peer,
              std::unique_ptr<Protocol> inner, std::size_t max_input);
  TlsProtocol(const TlsProtocol&) = delete;
  TlsProtocol& operator=(const TlsProtocol&) = delete;

  void use_waker(Waker& waker) override { inner_->use_waker(waker); }
  bool waits() const override { return inner_->waits(); }
  std::size_t on_input(std::string_view input, std::string& out) override;
  bool wrote_response() const override { return answered_; }
  bool in_message() const override;
  bool on_tick() override { return is_let_in() && inner_->on_tick(); }
  bool ends() const override { return over_ || (peer_is_done_ && !unanswered_ && !waits()); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_close(std::string& out) override;
  std::size_t memory() const override;
  void on_shed(std::string& out) override;

  // The buffers of the BIO: encrypted input, and where encrypted output goes.
  struct Wire {
    std::string_view input{};
    std::string* out = nullptr;
  };

 private:
  bool is_let_in() const;
  bool greets(std::string_view input, std::string& out);
  void decrypt();
  void stop_reading(int result);
  void answer();
  void encrypt(std::string_view answers);
  void refuse(std::string_view why);

  const TlsOptions& options_;
  const Peer peer_;
  const std::unique_ptr<Protocol> inner_;
  const std::size_t max_input_;
  Wire wire_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;

  std::string plain_;          // decrypted, and not consumed
  std::size_t held_ = 0;       // bytes of input that are used, and not reported as consumed yet
  bool unanswered_ = false;    // the inner protocol may have more output for `plain_`
  bool answered_ = false;      // the handshake or the inner protocol made progress just now
  bool greeted_ = false;       // the handshake has begun
  bool peer_is_done_ = false;  // the peer has sent close_notify
  bool over_ = false;
  bool broken_ = false;  // nothing more can be encrypted
  bool shutting_down_ = false;
};

// Puts TLS around a listener's protocol. `current` outlives it.
ListenerOptions with_tls(ListenerOptions listener, const CurrentTls& current, TlsOptions options);

}  // namespace weir::net
