#include "policy/key.h"

#include <fmt/format.h>

#include <optional>

namespace weir::policy {

namespace {

// First byte: a key as given, or parts.
constexpr char kWhole = 'k';
constexpr char kParts = 'p';

std::optional<KeyError> check(std::string_view bytes, std::string_view what) {
  if (bytes.empty()) return KeyError{fmt::format("{} is empty", what)};
  if (bytes.size() > kLongestKey) {
    return KeyError{
        fmt::format("{} has {} bytes, at most {} are allowed", what, bytes.size(), kLongestKey)};
  }
  return std::nullopt;
}

void append(std::string& key, std::string_view bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  for (int shift = 0; shift < 32; shift += 8) key += static_cast<char>(length >> shift & 0xff);
  key += bytes;
}

std::optional<KeyError> append_part(std::string& key, const Subject& subject,
                                    const std::string& name) {
  const auto part = subject.parts.find(name);
  if (part == subject.parts.end()) {
    return KeyError{fmt::format("the part \"{}\" is missing", name)};
  }
  if (auto wrong = check(part->second, fmt::format("the part \"{}\"", name))) return wrong;
  append(key, name);
  append(key, part->second);
  return std::nullopt;
}

}  // namespace

Result<std::string, KeyError> key_of(const Subject& subject, const std::vector<std::string>& by) {
  if (by.empty() && subject.parts.empty()) {
    if (auto wrong = check(subject.key, "the key")) return *wrong;
    return kWhole + subject.key;
  }
  std::string key{kParts};
  for (const std::string& name : by) {
    if (auto wrong = append_part(key, subject, name)) return *wrong;
  }
  if (!by.empty()) return key;
  for (const auto& [name, value] : subject.parts) {
    if (auto wrong = append_part(key, subject, name)) return *wrong;
  }
  return key;
}

}  // namespace weir::policy
