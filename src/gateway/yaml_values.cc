#include "gateway/yaml_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/units.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

std::string range_of(ValueRange bounds) {
  return bounds.max == INT64_MAX ? fmt::format("from {}", bounds.min)
                                 : fmt::format("from {} to {}", bounds.min, bounds.max);
}

template <typename Number>
void read_integer(const YamlNode& node, std::string_view what, ValueRange bounds, Number& into,
                  Problems& problems) {
  const std::string quoted = fmt::format("\"{}\"", what);
  if (!node.is_scalar()) {
    problems.push_back({node.place, fmt::format("{} is a number {}, not {}", quoted,
                                                range_of(bounds), node.describe())});
    return;
  }
  const auto number = policy::parse_count({node.text, node.text_place()}, quoted);
  if (!number) {
    problems.push_back(number.error());
  } else if (*number < bounds.min || *number > bounds.max) {
    problems.push_back(
        {node.place, fmt::format("{} is {}, not {}", quoted, range_of(bounds), node.describe())});
  } else {
    into = static_cast<Number>(*number);
  }
}

}  // namespace

void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, Permits& into,
                 Problems& problems) {
  read_integer(node, what, bounds, into, problems);
}
void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, std::size_t& into,
                 Problems& problems) {
  read_integer(node, what, bounds, into, problems);
}
void read_number(const YamlNode& node, std::string_view what, ValueRange bounds, int& into,
                 Problems& problems) {
  read_integer(node, what, bounds, into, problems);
}

void read_time(const YamlNode& node, std::string_view what, MayBeOff may_be_off, Nanos& into,
               Problems& problems) {
  const bool off = node.is_scalar() && node.text == "off" && may_be_off == MayBeOff::yes;
  if (off) {
    into = kForever;
    return;
  }
  if (!node.is_scalar()) {
    problems.push_back(
        {node.place, fmt::format("\"{}\" is a time like 2s{}, not {}", what,
                                 may_be_off == MayBeOff::yes ? " or off" : "", node.describe())});
    return;
  }
  const auto time = policy::parse_duration(node.text, node.text_place());
  if (!time) {
    problems.push_back(time.error());
  } else if (*time <= Nanos{0}) {
    problems.push_back(
        {node.place, fmt::format("\"{}\" must be above zero: write one like 2s", what)});
  } else {
    into = *time;
  }
}

bool is_field_value(std::string_view text) { return !wire::has_control(text); }

}  // namespace weir::gateway
