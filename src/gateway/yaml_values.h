#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/values.h"
#include "policy/yaml.h"
#include "weir/time.h"

// Values of fields of the `gateway:` section. Problems are added to the list; the answer is then
// the value that was there before.

namespace weir::gateway {

using policy::Node;
using policy::Problems;

// A whole number, or a size like 32KiB.
struct Bounds {
  Permits least = 0;
  Permits most = INT64_MAX;
};
void read_number(const Node& node, std::string_view what, Bounds bounds, Permits& into,
                 Problems& problems);
void read_number(const Node& node, std::string_view what, Bounds bounds, std::size_t& into,
                 Problems& problems);
void read_number(const Node& node, std::string_view what, Bounds bounds, int& into,
                 Problems& problems);

// A time above zero; `off` is one without end, where that is allowed.
enum class MayBeOff { no, yes };
void read_time(const Node& node, std::string_view what, MayBeOff may_be_off, Nanos& into,
               Problems& problems);

using policy::is_field_name;
using policy::one_or_more;
// Whether a value can stand in a line of a header.
bool is_field_value(std::string_view text);

}  // namespace weir::gateway
