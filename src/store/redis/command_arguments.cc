#include "store/redis/command_arguments.h"

#include <charconv>

namespace weir::store::redis {

// This file appends string views, not pointer ranges: std::string implements the latter as a slower
// replacement.

CommandArguments& CommandArguments::text(std::string_view text) { return this->text(text, {}); }

CommandArguments& CommandArguments::text(std::string_view text, std::string_view suffix) {
  char head[24];
  char* at = head;
  *at++ = '$';
  at = std::to_chars(at, head + sizeof head, text.size() + suffix.size()).ptr;
  *at++ = '\r';
  *at++ = '\n';
  bytes_.append(std::string_view(head, at)).append(text).append(suffix).append("\r\n");
  ++count_;
  return *this;
}

CommandArguments& CommandArguments::number(std::int64_t number) {
  // The length precedes the digits, so the digits are written first, after the space that it needs.
  char bytes[32];
  char* const digits = bytes + 5;
  char* const end = std::to_chars(digits, bytes + sizeof bytes - 2, number).ptr;
  const auto size = static_cast<std::size_t>(end - digits);
  end[0] = '\r';
  end[1] = '\n';
  char* first = digits;
  *--first = '\n';
  *--first = '\r';
  *--first = static_cast<char>('0' + size % 10);
  if (size >= 10) *--first = static_cast<char>('0' + size / 10);
  *--first = '$';
  bytes_.append(std::string_view(first, end + 2));
  ++count_;
  return *this;
}

void append_eval(std::string& out, const LuaScript& script, bool with_source,
                 const CommandArguments& keys, const CommandArguments& arguments) {
  char head[64];
  char* const end = head + sizeof head;
  char* at = head;
  const auto put = [&](std::string_view text) {
    text.copy(at, text.size());
    at += text.size();
  };
  *at++ = '*';
  at = std::to_chars(at, end, 3 + keys.count() + arguments.count()).ptr;
  put("\r\n");
  if (with_source) {
    put("$4\r\nEVAL\r\n$");
    at = std::to_chars(at, end, script.source.size()).ptr;
    put("\r\n");
    out.append(std::string_view(head, at)).append(script.source);
  } else {
    put("$7\r\nEVALSHA\r\n$40\r\n");
    out.append(std::string_view(head, at)).append(script.sha1);
  }
  at = head;
  put(keys.count() < 10 ? "\r\n$1\r\n" : "\r\n$2\r\n");
  at = std::to_chars(at, end, keys.count()).ptr;
  put("\r\n");
  out.append(std::string_view(head, at)).append(keys.bytes()).append(arguments.bytes());
}

}  // namespace weir::store::redis
