// Any bytes as a configuration of envoyproxy/ratelimit give problems that can be printed, or rules
// that can be evaluated.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "envoy/explain.h"
#include "envoy/read_rules.h"

namespace {

using namespace weir;

// Every node is reached by its path, unless another node hides it.
void visit(const envoy::Domain& domain, const envoy::DescriptorNode& node,
           std::vector<envoy::DescriptorEntry>& entries) {
  const envoy::WalkResult walked = envoy::walk(domain, entries);
  if (walked.steps > entries.size()) std::abort();
  std::string name;
  envoy::append_counter(name, domain, walked.end == envoy::WalkEnd::limit ? walked.node : nullptr,
                        entries, "}:x");
  if (name.size() > envoy::kMaxCounterName + domain.head.size() + 100) std::abort();
  if (walked.end == envoy::WalkEnd::limit) (void)envoy::counted_as("d", *walked.node, entries);
  (void)envoy::explain_walk("d", &domain, {.entries = entries});
  for (const auto& child : node.children) {
    entries.push_back({child->key, child->value});
    if (envoy::step(node, entries.back()).node == nullptr) std::abort();
    visit(domain, *child, entries);
    entries.pop_back();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const policy::Source source{"fuzz.yaml", text};
  for (const bool merge : {false, true}) {
    const envoy::ReadRulesResult loaded = envoy::read_rules(
        {source, {"other.yaml", "domain: d\ndescriptors: [ { key: a, value: b* } ]"}},
        {.merge_domains = merge, .sharing = policy::Sharing::fleet});
    if ((loaded.rules == nullptr) != !loaded.problems().empty()) std::abort();
    for (const envoy::FileReport& file : loaded.files) {
      for (const auto& warning : file.warnings) (void)file.source.render(warning);
    }
    if (loaded.rules == nullptr) continue;
    for (const auto& [name, domain] : loaded.rules->domains) {
      std::vector<envoy::DescriptorEntry> entries;
      visit(domain, domain.root, entries);
    }
  }
  return 0;
}
