#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/ascii.h"
#include "cli/import.h"

namespace weir::cli {

namespace {

using policy::Place;

struct Token {
  std::string text;
  Place place;
  bool quoted = false;
};

// Words, `;`, `{` and `}` of nginx's language.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::optional<Token> next() {
    skip_blanks();
    if (at_ >= text_.size()) return std::nullopt;
    Token token{.text = {}, .place = place_};
    const char first = text_[at_];
    if (first == ';' || first == '{' || first == '}') {
      token.text = take();
      return token;
    }
    if (first == '"' || first == '\'') return quoted(token);
    while (at_ < text_.size() && !ends_word()) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) token.text += take();
      // (${name} is a variable: no block.)
      if (text_[at_] == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '{') {
        while (at_ < text_.size() && text_[at_] != '}') token.text += take();
      }
      if (at_ < text_.size()) token.text += take();
    }
    return token;
  }

 private:
  std::optional<Token> quoted(Token token) {
    token.quoted = true;
    const char quote = take();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) (void)take();
      token.text += take();
    }
    if (at_ < text_.size()) (void)take();
    return token;
  }
  bool ends_word() const {
    return std::string_view(" \t\r\n;{").find(text_[at_]) != std::string_view::npos;
  }
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') (void)take();
      } else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
        (void)take();
      } else {
        return;
      }
    }
  }
  char take() {
    const char c = text_[at_++];
    place_.column = c == '\n' ? 1 : place_.column + 1;
    if (c == '\n') ++place_.line;
    return c;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Place place_{};
};

struct Directive {
  std::vector<Token> words;
  std::vector<Directive> block{};

  const std::string& name() const { return words.front().text; }
};

constexpr int kDeepest = 64;

// Directives until the block that was opened there ends, or the file.
std::vector<Directive> parse(Lexer& lexer, policy::Problems& problems, Place opened = {},
                             int depth = 0) {
  std::vector<Directive> all;
  Directive current;
  while (auto token = lexer.next()) {
    const bool plain = !token->quoted;
    if (plain && token->text == ";") {
      if (!current.words.empty()) all.push_back(std::move(current));
      current = {};
    } else if (plain && token->text == "{") {
      if (depth == kDeepest) {
        problems.push_back({token->place, "blocks within blocks, too many of them"});
        return all;
      }
      if (current.words.empty()) current.words.push_back(*token);
      current.block = parse(lexer, problems, token->place, depth + 1);
      all.push_back(std::move(current));
      current = {};
    } else if (plain && token->text == "}") {
      if (depth == 0) problems.push_back({token->place, "this } ends nothing"});
      if (!current.words.empty()) {
        problems.push_back({current.words.front().place, "a ; is missing behind this"});
      }
      return all;
    } else {
      current.words.push_back(*std::move(token));
    }
  }
  if (!current.words.empty()) {
    problems.push_back({current.words.front().place, "a ; is missing behind this"});
  }
  if (depth > 0) problems.push_back({opened, "no } ends what begins here"});
  return all;
}

// A limit_req_zone or limit_conn_zone.
struct Zone {
  std::vector<std::string> variables;  // of its key
  bool has_literals = false;
  std::string key;
  std::string rate;  // "10/s"
};

// A limit_req or limit_conn.
struct Use {
  std::string zone;
  std::string words;  // behind the rate, or "N concurrent"
  bool dry_run = false;
  friend auto operator<=>(const Use&, const Use&) = default;
};

// What there is of one kind of limits, limit_req or limit_conn, at some place.
struct Kind {
  std::vector<Use> uses{};
  std::string status{};
  bool dry_run = false;
};

struct Level {
  std::string where{};
  Kind requests{};
  Kind connections{};
};

class Importer {
 public:
  explicit Importer(policy::Problems& problems) : problems_(problems) {}

  void read(const std::vector<Directive>& directives) {
    find_zones(directives);
    visit(directives, {}, true);
  }
  std::string write(const std::string& name) const;

 private:
  template <typename... Args>
  void problem(Place place, fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back({place, fmt::format(format, std::forward<Args>(args)...)});
  }

