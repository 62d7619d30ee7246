#include "policy/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/suggest.h"
#include "policy/yaml_flaw.h"

namespace weir::policy {

namespace {

// Bounds the expansion of aliases (billion laughs): a file may have this many values, or as many as
// it has bytes, which no file without aliases exceeds.
constexpr std::size_t kMaxValues = 500'000;
constexpr std::size_t kDeepest = 100;

// Thrown to carry a problem out of the parser's callbacks.
struct ParseAborted {
  Problem problem;
};

// True if the quote at the start of `text` is closed in it.
bool is_closed(std::string_view text) {
  const char quote = text[0];
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i).starts_with("''");
    const bool escaped = quote == '"' && text[i] == '\\';
    if (doubled || escaped) {
      ++i;
    } else if (text[i] == quote) {
      return true;
    }
  }
  return false;
}

// Builds the tree from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  // With a list of warnings, it builds what Go's yaml.v2 would read.
  Builder(std::string_view text, Problems& problems, Problems* warnings)
      : text_(text), problems_(problems), warnings_(warnings) {}

  std::shared_ptr<const YamlNode> root() const { return root_; }

  // The start of the innermost unclosed list or map.
  std::optional<SourcePosition> open() const {
    return open_.empty() ? std::nullopt : std::optional(open_.back().node->place);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    count(1, place_of(mark));
    auto node = make(YamlNode::Kind::null, place_of_nothing(mark), anchor);
    finish(anchor, 1);
    add(node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Anchored& named = anchors_[anchor];
    if (named.values == 0)
      throw ParseAborted{{place_of(mark), "this alias is inside its own anchor"}};
    count(named.values, place_of(mark));
    add(named.node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    if (!quoted && value.empty()) return OnNull(mark, anchor);
    const std::size_t start = start_of_scalar(mark);
    const std::string_view written = text_.substr(start);
    SourcePosition place = place_of(mark).moved(start - offset(mark));
    place.fixed = !written.substr(quoted && !written.empty() ? 1 : 0).starts_with(value);
    if (!at_name()) count(1, place);
    auto node = make(YamlNode::Kind::scalar, place, anchor);
    finish(anchor, 1);
    node->text = value;
    node->quoted = quoted;
    if (written.starts_with('"') || written.starts_with('\'')) last_quote_ = {start, place};
    add(node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open_new(YamlNode::Kind::list, mark, anchor);
    open_.back().has_dashes = style == YAML::EmitterStyle::Block;
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_new(YamlNode::Kind::map, mark, anchor);
  }
  void OnMapEnd() override {
    if (!as_go()) merge(open_.back());
    close();
  }

  // The parser accepts the end of the text as the end of a quote.
  std::optional<Problem> open_quote() const {
    if (!last_quote_ || is_closed(text_.substr(last_quote_->start))) return std::nullopt;
    return Problem{last_quote_->place, "this quote is never closed: write another after the text"};
  }

 private:
  struct OpenCollection {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    std::size_t values_before;
    bool has_dashes = false;
    std::shared_ptr<const YamlNode> key{};                 // of a map: read, its value is next
    std::unordered_map<std::string, std::size_t> names{};  // field name → index
    std::unordered_map<std::string, int> lines{};          // own field → line
  };

  struct Anchored {
    std::shared_ptr<YamlNode> node;
    std::size_t values = 0;  // that an alias of it adds; 0 before its end
  };

  struct Quote {
    std::size_t start;
    SourcePosition place;
  };

  // ---- Positions

  std::size_t offset(const YAML::Mark& mark) const {
    return std::min(static_cast<std::size_t>(mark.pos), text_.size());
  }

  // After anchor and tag: the parser gives the position of the first of them.
  std::size_t start_of_scalar(const YAML::Mark& mark) const {
    std::size_t at = offset(mark);
    while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
      at = std::min(text_.find_first_of(" \t\r\n", at), text_.size());
      at = std::min(text_.find_first_not_of(" \t", at), text_.size());
    }
    return at < text_.size() && text_[at] != '\r' && text_[at] != '\n' ? at : offset(mark);
  }

  bool is_written(const YAML::Mark& mark) const {
    const std::string_view text = text_.substr(offset(mark));
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,]}"));
    return word == "~" || word == "null" || word == "Null" || word == "NULL";
  }

  // An empty value is reported where it should be. The parser gives the position of the next token.
  SourcePosition place_of_nothing(const YAML::Mark& mark) const {
    if (open_.empty() || is_written(mark)) return place_of(mark);
    const OpenCollection& level = open_.back();
    if (level.key != nullptr) return level.key->place;
    return level.has_dashes ? last_dash(mark) : place_of(mark);
  }

  // The dash before `mark`; only comments can be between the two.
  SourcePosition last_dash(const YAML::Mark& mark) const {
    std::string_view above = text_.substr(0, offset(mark));
    for (int line = mark.line + 1; line > 0; --line) {
      const std::size_t start = above.rfind('\n') + 1;
      std::string_view text = above.substr(start);
      text = text.substr(0, text.find(" #"));
      const std::size_t last = text.find_last_not_of(" \t\r");
      const bool skipped = last == std::string_view::npos || text.starts_with('#');
      if (!skipped && text[last] == '-') return {line, static_cast<int>(last) + 1};
      if (!skipped || start == 0) break;
      above = above.substr(0, start - 1);
    }
    return place_of(mark);
  }

  // ---- The tree

  // True if the name of a field comes next.
  bool at_name() const {
    return !open_.empty() && open_.back().node->is_map() && open_.back().key == nullptr;
  }

  void count(std::size_t values, SourcePosition place) {
    values_ += values;
    const std::size_t most = std::max(kMaxValues, text_.size());
    if (values_ <= most) return;
    throw ParseAborted{
        {place, fmt::format("from here on the file has more than {} values, those that "
                            "aliases repeat included: write fewer",
                            most)}};
  }

  std::shared_ptr<YamlNode> make(YamlNode::Kind kind, SourcePosition place, YAML::anchor_t anchor) {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->place = place;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {.node = node};
    return node;
  }

  // From now on aliases may refer to it.
  void finish(YAML::anchor_t anchor, std::size_t values) {
    if (anchor != YAML::NullAnchor) anchors_[anchor].values = values;
  }

  void open_new(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const SourcePosition place = place_of(mark);
    if (open_.size() == kDeepest) {
      throw ParseAborted{
          {place,
           fmt::format("more than {} lists and maps inside each other are too many", kDeepest)}};
    }
    open_.push_back({make(kind, place, anchor), anchor, values_});
    count(1, place);
  }

  void close() {
    const auto node = open_.back().node;
    finish(open_.back().anchor, values_ - open_.back().values_before);
    open_.pop_back();
    add(node);
  }

  void add(std::shared_ptr<const YamlNode> node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenCollection& level = open_.back();
    if (level.node->is_list()) {
      level.node->items.push_back(std::move(node));
    } else if (level.key == nullptr) {
      if (!node->is_scalar())
        throw ParseAborted{{node->place, "a field's name must be a plain text"}};
      level.key = std::move(node);
    } else {
      add_field(level, std::move(node));
      level.key = nullptr;
    }
  }

  void add_field(OpenCollection& level, std::shared_ptr<const YamlNode> value) {
    const YamlNode& key = *level.key;
    if (as_go()) return lay_over(level, {key.text, key.place, std::move(value)});
    auto& fields = level.node->fields;
    const auto [known, is_new] = level.names.try_emplace(key.text, fields.size());
    if (is_new) {
      fields.push_back({key.text, key.place, std::move(value)});
    } else {
      problems_.push_back(
          {key.place, fmt::format("{} is given twice, first on line {}", in_quotes(key.text),
                                  fields[known->second].place.line)});
    }
  }

  // `<<: *base` adds the fields of base that the map does not have itself.
  void merge(OpenCollection& level) {
    auto& fields = level.node->fields;
    const auto found = std::ranges::find(fields, "<<", &YamlNode::Field::name);
    if (found == fields.end()) return;
    const auto base = found->value;
    fields.erase(found);
    if (!base->is_list()) return merge_from(level, *base);
    for (const auto& item : base->items) merge_from(level, *item);
  }

  void merge_from(OpenCollection& level, const YamlNode& base) {
    if (!is_to_merge(base)) return;
    for (const YamlNode::Field& field : base.fields) {
      const auto [known, is_new] = level.names.try_emplace(field.name, level.node->fields.size());
      if (is_new) level.node->fields.push_back(field);
    }
  }

  bool is_to_merge(const YamlNode& base) {
    if (base.is_map()) return true;
    problems_.push_back({base.place, fmt::format("\"<<\" merges a map or a list of maps, not {}",
                                                 base.describe())});
    return false;
  }

  // ---- As Go reads
  //
  // gopkg.in/yaml.v2 unmarshals field by field: a later field wins, nested maps are merged field by
  // field, and `<<` assigns its fields at its own position.

  bool as_go() const { return warnings_ != nullptr; }

  void lay_over(OpenCollection& level, YamlNode::Field field) {
    if (field.name != "<<") {
      const auto [first, is_new] = level.lines.emplace(field.name, field.place.line);
      if (!is_new) {
        warnings_->push_back(
            {field.place, fmt::format("{} is given twice, first on line {}: the last one counts",
                                      in_quotes(field.name), first->second)});
      }
      return set(*level.node, level.names, std::move(field));
    }
    const auto merge_one = [&](const YamlNode& base) {
      if (!is_to_merge(base)) return;
      for (const YamlNode::Field& each : base.fields) set(*level.node, level.names, each);
    };
    if (!field.value->is_list()) return merge_one(*field.value);
    // The first of several merged maps has precedence.
    for (auto item = field.value->items.rbegin(); item != field.value->items.rend(); ++item) {
      merge_one(**item);
    }
  }

  static void set(YamlNode& map, std::unordered_map<std::string, std::size_t>& names,
                  YamlNode::Field field) {
    const auto [known, is_new] = names.try_emplace(field.name, map.fields.size());
    if (is_new) {
      map.fields.push_back(std::move(field));
      return;
    }
    YamlNode::Field& before = map.fields[known->second];
    if (before.value->is_map() && field.value->is_map()) {
      field.value = laid_over(*before.value, *field.value);
    }
    before = std::move(field);
  }

  static std::shared_ptr<const YamlNode> laid_over(const YamlNode& before, const YamlNode& after) {
    auto both = std::make_shared<YamlNode>(before);
    both->place = after.place;
    std::unordered_map<std::string, std::size_t> names;
    for (const YamlNode::Field& field : before.fields) names.emplace(field.name, names.size());
    for (const YamlNode::Field& field : after.fields) set(*both, names, field);
    return both;
  }

  std::string_view text_;
  Problems& problems_;
  Problems* const warnings_;
  std::shared_ptr<const YamlNode> root_ = std::make_shared<YamlNode>();
  std::vector<OpenCollection> open_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::size_t values_ = 0;  // so far, with all aliases expanded
  std::optional<Quote> last_quote_;
};

