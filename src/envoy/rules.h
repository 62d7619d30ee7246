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
#include "envoy/messages.h"

// The rules of a configuration as trees of descriptors, one for each domain. Immutable: a reload
// replaces them as a whole.

namespace weir::envoy {

// A `rate_limit` of a descriptor.
struct DescriptorRule {
  bool unlimited = false;
  std::uint32_t requests_per_unit = 0;
  Unit unit = Unit::unknown;  // unknown: another period
  std::string name{};
  std::vector<std::string> replaces{};  // names of the rules that it replaces
  core::Limit limit{};                  // not set if it is unlimited
  std::string tail{};                   // suffix of its counters' keys
  std::uint64_t identity = 0;           // new keys in a full table share a counter by it
  bool shadow = false;
  bool quota = false;

  std::string path{};        // domain and path in the tree
  std::string counted_as{};  // the same as a name of metrics
  std::size_t number = 0;    // index among all rules
  bool detailed = false;     // metrics contain the values of the request

  std::string metadata{};  // a JSON object; empty: none
};

// A value with wildcards: each `*` matches any text, or none.
class WildcardPattern {
 public:
  explicit WildcardPattern(std::string_view text);
  bool matches(std::string_view value) const noexcept;

 private:
  std::vector<std::string> parts_;  // the texts between the stars: at least two
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept;
};

// A descriptor of the configuration: a node of the tree.
struct DescriptorNode {
  template <typename T>
  using StringMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  // The children with one key.
  struct Choices {
    struct Wildcard {
      WildcardPattern pattern;
      const DescriptorNode* node;
    };
    StringMap<const DescriptorNode*>
        values{};                         // patterns as well: a request may contain the text of one
    std::vector<Wildcard> wildcards{};    // in the order of the file
    const DescriptorNode* any = nullptr;  // the child with the key alone
  };

  std::string key{};
  std::string value{};  // or pattern; empty: any
  const DescriptorNode* parent = nullptr;
  bool is_wildcard = false;
  bool value_to_metric = false;
  bool shares_counter = false;  // all values that match its pattern have one counter
  // The same flags of this node or of an ancestor.
  bool metric_names_values = false;
  bool path_shares_counter = false;
  std::optional<DescriptorRule> rule{};
  std::string place{};  // FILE:LINE:COLUMN

  std::vector<std::unique_ptr<DescriptorNode>> children{};  // in the order of the file
  StringMap<Choices> next{};                                // the same children, by key
};

struct Domain {
  DescriptorNode root{};
  std::string head{};  // prefix of its counters' keys
};

struct RuleSet {
  std::map<std::string, Domain, std::less<>> domains{};
  std::size_t count = 0;  // number of rules
};

// Makes a name for statsd metrics, where dots separate levels: replaces : and |, and the dots of
// IPv4 addresses. Byte for byte what envoyproxy/ratelimit writes, so that its dashboards keep
// working.
std::string metric_name(std::string name);

// The prefix of the keys of all counters of a domain.
std::string counter_head(std::string_view domain);
// The suffix of the keys of all counters of a limit. It depends on the algorithm and its period
// only: usage survives a change of the number.
std::string counter_tail(const core::Limit& limit);

}  // namespace weir::envoy
