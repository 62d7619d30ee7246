#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/protocol.h"
#include "net/tls_context.h"

// (OpenSSL's headers stay in the sources.)
struct ssl_st;

namespace weir::net {

// How a door is when it has TLS.
struct TlsManners {
  // Names of protocols, with a blank between them: the first of them that a client offers is
  // spoken. Empty: any.
  std::string alpn{};
  std::string not_tls{};  // said to whom does not speak TLS at all
  // Told of somebody who could not be let in, and why. On any thread.
  std::function<void(const Peer&, std::string_view why)> refused{};
};

// A protocol inside TLS: encrypted bytes in and out, the other protocol sees none of it. Never
// keeps more of what was said than the door's longest message.
class Tls final : public Protocol {
 public:
  // `manners` outlive it.
  Tls(const TlsContext& context, const TlsManners& manners, const Peer& peer,
      std::unique_ptr<Protocol> inner, std::size_t most_input);
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  void use_waker(Waker& waker) override { inner_->use_waker(waker); }
  bool waits() const override { return inner_->waits(); }
  std::size_t on_input(std::string_view input, std::string& out) override;
  bool has_answered() const override { return answered_; }
  bool in_message() const override;
  bool look_around() override { return is_let_in() && inner_->look_around(); }
  bool ends() const override { return over_ || (peer_is_done_ && !unanswered_ && !waits()); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_end(std::string& out) override;
  std::size_t memory() const override;
  void on_shed(std::string& out) override;

  // Where OpenSSL reads and writes: what has come and is not decrypted, and where answers go.
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

  const TlsManners& manners_;
  const Peer peer_;
  const std::unique_ptr<Protocol> inner_;
  const std::size_t most_input_;
  Wire wire_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;

  std::string plain_;          // decrypted, and not used up
  std::size_t held_ = 0;       // bytes of input that were used, which we have not said
  bool unanswered_ = false;    // the inner protocol may have more to say about `plain_`
  bool answered_ = false;      // let in just now, or told something by the inner protocol
  bool greeted_ = false;       // has begun to speak TLS
  bool peer_is_done_ = false;  // has said that nothing more will come
  bool over_ = false;
  bool broken_ = false;  // nothing more can be encrypted
  bool shutting_down_ = false;
};

// A door that speaks TLS only. `current` outlives it.
Door with_tls(Door door, const CurrentTls& current, TlsManners manners);

}  // namespace weir::net
