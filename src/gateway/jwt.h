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

// Verifies JSON Web Tokens (RFC 7519): HS256, RS256 or ES256. Each key is used with its own
// algorithm only, so that a token cannot choose how it is verified; `none` is never accepted.
// Without verification (JwtRules::verifies) every token is accepted. Thread-safe.
class JwtReader {
 public:
  // A key that cannot be used; `key` is its index.
  struct KeyError {
    std::size_t key = 0;
    std::string message;
  };
  static Result<std::shared_ptr<const JwtReader>, KeyError> make(JwtRules rules);
  ~JwtReader();

  const JwtRules& rules() const { return rules_; }

  // The token of a request; empty if there is none, or more than one.
  std::string_view token_of(FieldSpan fields) const;

  // The claims of a token as JSON; nullopt if it is malformed or not valid.
  std::optional<std::string> claims_of(std::string_view token, Instant now) const;

 private:
  struct PublicKeys;
  JwtReader(JwtRules rules, std::unique_ptr<const PublicKeys> keys);

  bool is_verified(std::string_view signed_part, std::string_view header,
                   std::string_view signature) const;

  JwtRules rules_;
  std::unique_ptr<const PublicKeys> keys_;
};

// A claim as text: a string, a number, true or false. Empty if it is absent, a list or an object.
std::string claim_in(std::string_view claims, std::string_view name);

// The algorithm that fits a public key in PEM; nullopt if the text is not one.
std::optional<JwtAlgorithm> algorithm_of_pem(std::string_view text);

// Strict: no padding, and only the 64 letters of base64url.
std::optional<std::string> decode_base64url(std::string_view text);

}  // namespace weir::gateway
