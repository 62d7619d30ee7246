#include "base/decimal.h"

#include <charconv>
#include <limits>

namespace weir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Beyond this an exponent makes any mantissa zero or too large; it also keeps sums from overflowing.
constexpr int kMaxExponent = 1000;

// Reads digits at the front of `text` into `mantissa`; how many, or nothing if they do not fit.
std::optional<int> read_digits(std::string_view& text, std::int64_t& mantissa) {
  int digits = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++digits) {
    if (__builtin_mul_overflow(mantissa, 10, &mantissa) ||
        __builtin_add_overflow(mantissa, text.front() - '0', &mantissa)) {
      return std::nullopt;
    }
  }
  return digits;
}

std::optional<int> read_exponent(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (exponent < -kMaxExponent || exponent > kMaxExponent) return std::nullopt;
  return exponent;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);

  Decimal number;
  const auto whole = read_digits(text, number.mantissa);
  if (!whole || *whole == 0) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    std::size_t length = 0;
    while (length < text.size() && is_digit(text[length])) ++length;
    if (length == 0) return std::nullopt;
    std::string_view fraction = text.substr(0, length);
    text.remove_prefix(length);
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
    const auto digits = read_digits(fraction, number.mantissa);
    if (!digits) return std::nullopt;
    number.exponent = -*digits;
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
  for (; power > 0 && value != 0; --power) {
    value *= 10;
    if (value > std::numeric_limits<std::int64_t>::max() ||
        value < std::numeric_limits<std::int64_t>::min()) {
      return std::nullopt;
    }
  }
  Int128 divisor = 1;
  for (; power < 0; ++power) {
    divisor *= 10;
    if (divisor > Int128{std::numeric_limits<std::int64_t>::max()} * 100) return 0;
  }
  const Int128 half = value < 0 ? -(divisor / 2) : divisor / 2;
  return static_cast<std::int64_t>((value + half) / divisor);
}

}  // namespace weir