  void find_zones(const std::vector<Directive>& directives);
  void read_zone(const Directive& directive, bool has_rate);
  std::string rate_of(const Token& token);
  void visit(const std::vector<Directive>& directives, Level level, bool is_outermost);
  std::optional<Use> read_request(const Directive& directive);
  std::optional<Use> read_connection(const Directive& directive);
  void add(std::vector<Use>& uses, std::optional<Use> use, const Directive& directive);
  bool inherit(const std::vector<Directive>& directives, std::string_view name,
               std::vector<Use> own, Kind& kind);
  std::string limit_of(const Use& use, bool connection) const;

  policy::Problems& problems_;
  std::map<std::string, Zone> request_zones_;
  std::map<std::string, Zone> connection_zones_;
  std::vector<Level> places_;  // that have limits
  std::vector<std::string> notes_;
};

// What an argument like burst=5 says.
std::optional<std::string> value_of(std::string_view name, const Token& token) {
  const std::string start = std::string{name} + "=";
  if (!token.text.starts_with(start)) return std::nullopt;
  return token.text.substr(start.size());
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

// $binary_remote_addr is what others call by its plain name.
Zone zone_of(const std::string& key) {
  Zone zone{.variables = {}, .key = key, .rate = {}};
  const auto is_word = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  for (std::size_t i = 0; i < key.size();) {
    if (key[i] != '$') {
      zone.has_literals = true;
      ++i;
      continue;
    }
    const bool braced = i + 1 < key.size() && key[i + 1] == '{';
    std::size_t end = i += braced ? 2 : 1;
    while (end < key.size() && is_word(key[end])) ++end;
    std::string name = key.substr(i, end - i);
    if (name == "binary_remote_addr") name = "remote_addr";
    if (std::ranges::find(zone.variables, name) == zone.variables.end()) {
      zone.variables.push_back(name);
    }
    i = braced ? end + 1 : end;
  }
  return zone;
}

void Importer::find_zones(const std::vector<Directive>& directives) {
  for (const Directive& directive : directives) {
    if (directive.name() == "limit_req_zone") read_zone(directive, true);
    if (directive.name() == "limit_conn_zone") read_zone(directive, false);
    find_zones(directive.block);
  }
}

void Importer::read_zone(const Directive& directive, bool has_rate) {
  const std::string& what = directive.name();
  if (directive.words.size() < 3) {
    return problem(directive.words[0].place, "{} needs a key and zone=NAME:SIZE", what);
  }
  Zone zone = zone_of(directive.words[1].text);
  std::string name;
  for (std::size_t i = 2; i < directive.words.size(); ++i) {
    const Token& token = directive.words[i];
    if (const auto named = value_of("zone", token)) {
      name = named->substr(0, named->find(':'));
    } else if (value_of("rate", token)) {
      zone.rate = rate_of(token);
    } else if (token.text != "sync") {
      problem(token.place, "{} has no {}", what, policy::in_quotes(token.text));
    }
  }
  if (name.empty()) problem(directive.words[0].place, "{} needs a zone=NAME:SIZE", what);
  if (has_rate && zone.rate.empty()) zone.rate = "1/s";
  auto& zones = has_rate ? request_zones_ : connection_zones_;
  if (!zones.try_emplace(name, std::move(zone)).second) {
    problem(directive.words[0].place, "there is a {} {} already", what, policy::in_quotes(name));
  }
}

std::string Importer::rate_of(const Token& token) {
  std::string_view text = std::string_view(token.text).substr(5);
  std::string_view unit = "/s";
  if (text.ends_with("r/m")) unit = "/min";
  if (text.ends_with("r/s") || text.ends_with("r/m")) text.remove_suffix(3);
  const auto count = number_of(text);
  if (!count) {
    problem(token.place, "a rate is like 10r/s or 30r/m, not {}", policy::in_quotes(token.text));
    return "1/s";
  }
  return fmt::format("{}{}", *count, unit);
}

std::optional<Use> Importer::read_request(const Directive& directive) {
  Use use;
  std::int64_t burst = 0;
  std::string delay;
  for (std::size_t i = 1; i < directive.words.size(); ++i) {
    const Token& token = directive.words[i];
    if (const auto zone = value_of("zone", token)) {
      use.zone = *zone;
    } else if (const auto places = value_of("burst", token)) {
      const auto number = number_of(*places);
      if (!number) problem(token.place, "burst is a number from 1 on");
      burst = number.value_or(0);
    } else if (const auto undelayed = value_of("delay", token)) {
      const auto number = number_of(*undelayed);
      if (!number) problem(token.place, "delay is a number from 1 on");
      delay = fmt::format(" delay {}", number.value_or(0));
    } else if (token.text == "nodelay") {
      delay = " nodelay";
    } else {
      problem(token.place, "limit_req has no {}", policy::in_quotes(token.text));
    }
  }
  if (!request_zones_.contains(use.zone)) {
    problem(directive.words[0].place, "there is no limit_req_zone {}", policy::in_quotes(use.zone));
    return std::nullopt;
  }
  // (Without a burst nobody waits.)
  use.words = fmt::format("queue {}{}", burst, burst == 0 ? "" : delay);
  return use;
}

std::optional<Use> Importer::read_connection(const Directive& directive) {
  const auto number =
      directive.words.size() == 3 ? number_of(directive.words[2].text) : std::nullopt;
  if (!number) {
    problem(directive.words[0].place, "limit_conn is followed by a zone and a number");
    return std::nullopt;
  }
  Use use{.zone = directive.words[1].text, .words = fmt::format("{} concurrent", *number)};
  if (!connection_zones_.contains(use.zone)) {
    problem(directive.words[0].place, "there is no limit_conn_zone {}",
            policy::in_quotes(use.zone));
    return std::nullopt;
  }
  return use;
}

void Importer::add(std::vector<Use>& uses, std::optional<Use> use, const Directive& directive) {
  if (!use) return;
  if (std::ranges::find(uses, use->zone, &Use::zone) != uses.end()) {
    return problem(directive.words[0].place, "{} has the zone {} here already", directive.name(),
                   policy::in_quotes(use->zone));
  }
  uses.push_back(*std::move(use));
}

// Limits of an outer level are those of an inner one that has none of the kind; and so are how they
// refuse, and whether they are only tried out. Whether there is anything here that is not as
// outside.
bool Importer::inherit(const std::vector<Directive>& directives, std::string_view name,
                       std::vector<Use> own, Kind& kind) {
  bool is_other = !own.empty();
  if (is_other) kind.uses = std::move(own);
  for (const Directive& directive : directives) {
    const std::string value = directive.words.size() > 1 ? directive.words[1].text : "";
    if (directive.name() == fmt::format("{}_status", name)) {
      is_other = is_other || kind.status != value;
      kind.status = value;
    } else if (directive.name() == fmt::format("{}_dry_run", name)) {
      is_other = is_other || kind.dry_run != (value == "on");
      kind.dry_run = value == "on";
    }
  }
  for (Use& use : kind.uses) use.dry_run = kind.dry_run;
  return is_other && !kind.uses.empty();
}

void Importer::visit(const std::vector<Directive>& directives, Level level, bool is_outermost) {
  std::vector<Use> requests;
  std::vector<Use> connections;
  for (const Directive& directive : directives) {
    const std::string& name = directive.name();
    if (name == "limit_req") {
      add(requests, read_request(directive), directive);
    } else if (name == "limit_conn") {
      add(connections, read_connection(directive), directive);
    } else if (name == "include" && directive.words.size() > 1) {
      notes_.push_back(
          fmt::format("{} is included there, and was not read", directive.words[1].text));
    }
  }
  const bool other_requests = inherit(directives, "limit_req", std::move(requests), level.requests);
  const bool other_connections =
      inherit(directives, "limit_conn", std::move(connections), level.connections);
  if (other_requests || other_connections) places_.push_back(level);
  for (const Directive& directive : directives) {
    if (directive.block.empty()) continue;
    Level inner = level;
    std::string here = directive.name();
    for (std::size_t i = 1; i < directive.words.size(); ++i) here += " " + directive.words[i].text;
    const bool is_named = !is_outermost || here != "http";
    if (is_named) inner.where += (inner.where.empty() ? "" : " > ") + here;
    visit(directive.block, std::move(inner), is_outermost && !is_named);
  }
}

std::string Importer::limit_of(const Use& use, bool connection) const {
  const Zone& zone = (connection ? connection_zones_ : request_zones_).at(use.zone);
  std::vector<std::string> by;
  for (const std::string& variable : zone.variables) by.push_back(in_yaml(variable));
  std::string limit = connection
                          ? fmt::format("{{ limit: {}", use.words)
                          : fmt::format("{{ limit: {} {}, like: nginx", zone.rate, use.words);
  limit += fmt::format(", name: {}", in_yaml((connection ? "conn:" : "") + use.zone));
  if (!by.empty()) limit += fmt::format(", by: [{}]", fmt::join(by, ", "));
  if (use.dry_run) limit += ", shadow: true";
  return limit + " }";
}

// How nginx refuses at a place.
std::string refusal_of(const Level& place) {
  const Kind& requests = place.requests;
  const Kind& connections = place.connections;
  const std::string status = in_comment(requests.status);
  const std::string other = in_comment(connections.status);
  if (requests.uses.empty() && !other.empty()) return fmt::format("refuses with {}", other);
  std::string told = requests.uses.empty() || status.empty()
                         ? "nginx refuses with 503, weir with 429 (deny=503)"
                         : fmt::format("refuses with {0}: ask with deny={0}", status);
  const bool differs = !connections.uses.empty() && other != status;
  if (differs) told += fmt::format("; limit_conn with {}", other.empty() ? "503" : other);
  return told;
}

std::string Importer::write(const std::string& name) const {
  std::string text = fmt::format(
      "# Policies that limit as {} does.\n"
      "#\n"
      "# nginx can ask for them with auth_request: /v1/auth?policy=…, and for each variable under\n"
      "# `by` a header, like: proxy_set_header X-Weir-Part-remote_addr $remote_addr;\n"
      "# Any program can, with take, giving a part for each variable. What differs:\n"
      "# - All limits of a policy are one decision. nginx charges all of its zones when all "
      "admit,\n"
      "#   too, but does not look again at the burst of those that it had looked at first.\n"
      "# - An empty key is not limited by nginx; here a part that is missing or empty is an "
      "error.\n"
      "# - A zone that several places use has one state there; here each policy has its own.\n"
      "# - limit_conn becomes `concurrent`: enter and leave, with a lease (60 s) for those that "
      "do\n"
      "#   not leave. Policies with it cannot be asked by auth_request, which only takes.\n",
      in_comment(name));
  for (const std::string& note : notes_) text += "# - " + in_comment(note) + ".\n";
  if (places_.empty()) return text + "policies: {}\n";
  text += "policies:\n";
  // Places with the same limits are one policy.
  std::map<std::pair<std::vector<Use>, std::vector<Use>>, std::vector<const Level*>> groups;
  std::vector<decltype(groups)::const_iterator> in_order;
  for (const Level& level : places_) {
    const auto [group, is_new] = groups.try_emplace({level.requests.uses, level.connections.uses});
    if (is_new) in_order.push_back(group);
    group->second.push_back(&level);
  }
  std::set<std::string> taken;
  for (const auto& group : in_order) {
    const Level& level = *group->second.front();
    std::string base;
    for (const Kind* kind : {&level.requests, &level.connections}) {
      for (const Use& use : kind->uses) base += (base.empty() ? "" : "+") + use.zone;
    }
    const std::string policy_name = new_name(base, taken);
    for (const Level* place : group->second) {
      const std::string where = place->where.empty() ? "http" : place->where;
      text += fmt::format("\n  # {}; {}", in_comment(where), refusal_of(*place));
    }
    for (const auto& [uses, zones] : {std::pair{&level.requests.uses, &request_zones_},
                                      std::pair{&level.connections.uses, &connection_zones_}}) {
      for (const Use& use : *uses) {
        const Zone& zone = zones->at(use.zone);
        if (zone.variables.empty()) {
          text += fmt::format("\n  # {} has one key for all: always ask with the same key.",
                              in_comment(use.zone));
        } else if (zone.has_literals) {
          text +=
              fmt::format("\n  # The key of {} is {}: what is not a variable of it is left out.",
                          in_comment(use.zone), in_comment(zone.key));
        }
      }
    }
    text += fmt::format("\n  {}:\n    limits:\n", in_yaml(policy_name));
    for (const Use& use : level.requests.uses) text += "      - " + limit_of(use, false) + "\n";
    for (const Use& use : level.connections.uses) text += "      - " + limit_of(use, true) + "\n";
  }
  return text;
}

}  // namespace

Imported import_nginx(const policy::Source& source) {
  Imported imported;
  Lexer lexer(source.content());
  const std::vector<Directive> directives = parse(lexer, imported.problems);
  if (!imported.problems.empty()) return imported;
  Importer importer(imported.problems);
  importer.read(directives);
  if (imported.problems.empty()) imported.text = importer.write(source.name);
  return imported;
}

}  // namespace weir::cli
