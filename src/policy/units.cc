#include "policy/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/decimal.h"
#include "base/suggest.h"

namespace weir::policy {

namespace {

struct TimeUnit {
  std::string_view name;
  std::int64_t nanos;
};

constexpr std::array<TimeUnit, 7> kTimeUnits{{{"h", 3'600'000'000'000},
                                              {"min", 60'000'000'000},
                                              {"s", 1'000'000'000},
                                              {"ms", 1'000'000},
                                              {"us", 1'000},
                                              {"µs", 1'000},
                                              {"ns", 1}}};

constexpr std::array<std::string_view, 4> kCalendarUnits{"day", "week", "month", "year"};

// A common misspelling of a unit, and the right word.
struct Misspelling {
  std::string_view written;
  std::string_view meant;
};

constexpr std::array<Misspelling, 26> kOtherNames{
    {{"sec", "s"},      {"secs", "s"},      {"second", "s"},     {"seconds", "s"},  {"S", "s"},
     {"minute", "min"}, {"minutes", "min"}, {"mins", "min"},     {"Min", "min"},    {"hour", "h"},
     {"hours", "h"},    {"hr", "h"},        {"hrs", "h"},        {"H", "h"},        {"d", "day"},
     {"days", "day"},   {"Day", "day"},     {"w", "week"},       {"weeks", "week"}, {"wk", "week"},
     {"mo", "month"},   {"mon", "month"},   {"months", "month"}, {"y", "year"},     {"yr", "year"},
     {"years", "year"}}};

struct SizeUnit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array<SizeUnit, 10> kSizeUnits{{{"B", 1},
                                               {"kB", 1'000},
                                               {"KB", 1'000},
                                               {"MB", 1'000'000},
                                               {"GB", 1'000'000'000},
                                               {"TB", 1'000'000'000'000},
                                               {"KiB", std::int64_t{1} << 10},
                                               {"MiB", std::int64_t{1} << 20},
                                               {"GiB", std::int64_t{1} << 30},
                                               {"TiB", std::int64_t{1} << 40}}};

// In characters. No number needs more, and messages quote it.
constexpr std::size_t kMaxNumberLength = 100;

// Maximum number of decimals of a rate.
constexpr int kMaxDecimals = 9;

// A word split into its leading number and the unit after it.
struct NumberAndUnit {
  std::string_view number;
  std::string_view unit;
};

NumberAndUnit split_unit(std::string_view text) {
  std::size_t end = 0;
  const auto is_number = [&](char c) {
    if ((c >= '0' && c <= '9') || c == '.') return true;
    const bool sign = c == '-' || c == '+';
    const bool after_exponent = end > 0 && (text[end - 1] == 'e' || text[end - 1] == 'E');
    if (sign) return end == 0 || after_exponent;
    // An e is an exponent only with digits around it: 1e6, but not 5exact.
    const bool digits_before = end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9';
    const bool digits_behind =
        end + 1 < text.size() && ((text[end + 1] >= '0' && text[end + 1] <= '9') ||
                                  text[end + 1] == '-' || text[end + 1] == '+');
    return (c == 'e' || c == 'E') && digits_before && digits_behind;
  };
  while (end < text.size() && is_number(text[end])) ++end;
  return {text.substr(0, end), text.substr(end)};
}

std::string_view without_blanks(std::string_view unit) {
  return unit.substr(std::min(unit.find_first_not_of(' '), unit.size()));
}

// For "5 s" and "64 MiB": a known unit after a blank.
Problem refuse_blank(const Word& word, const NumberAndUnit& split) {
  return {word.place.moved(split.number.size()),
          fmt::format("write no blank between number and unit: \"{}{}\"", split.number,
                      without_blanks(split.unit))};
}

const TimeUnit* time_unit(std::string_view name) {
  const auto found = std::ranges::find(kTimeUnits, name, &TimeUnit::name);
  return found == kTimeUnits.end() ? nullptr : &*found;
}

Problem unknown_unit(const Word& word, const NumberAndUnit& split) {
  if (time_unit(without_blanks(split.unit)) != nullptr) return refuse_blank(word, split);
  const SourcePosition place = word.place.moved(split.number.size());
  if (split.unit == "m") {
    return {place, fmt::format("\"m\" could be minutes or months: write \"{}min\"", split.number)};
  }
  const std::string_view meant = unit_meant_by(split.unit);
  if (!meant.empty()) {
    return {place, fmt::format("unknown unit \"{}\": did you mean \"{}{}\"?", split.unit,
                               split.number, meant)};
  }
  static constexpr std::array<std::string_view, 6> known{"s", "min", "h", "ms", "us", "ns"};
  return {place, fmt::format("unknown unit {}{}: a time is written like 10s, 5min, 1h, 250ms",
                             in_quotes(split.unit), did_you_mean(split.unit, known))};
}

// number × unit in nanoseconds; none if it overflows the longest duration.
std::optional<std::int64_t> nanos_of(Decimal number, std::int64_t unit) {
  // 24 digits are enough, and the product fits into 128 bits.
  constexpr Int128 most = Int128{1'000'000'000'000} * 1'000'000'000'000;
  for (; number.mantissa > most; ++number.exponent) number.mantissa /= 10;
  number.mantissa *= unit;
  const auto nanos = number.shifted(0);
  if (!nanos || *nanos > core::kLongestDebt.count()) return std::nullopt;
  return *nanos;
}

Problem not_a_number(const Word& word) {
  return {word.place,
          fmt::format("{} is not a number: write one like 100, 0.5 or 10MB", in_quotes(word.text))};
}

Problem not_a_time(const Word& word) {
  return {word.place,
          fmt::format("{} is not a time: write one like 10s, 5min or 250ms", in_quotes(word.text))};
}

struct Sized {
  Decimal number;
  std::int64_t factor;
};

Result<Sized, Problem> parse_sized(const Word& word) {
  const NumberAndUnit split = split_unit(word.text);
  const auto number = Decimal::parse(split.number);
  if (!number || split.number.size() > kMaxNumberLength) return not_a_number(word);
  if (number->mantissa < 0) {
    return Problem{word.place, fmt::format("{} is below zero", in_quotes(word.text))};
  }
  if (split.unit.empty()) return Sized{*number, 1};
  const auto unit = std::ranges::find(kSizeUnits, without_blanks(split.unit), &SizeUnit::name);
  if (unit != kSizeUnits.end() && split.unit.starts_with(' ')) return refuse_blank(word, split);
  if (unit == kSizeUnits.end()) {
    return Problem{word.place.moved(split.number.size()),
                   fmt::format("unknown size {}: sizes are B, kB, MB, GB, TB (powers of 1000) "
                               "and KiB, MiB, GiB, TiB (powers of 1024)",
                               in_quotes(split.unit))};
  }
  return Sized{*number, unit->factor};
}

Problem too_large(const Word& word) {
  return {word.place, fmt::format("{} is too large: at most {} can be counted",
                                  in_quotes(word.text), core::kMaxPermits)};
}

}  // namespace

Result<core::Rate, Problem> parse_amount(const Word& word) {
  const auto sized = parse_sized(word);
  if (!sized) return sized.error();
  const auto& [number, factor] = *sized;

  // Find the smallest `decimals` for which number × 10^decimals is whole.
  Int128 mantissa = number.mantissa;
  int decimals = std::max(-number.exponent, 0);
  for (; decimals > 0 && mantissa % 10 == 0; --decimals) mantissa /= 10;
  if (decimals > kMaxDecimals) {
    return Problem{word.place, fmt::format("{} has more than {} decimals: write it with a "
                                           "longer period",
                                           in_quotes(word.text), kMaxDecimals)};
  }
  const auto scaled = Decimal{mantissa, std::max(number.exponent, 0)}.shifted(0);
  std::int64_t count = 0;
  if (!scaled || __builtin_mul_overflow(*scaled, factor, &count) || count > core::kMaxPermits) {
    return too_large(word);
  }
  std::int64_t scale = 1;
  for (; decimals > 0; --decimals) scale *= 10;
  if (count % scale == 0) return core::Rate{.count = count / scale, .scale = 1};
  return core::Rate{.count = count, .scale = scale};
}

Result<Permits, Problem> parse_count(const Word& word, std::string_view what) {
  const auto amount = parse_amount(word);
  if (!amount) return amount.error();
  if (!amount->whole()) {
    return Problem{word.place, fmt::format("{} must be a whole number, not {}", what, word.text)};
  }
  return amount->floor();
}

std::optional<CalendarUnit> calendar_unit(std::string_view text) {
  const auto found = std::ranges::find(kCalendarUnits, text);
  if (found == kCalendarUnits.end()) return std::nullopt;
  return static_cast<CalendarUnit>(found - kCalendarUnits.begin());
}

std::string_view unit_name(CalendarUnit unit) {
  return kCalendarUnits[static_cast<std::size_t>(unit)];
}

std::string_view unit_meant_by(std::string_view written) {
  for (const Misspelling& other : kOtherNames) {
    if (other.written == written) return other.meant;
  }
  return {};
}

Result<Nanos, Problem> parse_period(const Word& word) {
  if (const TimeUnit* unit = time_unit(word.text)) return Nanos{unit->nanos};
  return parse_duration(word.text, word.place);
}

Result<Nanos, Problem> parse_duration(std::string_view text, SourcePosition place) {
  const Word word{std::string{text}, place};
  const NumberAndUnit split = split_unit(text);
  if (split.number.size() > kMaxNumberLength) return not_a_time(word);
  const TimeUnit* unit = time_unit(split.unit);
  if (calendar_unit(split.unit) || calendar_unit(unit_meant_by(split.unit))) {
    return Problem{place.moved(split.number.size()),
                   "days, weeks, months and years differ in length: a calendar quota is written "
                   "like 1000/day, a fixed time like 24h"};
  }
  if (unit == nullptr && !split.unit.empty()) return unknown_unit(word, split);
  const auto number = Decimal::parse(split.number);
  if (!number) return not_a_time(word);
  if (unit == nullptr) {
    return Problem{place.moved(text.size()),
                   fmt::format("a time needs a unit: write {0}ms, {0}s or {0}min", text)};
  }
  if (number->mantissa < 0) return Problem{place, "a time cannot be below zero"};
  const auto nanos = nanos_of(*number, unit->nanos);
  if (!nanos) return Problem{place, "a time of more than 73 years is too long"};
  return Nanos{*nanos};
}

namespace {

constexpr std::string_view kSpans = "write one like 90s, 10min, 2h30min or 1d";

// Units of a span on the command line: those of a duration, and `m` and `d`.
std::optional<std::int64_t> span_unit(std::string_view name) {
  if (name == "m") name = "min";
  if (name == "d") return 24 * time_unit("h")->nanos;
  const TimeUnit* unit = time_unit(name);
  return unit != nullptr ? std::optional(unit->nanos) : std::nullopt;
}

// Splits the first number and its unit off `text`, without blanks between them.
NumberAndUnit split_term(std::string_view text) {
  NumberAndUnit split = split_unit(text);
  split.unit = without_blanks(split.unit);
  split.unit = split.unit.substr(0, split.unit.find_first_of("0123456789. "));
  return split;
}

Problem bad_span(std::string_view text, const NumberAndUnit& split) {
  const bool is_number = Decimal::parse(split.number).has_value();
  if (is_number && split.unit.empty()) {
    return {{}, fmt::format("a time needs a unit: write {0}s, {0}min or {0}h", split.number)};
  }
  if (is_number && calendar_unit(unit_meant_by(split.unit))) {
    return {{}, "weeks, months and years are written in days: 7d, 30d, 365d"};
  }
  if (is_number && calendar_unit(split.unit)) {
    return {{}, "days are written 1d; weeks, months and years in days: 7d, 30d, 365d"};
  }
  const std::string_view meant = unit_meant_by(split.unit);
  if (is_number && !meant.empty()) {
    return {{},
            fmt::format("unknown unit {}: write {}{}", in_quotes(split.unit), split.number, meant)};
  }
  return {{}, fmt::format("{} is not a time: {}", in_quotes(text), kSpans)};
}

}  // namespace

Result<Nanos, Problem> parse_span(std::string_view text) {
  if (text == "0") return Nanos{0};
  if (text.size() > kMaxNumberLength) return bad_span(text.substr(0, kMaxNumberLength), {});
  std::string_view rest = without_blanks(text);
  if (rest.empty()) return bad_span(text, {});
  Nanos sum{0};
  while (!rest.empty()) {
    const NumberAndUnit split = split_term(rest);
    const auto number = Decimal::parse(split.number);
    const auto unit = span_unit(split.unit);
    if (!number || !unit) return bad_span(text, split);
    if (number->mantissa < 0) return Problem{{}, fmt::format("a time is above zero: {}", kSpans)};
    const auto nanos = nanos_of(*number, *unit);
    if (!nanos || sum.count() + *nanos > core::kLongestDebt.count()) {
      return Problem{{}, "a time of more than 73 years is too long"};
    }
    sum += Nanos{*nanos};
    const auto end = static_cast<std::size_t>(split.unit.data() + split.unit.size() - rest.data());
    rest = without_blanks(rest.substr(end));
  }
  return sum;
}

std::string to_text(Nanos duration) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (duration.count() != 0 && duration.count() % unit.nanos == 0) {
      return fmt::format("{}{}", duration.count() / unit.nanos, unit.name);
    }
  }
  return "0s";
}

}  // namespace weir::policy
