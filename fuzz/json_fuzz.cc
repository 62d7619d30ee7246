// Any bytes as the body of every route: an error with a text, or requests that another JSON parser
// finds as well.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "wire/json.h"
#include "wire/json_write.h"

namespace {

using namespace weir::wire;
using Json = nlohmann::json;

void require(bool holds) {
  if (!holds) std::abort();
}

void same_text(const Json& object, const char* name, std::string_view read) {
  if (object.contains(name)) require(object[name].get<std::string>() == read);
}

void same_number(const Json& object, const char* name, std::optional<std::int64_t> read) {
  require(object.contains(name) == read.has_value());
  if (read) require(object[name].get<std::int64_t>() == *read);
}

void same_request(const Json& object, const ApiRequest& request) {
  require(object.is_object());
  same_text(object, "policy", request.policy);
  same_text(object, "key", request.key);
  same_text(object, "holder", request.holder);
  same_text(object, "limit", request.limit);
  same_number(object, "permits", request.permits);
  same_number(object, "max_wait_ms", request.max_wait_ms);
  same_number(object, "delta", request.delta);
  for (const weir::Part& part : request.parts.all()) {
    require(object["parts"][std::string(part.name)].get<std::string>() == part.value);
  }
}

// (In an item with an error, the bytes after the error need not be well-formed.)
bool without_errors(const ApiBody& body) {
  if (!body.error.empty()) return false;
  for (const ApiItem& item : body.items) {
    if (!item.error.empty()) return false;
  }
  return true;
}

void check(const ApiBody& body, std::string_view text) {
  require(body.error.empty() || body.items.empty());
  require(body.is_batch || !body.error.empty() || body.items.size() == 1);
  require(body.items.size() <= JsonReader::kMaxItems);
  if (!without_errors(body)) return;
  const Json other = Json::parse(text, nullptr, false);
  require(!other.is_discarded());
  require(other.is_array() == body.is_batch);
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    same_request(body.is_batch ? other[i] : other, body.items[i].request);
  }
}

void write(std::string_view bytes) {
  std::string out;
  append_json_string(out, bytes);
  const Json text = Json::parse(out, nullptr, false);
  require(text.is_string());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static JsonReader reader;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const ApiFields& fields : {api::kTake, api::kPeek, api::kSettle, api::kReset, api::kEnter,
                                  api::kLeave, api::kExplain, api::kThrottle}) {
    check(reader.read(body, fields), body);
  }
  write(body);
  return 0;
}
