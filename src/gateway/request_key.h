#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/config.h"
#include "gateway/path.h"
#include "weir/engine.h"

namespace weir::gateway {

// The attributes of a request that keys are made from. Borrows its strings.
struct KeyInput {
  std::string_view method;
  std::string_view host;  // normalised by read_host
  const Path& path;
  std::string_view query;  // as sent, without the question mark
  FieldSpan fields;
  const IpAddress& client;
  Instant now;  // checked against exp and nbf of tokens
};

// The key of a request under a route, or its key parts. Owns its strings; its memory is reused.
class RequestKey {
 public:
  // Sets key or parts of `request`, which borrows them until this object changes or ends.
  void fill(Request& request) const;

  // The key for the access log; key parts as a=1,b=2.
  std::string text(KeyLogging style) const;

  enum class KeyStatus {
    made,
    empty,      // a source is missing, so that a part is empty: see EmptyKey
    ambiguous,  // a source occurs twice with different values; servers may use either: answer 400
  };
  KeyStatus status() const { return status_; }

  // The source that is missing or ambiguous, for messages: "header x-user-id".
  std::string problem_source() const;

 private:
  friend void make_key(const std::vector<KeyPart>& key, const JwtReader* jwt, const KeyInput& input,
                       RequestKey& into);
  struct KeySlice {
    std::string_view name;  // borrowed from the configuration
    std::size_t start = 0;
    std::size_t size = 0;
  };
  std::string bytes_;
  std::string scratch_;
  std::vector<KeySlice> slices_;
  KeyStatus status_ = KeyStatus::empty;
  const KeySource* problem_ = nullptr;  // the first source that is missing or ambiguous
};

// Makes the key of a request. `key` and `jwt` are those of a route (or of its bandwidth); `key`
// must outlive `into`. Several sources of one part are joined by "|", which is escaped in the
// values. A long value is replaced by its hash: it stays distinct, and does not fill the table.
void make_key(const std::vector<KeyPart>& key, const JwtReader* jwt, const KeyInput& input,
              RequestKey& into);

// The most bytes of a value that is used as it is, for a key of so many parts.
std::size_t longest_value(std::size_t parts);

// The value of a source that should occur once.
struct FirstValue {
  std::string_view value{};  // empty: absent
  bool ambiguous = false;    // it occurs again with another value
};

// The value of a cookie, without surrounding quotes.
FirstValue first_cookie_value(FieldSpan fields, std::string_view name);

// The value of a query parameter, form-decoded (+ is a space); an invalid escape stays as it is.
// The value lies in `buffer`.
FirstValue first_query_value(std::string_view query, std::string_view name, std::string& buffer);

}  // namespace weir::gateway
