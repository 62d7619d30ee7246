#include "gateway/jwt.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ascii.h"
#include "gateway/field_name.h"
#include "gateway/request_key.h"

namespace weir::gateway {

namespace {

using nlohmann::json;

// Bounds the work for each request.
constexpr std::size_t kMaxTokenSize = 16 << 10;
// r and s, 32 bytes each.
constexpr std::size_t kEs256Signature = 64;
constexpr int kMinRsaBits = 2048;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using PublicKey = std::unique_ptr<EVP_PKEY, FreeKey>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

PublicKey read_pem(std::string_view text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
  PublicKey key(bio ? PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  ERR_clear_error();
  return key;
}

bool is_p256(const EVP_PKEY* key) {
  std::array<char, 64> group{};
  std::size_t length = 0;
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1 &&
         std::string_view(group.data(), length) == "prime256v1";
}

// ---- JSON

// Nullopt if it is not an object, or has a duplicate name: parsers disagree on which one counts.
std::optional<json> read_object(std::string_view text) {
  std::set<std::string> names;
  bool repeated = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      repeated = !names.insert(parsed.get<std::string>()).second || repeated;
    }
    return true;
  };
  json object = json::parse(text, watch, /*allow_exceptions=*/false);
  if (!object.is_object() || repeated) return std::nullopt;
  return object;
}

std::string text_at(const json& object, std::string_view name) {
  const auto found = object.find(std::string{name});
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

// ---- Signatures

bool verifies_hs256(std::string_view secret, std::string_view signed_part,
                    std::string_view signature) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), bytes_of(signed_part),
           signed_part.size(), mac.data(), &length) == nullptr) {
    return false;
  }
  return signature.size() == length && CRYPTO_memcmp(mac.data(), signature.data(), length) == 0;
}

// The signature as DER, for OpenSSL; empty if it cannot be one.
std::string to_der(std::string_view signature) {
  if (signature.size() != kEs256Signature) return {};
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> pair(ECDSA_SIG_new(),
                                                                   &ECDSA_SIG_free);
  BIGNUM* r = BN_bin2bn(bytes_of(signature), 32, nullptr);
  BIGNUM* s = BN_bin2bn(bytes_of(signature) + 32, 32, nullptr);
  if (!pair || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return {};
  }
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(pair.get(), &der);
  if (length <= 0) return {};
  std::string text(reinterpret_cast<const char*>(der), static_cast<std::size_t>(length));
  OPENSSL_free(der);
  return text;
}

bool verifies_with_public_key(EVP_PKEY* key, std::string_view signed_part,
                              std::string_view signature) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const bool fits = context &&
                    EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
                    EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(),
                                     bytes_of(signed_part), signed_part.size()) == 1;
  ERR_clear_error();
  return fits;
}

std::string_view name_of(JwtAlgorithm algorithm) {
  constexpr std::array<std::string_view, 3> names{"HS256", "RS256", "ES256"};
  return names[static_cast<std::size_t>(algorithm)];
}

// ---- Claims

// NumericDate, seconds since the epoch. A claim that is not a number fails the check.
bool is_expired(const json& claims, double now, double leeway) {
  const auto exp = claims.find("exp");
  if (exp == claims.end()) return false;
  return !exp->is_number() || now >= exp->get<double>() + leeway;
}
bool is_not_yet_valid(const json& claims, double now, double leeway) {
  const auto nbf = claims.find("nbf");
  if (nbf == claims.end()) return false;
  return !nbf->is_number() || now < nbf->get<double>() - leeway;
}

bool has_audience(const json& claims, const std::string& audience) {
  if (audience.empty()) return true;
  const auto aud = claims.find("aud");
  if (aud == claims.end()) return false;
  if (aud->is_string()) return aud->get<std::string>() == audience;
  return aud->is_array() && std::ranges::any_of(*aud, [&](const json& one) {
           return one.is_string() && one.get<std::string>() == audience;
         });
}

bool claims_are_valid(const JwtRules& rules, const json& claims, Instant now) {
  using FloatSeconds = std::chrono::duration<double>;
  const double seconds = FloatSeconds(now.time_since_epoch()).count();
  const double leeway = FloatSeconds(rules.leeway).count();
  return !is_expired(claims, seconds, leeway) && !is_not_yet_valid(claims, seconds, leeway) &&
         (rules.issuer.empty() || text_at(claims, "iss") == rules.issuer) &&
         has_audience(claims, rules.audience);
}

}  // namespace

struct JwtReader::PublicKeys {
  std::vector<PublicKey> keys;  // null for a secret (HS256)
};

JwtReader::JwtReader(JwtRules rules, std::unique_ptr<const PublicKeys> keys)
    : rules_(std::move(rules)), keys_(std::move(keys)) {}
JwtReader::~JwtReader() = default;

