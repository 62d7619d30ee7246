#include "gateway/jwt.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <memory>

#include "fields.h"

namespace weir::gateway {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr std::string_view kSecret = "a secret of more than thirty-two bytes";
constexpr std::string_view kClaims = R"({"sub":"alice"})";
const Instant kNow{std::chrono::seconds{1'000'000}};

std::string base64url(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < std::min<std::size_t>(bytes.size() - i + 1, 4); ++j) {
      text += letters[bits >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

std::string unsigned_part(std::string_view header, std::string_view claims) {
  return base64url(header) + "." + base64url(claims);
}

std::string hs256(std::string_view header, std::string_view claims,
                  std::string_view secret = kSecret) {
  const std::string part = unsigned_part(header, claims);
  std::array<unsigned char, 32> mac{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(part.data()), part.size(), mac.data(), &length);
  return part + "." + base64url({reinterpret_cast<const char*>(mac.data()), length});
}

std::string pem_of(EVP_PKEY* key) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  PEM_write_bio_PUBKEY(bio.get(), key);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string signature_of(EVP_PKEY* key, std::string_view part) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  std::string signature(512, '\0');
  std::size_t size = signature.size();
  EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key);
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                 reinterpret_cast<const unsigned char*>(part.data()), part.size());
  signature.resize(size);
  return signature;
}

std::string rs256(EVP_PKEY* key, std::string_view header, std::string_view claims) {
  const std::string part = unsigned_part(header, claims);
  return part + "." + base64url(signature_of(key, part));
}

// OpenSSL's signature is an ASN.1 sequence; a token's is r and s, 32 bytes each.
std::string es256(EVP_PKEY* key, std::string_view header, std::string_view claims) {
  const std::string part = unsigned_part(header, claims);
  const std::string der = signature_of(key, part);
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> pair(
      d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())), &ECDSA_SIG_free);
  std::string raw(64, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(pair.get()), bytes, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair.get()), bytes + 32, 32);
  return part + "." + base64url(raw);
}

Key rsa_key(unsigned bits = 2048) { return {EVP_RSA_gen(bits), &EVP_PKEY_free}; }
Key ec_key(const char* curve = "P-256") { return {EVP_EC_gen(curve), &EVP_PKEY_free}; }

std::shared_ptr<const JwtReader> reader_of(std::vector<JwtRules::VerifyKey> keys) {
  return *JwtReader::make({.keys = std::move(keys)});
}
std::shared_ptr<const JwtReader> with_secret() {
  return reader_of({{.text = std::string{kSecret}}});
}

// The subject of an accepted token; "" if it is refused.
std::string subject(const JwtReader& reader, std::string_view token) {
  const auto claims = reader.claims_of(token, kNow);
  return claims ? claim_in(*claims, "sub") : "";
}

std::shared_ptr<const JwtReader> without_verification() {
  return *JwtReader::make({.verifies = false});
}

TEST(JwtReader, AcceptsEveryTokenWithoutVerification) {
  const auto reader = without_verification();
  EXPECT_EQ(subject(*reader, unsigned_part(R"({"alg":"none"})", kClaims) + "."), "alice");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256"})", kClaims, "anything")), "alice");
}

TEST(JwtReader, AcceptsNoTokenWithoutAKey) {
  const auto reader = reader_of({});
  EXPECT_EQ(subject(*reader, unsigned_part(R"({"alg":"none"})", kClaims) + "."), "");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256"})", kClaims, "anything")), "");
}

TEST(JwtReader, VerifiesHs256WithASecret) {
  const auto reader = with_secret();
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256"})", kClaims)), "alice");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256"})", kClaims, "another")), "");
  std::string changed = hs256(R"({"alg":"HS256"})", kClaims);
  changed.back() = changed.back() == 'A' ? 'Q' : 'A';
  EXPECT_EQ(subject(*reader, changed), "");
  changed = hs256(R"({"alg":"HS256"})", kClaims);
  changed.pop_back();
  EXPECT_EQ(subject(*reader, changed), "");
}

