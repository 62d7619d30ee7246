#pragma once

#include <initializer_list>
#include <vector>

#include "gateway/client_address.h"

namespace weir::gateway {

// Fields that borrow their strings: {{"Cookie", "a=1"}}.
using FieldList = std::vector<wire::HttpField>;

inline IpAddress address(std::string_view text) { return *parse_address(text); }

inline std::vector<IpRange> ranges(std::initializer_list<std::string_view> texts) {
  std::vector<IpRange> made;
  for (const std::string_view text : texts) made.push_back(*parse_range(text));
  return made;
}

}  // namespace weir::gateway
