#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "weir/result.h"

// Forward declarations, so that OpenSSL's headers stay in the source files.
struct ssl_ctx_st;
struct ssl_st;

namespace weir::net {

// Paths of PEM files: the certificate and key to present, and the CA that verifies the peer.
struct PemFiles {
  std::string cert{};  // with its intermediate certificates after it, if any
  std::string key{};
  std::string ca{};  // client certificates must be signed by it (mutual TLS); empty: none required

  friend bool operator==(const PemFiles&, const PemFiles&) = default;
};

// A context made of those files. Shared by the sessions that use it.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// The context of a server. Errors name the file and say what is wrong with it.
Result<TlsContext, Error> load_tls(const PemFiles& files);

// The context of a client. An empty `ca` means the CAs that the system trusts. `cert` and `key` are
// for servers that require a client certificate; empty: none.
Result<TlsContext, Error> load_client_tls(const PemFiles& files);

// The reason of OpenSSL's last failure, with the verification error of the peer's certificate if
// that is the reason; `otherwise` if OpenSSL has recorded none.
std::string tls_failure(const ssl_st* ssl, std::string_view otherwise);

// When the context's certificate expires, in seconds since 1970.
std::time_t expiry_of(const TlsContext& context);

// A server session. `alpn` lists the protocols of the listener in order of preference, separated by
// spaces: the first one that the client offers is chosen. Empty: offers are ignored. `alpn`
// outlives the session. Null if out of memory.
ssl_st* new_session(const TlsContext& context, const std::string& alpn);

// A client session with a server whose certificate must be for `host`, a name or an IP address.
// Null if out of memory.
ssl_st* new_client_session(const TlsContext& context, const std::string& host);

// Estimated memory of a session in bytes: OpenSSL does not tell. Largest during the handshake.
std::size_t session_memory(const ssl_st* ssl);

// The context for new connections. It can be replaced at any time; open connections keep theirs.
// Thread-safe.
class CurrentTls {
 public:
  explicit CurrentTls(TlsContext context) : context_(std::move(context)) {}

  void use(TlsContext context) {
    const std::lock_guard lock(mutex_);
    context_.swap(context);
  }
  TlsContext get() const {
    const std::lock_guard lock(mutex_);
    return context_;
  }

 private:
  mutable std::mutex mutex_;
  TlsContext context_;
};

}  // namespace weir::net
