#include "policy/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "base/suggest.h"

namespace weir::policy {

namespace {

Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Carries a problem out of the parser's callbacks.
struct Stop {
  Problem problem;
};

// Builds the tree from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  std::shared_ptr<const Node> root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(Node::Kind::null, mark, anchor));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    const bool open = found == anchors_.end() || std::ranges::any_of(open_, [&](const Level& l) {
                        return l.node == found->second;
                      });
    if (open) throw Stop{{place_of(mark), "this alias stands inside what it names"}};
    add(found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(Node::Kind::scalar, mark, anchor);
    node->text = value;
    node->quoted = tag == "!";
    const bool blank = !node->quoted && (value.empty() || value == "~" || value == "null");
    if (blank) node->kind = Node::Kind::null;
    add(node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({make(Node::Kind::list, mark, anchor)});
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({make(Node::Kind::map, mark, anchor)});
  }
  void OnMapEnd() override {
    merge(*open_.back().node);
    close();
  }

 private:
  struct Level {
    std::shared_ptr<Node> node;
    std::shared_ptr<const Node> key{};  // of a map: read, and waiting for its value
    std::unordered_set<std::string> names{};
  };

  std::shared_ptr<Node> make(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = place_of(mark);
    if (anchor != 0) anchors_[anchor] = node;
    return node;
  }

  void close() {
    const auto node = open_.back().node;
    open_.pop_back();
    add(node);
  }

  void add(std::shared_ptr<const Node> node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = open_.back();
    if (level.node->is_list()) {
      level.node->items.push_back(std::move(node));
    } else if (level.key == nullptr) {
      if (!node->is_scalar()) throw Stop{{node->place, "a field's name must be a plain text"}};
      level.key = std::move(node);
    } else {
      if (!level.names.insert(level.key->text).second) {
        throw Stop{{level.key->place, fmt::format("\"{}\" is given twice", level.key->text)}};
      }
      level.node->fields.push_back({level.key->text, level.key->place, std::move(node)});
      level.key = nullptr;
    }
  }

  // `<<: *base` adds the fields of base that the map does not have itself.
  static void merge(Node& map) {
    const auto is_merge = [](const Node::Field& field) { return field.name == "<<"; };
    const auto found = std::ranges::find_if(map.fields, is_merge);
    if (found == map.fields.end()) return;
    const auto base = found->value;
    map.fields.erase(found);
    merge_from(map, *base);
    for (const auto& item : base->items) merge_from(map, *item);
  }

  static void merge_from(Node& map, const Node& base) {
    for (const Node::Field& field : base.fields) {
      if (map.find(field.name) == nullptr) map.fields.push_back(field);
    }
  }

  std::shared_ptr<const Node> root_ = std::make_shared<Node>();
  std::vector<Level> open_;
  std::unordered_map<YAML::anchor_t, std::shared_ptr<Node>> anchors_;
};

}  // namespace

const Node* Node::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return field.value.get();
  }
  return nullptr;
}

std::string Node::describe() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
    case Kind::scalar:
      break;
  }
  constexpr std::size_t shown = 40;
  return text.size() <= shown ? fmt::format("\"{}\"", text)
                              : fmt::format("\"{}…\"", text.substr(0, shown));
}

Result<std::shared_ptr<const Node>, Problem> parse_yaml(const Source& source) {
  try {
    std::istringstream stream(source.text);
    YAML::Parser parser(stream);
    Builder builder;
    parser.HandleNextDocument(builder);
    Builder second;
    if (parser.HandleNextDocument(second)) {
      return Problem{second.root()->place, "one file holds one document; remove the \"---\""};
    }
    return builder.root();
  } catch (const Stop& stop) {
    return stop.problem;
  } catch (const YAML::Exception& e) {
    const Place place = e.mark.is_null() ? Place{} : place_of(e.mark);
    return Problem{place, "not valid YAML: " + e.msg};
  }
}

void check_fields(const Node& map, std::span<const std::string_view> known,
                  std::string_view of_what, Problems& problems) {
  for (const Node::Field& field : map.fields) {
    if (field.name.starts_with("x-") || std::ranges::find(known, field.name) != known.end()) {
      continue;
    }
    problems.push_back({field.place, fmt::format("{} has no field \"{}\"{}", of_what, field.name,
                                                 did_you_mean(field.name, known))});
  }
}

}  // namespace weir::policy
