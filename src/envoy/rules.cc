#include "envoy/rules.h"

#include <algorithm>
#include <span>

#include "policy/identity.h"
#include "store/key_name.h"

namespace weir::envoy {

WildcardPattern::WildcardPattern(std::string_view text) {
  for (;;) {
    const std::size_t star = text.find('*');
    parts_.emplace_back(text.substr(0, star));
    if (star == std::string_view::npos) break;
    text.remove_prefix(star + 1);
  }
}

bool WildcardPattern::matches(std::string_view value) const noexcept {
  const std::string& first = parts_.front();
  const std::string& last = parts_.back();
  if (value.size() < first.size() + last.size()) return false;
  if (!value.starts_with(first) || !value.ends_with(last)) return false;
  value.remove_prefix(first.size());
  value.remove_suffix(last.size());
  for (std::size_t i = 1; i + 1 < parts_.size(); ++i) {
    const std::size_t found = value.find(parts_[i]);
    if (found == std::string_view::npos) return false;
    value.remove_prefix(found + parts_[i].size());
  }
  return true;
}

std::size_t TextHash::operator()(std::string_view text) const noexcept {
  return std::hash<std::string_view>{}(text);
}

namespace {

// The length of the IPv4 address at the start of a text, or 0. Each part has up to three digits;
// the characters around it do not matter.
std::size_t address_length(std::string_view text) {
  std::size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (at == text.size() || text[at++] != '.')) return 0;
    const std::string_view rest = text.substr(at, 3);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0) return 0;
    at += digits;
  }
  return at;
}

}  // namespace

std::string metric_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == ':' || c == '|'; }, '_');
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = address_length(std::string_view(name).substr(i));
    const auto address = std::span(name).subspan(i, length);
    std::ranges::replace(address, '.', '_');
    i += std::max<std::size_t>(length, 1);
  }
  return name;
}

// No policy has such keys: their = is escaped.
std::string counter_head(std::string_view domain) {
  std::string head = store::key_prefix({});
  head.pop_back();
  head += '=';
  store::append_whole_key(head, domain);
  head += ':';
  return head;
}

std::string counter_tail(const core::Limit& limit) {
  return store::key_suffix(policy::readable_identities_of({{.limit = limit}}).front());
}

}  // namespace weir::envoy
