#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

namespace weir::net {

namespace {

// Keys of the past cannot be had from a key of today, and nothing is encrypted without being
// signed.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

// A passphrase would be asked for at a terminal, which a daemon does not have. Notes that it was.
int no_passphrase(char*, int, int, void* asked) {
  if (asked != nullptr) *static_cast<bool*>(asked) = true;
  return 0;
}

Error wrong(std::string_view what, const std::string& file, std::string_view why) {
  std::string text = "tls: cannot use the ";
  return Error{text.append(what).append(" ").append(file).append(": ").append(why)};
}

// Why a file that should be PEM could not be used, in words of the system or our own: those of
// OpenSSL say where in its sources it gave up.
Error unreadable(std::string_view what, const std::string& file) {
  errno = 0;
  if (const std::ifstream opened(file); !opened) {
    return wrong(what, file, std::generic_category().message(errno != 0 ? errno : ENOENT));
  }
  // Only what is wrong with a certificate or key as such is worth being told.
  const unsigned long code = ERR_peek_last_error();
  const bool as_such = ERR_GET_LIB(code) == ERR_LIB_SSL || ERR_GET_LIB(code) == ERR_LIB_X509;
  const bool in_general = (ERR_GET_REASON(code) & ERR_RFLAG_COMMON) != 0;
  const char* reason = ERR_reason_error_string(code);
  if (as_such && !in_general && reason != nullptr) return wrong(what, file, reason);
  return wrong(what, file, "there is none in it (it must be in PEM, with -----BEGIN …)");
}

// Whoever offers protocols must offer ours: it would not understand us.
int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  const std::string_view ours = *static_cast<const std::string*>(SSL_get_app_data(ssl));
  if (ours.empty()) return SSL_TLSEXT_ERR_NOACK;
  for (unsigned i = 0; i < offered_size; i += 1u + offered[i]) {
    const std::string_view name(reinterpret_cast<const char*>(offered + i + 1), offered[i]);
    if (name != ours) continue;
    *chosen = offered + i + 1;
    *chosen_size = offered[i];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_manners(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kCiphers);
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                   SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Those who wait need no buffers, and what is known of a session is in the client's ticket.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  constexpr std::string_view name = "weir";
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<unsigned>(name.size()));
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
}

bool ask_clients(SSL_CTX* context, const std::string& ca) {
  auto* names = SSL_load_client_CA_file(ca.c_str());
  if (names == nullptr) return false;
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return SSL_CTX_load_verify_file(context, ca.c_str()) == 1;
}

}  // namespace

Result<TlsContext, Error> load_tls(const TlsFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (!context) return Error{"tls: OpenSSL does not work here"};
  set_manners(context.get());
  bool locked = false;
  SSL_CTX_set_default_passwd_cb(context.get(), no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context.get(), &locked);
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) != 1) {
    return unreadable("certificate", files.cert);
  }
  // (A key that does not belong to the certificate is noticed at once.)
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509) {
      return wrong("key", files.key, "it does not belong to the certificate " + files.cert);
    }
    if (locked) {
      return wrong("key", files.key, "it is locked with a passphrase: write one that is not");
    }
    return unreadable("key", files.key);
  }
  if (!files.ca.empty() && !ask_clients(context.get(), files.ca)) {
    return unreadable("ca", files.ca);
  }
  SSL_CTX_set_default_passwd_cb_userdata(context.get(), nullptr);
  return context;
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

}  // namespace weir::net