Result<std::shared_ptr<const JwtReader>, JwtReader::KeyError> JwtReader::make(JwtRules rules) {
  auto keys = std::make_unique<PublicKeys>();
  for (std::size_t i = 0; i < rules.keys.size(); ++i) {
    const JwtRules::VerifyKey& key = rules.keys[i];
    PublicKey pem;
    if (key.algorithm != JwtAlgorithm::hs256) {
      pem = read_pem(key.text);
      if (!pem) return KeyError{i, "this is not a public key in PEM (-----BEGIN PUBLIC KEY-----)"};
      const bool rsa = EVP_PKEY_is_a(pem.get(), "RSA") == 1;
      if (key.algorithm == JwtAlgorithm::rs256 &&
          (!rsa || EVP_PKEY_get_bits(pem.get()) < kMinRsaBits)) {
        return KeyError{i, "RS256 needs an RSA key of at least 2048 bits"};
      }
      if (key.algorithm == JwtAlgorithm::es256 && !is_p256(pem.get())) {
        return KeyError{i, "ES256 needs a key on the curve P-256"};
      }
    }
    keys->keys.push_back(std::move(pem));
  }
  return std::shared_ptr<const JwtReader>(new JwtReader(std::move(rules), std::move(keys)));
}

std::string_view JwtReader::token_of(FieldSpan fields) const {
  if (!rules_.cookie.empty()) {
    const FirstValue cookie = first_cookie_value(fields, rules_.cookie);
    return cookie.ambiguous ? std::string_view{} : cookie.value;
  }
  std::string_view token;
  int count = 0;
  for (const wire::HttpField& field : fields) {
    if (!may_be_same_field(field.name, rules_.header)) continue;
    token = field.value;
    ++count;
  }
  if (count != 1) return {};
  constexpr std::string_view bearer = "bearer ";
  if (same_ignoring_case(token.substr(0, bearer.size()), bearer)) {
    token.remove_prefix(bearer.size());
    token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  }
  return token;
}

bool JwtReader::is_verified(std::string_view signed_part, std::string_view header,
                            std::string_view signature) const {
  const auto object = read_object(header);
  // `crit` names extensions that must be understood; this reader supports none.
  if (!object || object->contains("crit")) return false;
  const std::string algorithm = text_at(*object, "alg");
  const std::string id = text_at(*object, "kid");
  for (std::size_t i = 0; i < rules_.keys.size(); ++i) {
    const JwtRules::VerifyKey& key = rules_.keys[i];
    if (algorithm != name_of(key.algorithm) || (!key.id.empty() && key.id != id)) continue;
    EVP_PKEY* const pem = keys_->keys[i].get();
    const bool fits = key.algorithm == JwtAlgorithm::hs256
                          ? verifies_hs256(key.text, signed_part, signature)
                      : key.algorithm == JwtAlgorithm::es256
                          ? verifies_with_public_key(pem, signed_part, to_der(signature))
                          : verifies_with_public_key(pem, signed_part, signature);
    if (fits) return true;
  }
  return false;
}

std::optional<std::string> JwtReader::claims_of(std::string_view token, Instant now) const {
  if (token.size() > kMaxTokenSize) return std::nullopt;
  const std::size_t first = token.find('.');
  const std::size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto header = decode_base64url(token.substr(0, first));
  auto claims = decode_base64url(token.substr(first + 1, second - first - 1));
  const auto signature = decode_base64url(token.substr(second + 1));
  if (!header || !claims || !signature) return std::nullopt;
  if (!rules_.verifies) return claims;
  if (!is_verified(token.substr(0, second), *header, *signature)) return std::nullopt;
  const auto object = read_object(*claims);
  if (!object || !claims_are_valid(rules_, *object, now)) return std::nullopt;
  return claims;
}

std::string claim_in(std::string_view claims, std::string_view name) {
  const auto object = read_object(claims);
  if (!object) return {};
  const auto found = object->find(std::string{name});
  if (found == object->end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_number() || found->is_boolean() ? found->dump() : std::string{};
}

std::optional<JwtAlgorithm> algorithm_of_pem(std::string_view text) {
  const PublicKey key = read_pem(text);
  if (!key) return std::nullopt;
  if (EVP_PKEY_is_a(key.get(), "RSA") == 1) return JwtAlgorithm::rs256;
  if (EVP_PKEY_is_a(key.get(), "EC") == 1) return JwtAlgorithm::es256;
  return std::nullopt;
}

std::optional<std::string> decode_base64url(std::string_view text) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  static constexpr auto values = [] {
    std::array<std::int8_t, 256> table{};
    for (auto& value : table) value = -1;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      table[static_cast<unsigned char>(letters[i])] = static_cast<std::int8_t>(i);
    }
    return table;
  }();
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace weir::gateway