// Reports content after the first document. An empty document is accepted: tools that concatenate
// files leave a "---" at the end.
void check_rest(YAML::Parser& parser, const Source& source, SourcePosition first,
                Problems& problems, Problems* warnings) {
  Builder second(source.content(), problems, warnings);
  if (!parser.HandleNextDocument(second) || second.root()->is_null()) return;
  const auto dashes = dashes_between(source, first, second.root()->place);
  if (!dashes) {
    problems.push_back(
        {second.root()->place, "this does not belong to the lines above: indent both alike"});
  } else if (warnings != nullptr) {
    warnings->push_back({*dashes, "only the lines above this \"---\" is used"});
  } else {
    problems.push_back({*dashes, "one file holds one document: remove the \"---\""});
  }
}

std::shared_ptr<const YamlNode> build(const Source& source, Problems& problems,
                                      Problems* warnings) {
  std::istringstream stream{std::string{source.content()}};
  Builder builder(source.content(), problems, warnings);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (auto wrong = builder.open_quote()) problems.push_back(*std::move(wrong));
    const std::size_t so_far = problems.size();
    check_rest(parser, source, builder.root()->place, problems, warnings);
    if (problems.size() == so_far) return builder.root();
  } catch (const ParseAborted& stop) {
    problems.push_back(stop.problem);
  } catch (const YAML::Exception& e) {
    problems.push_back(builder.open_quote().value_or(explain(e, source, builder.open())));
  }
  return nullptr;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return field.value.get();
  }
  return nullptr;
}

std::string YamlNode::describe() const {
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
  return in_quotes(text);
}

namespace {

std::shared_ptr<const YamlNode> parse(const Source& source, Problems& problems,
                                      Problems* warnings) {
  if (auto wrong = check_text(source)) {
    problems.push_back(*std::move(wrong));
    return nullptr;
  }
  return build(source, problems, warnings);
}

}  // namespace

std::shared_ptr<const YamlNode> parse_yaml(const Source& source, Problems& problems) {
  return parse(source, problems, nullptr);
}

std::shared_ptr<const YamlNode> parse_yaml_as_go(const Source& source, Problems& problems,
                                                 Problems& warnings) {
  return parse(source, problems, &warnings);
}

void check_fields(const YamlNode& map, std::span<const std::string_view> known,
                  std::string_view of_what, Problems& problems) {
  for (const YamlNode::Field& field : map.fields) {
    if (field.name.starts_with("x-") || std::ranges::find(known, field.name) != known.end()) {
      continue;
    }
    problems.push_back(
        {field.place, fmt::format("{} has no field {}{}", of_what, in_quotes(field.name),
                                  did_you_mean(field.name, known))});
  }
}

}  // namespace weir::policy
