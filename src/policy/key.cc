#include "policy/key.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/fixed_vector.h"
#include "store/key_name.h"

namespace weir::policy {

namespace {

std::optional<Error> check(std::string_view bytes, std::string_view what) {
  if (bytes.empty()) return Error{fmt::format("{} is empty", what)};
  if (bytes.size() > kMaxKeyLength) {
    return Error{
        fmt::format("{} has {} bytes, at most {} are allowed", what, bytes.size(), kMaxKeyLength)};
  }
  return std::nullopt;
}

std::optional<Error> check(const Part& part) {
  if (part.name.size() > kMaxKeyLength) return check(part.name, "the name of a part");
  if (!part.value.empty() && part.value.size() <= kMaxKeyLength) return std::nullopt;
  return check(part.value, fmt::format("the part \"{}\"", part.name));
}

Error given_twice(std::string_view name) {
  return {fmt::format("the part \"{}\" is given twice", name)};
}

void append_with_length(std::string& key, std::string_view bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  for (int shift = 0; shift < 32; shift += 8) key += static_cast<char>(length >> shift & 0xff);
  key += bytes;
}

using InOrder = FixedVector<const Part*, Parts::kMax>;

std::optional<Error> choose_all(const Subject& subject, InOrder& chosen) {
  for (const Part& part : subject.parts) {
    if (auto invalid = check(part)) return invalid;
    chosen.emplace_back(&part);
  }
  std::ranges::sort(chosen, {}, [](const Part* part) { return part->name; });
  const auto twice =
      std::ranges::adjacent_find(chosen, {}, [](const Part* part) { return part->name; });
  if (twice == chosen.end()) return std::nullopt;
  return given_twice((*twice)->name);
}

std::optional<Error> choose(const Subject& subject, const std::vector<std::string>& by,
                            InOrder& chosen) {
  for (const std::string& name : by) {
    const auto part = std::ranges::find(subject.parts, name, &Part::name);
    if (part == subject.parts.end()) {
      return Error{fmt::format("the part \"{}\" is missing: this is counted by {}", name,
                               fmt::join(by, " and "))};
    }
    const auto second = std::ranges::find(part + 1, subject.parts.end(), name, &Part::name);
    if (second != subject.parts.end()) return given_twice(name);
    if (auto invalid = check(*part)) return invalid;
    chosen.emplace_back(&*part);
  }
  return std::nullopt;
}

}  // namespace

Result<Key, Error> key_of(const Subject& subject, const std::vector<std::string>& by,
                          std::string& buffer) {
  if (by.empty() && subject.parts.empty()) {
    const bool fits = !subject.key.empty() && subject.key.size() <= kMaxKeyLength;
    if (fits) return Key{.of_parts = false, .bytes = subject.key};
    return *check(subject.key, "the key");
  }
  InOrder chosen;
  auto wrong = by.empty() ? choose_all(subject, chosen) : choose(subject, by, chosen);
  if (wrong) return *std::move(wrong);
  buffer.clear();
  for (const Part* part : chosen) {
    append_with_length(buffer, part->name);
    append_with_length(buffer, part->value);
  }
  return Key{.of_parts = true, .bytes = buffer};
}

bool lacks_part(const Subject& subject, const std::vector<std::string>& by) {
  if (by.empty()) {
    return subject.parts.empty()
               ? subject.key.empty()
               : std::ranges::any_of(subject.parts, &std::string_view::empty, &Part::value);
  }
  return std::ranges::any_of(by, [&](const std::string& name) {
    const auto part = std::ranges::find(subject.parts, name, &Part::name);
    return part == subject.parts.end() || part->value.empty();
  });
}

void append_name(std::string& name, std::string_view head, const Subject& subject,
                 const std::vector<std::string>& by, std::string_view tail) {
  name += head;
  if (by.empty() && subject.parts.empty()) {
    store::append_whole_key(name, subject.key);
  } else {
    InOrder chosen;
    (void)(by.empty() ? choose_all(subject, chosen) : choose(subject, by, chosen));
    for (const Part* part : chosen) store::append_key_part(name, part->name, part->value);
  }
  name += tail;
}

}  // namespace weir::policy