TEST(JwtReader, VerifiesRs256AndEs256WithPublicKeys) {
  const Key rsa = rsa_key(), other_rsa = rsa_key(), ec = ec_key(), other_ec = ec_key();
  const auto reader = reader_of({{.algorithm = JwtAlgorithm::rs256, .text = pem_of(rsa.get())},
                                 {.algorithm = JwtAlgorithm::es256, .text = pem_of(ec.get())}});
  EXPECT_EQ(subject(*reader, rs256(rsa.get(), R"({"alg":"RS256"})", kClaims)), "alice");
  EXPECT_EQ(subject(*reader, es256(ec.get(), R"({"alg":"ES256"})", kClaims)), "alice");
  EXPECT_EQ(subject(*reader, rs256(other_rsa.get(), R"({"alg":"RS256"})", kClaims)), "");
  EXPECT_EQ(subject(*reader, es256(other_ec.get(), R"({"alg":"ES256"})", kClaims)), "");
  // A DER signature is not a valid JWS signature.
  EXPECT_EQ(subject(*reader, rs256(ec.get(), R"({"alg":"ES256"})", kClaims)), "");
}

// The classic attacks: no algorithm, another algorithm, the public key as a secret.
TEST(JwtReader, DoesNotLetTheTokenChooseTheAlgorithm) {
  const Key rsa = rsa_key();
  const std::string pem = pem_of(rsa.get());
  const auto reader = reader_of({{.algorithm = JwtAlgorithm::rs256, .text = pem}});
  for (const char* alg : {"none", "None", "NONE", "", "HS256", "rs256", "RS384"}) {
    const std::string header = std::string{R"({"alg":")"} + alg + R"("})";
    EXPECT_EQ(subject(*reader, unsigned_part(header, kClaims) + "."), "") << alg;
    EXPECT_EQ(subject(*reader, hs256(header, kClaims, pem)), "") << alg;
    EXPECT_EQ(subject(*reader, rs256(rsa.get(), header, kClaims)), "") << alg;
  }
  EXPECT_EQ(subject(*reader, unsigned_part("{}", kClaims) + "."), "");
  EXPECT_EQ(subject(*reader, unsigned_part(R"({"alg":["RS256"]})", kClaims) + "."), "");
}

TEST(JwtReader, UsesTheKeyThatKidNames) {
  const auto reader =
      reader_of({{.id = "old", .text = "old secret"}, {.id = "new", .text = "new secret"}});
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256","kid":"new"})", kClaims, "new secret")),
            "alice");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256","kid":"old"})", kClaims, "old secret")),
            "alice");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256","kid":"old"})", kClaims, "new secret")), "");
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256"})", kClaims, "new secret")), "");
}

TEST(JwtReader, ChecksExpAndNbfWithLeeway) {
  const auto reader = with_secret();  // with a leeway of one minute
  const auto at = [&](const std::string& claims) {
    return subject(*reader, hs256(R"({"alg":"HS256"})", R"({"sub":"alice",)" + claims + "}"));
  };
  EXPECT_EQ(at(R"("exp":1000001)"), "alice");
  EXPECT_EQ(at(R"("exp":999941)"), "alice");
  EXPECT_EQ(at(R"("exp":999940)"), "");
  EXPECT_EQ(at(R"("exp":1)"), "");
  EXPECT_EQ(at(R"("exp":"never")"), "");
  EXPECT_EQ(at(R"("exp":1e300)"), "alice");
  EXPECT_EQ(at(R"("nbf":1000060)"), "alice");
  EXPECT_EQ(at(R"("nbf":1000061)"), "");
  EXPECT_EQ(at(R"("nbf":null)"), "");
}

