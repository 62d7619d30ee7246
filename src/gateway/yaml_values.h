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

// Readers for single fields of the `gateway:` section. On a problem they add it to the list and
// leave the value unchanged.

namespace weir::gateway {

using policy::Problems;
using policy::YamlNode;

// The range of an integer, or of a size like 32KiB.
struct ValueRange {
  Permits min = 0;
  Permits max = INT64_MAX;
};
void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, Permits& into,
                 Problems& problems);
void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, std::size_t& into,
                 Problems& problems);
void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, int& into,
                 Problems& problems);

// Reads a time above zero; `off`, where allowed, means unlimited.
enum class MayBeOff { no, yes };
void read_time(const YamlNode& node, std::string_view what, MayBeOff may_be_off, Nanos& into,
               Problems& problems);

using policy::is_field_name;
using policy::one_or_more;
// True if the text may be the value of a header field.
bool is_field_value(std::string_view text);

}  // namespace weir::gateway
