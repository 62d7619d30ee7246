#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway {

// An IP address. IPv4 is stored IPv4-mapped (::ffff:192.0.2.1), so that an address is the same
// whether it came over an IPv4 or an IPv6 socket.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  bool is_v4() const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// Parses 192.0.2.1 or 2001:db8::1, and nothing else: no port, brackets, zone or octal numbers.
std::optional<IpAddress> parse_address(std::string_view text);

// Formats as 192.0.2.1 or 2001:db8::1.
std::string to_text(const IpAddress& address);
void append_text(std::string& out, const IpAddress& address);

// Keeps the first bits of the address (by its family) and clears the others.
IpAddress masked(const IpAddress& address, int v4_bits, int v6_bits);

// A CIDR block: 10.0.0.0/8, 2001:db8::/32. A single address has all its bits.
struct IpRange {
  IpAddress first;
  int bits = 128;  // of 128: an IPv4 prefix length plus 96

  bool has(const IpAddress& address) const;

  friend bool operator==(const IpRange&, const IpRange&) = default;
};
std::optional<IpRange> parse_range(std::string_view text);

bool has(const std::vector<IpRange>& ranges, const IpAddress& address);

}  // namespace weir::gateway
