#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "weir/result.h"

// (OpenSSL's headers stay in the sources.)
struct ssl_ctx_st;
struct ssl_st;

namespace weir::net {

// What a door with TLS shows, and whom it asks for the same: files, in PEM.
struct TlsFiles {
  std::string cert{};  // behind it those that signed it, if any
  std::string key{};
  std::string ca{};  // clients must show a certificate signed by it; empty: they are not asked

  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

// All of them, read, and found to belong together.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Errors name the file and say what is wrong with it.
Result<TlsContext, Error> load_tls(const TlsFiles& files);

// The side of who connects. `ca` is whom to trust, empty: those that the system does. `cert` and
// `key` are shown to a server that asks for them, empty: none.
Result<TlsContext, Error> load_client_tls(const TlsFiles& files);

// The reason of OpenSSL's last failure, with the flaw of the peer's certificate if that is it;
// `otherwise` if there is none.
std::string tls_failure(const ssl_st* ssl, std::string_view otherwise);

// When its certificate expires, in seconds since 1970.
std::time_t expiry_of(const TlsContext& context);

// A newcomer's side of it, at a door whose protocols have these names, with a blank between them,
// among those that clients may offer (ALPN): the first that is offered is taken. Empty: they may
// offer what they like. `alpn` outlives it. Null if there is no memory.
ssl_st* new_session(const TlsContext& context, const std::string& alpn);

// The side of who connects, to a server whose certificate must be for `host`: a name or an address.
// Null if there is no memory.
ssl_st* new_client_session(const TlsContext& context, const std::string& host);

// Bytes that a session holds, roughly: OpenSSL does not tell. Most while hands are shaken.
std::size_t session_memory(const ssl_st* ssl);

// The context that newcomers get: another one from now on, while those who are inside go on with
// theirs. Thread-safe.
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