TEST(JwtReader, ChecksIssuerAndAudience) {
  const auto reader = *JwtReader::make(
      {.keys = {{.text = std::string{kSecret}}}, .issuer = "https://id", .audience = "shop"});
  const auto with = [&](const std::string& claims) {
    return subject(*reader, hs256(R"({"alg":"HS256"})", R"({"sub":"alice",)" + claims + "}"));
  };
  EXPECT_EQ(with(R"("iss":"https://id","aud":"shop")"), "alice");
  EXPECT_EQ(with(R"("iss":"https://id","aud":["x","shop"])"), "alice");
  EXPECT_EQ(with(R"("iss":"https://id","aud":["x"])"), "");
  EXPECT_EQ(with(R"("iss":"https://id")"), "");
  EXPECT_EQ(with(R"("iss":"https://evil","aud":"shop")"), "");
}

TEST(JwtReader, RefusesMalformedTokens) {
  const auto reader = with_secret();
  const auto unverified = without_verification();
  for (const std::string& token :
       {std::string{}, std::string{"."}, std::string{".."}, std::string{"a.b"},
        std::string{"!.!.!"}, std::string{"eyJ9.eyJ9."}, unsigned_part("[]", kClaims) + ".",
        unsigned_part("{", kClaims) + ".", unsigned_part("{}", "[1]") + ".",
        unsigned_part("{}", "null") + ".",
        std::string(20'000, 'A') + "." + std::string(20'000, 'A') + "."}) {
    EXPECT_EQ(subject(*reader, token), "") << token.substr(0, 40);
    const bool has_claims =
        token == unsigned_part("[]", kClaims) + "." || token == unsigned_part("{", kClaims) + ".";
    EXPECT_EQ(subject(*unverified, token), has_claims ? "alice" : "") << token.substr(0, 40);
  }
  // Parsers disagree on which of two equal names counts.
  EXPECT_EQ(subject(*unverified, unsigned_part("{}", R"({"sub":"alice","sub":"bob"})") + "."), "");
  EXPECT_EQ(subject(*unverified, unsigned_part("{}", R"({"sub":"alice","x":{"sub":"bob"}})") + "."),
            "alice");
  // Extensions in `crit` are not supported.
  EXPECT_EQ(subject(*reader, hs256(R"({"alg":"HS256","crit":["b64"]})", kClaims)), "");
  // As deep as the size limit of a token permits.
  const std::string deep = R"({"sub":)" + std::string(10'000, '[');
  EXPECT_EQ(subject(*unverified, unsigned_part("{}", deep) + "."), "");
}

TEST(JwtReader, FindsTheTokenInAHeaderOrACookie) {
  const auto usual = reader_of({});
  EXPECT_EQ(usual->token_of(FieldList{{"authorization", "Bearer abc"}}), "abc");
  EXPECT_EQ(usual->token_of(FieldList{{"Authorization", "bearer   abc"}}), "abc");
  EXPECT_EQ(usual->token_of(FieldList{}), "");
  EXPECT_EQ(
      usual->token_of(FieldList{{"Authorization", "Bearer a"}, {"Authorization", "Bearer b"}}), "");
  const auto cookie = *JwtReader::make({.cookie = "token"});
  EXPECT_EQ(cookie->token_of(FieldList{{"Cookie", "a=1; token=abc"}}), "abc");
  EXPECT_EQ(cookie->token_of(FieldList{{"Cookie", "token=a; token=b"}}), "");
  const auto header = *JwtReader::make({.header = "x-token"});
  EXPECT_EQ(header->token_of(FieldList{{"X-Token", "abc"}}), "abc");
  EXPECT_EQ(header->token_of(FieldList{{"X-Token", "abc"}, {"X_Token", "def"}}), "");
}

TEST(JwtReader, RefusesAKeyThatDoesNotFitItsAlgorithm) {
  const auto flaw = [](JwtAlgorithm algorithm, std::string text) {
    const auto made =
        JwtReader::make({.keys = {{.algorithm = algorithm, .text = std::move(text)}}});
    return made ? std::string{} : made.error().message;
  };
  const Key rsa = rsa_key(), small = rsa_key(1024), ec = ec_key(), other_curve = ec_key("P-384");
  EXPECT_EQ(flaw(JwtAlgorithm::rs256, pem_of(rsa.get())), "");
  EXPECT_EQ(flaw(JwtAlgorithm::es256, pem_of(ec.get())), "");
  EXPECT_NE(flaw(JwtAlgorithm::rs256, pem_of(ec.get())), "");
  EXPECT_NE(flaw(JwtAlgorithm::rs256, pem_of(small.get())), "");
  EXPECT_NE(flaw(JwtAlgorithm::es256, pem_of(rsa.get())), "");
  EXPECT_NE(flaw(JwtAlgorithm::es256, pem_of(other_curve.get())), "");
  EXPECT_NE(flaw(JwtAlgorithm::rs256, "nonsense"), "");
  EXPECT_EQ(algorithm_of_pem(pem_of(rsa.get())), JwtAlgorithm::rs256);
  EXPECT_EQ(algorithm_of_pem(pem_of(ec.get())), JwtAlgorithm::es256);
  EXPECT_EQ(algorithm_of_pem("nonsense"), std::nullopt);
}

TEST(Base64Url, RefusesPaddingAndOtherLetters) {
  EXPECT_EQ(decode_base64url(""), "");
  EXPECT_EQ(decode_base64url("YQ"), "a");
  EXPECT_EQ(decode_base64url("YWI"), "ab");
  EXPECT_EQ(decode_base64url("YWJj"), "abc");
  EXPECT_EQ(decode_base64url("_-8"), "\xff\xef");
  for (const char* text : {"Y", "YQ==", "Y Q", "+/8", "YWJjZ"}) {
    EXPECT_EQ(decode_base64url(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weir::gateway
