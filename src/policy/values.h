#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/yaml.h"

// Readers of field values in policy files. Problems are added to the list; `what` names the value
// in messages.

namespace weir::policy {

// `true` or `false`.
bool read_bool(const YamlNode& node, std::string_view what, Problems& problems);

// The index of the value among `words`; 0, with a problem, if it is none of them.
std::size_t read_word(const YamlNode& node, std::string_view what,
                      std::span<const std::string_view> words, Problems& problems);

// A non-empty text.
std::string read_text(const YamlNode& node, std::string_view what, Problems& problems);

// A scalar, or a non-empty list of scalars.
std::vector<const YamlNode*> one_or_more(const YamlNode& node, std::string_view what,
                                         Problems& problems);

// True for a token of HTTP, as field names are.
bool is_field_name(std::string_view text);
// The name of an HTTP field.
std::string read_header_name(const YamlNode& node, std::string_view what, Problems& problems);

// True for a map; reports fields that are not among `known`.
bool is_map_of(const YamlNode& node, std::string_view what, std::span<const std::string_view> known,
               Problems& problems);

}  // namespace weir::policy
