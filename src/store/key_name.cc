#include "store/key_name.h"

#include <algorithm>
#include <array>

namespace weir::store {

namespace {

constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> plain{};
  for (unsigned char c = '0'; c <= '9'; ++c) plain[c] = true;
  for (unsigned char c = 'a'; c <= 'z'; ++c) plain[c] = true;
  for (unsigned char c = 'A'; c <= 'Z'; ++c) plain[c] = true;
  for (const unsigned char c : {'.', '_', '@', '~', '/', '+', '-'}) plain[c] = true;
  return plain;
}

void append_escaped(std::string& name, std::string_view text) {
  static constexpr std::array<bool, 256> plain = plain_bytes();
  static constexpr std::string_view digits = "0123456789ABCDEF";
  const auto is_plain = [](char c) { return plain[static_cast<unsigned char>(c)]; };
  for (auto at = text.begin(); at != text.end(); ++at) {
    const auto run = at;
    at = std::find_if_not(at, text.end(), is_plain);
    name.append(std::string_view(run, at));
    if (at == text.end()) return;
    const auto byte = static_cast<unsigned char>(*at);
    name.append({'%', digits[byte >> 4], digits[byte & 0xf]});
  }
}

}  // namespace

std::string key_prefix(std::string_view policy) {
  std::string head = "weir1:{";
  append_escaped(head, policy);
  head += ':';
  return head;
}

std::string test_key_prefix(std::string_view run) {
  std::string head = "weir1:test:";
  append_escaped(head, run);
  head += ":{:";
  return head;
}

void append_whole_key(std::string& name, std::string_view key) { append_escaped(name, key); }

void append_key_part(std::string& name, std::string_view part, std::string_view value) {
  if (name.back() != ':') name += ',';
  append_escaped(name, part);
  name += '=';
  append_escaped(name, value);
}

// The first = separates a limit's kind from its name, so it is not escaped.
std::string key_suffix(std::string_view limit) {
  std::string tail = "}:";
  const std::size_t sign = limit.find('=');
  append_escaped(tail, limit.substr(0, sign));
  if (sign != std::string_view::npos) {
    tail += '=';
    append_escaped(tail, limit.substr(sign + 1));
  }
  return tail;
}

}  // namespace weir::store
