#include "store/redis/state_text.h"

#include <array>
#include <charconv>
#include <initializer_list>
#include <span>

#include "base/saturating.h"
#include "store/redis/digits.h"

namespace weir::store::redis {

namespace {

using core::Bucket;
using core::State;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMicro = 1000;

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void append_numbers(std::string& out, char letter, std::initializer_list<std::uint64_t> numbers) {
  out += {'1', letter};
  for (const std::uint64_t number : numbers) {
    out += ' ';
    append_number(out, number);
  }
}

// Numbers separated by single spaces, and nothing else.
bool read_numbers(std::string_view text, std::span<std::uint64_t> numbers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ' ')) return false;
    at = read_digits(at, end, numbers[i]);
    if (at == nullptr) return false;
  }
  return at == end;
}

template <std::size_t kCount>
bool read_fields(std::string_view text, char letter, std::array<std::uint64_t, kCount>& fields) {
  if (text.size() < 3 || text[0] != '1' || text[1] != letter || text[2] != ' ') return false;
  return read_numbers(text.substr(3), fields);
}

std::uint64_t nanos(std::uint64_t micros) { return micros * kMicro; }
std::uint64_t micros(std::uint64_t nanos) { return nanos / kMicro; }

// ---- Algorithms

constexpr int kMarksShift = core::gcra::kStampBits;

// A state at another price gets stamp 0: `remembered.interval` identifies its price.
bool read(const Bucket& limit, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 8> f{};
  if (!read_fields(text, 'b', f)) return false;
  const auto& [price, rest, parts, birth, marks, seconds, sub, written] = f;
  constexpr std::uint64_t max_parts = std::uint64_t{1} << 20;
  constexpr auto latest = static_cast<std::uint64_t>(ns(kLatest));
  if (parts == 0 || parts > max_parts || rest >= parts || marks > 15) return false;
  if (price == 0 && rest == 0) return false;
  if (price > static_cast<std::uint64_t>(core::kLongestDebt.count())) return false;
  if (seconds > 2 * latest / kSecond || written > latest / kMicro) return false;
  const core::EmissionInterval pace{
      .parts = static_cast<std::int64_t>(parts),
      .price = Int128{price} * static_cast<std::int64_t>(parts) + rest};
  const bool own_price = pace.parts == limit.interval.parts && pace.price == limit.interval.price;
  const std::uint64_t when = seconds * kSecond + sub / parts;
  const std::uint64_t what = (sub % parts) << core::gcra::kPartsShift | marks << kMarksShift |
                             (own_price ? limit.stamp : 0);
  remembered = {{when, what}, birth, instant(static_cast<std::int64_t>(nanos(written))), pace};
  return true;
}

void append(std::string& out, const Bucket& limit, const StoredState& r) {
  append_price_prefix(out, limit);
  const auto parts = static_cast<std::uint64_t>(limit.interval.parts);
  append_number(out, r.birth);
  out += ' ';
  append_number(out, (r.state.what & core::gcra::kMarksMask) >> kMarksShift);
  out += ' ';
  append_number(out, r.state.when / kSecond);
  out += ' ';
  append_number(out, r.state.when % kSecond * parts + (r.state.what >> core::gcra::kPartsShift));
  out += ' ';
  append_number(out, micros(core::word_of(r.written)));
}

bool read(const core::NginxQueue&, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 3> f{};
  if (!read_fields(text, 'n', f)) return false;
  remembered = {{f[1], f[2]}, f[0]};
  return true;
}

void append(std::string& out, const core::NginxQueue&, const StoredState& r) {
  append_numbers(out, 'n', {r.birth, r.state.when, r.state.what});
}

constexpr int kNextShift = core::savings::kPartsBits + core::savings::kSavedBits;

bool read(const core::Smooth&, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 7> f{};
  if (!read_fields(text, 's', f)) return false;
  const std::uint64_t saved = f[4] * kSecond + f[5];
  remembered = {
      {f[1] * kSecond + f[2], f[3] << kNextShift | saved << core::savings::kPartsBits | f[6]},
      f[0]};
  return true;
}

void append(std::string& out, const core::Smooth&, const StoredState& r) {
  constexpr std::uint64_t parts = (std::uint64_t{1} << core::savings::kPartsBits) - 1;
  constexpr std::uint64_t max_saved = (std::uint64_t{1} << core::savings::kSavedBits) - 1;
  const std::uint64_t saved = r.state.what >> core::savings::kPartsBits & max_saved;
  append_numbers(
      out, 's',
      {r.birth, r.state.when / kSecond, r.state.when % kSecond, r.state.what >> kNextShift,
       saved / kSecond, saved % kSecond, r.state.what & parts});
}

