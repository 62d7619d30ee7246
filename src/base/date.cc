#include "base/date.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/decimal.h"

namespace weir {

namespace {

// Consumes a number of exactly `digits` digits at the front of `text`.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc{} || end != text.data() + digits || text.front() == '-') {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  return value;
}

bool take_any(std::string_view& text, std::string_view characters) {
  if (text.empty() || characters.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Nanos> take_fraction(std::string_view& text) {
  if (!text.starts_with('.')) return Nanos{0};
  std::size_t length = 1;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  std::string digits = "0";
  digits += text.substr(0, length);
  const auto number = Decimal::parse(digits);
  const auto nanos = number ? number->shifted(9) : std::nullopt;
  text.remove_prefix(length);
  if (!nanos) return std::nullopt;
  return Nanos{*nanos};
}

std::optional<Nanos> take_offset(std::string_view& text) {
  if (take_any(text, "Zz")) return Nanos{0};
  const bool west = text.starts_with('-');
  if (!take_any(text, "+-")) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || !take_any(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const Nanos offset = std::chrono::hours{*hours} + std::chrono::minutes{*minutes};
  return west ? -offset : offset;
}

std::string zero_padded(std::int64_t number, std::size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), '0') + text;
}

}  // namespace

std::optional<Instant> parse_date(std::string_view text) {
  using namespace std::chrono;
  const auto y = take_number(text, 4);
  if (!y || !take_any(text, "-")) return std::nullopt;
  const auto mo = take_number(text, 2);
  if (!mo || !take_any(text, "-")) return std::nullopt;
  const auto d = take_number(text, 2);
  if (!d || !take_any(text, "Tt ")) return std::nullopt;
  const auto h = take_number(text, 2);
  if (!h || !take_any(text, ":")) return std::nullopt;
  const auto mi = take_number(text, 2);
  if (!mi || !take_any(text, ":")) return std::nullopt;
  const auto s = take_number(text, 2);
  if (!s) return std::nullopt;
  const auto fraction = take_fraction(text);
  const auto offset = take_offset(text);
  const year_month_day date{year{*y}, month(static_cast<unsigned>(*mo)),
                            day(static_cast<unsigned>(*d))};
  if (!fraction || !offset || !text.empty() || !date.ok()) return std::nullopt;
  if (*h > 23 || *mi > 59 || *s > 60 || *y < 1970 || *y > 2115) return std::nullopt;
  return sys_days{date} + hours{*h} + minutes{*mi} + seconds{*s} + *fraction - *offset;
}

std::string to_date(Instant time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  std::string out = zero_padded(int{date.year()}, 4);
  out += '-' + zero_padded(unsigned{date.month()}, 2);
  out += '-' + zero_padded(unsigned{date.day()}, 2);
  out += 'T' + zero_padded(clock.hours().count(), 2);
  out += ':' + zero_padded(clock.minutes().count(), 2);
  out += ':' + zero_padded(clock.seconds().count(), 2);
  if (const auto nanos = clock.subseconds().count(); nanos != 0) {
    const std::string decimals = zero_padded(nanos, 9);
    out += '.' + decimals.substr(0, decimals.find_last_not_of('0') + 1);
  }
  return out + 'Z';
}

}  // namespace weir
