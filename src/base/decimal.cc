#include "base/decimal.h"

#include <charconv>
#include <limits>

#include "base/ascii.h"

namespace weir {

namespace {

// A larger exponent makes any mantissa zero or too large. The bound also keeps sums of exponents
// from overflowing.
constexpr int kMaxExponent = 1000;
// Numbers of this many digits fit in 128 bits.
constexpr std::size_t kMaxDigits = 36;

std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

Int128 value_of(std::string_view digits, Int128 value) {
  for (const char c : digits) value = value * 10 + (c - '0');
  return value;
}

std::optional<int> read_exponent(std::string_view text) {
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  if (plus && (text.empty() || !is_digit(text.front()))) return std::nullopt;
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (exponent < -kMaxExponent || exponent > kMaxExponent) return std::nullopt;
  return exponent;
}

bool fits(Int128 value) {
  return value >= std::numeric_limits<std::int64_t>::min() &&
         value <= std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);

  const std::string_view whole = take_digits(text);
  if (whole.empty() || whole.size() > kMaxDigits) return std::nullopt;
  Decimal number{.mantissa = value_of(whole, 0)};
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    std::string_view fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
    fraction = fraction.substr(0, kMaxDigits - whole.size());
    number.mantissa = value_of(fraction, number.mantissa);
    number.exponent = -static_cast<int>(fraction.size());
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    const auto exponent = read_exponent(text.substr(1));
    if (!exponent) return std::nullopt;
    number.exponent += *exponent;
    text = {};
  }
  if (!text.empty()) return std::nullopt;
  if (negative) number.mantissa = -number.mantissa;
  return number;
}

std::optional<std::int64_t> Decimal::shifted(int places) const {
  int power = exponent + places;
  Int128 value = mantissa;
  for (; power > 0 && value != 0 && fits(value); --power) value *= 10;
  for (; power < -1 && value != 0; ++power) value /= 10;
  if (power == -1) value = (value + (value < 0 ? -5 : 5)) / 10;
  if (!fits(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace weir
