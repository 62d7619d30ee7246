#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/source.h"

namespace weir::policy {

// A YAML document as a plain tree that knows where each of its nodes stands. Aliases share the node
// they name; merge keys (`<<`) have been merged.
struct Node {
  enum class Kind { null, scalar, list, map };
  struct Field;

  Kind kind = Kind::null;
  Place place;
  std::string text;  // of a scalar
  bool quoted = false;
  std::vector<std::shared_ptr<const Node>> items;  // of a list
  std::vector<Field> fields;                       // of a map, in the order written

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }

  // The field of that name, or none.
  const Node* find(std::string_view name) const;

  // Where the text of a scalar starts: behind the quote, if there is one.
  Place text_place() const { return quoted ? place.moved(1) : place; }

  // "a list", "the text "x"", … for messages.
  std::string describe() const;
};

struct Node::Field {
  std::string name;
  Place place;
  std::shared_ptr<const Node> value;
};

// The one document of `source`, or none if it cannot be read. Problems are added to the list.
std::shared_ptr<const Node> parse_yaml(const Source& source, Problems& problems);

// The same as Go's yaml.v2 fills it into structs, for files that were written for such a program: a
// field may be given twice or come by `<<` as well, and then the last one counts, of maps field by
// field; further documents are ignored. Warns of that.
std::shared_ptr<const Node> parse_yaml_as_go(const Source& source, Problems& problems,
                                             Problems& warnings);

// Reports fields of `map` that are not among `known`, with a suggestion. Those that start with
// `x-` are free for anything.
void check_fields(const Node& map, std::span<const std::string_view> known,
                  std::string_view of_what, Problems& problems);

}  // namespace weir::policy
