#include "envoy/walk.h"

#include <openssl/evp.h>

#include <array>

#include "store/key_name.h"

namespace weir::envoy {

namespace {

// The value of an entry in the counter's key.
std::string_view counted_value(const DescriptorNode* node, const DescriptorEntry& entry) {
  return node != nullptr && node->shares_counter ? std::string_view(node->value) : entry.value;
}

// The nodes on the path to a node, by entry. All null for a limit of the request.
const std::vector<const DescriptorNode*>& path_to(const DescriptorNode* node, std::size_t depth) {
  thread_local std::vector<const DescriptorNode*> path;
  path.assign(depth, nullptr);
  for (std::size_t i = depth; node != nullptr && i > 0; node = node->parent) path[--i] = node;
  return path;
}

void replace_by_hash(std::string& name, std::size_t from) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(name.data() + from, name.size() - from, digest.data(), &size, EVP_sha256(), nullptr);
  name.resize(from);
  static constexpr std::string_view hex = "0123456789abcdef";
  // Unlike every entry, it contains no =.
  name += "sha256.";
  for (unsigned int i = 0; i < size; ++i) {
    name += hex[digest[i] >> 4];
    name += hex[digest[i] & 15];
  }
}

void append_step(std::string& text, std::string_view key, std::string_view value) {
  text += '.';
  text += key;
  if (value.empty()) return;
  text += '_';
  text += value;
}

}  // namespace

StepMatch step(const DescriptorNode& from, const DescriptorEntry& entry) noexcept {
  const auto choices = from.next.find(entry.key);
  if (choices == from.next.end()) return {};
  const DescriptorNode::Choices& some = choices->second;
  const auto value = some.values.find(entry.value);
  if (value != some.values.end()) return {value->second, MatchKind::value};
  for (const DescriptorNode::Choices::Wildcard& wildcard : some.wildcards) {
    if (wildcard.pattern.matches(entry.value)) return {wildcard.node, MatchKind::wildcard};
  }
  return some.any != nullptr ? StepMatch{some.any, MatchKind::key} : StepMatch{};
}

WalkResult walk(const Domain& domain, std::span<const DescriptorEntry> entries) noexcept {
  WalkResult walk;
  const DescriptorNode* from = &domain.root;
  for (const DescriptorEntry& entry : entries) {
    if (from->children.empty() && walk.steps > 0) {
      walk.end = WalkEnd::too_long;
      return walk;
    }
    const StepMatch found = step(*from, entry);
    if (found.node == nullptr) return walk;
    from = walk.node = found.node;
    ++walk.steps;
  }
  if (walk.node != nullptr) walk.end = walk.node->rule ? WalkEnd::limit : WalkEnd::no_rule;
  return walk;
}

void append_counter(std::string& name, const Domain& domain, const DescriptorNode* node,
                    std::span<const DescriptorEntry> entries, std::string_view tail) {
  const std::size_t start = name.size();
  name += domain.head;
  const std::size_t from = name.size();
  if (node == nullptr || !node->path_shares_counter) {
    for (const DescriptorEntry& entry : entries)
      store::append_key_part(name, entry.key, entry.value);
  } else {
    const auto& path = path_to(node, entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store::append_key_part(name, entries[i].key, counted_value(path[i], entries[i]));
    }
  }
  if (name.size() - start > kMaxCounterName) replace_by_hash(name, from);
  name += tail;
}

std::string counted_as(std::string_view domain, const DescriptorNode& node,
                       std::span<const DescriptorEntry> entries) {
  const auto& path = path_to(&node, entries.size());
  std::string text{domain};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool names_value =
        !path[i]->shares_counter && (node.rule->detailed || path[i]->value_to_metric);
    const std::string_view value = names_value ? entries[i].value : path[i]->value;
    append_step(text, entries[i].key, value);
    // As envoyproxy/ratelimit writes it, so that its dashboards keep working.
    if (names_value && node.rule->detailed && !node.path_shares_counter && value.empty())
      text += '_';
  }
  return metric_name(std::move(text));
}

std::string counted_as(std::string_view domain, std::span<const DescriptorEntry> entries) {
  std::string text{domain};
  for (const DescriptorEntry& entry : entries) append_step(text, entry.key, entry.value);
  return metric_name(std::move(text));
}

}  // namespace weir::envoy
