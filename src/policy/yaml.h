#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/source.h"

namespace weir::policy {

// A node of a YAML document, with its position. Aliases share the node of their anchor; merge keys
// (`<<`) are resolved.
struct YamlNode {
  enum class Kind { null, scalar, list, map };
  struct Field;

  Kind kind = Kind::null;
  SourcePosition place;
  std::string text;  // of a scalar
  bool quoted = false;
  std::vector<std::shared_ptr<const YamlNode>> items;  // of a list
  std::vector<Field> fields;                           // of a map, in source order

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }

  // Null if the map has no such field.
  const YamlNode* find(std::string_view name) const;

  // The position of a scalar's first character, after the opening quote.
  SourcePosition text_place() const { return quoted ? place.moved(1) : place; }

  // "a list", "the text "x"" and so on, for messages.
  std::string describe() const;
};

struct YamlNode::Field {
  std::string name;
  SourcePosition place;
  std::shared_ptr<const YamlNode> value;
};

// The only document of `source`; null if it is no valid YAML. Problems are added to the list.
std::shared_ptr<const YamlNode> parse_yaml(const Source& source, Problems& problems);

// Parses as Go's yaml.v2 unmarshals into structs, for files written for such programs: of a field
// that is given twice, or that comes by `<<` as well, the last one counts (maps are merged field by
// field), and documents after the first are ignored. Each of these is a warning.
std::shared_ptr<const YamlNode> parse_yaml_as_go(const Source& source, Problems& problems,
                                                 Problems& warnings);

// Reports fields of `map` that are not among `known`, with a suggestion. Fields that start with
// `x-` are allowed.
void check_fields(const YamlNode& map, std::span<const std::string_view> known,
                  std::string_view of_what, Problems& problems);

}  // namespace weir::policy
