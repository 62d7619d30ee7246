#include "policy/overrides.h"

#include <algorithm>
#include <limits>

namespace weir::policy {

namespace {

constexpr std::size_t kExact = std::numeric_limits<std::size_t>::max();

}  // namespace

Pattern Pattern::of(std::string_view written) {
  const bool prefix = written.ends_with('*');
  if (prefix) written.remove_suffix(1);
  return {std::string{written}, prefix};
}

// ---- Patterns of one text

void PatternIndex::Texts::add(std::string_view text, bool prefix, std::size_t position) {
  if (prefix) {
    prefixes_.push_back({std::string{text}, position});
  } else {
    exact_.emplace(text, position);
  }
}

void PatternIndex::Texts::arrange() {
  std::ranges::sort(prefixes_, {}, &Prefix::text);
  for (std::size_t i = 1; i < prefixes_.size(); ++i) {
    // Sorted order: a prefix of a text precedes it, and all entries between start with that prefix.
    auto shorter = static_cast<std::ptrdiff_t>(i) - 1;
    while (shorter >= 0 && !prefixes_[i].text.starts_with(prefixes_[shorter].text)) {
      shorter = prefixes_[shorter].shorter;
    }
    prefixes_[i].shorter = shorter;
  }
}

std::optional<PatternIndex::Match> PatternIndex::Texts::find(std::string_view text) const {
  if (const auto found = exact_.find(text); found != exact_.end()) {
    return Match{kExact, found->second};
  }
  return find_prefix(text);
}

std::optional<PatternIndex::Match> PatternIndex::Texts::find_prefix(std::string_view text) const {
  const auto behind = std::ranges::upper_bound(prefixes_, text, {}, &Prefix::text);
  std::ptrdiff_t at = behind - prefixes_.begin() - 1;
  while (at >= 0 && !text.starts_with(prefixes_[at].text)) at = prefixes_[at].shorter;
  if (at < 0) return std::nullopt;
  return Match{prefixes_[at].text.size(), prefixes_[at].position};
}

// ---- All patterns

PatternIndex::PatternIndex(const std::vector<Override>& overrides) {
  for (std::size_t i = 0; i < overrides.size(); ++i) add(overrides[i].pattern, i);
  arrange();
}

PatternIndex::PatternIndex(std::span<const Pattern> patterns) {
  for (std::size_t i = 0; i < patterns.size(); ++i) add(patterns[i], i);
  arrange();
}

void PatternIndex::add(const Pattern& pattern, std::size_t position) {
  const auto& [text, prefix] = pattern;
  whole_.add(text, prefix, position);
  if (text.empty() && prefix) all_ = position;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return;
  parts_[text.substr(0, equals)].add(std::string_view{text}.substr(equals + 1), prefix, position);
}

void PatternIndex::arrange() {
  whole_.arrange();
  for (auto& [name, texts] : parts_) texts.arrange();
}

std::optional<std::size_t> PatternIndex::find(const Subject& subject) const {
  if (!subject.parts.empty()) return find_part(subject.parts);
  const auto match = whole_.find(subject.key);
  return match ? std::optional(match->position) : std::nullopt;
}

std::optional<std::size_t> PatternIndex::find_part(std::span<const Part> parts) const {
  std::optional<Match> best;
  for (const Part& part : parts) {
    const auto texts = parts_.find(part.name);
    if (texts == parts_.end()) continue;
    const auto match = texts->second.find(part.value);
    if (!match) continue;
    const bool better = !best || match->length > best->length ||
                        (match->length == best->length && match->position < best->position);
    if (better) best = match;
  }
  return best ? best->position : all_;
}

std::optional<std::size_t> PatternIndex::covering(const Pattern& pattern) const {
  const auto match = pattern.prefix ? whole_.find_prefix(pattern.text) : whole_.find(pattern.text);
  return match ? std::optional(match->position) : std::nullopt;
}

}  // namespace weir::policy
