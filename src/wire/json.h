#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/parts.h"
#include "weir/time.h"

namespace weir::wire {

// Fields of a request body, as bits of a set.
enum class ApiField : std::uint32_t {
  none = 0,
  policy = 1 << 0,
  key = 1 << 1,
  parts = 1 << 2,
  permits = 1 << 3,
  max_wait_ms = 1 << 4,
  wants_receipt = 1 << 5,  // "receipt": true
  receipt = 1 << 6,        // "receipt": "…"
  delta = 1 << 7,
  holder = 1 << 8,
  limit = 1 << 9,
  skip_missing = 1 << 10,
};

constexpr ApiField operator|(ApiField a, ApiField b) {
  return static_cast<ApiField>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool has(ApiField set, ApiField field) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(field)) != 0;
}
constexpr bool has_all(ApiField set, ApiField fields) { return (set | fields) == set; }

// The fields of one route's body.
struct ApiFields {
  ApiField allowed = ApiField::none;
  // "key" stands for "key" or "parts" where both are allowed.
  ApiField required = ApiField::none;
};

namespace api {

inline constexpr ApiField kSubject =
    ApiField::policy | ApiField::key | ApiField::parts | ApiField::skip_missing;
inline constexpr ApiField kRequiredSubject = ApiField::policy | ApiField::key;

inline constexpr ApiFields kTake{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::wants_receipt,
    kRequiredSubject};
inline constexpr ApiFields kPeek{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::holder, kRequiredSubject};
inline constexpr ApiFields kSettle{kSubject | ApiField::delta | ApiField::receipt,
                                   kRequiredSubject | ApiField::delta};
inline constexpr ApiFields kReset{kSubject, kRequiredSubject};
inline constexpr ApiFields kEnter{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::holder, kRequiredSubject};
inline constexpr ApiFields kLeave{kSubject | ApiField::holder, kRequiredSubject | ApiField::holder};
inline constexpr ApiFields kExplain{kSubject | ApiField::permits, kRequiredSubject};
inline constexpr ApiFields kThrottle{
    ApiField::key | ApiField::limit | ApiField::permits | ApiField::max_wait_ms,
    ApiField::key | ApiField::limit};

}  // namespace api

// A parsed request body. Its views point into the reader. Strings are bytes: they may be empty, and
// may contain NUL.
struct ApiRequest {
  ApiField given = ApiField::none;  // the fields that were present
  std::string_view policy{};
  std::string_view key{};
  Parts parts{};
  bool skip_missing = false;                  // see Request::skip_missing
  std::optional<std::int64_t> permits{};      // 0 or more
  std::optional<std::int64_t> max_wait_ms{};  // 0 or more
  std::optional<std::int64_t> delta{};
  bool wants_receipt = false;
  std::string_view receipt{};
  std::string_view holder{};
  std::string_view limit{};

  // max_wait_ms as a duration; saturates.
  std::optional<Nanos> max_wait() const;
};

// One request of a body, or the reason why it is invalid.
struct ApiItem {
  ApiRequest request;
  std::string error;        // empty if it is valid
  std::string error_field;  // the field that the error is about, if any
};

// A parsed body: one item (an object), or a batch (an array of objects).
struct ApiBody {
  bool is_batch = false;
  std::span<const ApiItem> items{};
  // The reason why there are no items: not JSON, or too many of them. Empty otherwise.
  std::string_view error{};
};

// Parses the request bodies of the HTTP API. Strict: unknown and repeated fields, numbers out of
// range and bytes after the end are errors. An error in one item of a batch does not affect the
// others. Not thread-safe. Keeps its memory for the next body: about ten times the size of the
// largest.
class JsonReader {
 public:
  static constexpr std::size_t kMaxItems = 1000;

  JsonReader();
  ~JsonReader();
  JsonReader(JsonReader&& other) noexcept;
  JsonReader& operator=(JsonReader&& other) noexcept;

  // The result is valid until the next call.
  ApiBody read(std::string_view body, ApiFields fields);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::wire
