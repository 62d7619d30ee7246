#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway {

// An address of a machine. IPv4 is kept as IPv6 keeps it (::ffff:192.0.2.1), so that an address has
// one form, whichever way its owner came.
struct Address {
  std::array<std::uint8_t, 16> bytes{};

  bool is_v4() const;

  friend bool operator==(const Address&, const Address&) = default;
};

// 192.0.2.1 or 2001:db8::1, and nothing else: no port, no brackets, no zone, no octal.
std::optional<Address> parse_address(std::string_view text);

// 192.0.2.1, 2001:db8::1.
std::string to_text(const Address& address);
void append_text(std::string& out, const Address& address);

// The first bits of an address, all others 0: how many of them depends on its kind.
Address masked(const Address& address, int v4_bits, int v6_bits);

// Addresses that begin alike: 10.0.0.0/8, 2001:db8::/32. One on its own has all its bits.
struct AddressRange {
  Address first;
  int bits = 128;  // of all 128: 96 more than are written for IPv4

  bool has(const Address& address) const;

  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};
std::optional<AddressRange> parse_range(std::string_view text);

bool has(const std::vector<AddressRange>& ranges, const Address& address);

}  // namespace weir::gateway
