#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/yaml.h"

// Values of fields, where a policy file has them. Problems are added to the list.

namespace weir::policy {

// true or false.
bool read_bool(const Node& node, std::string_view what, Problems& problems);

// The position of one of several words; 0 if it is none of them.
std::size_t read_word(const Node& node, std::string_view what,
                      std::span<const std::string_view> words, Problems& problems);

// A text that is not empty.
std::string read_text(const Node& node, std::string_view what, Problems& problems);

// A scalar, or a list of them with at least one; each with its place.
std::vector<const Node*> one_or_more(const Node& node, std::string_view what, Problems& problems);

// What the name of a field of HTTP is made of.
bool is_field_name(std::string_view text);
// One of these.
std::string read_header_name(const Node& node, std::string_view what, Problems& problems);

// Whether it is a map of fields that are known.
bool is_map_of(const Node& node, std::string_view what, std::span<const std::string_view> known,
               Problems& problems);

}  // namespace weir::policy
