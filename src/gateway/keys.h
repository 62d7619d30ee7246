#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/config.h"
#include "gateway/path.h"
#include "weir/engine.h"

namespace weir::gateway {

// A request as keys are made of it. Borrows its texts.
struct Asked {
  std::string_view method;
  std::string_view host;  // as read_host makes it
  const Path& path;
  std::string_view query;  // as it was sent, without the question mark
  Fields fields;
  const Address& client;
  Instant now;  // for the times in tokens
};

// The key of a request under a route, or its parts. Keeps its own texts; its memory is used again.
class MadeKey {
 public:
  // Puts key or parts into `request`, which borrows them until this is made anew or ends.
  void fill(Request& request) const;

  // As it is logged: the key, or its parts as a=1,b=2.
  std::string text(LoggedKey style) const;

  enum class Status {
    made,
    empty,      // a part of it is empty, as something it is made of is not there: see EmptyKey
    ambiguous,  // it is there twice, and different: answer 400, nobody knows what services take
  };
  Status status() const { return status_; }

  // For messages: "header x-user-id" if that is what is missing or ambiguous.
  std::string problem_source() const;

 private:
  friend void make_key(const std::vector<KeyPart>& key, const JwtReader* jwt, const Asked& asked,
                       MadeKey& into);
  struct Piece {
    std::string_view name;  // of the config
    std::size_t start = 0;
    std::size_t size = 0;
  };
  std::string bytes_;
  std::string scratch_;
  std::vector<Piece> pieces_;
  Status status_ = Status::empty;
  const KeySource* problem_ = nullptr;  // the first source that is missing or ambiguous
};

// `key` and `jwt` are those of a route (or of its bandwidth); `key` must outlive `into`.
// Several sources of one part are joined by "|", which is escaped in them. A long value is counted
// by its hash: it neither escapes a limit nor fills the table.
void make_key(const std::vector<KeyPart>& key, const JwtReader* jwt, const Asked& asked,
              MadeKey& into);

// Above this many bytes a value is long, for a key of so many parts.
std::size_t longest_value(std::size_t parts);

// A value that a request should give once.
struct FirstValue {
  std::string_view value{};  // empty if there is none
  bool ambiguous = false;    // there is another, and it differs
};

// The value of that cookie, without quotes around it.
FirstValue first_cookie_value(Fields fields, std::string_view name);

// The value of that name in a=1&b=2, decoded as forms are (+ is a space); what is no escape stays
// as it is.
FirstValue first_query_value(std::string_view query, std::string_view name, std::string& buffer);

}  // namespace weir::gateway
