#include "store/redis/redis_call.h"

#include <array>
#include <charconv>

namespace weir::store::redis {

namespace {

void append_head(std::string& out, char type, std::size_t count) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), count).ptr;
  out.push_back(type);
  out.append(digits.data(), end);
  out.append("\r\n");
}

}  // namespace

void append_resp(std::string& out, std::span<const std::string_view> words) {
  append_head(out, '*', words.size());
  for (const std::string_view word : words) {
    append_head(out, '$', word.size());
    out.append(word).append("\r\n");
  }
}

}  // namespace weir::store::redis
