#include "store/random_name.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace weir::store {

std::string random_name() {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::array<std::uint8_t, 16> bits{};
  if (getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  std::string name;
  for (const std::uint8_t byte : bits) {
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name;
}

}  // namespace weir::store
