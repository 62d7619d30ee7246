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

// The fields that a body may have, as bits.
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

// What the body of a route looks like.
struct ApiFields {
  ApiField allowed = ApiField::none;
  // Without these it makes no sense. "key" stands for "key" or "parts" where both are allowed.
  ApiField required = ApiField::none;
};

namespace api {

inline constexpr ApiField kSubject =
    ApiField::policy | ApiField::key | ApiField::parts | ApiField::skip_missing;
inline constexpr ApiField kWhose = ApiField::policy | ApiField::key;

inline constexpr ApiFields kTake{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::wants_receipt, kWhose};
inline constexpr ApiFields kPeek{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::holder, kWhose};
inline constexpr ApiFields kSettle{kSubject | ApiField::delta | ApiField::receipt,
                                   kWhose | ApiField::delta};
inline constexpr ApiFields kReset{kSubject, kWhose};
inline constexpr ApiFields kEnter{
    kSubject | ApiField::permits | ApiField::max_wait_ms | ApiField::holder, kWhose};
inline constexpr ApiFields kLeave{kSubject | ApiField::holder, kWhose | ApiField::holder};
inline constexpr ApiFields kExplain{kSubject | ApiField::permits, kWhose};
inline constexpr ApiFields kThrottle{
    ApiField::key | ApiField::limit | ApiField::permits | ApiField::max_wait_ms,
    ApiField::key | ApiField::limit};

}  // namespace api

// What a body asks for. Borrows its texts from the reader. Texts are bytes: they may be empty, and
// hold zeros.
struct ApiRequest {
  ApiField given = ApiField::none;  // which of the fields below were there
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

  // max_wait_ms, as long as a duration can say.
  std::optional<Nanos> max_wait() const;
};

// One of the things a body asks for, or what is wrong with it.
struct ApiItem {
  ApiRequest request;
  std::string error;        // empty if nothing is
  std::string error_field;  // the field it is about, if it is about one
};

// A body: one item, or a batch of them.
struct ApiBody {
  bool is_batch = false;
  std::span<const ApiItem> items{};
  // Why there are no items: it is no JSON, or too much of it. Empty otherwise.
  std::string_view error{};
};

// Reads the bodies of the API. Strict: unknown and repeated fields, numbers that do not fit and
// anything behind the end are errors. An error in an item of a batch leaves the others alone.
// Not thread-safe. Keeps its memory for the next body: about ten times the largest one.
class JsonReader {
 public:
  static constexpr std::size_t kMostItems = 1000;

  JsonReader();
  ~JsonReader();
  JsonReader(JsonReader&& other) noexcept;
  JsonReader& operator=(JsonReader&& other) noexcept;

  // The answer is valid until the next one.
  ApiBody read(std::string_view body, ApiFields fields);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::wire
