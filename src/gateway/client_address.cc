#include "gateway/client_address.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"

namespace weir::gateway {

namespace {

// Bounds the work: no real deployment has as many proxies in a row.
constexpr int kMaxProxies = 64;

std::string_view trimmed(std::string_view text) {
  const std::size_t start = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(start);
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

// Accepts 192.0.2.1, 192.0.2.1:4711, 2001:db8::1, [2001:db8::1] and [2001:db8::1]:4711.
std::optional<IpAddress> address_of_node(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') return std::nullopt;
    return parse_address(text.substr(1, end - 1));
  }
  const std::size_t colon = text.find(':');
  const bool has_port =
      colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  return parse_address(has_port ? text.substr(0, colon) : text);
}

// Splits at the last comma outside quotes. An unclosed quote makes the rest one element.
std::string_view take_last_element(std::string_view& list) {
  bool quoted = false;
  std::size_t i = list.size();
  while (i > 0 && (quoted || list[i - 1] != ',')) {
    --i;
    const bool escaped = quoted && i > 0 && list[i - 1] == '\\';
    if (list[i] == '"' && !escaped) quoted = !quoted;
  }
  const std::string_view element = list.substr(i);
  list = list.substr(0, i == 0 ? 0 : i - 1);
  return trimmed(element);
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.starts_with('"') && text.ends_with('"');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// Parses for= of a Forwarded element: for="[2001:db8::1]:4711";proto=https.
std::optional<IpAddress> address_of_element(std::string_view element) {
  while (!element.empty()) {
    const std::string_view pair = element.substr(0, element.find(';'));
    element.remove_prefix(std::min(pair.size() + 1, element.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (!same_ignoring_case(trimmed(pair.substr(0, equals)), "for")) continue;
    if (equals == pair.size()) return std::nullopt;
    return address_of_node(without_quotes(trimmed(pair.substr(equals + 1))));
  }
  return std::nullopt;
}

// Follows the chain of proxies backwards while each is trusted.
class ProxyChain {
 public:
  ProxyChain(const IpAddress& peer, const std::vector<IpRange>& trusted)
      : client_(peer), trusted_(trusted) {}

  // `forwarded`: the address that the current proxy has seen. False if the chain ends here.
  bool step(const std::optional<IpAddress>& forwarded) {
    if (!forwarded || ++steps_ > kMaxProxies) return false;
    client_ = *forwarded;
    return has(trusted_, client_);
  }
  const IpAddress& client() const { return client_; }

 private:
  IpAddress client_;
  const std::vector<IpRange>& trusted_;
  int steps_ = 0;
};

// The client according to one header; nullopt if it is absent. Several lines are one list.
template <typename ReadElement>
std::optional<IpAddress> client_by(const IpAddress& peer, FieldSpan fields, std::string_view name,
                                   const std::vector<IpRange>& trusted, ReadElement read) {
  ProxyChain chain(peer, trusted);
  bool found = false;
  for (std::size_t i = fields.size(); i-- > 0;) {
    if (!same_ignoring_case(fields[i].name, name)) continue;
    found = true;
    std::string_view list = fields[i].value;
    while (!trimmed(list).empty()) {
      const std::string_view element = take_last_element(list);
      if (element.empty()) continue;
      if (!chain.step(read(element))) return chain.client();
    }
  }
  return found ? std::optional(chain.client()) : std::nullopt;
}

}  // namespace

IpAddress client_address(const IpAddress& peer, FieldSpan fields,
                         const std::vector<IpRange>& trusted, ClientFrom from) {
  if (!has(trusted, peer)) return peer;
  std::optional<IpAddress> by_x, by_standard;
  if (from != ClientFrom::forwarded) {
    by_x = client_by(peer, fields, "X-Forwarded-For", trusted, address_of_node);
  }
  if (from != ClientFrom::x_forwarded_for) {
    by_standard = client_by(peer, fields, "Forwarded", trusted, address_of_element);
  }
  if (by_x && by_standard && *by_x != *by_standard) return peer;
  return by_x ? *by_x : by_standard.value_or(peer);
}

}  // namespace weir::gateway
