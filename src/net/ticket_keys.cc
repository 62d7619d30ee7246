#include "net/ticket_keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <memory>

namespace weir::net {

namespace {

constexpr int kBytesOfIv = 16;

template <std::size_t N>
bool fill_randomly(std::array<unsigned char, N>& bytes) {
  return RAND_bytes(bytes.data(), static_cast<int>(N)) == 1;
}

std::optional<TicketKeys::TicketKey> new_key(TicketKeys::SteadyClock::time_point now) {
  TicketKeys::TicketKey key{.created = now};
  if (!fill_randomly(key.name) || !fill_randomly(key.cipher) || !fill_randomly(key.mac)) {
    return std::nullopt;
  }
  return key;
}

void free_keys(void*, void* keys, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<TicketKeys*>(keys);
}

int keys_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_keys);
  return index;
}

bool set_mac_key(EVP_MAC_CTX* mac, TicketKeys::TicketKey& key) {
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac.data(), key.mac.size()),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  return EVP_MAC_CTX_set_params(mac, params) == 1;
}

// Return values of OpenSSL's ticket callback.
enum TicketResult { kFailed = -1, kUnknown = 0, kUsed = 1, kUsedButToBeRenewed = 2 };

int encrypt_ticket(TicketKeys& keys, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                   EVP_MAC_CTX* mac) {
  auto key = keys.current(TicketKeys::SteadyClock::now());
  if (!key || RAND_bytes(iv, kBytesOfIv) != 1) return kFailed;
  std::ranges::copy(key->name, name);
  const bool ready =
      EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key->cipher.data(), iv) == 1 &&
      set_mac_key(mac, *key);
  return ready ? kUsed : kFailed;
}

int decrypt_ticket(TicketKeys& keys, const unsigned char* name, const unsigned char* iv,
                   EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac) {
  TicketKeys::Name wanted{};
  std::copy_n(name, wanted.size(), wanted.begin());
  auto found = keys.find(wanted, TicketKeys::SteadyClock::now());
  if (!found) return kUnknown;
  const bool ready =
      EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nullptr, found->key.cipher.data(), iv) == 1 &&
      set_mac_key(mac, found->key);
  if (!ready) return kFailed;
  return found->is_current ? kUsed : kUsedButToBeRenewed;
}

int on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
              EVP_MAC_CTX* mac, int encrypts) {
  void* const stored = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), keys_index());
  if (stored == nullptr) return kFailed;
  auto& keys = *static_cast<TicketKeys*>(stored);
  return encrypts != 0 ? encrypt_ticket(keys, name, iv, cipher, mac)
                       : decrypt_ticket(keys, name, iv, cipher, mac);
}

}  // namespace

TicketKeys::TicketKey::~TicketKey() {
  OPENSSL_cleanse(cipher.data(), cipher.size());
  OPENSSL_cleanse(mac.data(), mac.size());
}

void TicketKeys::rotate(SteadyClock::time_point now) {
  if (current_ && now - current_->created < kLifetime) return;
  previous_ = current_ && now - current_->created < 2 * kLifetime ? current_ : std::nullopt;
  current_ = new_key(now);
}

std::optional<TicketKeys::TicketKey> TicketKeys::current(SteadyClock::time_point now) {
  const std::lock_guard lock(mutex_);
  rotate(now);
  return current_;
}

std::optional<TicketKeys::FoundKey> TicketKeys::find(const Name& name,
                                                     SteadyClock::time_point now) {
  const std::lock_guard lock(mutex_);
  rotate(now);
  if (current_ && current_->name == name) return FoundKey{*current_, true};
  if (previous_ && previous_->name == name) return FoundKey{*previous_, false};
  return std::nullopt;
}

bool rotate_ticket_keys(ssl_ctx_st* context) {
  auto keys = std::make_unique<TicketKeys>();
  if (SSL_CTX_set_ex_data(context, keys_index(), keys.get()) != 1) return false;
  keys.release();  // the context frees it
  SSL_CTX_set_timeout(context, TicketKeys::kLifetime.count());
  return SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket) == 1;
}

}  // namespace weir::net
