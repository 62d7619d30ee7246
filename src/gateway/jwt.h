#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/config.h"
#include "weir/result.h"

namespace weir::gateway {

// Reads JSON Web Tokens (RFC 7519) and believes only what its keys verify: HS256, RS256 or ES256,
// each key for its own algorithm, so that no token chooses how it is verified; `none` never is.
// Without verification (JwtRules::verifies) it believes every token. Thread-safe.
class JwtReader {
 public:
  // Or what is wrong with a key, which `key` tells by its position.
  struct Flaw {
    std::size_t key = 0;
    std::string message;
  };
  static Result<std::shared_ptr<const JwtReader>, Flaw> make(JwtRules rules);
  ~JwtReader();

  const JwtRules& rules() const { return rules_; }

  // The token that a request shows; empty if it shows none, or two.
  std::string_view token_of(Fields fields) const;

  // What the token claims, as JSON; nothing if it is none, or is not believed.
  std::optional<std::string> claims_of(std::string_view token, Instant now) const;

 private:
  struct Keys;
  JwtReader(JwtRules rules, std::unique_ptr<const Keys> keys);

  bool is_verified(std::string_view signed_part, std::string_view header,
                   std::string_view signature) const;

  JwtRules rules_;
  std::unique_ptr<const Keys> keys_;
};

// One claim as text: a text, a number, true or false. Empty if there is none, or it is a list or an
// object.
std::string claim_in(std::string_view claims, std::string_view name);

// What kind of key a text is, if it is a public key in PEM.
std::optional<JwtRules::Algorithm> algorithm_of_pem(std::string_view text);

// Without padding, and nothing but the 64 letters.
std::optional<std::string> decode_base64url(std::string_view text);

}  // namespace weir::gateway
