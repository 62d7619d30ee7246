#include "gateway/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weir::gateway {

namespace {

constexpr std::array<std::uint8_t, 12> kV4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kV4Bits = 32;
constexpr int kAllBits = 128;
constexpr int kPrefixBits = kAllBits - kV4Bits;

// Clears all bits after the first `bits`.
void clear_after(std::array<std::uint8_t, 16>& bytes, int bits) {
  for (int i = 0; i < 16; ++i) {
    const int kept_bits = std::clamp(bits - i * 8, 0, 8);
    bytes[static_cast<std::size_t>(i)] &= static_cast<std::uint8_t>(0xff00 >> kept_bits);
  }
}

// Parses a prefix length: digits without sign or leading zero.
std::optional<int> parse_bits(std::string_view text, int max) {
  int bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  const bool padded = text.size() > 1 && text.front() == '0';
  if (error != std::errc{} || end != text.data() + text.size() || padded) return std::nullopt;
  if (bits < 0 || bits > max || text.front() == '-') return std::nullopt;
  return bits;
}

// Most addresses are IPv4, and inet_ntop takes several times as long.
void append_v4(std::string& out, const IpAddress& address) {
  std::array<char, INET_ADDRSTRLEN> text;
  char* at = text.data();
  for (std::size_t i = kV4Prefix.size(); i < address.bytes.size(); ++i) {
    if (i > kV4Prefix.size()) *at++ = '.';
    at = std::to_chars(at, text.data() + text.size(), address.bytes[i]).ptr;
  }
  out.append(text.data(), at);
}

}  // namespace

bool IpAddress::is_v4() const {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), bytes.begin());
}

std::optional<IpAddress> parse_address(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.empty() || text.size() >= terminated.size()) return std::nullopt;
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::memcpy(terminated.data(), text.data(), text.size());
  IpAddress address;
  if (inet_pton(AF_INET6, terminated.data(), address.bytes.data()) == 1) return address;
  std::ranges::copy(kV4Prefix, address.bytes.begin());
  if (inet_pton(AF_INET, terminated.data(), &address.bytes[kV4Prefix.size()]) == 1) return address;
  return std::nullopt;
}

void append_text(std::string& out, const IpAddress& address) {
  if (address.is_v4()) return append_v4(out, address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, address.bytes.data(), text.data(), text.size());
  out += text.data();
}

std::string to_text(const IpAddress& address) {
  std::string text;
  append_text(text, address);
  return text;
}

IpAddress masked(const IpAddress& address, int v4_bits, int v6_bits) {
  IpAddress first = address;
  clear_after(first.bytes, address.is_v4() ? kPrefixBits + v4_bits : v6_bits);
  return first;
}

bool IpRange::has(const IpAddress& address) const {
  IpAddress start = address;
  clear_after(start.bytes, bits);
  return start == first;
}

std::optional<IpRange> parse_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  IpRange range{*address, kAllBits};
  if (slash == std::string_view::npos) return range;
  // A dotted prefix counts from 32 bits, a mapped one (::ffff:10.0.0.0) from 128.
  const bool dotted = text.find(':') == std::string_view::npos;
  const auto bits = parse_bits(text.substr(slash + 1), dotted ? kV4Bits : kAllBits);
  if (!bits) return std::nullopt;
  range.bits = dotted ? *bits + kPrefixBits : *bits;
  clear_after(range.first.bytes, range.bits);
  return range;
}

bool has(const std::vector<IpRange>& ranges, const IpAddress& address) {
  return std::ranges::any_of(ranges, [&](const IpRange& range) { return range.has(address); });
}

}  // namespace weir::gateway
