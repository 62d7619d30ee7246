#include "wire/h2_fields.h"

#include <algorithm>

#include "wire/http1_text.h"

namespace weir::wire {

void append_fields(std::vector<H2Field>& to, std::string& lines) {
  std::size_t at = 0;
  while (at < lines.size()) {
    const std::size_t end = std::min(lines.find("\r\n", at), lines.size());
    const std::size_t colon = lines.find(':', at);
    if (colon < end) {
      const auto name = lines.begin() + static_cast<std::ptrdiff_t>(at);
      std::transform(name, name + static_cast<std::ptrdiff_t>(colon - at), name, lower);
      const std::string_view line = std::string_view(lines).substr(at, end - at);
      std::string_view value = line.substr(colon - at + 1);
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      to.push_back({line.substr(0, colon - at), value, false});
    }
    at = end + 2;
  }
}

}  // namespace weir::wire
