#include "net/tls_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "net/ticket_keys.h"

namespace weir::net {

namespace {

// Cipher suites of TLS 1.2 with forward secrecy (ECDHE) and authenticated encryption (AEAD).
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

// OpenSSL's default asks for a passphrase at the terminal, which a daemon does not have. Records
// that one was needed.
int no_passphrase(char*, int, int, void* asked) {
  if (asked != nullptr) *static_cast<bool*>(asked) = true;
  return 0;
}

Error tls_error(std::string_view what, const std::string& file, std::string_view why) {
  std::string text = "tls: cannot use the ";
  return Error{text.append(what).append(" ").append(file).append(": ").append(why)};
}

// The reason why a PEM file could not be used, in words of the system or our own. Most reasons of
// OpenSSL's only say where in its source it gave up.
Error unusable_file(std::string_view what, const std::string& file) {
  errno = 0;
  if (const std::ifstream opened(file); !opened) {
    return tls_error(what, file, std::generic_category().message(errno != 0 ? errno : ENOENT));
  }
  // Only reasons that are about a certificate or key as such help the operator.
  const unsigned long code = ERR_peek_last_error();
  const bool about_file = ERR_GET_LIB(code) == ERR_LIB_SSL || ERR_GET_LIB(code) == ERR_LIB_X509;
  const bool is_generic = (ERR_GET_REASON(code) & ERR_RFLAG_COMMON) != 0;
  const char* reason = ERR_reason_error_string(code);
  if (about_file && !is_generic && reason != nullptr) return tls_error(what, file, reason);
  return tls_error(what, file, "it holds none in PEM format (-----BEGIN …)");
}

// The entry of a name in a client's ALPN list, which begins with its length; null if not offered.
const unsigned char* find_offered(std::string_view name, const unsigned char* offered,
                                  unsigned offered_size) {
  for (unsigned i = 0; i < offered_size; i += 1u + offered[i]) {
    if (std::string_view(reinterpret_cast<const char*>(offered + i + 1), offered[i]) == name) {
      return offered + i;
    }
  }
  return nullptr;
}

// Fails the handshake if a client offers protocols and none of ours is among them (RFC 7301).
int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  std::string_view ours = *static_cast<const std::string*>(SSL_get_app_data(ssl));
  if (ours.empty()) return SSL_TLSEXT_ERR_NOACK;
  while (!ours.empty()) {
    const std::string_view name = ours.substr(0, ours.find(' '));
    ours.remove_prefix(std::min(name.size() + 1, ours.size()));
    const unsigned char* const found = find_offered(name, offered, offered_size);
    if (found == nullptr) continue;
    *chosen = found + 1;
    *chosen_size = *found;
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_server_options(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kCiphers);
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                   SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections keep no buffers. Session state is in the client's ticket, so no cache is
  // needed.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  constexpr std::string_view name = "weir";
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<unsigned>(name.size()));
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
}

bool require_client_certificates(SSL_CTX* context, const std::string& ca) {
  auto* names = SSL_load_client_CA_file(ca.c_str());
  if (names == nullptr) return false;
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return SSL_CTX_load_verify_file(context, ca.c_str()) == 1;
}

// Loads the certificate and its key.
std::optional<Error> load_identity(SSL_CTX* context, const PemFiles& files) {
  bool has_passphrase = false;
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &has_passphrase);
  if (SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) != 1) {
    return unusable_file("certificate", files.cert);
  }
  // OpenSSL checks here that the key matches the certificate.
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509) {
      return tls_error("key", files.key, "it does not belong to the certificate " + files.cert);
    }
    if (has_passphrase) {
      return tls_error("key", files.key,
                       "it is encrypted with a passphrase: use a key without one");
    }
    return unusable_file("key", files.key);
  }
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  return std::nullopt;
}

bool is_address(const std::string& host) {
  in6_addr bytes{};
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

}  // namespace

Result<TlsContext, Error> load_tls(const PemFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (!context) return Error{"tls: OpenSSL cannot create a context"};
  set_server_options(context.get());
  if (!rotate_ticket_keys(context.get())) return Error{"tls: out of memory"};
  if (auto flaw = load_identity(context.get(), files)) return *std::move(flaw);
  if (!files.ca.empty() && !require_client_certificates(context.get(), files.ca)) {
    return unusable_file("ca", files.ca);
  }
  return context;
}

Result<TlsContext, Error> load_client_tls(const PemFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  if (!context) return Error{"tls: OpenSSL cannot create a context"};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context.get(), kCiphers);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) != 1) {
    return unusable_file("ca", files.ca);
  }
  if (files.cert.empty()) return context;
  if (auto flaw = load_identity(context.get(), files)) return *std::move(flaw);
  return context;
}

std::string tls_failure(const SSL* ssl, std::string_view otherwise) {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  std::string text{reason != nullptr ? reason : otherwise};
  const long verified = SSL_get_verify_result(ssl);
  if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
    text.append(": ").append(X509_verify_cert_error_string(verified));
  }
  return text;
}

std::time_t expiry_of(const TlsContext& context) {
  std::tm time{};
  ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context.get())), &time);
  return timegm(&time);
}

SSL* new_session(const TlsContext& context, const std::string& alpn) {
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return nullptr;
  SSL_set_app_data(ssl, const_cast<std::string*>(&alpn));
  SSL_set_accept_state(ssl);
  return ssl;
}

SSL* new_client_session(const TlsContext& context, const std::string& host) {
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return nullptr;
  SSL_set_connect_state(ssl);
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
    return ssl;
  }
  SSL_set_tlsext_host_name(ssl, host.c_str());
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  SSL_set1_host(ssl, host.c_str());
  return ssl;
}

// (As measured with OpenSSL 3.0: its buffers, in which a record, a message of the handshake and an
// answer are kept, have 16 KiB each, and are freed when the handshake is over.)
std::size_t session_memory(const SSL* ssl) {
  constexpr std::size_t fresh = 9 << 10;
  constexpr std::size_t hello = 72 << 10;  // of which a part has come
  constexpr std::size_t handshake = 46 << 10;
  constexpr std::size_t established = 15 << 10;
  constexpr std::size_t record = 17 << 10;  // of which a part is not decrypted, or not read
  if (SSL_in_before(ssl) == 1) return fresh;
  if (SSL_in_init(ssl) == 1) {
    const OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    return state == TLS_ST_BEFORE || state == TLS_ST_SR_CLNT_HELLO ? hello : handshake;
  }
  return established + (SSL_has_pending(ssl) == 1 ? record : 0);
}

}  // namespace weir::net
