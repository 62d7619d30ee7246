#include "wire/grpc.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "wire/http1_text.h"

namespace weir::wire {

std::string_view to_digits(GrpcCode code) {
  static constexpr std::array<std::string_view, 17> digits{
      "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};
  return digits[static_cast<std::size_t>(code)];
}

// The subtype may have "+proto" after it, and parameters after a semicolon.
bool is_grpc(std::string_view content_type) {
  constexpr std::string_view name = "application/grpc";
  if (content_type == name) [[likely]]
    return true;
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  if (!same_ignoring_case(type.substr(0, name.size()), name)) return false;
  type.remove_prefix(name.size());
  return type.empty() || same_ignoring_case(type, "+proto");
}

GrpcMessage read_grpc_message(std::string_view body, std::size_t max_size) {
  using Status = GrpcMessage::Status;
  if (body.empty()) return {};
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(body[i]));
  };
  if (byte(0) > 1) return {.status = Status::malformed};
  if (body.size() < kGrpcPrefix) return {};
  const std::size_t size = byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
  if (size > max_size) return {.status = Status::too_long};
  if (body.size() - kGrpcPrefix < size) return {};
  if (byte(0) == 1) return {.status = Status::compressed};
  return {.status = Status::whole,
          .message = body.substr(kGrpcPrefix, size),
          .size = kGrpcPrefix + size};
}

void write_grpc_prefix(char* to, std::size_t size) {
  to[0] = 0;
  for (int i = 0; i < 4; ++i) to[1 + i] = static_cast<char>(size >> (24 - 8 * i) & 0xff);
}

namespace {

std::optional<std::int64_t> nanos_per_unit(char letter) {
  switch (letter) {
    case 'H':
      return 3'600'000'000'000;
    case 'M':
      return 60'000'000'000;
    case 'S':
      return 1'000'000'000;
    case 'm':
      return 1'000'000;
    case 'u':
      return 1'000;
    case 'n':
      return 1;
    default:
      return std::nullopt;
  }
}

}  // namespace

// A timeout has at most eight digits, and a unit.
std::optional<Nanos> parse_grpc_timeout(std::string_view text) {
  constexpr std::size_t max_digits = 8;
  if (text.size() < 2 || text.size() > max_digits + 1) return std::nullopt;
  const auto unit = nanos_per_unit(text.back());
  const std::string_view digits = text.substr(0, text.size() - 1);
  if (!unit || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (number > std::numeric_limits<std::int64_t>::max() / *unit) return Nanos::max();
  return Nanos{number * *unit};
}

void append_grpc_text(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += hex[byte >> 4];
    out += hex[byte & 15];
  }
}

}  // namespace weir::wire