bool read_window(char letter, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 3> f{};
  if (!read_fields(text, letter, f)) return false;
  remembered = {{nanos(f[1]), f[2]}, f[0]};
  return true;
}

bool read(const core::Window&, std::string_view text, StoredState& r) {
  return read_window('w', text, r);
}
void append(std::string& out, const core::Window&, const StoredState& r) {
  append_numbers(out, 'w', {r.birth, micros(r.state.when), r.state.what});
}

bool read(const core::CalendarWindow&, std::string_view text, StoredState& r) {
  return read_window('q', text, r);
}
void append(std::string& out, const core::CalendarWindow&, const StoredState& r) {
  append_numbers(out, 'q', {r.birth, micros(r.state.when), r.state.what});
}

bool read(const core::SlidingCounter&, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 4> f{};
  if (!read_fields(text, 'v', f)) return false;
  remembered = {{nanos(f[1]), f[2] << 32 | f[3]}, f[0]};
  return true;
}
void append(std::string& out, const core::SlidingCounter&, const StoredState& r) {
  append_numbers(out, 'v',
                 {r.birth, micros(r.state.when), r.state.what >> 32, r.state.what & 0xffff'ffff});
}

bool read(const core::RedisCell&, std::string_view text, StoredState& remembered) {
  std::array<std::uint64_t, 3> f{};
  if (!read_fields(text, 'c', f)) return false;
  remembered = {{f[1] * kSecond + f[2], 0}, f[0]};
  return true;
}
void append(std::string& out, const core::RedisCell&, const StoredState& r) {
  append_numbers(out, 'c', {r.birth, r.state.when / kSecond, r.state.when % kSecond});
}

// These two have lists, not texts.
bool read(const core::SlidingLog&, std::string_view, StoredState&) { return false; }
void append(std::string&, const core::SlidingLog&, const StoredState&) {}
bool read(const core::Concurrency&, std::string_view, StoredState&) { return false; }
void append(std::string&, const core::Concurrency&, const StoredState&) {}

}  // namespace

SecondsAndParts in_seconds_and_parts(Int128 in_parts, std::int64_t parts) {
  const Int128 base = Int128{kSecond} * parts;
  if (in_parts >= 0) {
    const Int128 seconds = quick_div(in_parts, base);
    return {static_cast<std::int64_t>(seconds),
            static_cast<std::int64_t>(in_parts - seconds * base)};
  }
  const Int128 seconds = -ceil_div(-in_parts, base);
  return {static_cast<std::int64_t>(seconds), static_cast<std::int64_t>(in_parts - seconds * base)};
}

// In the order of core::Limit's alternatives.
char letter_of(const core::Limit& limit) { return "bnswvqlhc"[limit.index()]; }

void append_price(std::string& out, const Bucket& limit) {
  const Int128 parts = limit.interval.parts;
  append_number(out, static_cast<std::uint64_t>(limit.interval.price / parts));
  out += ' ';
  append_number(out, static_cast<std::uint64_t>(limit.interval.price % parts));
  out += ' ';
  append_number(out, static_cast<std::uint64_t>(limit.interval.parts));
}

void append_price_prefix(std::string& out, const Bucket& limit) {
  out += "1b ";
  append_price(out, limit);
  out += ' ';
}

bool read_text(const core::Limit& limit, std::string_view text, StoredState& remembered) {
  if (const auto* bucket = std::get_if<Bucket>(&limit)) return read(*bucket, text, remembered);
  return std::visit([&](const auto& l) { return read(l, text, remembered); }, limit);
}

void append_text(std::string& out, const core::Limit& limit, const StoredState& remembered) {
  std::visit([&](const auto& l) { append(out, l, remembered); }, limit);
}

bool read_text(std::string_view text, LastRefund& last) {
  std::array<std::uint64_t, 3> f{};
  if (!read_fields(text, 'r', f)) return false;
  last = {.number = f[0], .back = to_int64(Int128{f[1]}), .is_exact = f[2] == 1};
  return true;
}

bool read_text(std::string_view text, LogFacts& facts) {
  std::array<std::uint64_t, 6> f{};
  if (!read_numbers(text, f)) return false;
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(f[i]); };
  facts = {f[0], number(1), number(2), number(3), number(4), number(5)};
  return true;
}

bool read_text(std::string_view text, HolderFacts& facts) {
  std::array<std::uint64_t, 5> f{};
  if (!read_numbers(text, f)) return false;
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(f[i]); };
  facts = {number(0), number(1), number(2), number(3), number(4)};
  return true;
}

}  // namespace weir::store::redis
