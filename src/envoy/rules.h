#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/limit.h"
#include "envoy/call.h"

// The rules of a configuration, as they are walked through. They never change: others take their
// place.

namespace weir::envoy {

// A `rate_limit`.
struct Rule {
  bool unlimited = false;
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;  // unknown: some other time
  std::string name{};
  std::vector<std::string> replaces{};  // names of rules that do not count beside it
  core::Limit limit{};                  // unless it is unlimited
  std::string tail{};                   // of the names of its counters
  std::uint64_t identity = 0;           // newcomers to a full table share a counter of it
  bool shadow = false;
  bool quota = false;

  std::string way{};         // the domain and the way to it
  std::string counted_as{};  // the same, in statistics
  std::size_t number = 0;    // among all rules
  bool detailed = false;     // in statistics, the values of a call are named

  std::string metadata{};  // a JSON object; empty: none
};

// A value with `*`, each of which stands for any characters, or none.
class Pattern {
 public:
  explicit Pattern(std::string_view text);
  bool matches(std::string_view value) const noexcept;

 private:
  std::vector<std::string> parts_;  // between the stars: two at least
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept;
};

// A descriptor of the configuration: one step of a walk.
struct Node {
  template <typename T>
  using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  // What may follow under one key.
  struct Choices {
    struct Wildcard {
      Pattern pattern;
      const Node* node;
    };
    ByText<const Node*> values{};       // patterns, too: a call may have the very text of one
    std::vector<Wildcard> wildcards{};  // in the order of the file
    const Node* any = nullptr;          // the key alone
  };

  std::string key{};
  std::string value{};  // or pattern; empty: any
  const Node* parent = nullptr;
  bool is_wildcard = false;
  bool value_to_metric = false;
  bool shares_counter = false;  // all values that its pattern matches have one counter
  // The same of it, or of one above it.
  bool names_values = false;
  bool shares_some = false;
  std::optional<Rule> rule{};
  std::string place{};  // FILE:LINE:COLUMN

  std::vector<std::unique_ptr<Node>> children{};  // in the order of the file
  ByText<Choices> next{};                         // the same, by key
};

struct Domain {
  Node root{};
  std::string head{};  // of the names of its counters
};

struct Rules {
  std::map<std::string, Domain, std::less<>> domains{};
  std::size_t count = 0;  // of rules
};

// A name as statistics have it, where dots are steps: without : and |, and with IPv4 addresses in
// one piece. (As envoyproxy/ratelimit writes it, for who has dashboards of it.)
std::string in_statistics(std::string name);

// The start of the names of all counters of a domain.
std::string counter_head(std::string_view domain);
// The end of the names of all counters of a limit: what was used stays with the algorithm and its
// period, whatever becomes of the number.
std::string counter_tail(const core::Limit& limit);

}  // namespace weir::envoy
