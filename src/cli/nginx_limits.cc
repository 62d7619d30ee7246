#include "cli/nginx_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ascii.h"

namespace weir::cli {

namespace {

// The value of an argument such as burst=5, if it has that name.
std::optional<std::string> value_of(std::string_view name, const NginxWord& word) {
  const std::string start = std::string{name} + "=";
  if (!word.text.starts_with(start)) return std::nullopt;
  return word.text.substr(start.size());
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

class LimitReader {
 public:
  explicit LimitReader(NginxConfig& config) : config_(config) {}

  NginxLimits read() && {
    find_zones(config_.directives);
    NginxBlockLimits outermost;
    visit(config_.directives, outermost, true);
    return std::move(limits_);
  }

 private:
  using Directives = std::vector<NginxDirective>;

  template <typename... Args>
  void problem(const NginxPosition& position, fmt::format_string<Args...> format, Args&&... args) {
    config_.add_problem(position, fmt::format(format, std::forward<Args>(args)...));
  }

  void find_zones(const Directives& directives) {
    for (const NginxDirective& directive : directives) {
      if (is_other_traffic(directive)) continue;
      if (directive.name() == "limit_req_zone") read_zone(directive, limits_.request_zones);
      if (directive.name() == "limit_conn_zone") read_zone(directive, limits_.connection_zones);
      find_zones(directive.block);
    }
  }

  void read_zone(const NginxDirective& directive, std::map<std::string, NginxZone>& zones) {
    const std::string& what = directive.name();
    if (directive.words.size() < 3) {
      return problem(directive.position(), "{} needs a key and zone=NAME:SIZE", what);
    }
    NginxZone zone{.position = directive.position(), .key = directive.argument(1)};
    zone.variables = variables_in(zone.key, zone.has_literals);
    std::string name;
    for (std::size_t i = 2; i < directive.words.size(); ++i) {
      const NginxWord& word = directive.words[i];
      if (const auto named = value_of("zone", word)) {
        name = named->substr(0, named->find(':'));
      } else if (value_of("rate", word)) {
        read_rate(word, zone);
      } else if (word.text == "sync") {
        zone.is_synced = true;
      } else {
        problem(word.position, "{} has no parameter {}", what, policy::in_quotes(word.text));
      }
    }
    if (name.empty()) problem(directive.position(), "{} needs a zone=NAME:SIZE", what);
    if (!zones.try_emplace(name, std::move(zone)).second) {
      problem(directive.position(), "there is already a {} {}", what, policy::in_quotes(name));
    }
  }

  void read_rate(const NginxWord& word, NginxZone& zone) {
    std::string_view text = std::string_view(word.text).substr(5);
    if (text.ends_with("r/m")) zone.seconds = 60;
    if (text.ends_with("r/s") || text.ends_with("r/m")) text.remove_suffix(3);
    const auto count = number_of(text);
    if (!count) {
      problem(word.position, "a rate must be like 10r/s or 30r/m, not {}",
              policy::in_quotes(word.text));
    }
    zone.count = count.value_or(1);
  }

  std::int64_t read_count(const NginxWord& word, std::string_view name, const std::string& text) {
    const auto number = number_of(text);
    if (!number) problem(word.position, "{} must be a number of at least 1", name);
    return number.value_or(0);
  }

  std::optional<NginxUse> read_request(const NginxDirective& directive) {
    NginxUse use;
    std::int64_t burst = 0;
    std::optional<std::int64_t> undelayed;
    std::string delay;
    for (std::size_t i = 1; i < directive.words.size(); ++i) {
      const NginxWord& word = directive.words[i];
      if (const auto zone = value_of("zone", word)) {
        use.zone = *zone;
      } else if (const auto size = value_of("burst", word)) {
        burst = read_count(word, "burst", *size);
      } else if (const auto first = value_of("delay", word)) {
        undelayed = read_count(word, "delay", *first);
        delay = fmt::format(" delay {}", *undelayed);
      } else if (word.text == "nodelay") {
        undelayed = INT64_MAX;
        delay = " nodelay";
      } else {
        problem(word.position, "limit_req has no parameter {}", policy::in_quotes(word.text));
      }
    }
    if (!limits_.request_zones.contains(use.zone)) {
      problem(directive.position(), "there is no limit_req_zone {}", policy::in_quotes(use.zone));
      return std::nullopt;
    }
    // Without a burst no request is delayed.
    use.words = fmt::format("queue {}{}", burst, burst == 0 ? "" : delay);
    use.waiting = std::max<std::int64_t>(0, burst - undelayed.value_or(0));
    return use;
  }

  std::optional<NginxUse> read_connection(const NginxDirective& directive) {
    const auto number =
        directive.words.size() == 3 ? number_of(directive.argument(2)) : std::nullopt;
    if (!number) {
      problem(directive.position(), "limit_conn needs a zone and a number");
      return std::nullopt;
    }
    NginxUse use{.zone = directive.argument(1), .words = fmt::format("{} concurrent", *number)};
    if (!limits_.connection_zones.contains(use.zone)) {
      problem(directive.position(), "there is no limit_conn_zone {}", policy::in_quotes(use.zone));
      return std::nullopt;
    }
    return use;
  }

  void add(std::vector<NginxUse>& uses, std::optional<NginxUse> use,
           const NginxDirective& directive) {
    if (!use) return;
    if (std::ranges::find(uses, use->zone, &NginxUse::zone) != uses.end()) {
      return problem(directive.position(), "{} already has the zone {} in this block",
                     directive.name(), policy::in_quotes(use->zone));
    }
    uses.push_back(*std::move(use));
  }

  // A block inherits the limits of one kind if it has none of that kind itself. It also inherits
  // the status of refusals and the dry-run mode. Returns true if the block differs from the outer
  // one.
  static bool inherit(const Directives& directives, std::string_view name,
                      std::vector<NginxUse> own, NginxLimitSet& kind) {
    bool differs = !own.empty();
    if (differs) kind.uses = std::move(own);
    for (const NginxDirective& directive : directives) {
      const std::string& value = directive.argument(1);
      if (directive.name() == fmt::format("{}_status", name)) {
        differs = differs || kind.status != value;
        kind.status = value;
      } else if (directive.name() == fmt::format("{}_dry_run", name)) {
        differs = differs || kind.dry_run != (value == "on");
        kind.dry_run = value == "on";
      }
    }
    for (NginxUse& use : kind.uses) use.dry_run = kind.dry_run;
    return differs && !kind.uses.empty();
  }

  // Applies the directives of a block to `level`, a copy of the outer block's limits.
  void visit(const Directives& directives, NginxBlockLimits& level, bool is_outermost) {
    std::vector<NginxUse> requests;
    std::vector<NginxUse> connections;
    for (const NginxDirective& directive : directives) {
      if (directive.name() == "limit_req") add(requests, read_request(directive), directive);
      if (directive.name() == "limit_conn") add(connections, read_connection(directive), directive);
    }
    const bool other_requests =
        inherit(directives, "limit_req", std::move(requests), level.requests);
    const bool other_connections =
        inherit(directives, "limit_conn", std::move(connections), level.connections);
    if (other_requests || other_connections) limits_.changed_blocks.push_back(level);
    for (const NginxDirective& directive : directives) {
      if (!directive.has_block || is_other_traffic(directive)) continue;
      visit_block(directive, level, is_outermost);
    }
  }

  void visit_block(const NginxDirective& directive, const NginxBlockLimits& outer,
                   bool is_outermost) {
    NginxBlockLimits level = outer;
    const std::string here = directive.text();
    const bool is_named = !is_outermost || here != "http";
    if (is_named) level.where += (level.where.empty() ? "" : " > ") + here;
    visit(directive.block, level, is_outermost && !is_named);
    limits_.levels[&directive] = std::move(level);
  }

  NginxConfig& config_;
  NginxLimits limits_;
};

}  // namespace

bool NginxBlockLimits::waits() const {
  return std::ranges::any_of(requests.uses, [](const NginxUse& use) { return use.waiting > 0; });
}

NginxLimits read_limits(NginxConfig& config) { return LimitReader(config).read(); }

bool is_other_traffic(const NginxDirective& directive) {
  return directive.has_block && (directive.name() == "stream" || directive.name() == "mail");
}

std::vector<std::string> variables_in(const std::string& text, bool& has_literals) {
  std::vector<std::string> variables;
  const auto is_word = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      has_literals = true;
      ++i;
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    std::size_t end = i += braced ? 2 : 1;
    while (end < text.size() && is_word(text[end])) ++end;
    std::string name = lowered(text.substr(i, end - i));
    if (name == "binary_remote_addr") name = "remote_addr";
    if (std::ranges::find(variables, name) == variables.end()) variables.push_back(std::move(name));
    i = braced ? end + 1 : end;
  }
  return variables;
}

}  // namespace weir::cli
