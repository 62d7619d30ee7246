#include "base/suggest.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"

namespace weir {

namespace {

// Longer words are not compared: the cost grows with the product of the lengths.
constexpr std::size_t kLongestWord = 64;

// The Levenshtein distance, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t kept = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({kept, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view typed, std::span<const std::string_view> known) {
  if (typed.size() > kLongestWord) return {};
  std::string_view best;
  // Allows one wrong letter in a short word, up to three in a long one.
  std::size_t best_distance = std::clamp<std::size_t>(typed.size() / 2, 1, 3) + 1;
  for (const std::string_view word : known) {
    const std::size_t distance = edit_distance(typed, word);
    if (distance < best_distance) {
      best_distance = distance;
      best = word;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known) {
  const std::string_view word = nearest(typed, known);
  return word.empty() ? std::string{} : " (did you mean \"" + std::string{word} + "\"?)";
}

}  // namespace weir
