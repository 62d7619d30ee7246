#include "store/redis/hash_slots.h"

#include <algorithm>
#include <charconv>

namespace weir::store::redis {

namespace {

using wire::RespValue;
using RespValues = std::span<const RespValue>;

// The table of CRC-16/XMODEM for one byte at a time.
constexpr std::array<std::uint16_t, 256> crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0);
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

std::uint16_t crc16(std::string_view bytes) {
  static constexpr std::array<std::uint16_t, 256> table = crc_table();
  std::uint32_t crc = 0;
  for (const char c : bytes) {
    const std::uint32_t index = ((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff;
    crc = ((crc << 8) ^ table[index]) & 0xffff;
  }
  return static_cast<std::uint16_t>(crc);
}

std::string_view hash_tag_of(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return !text.empty() && error == std::errc{} && stop == end;
}

// The number of values of which the first one consists, with all its nested elements.
std::size_t extent(RespValues values) {
  std::size_t open = 1;
  std::size_t at = 0;
  while (open > 0 && at < values.size()) {
    const RespValue& value = values[at++];
    const bool is_list = value.kind == RespValue::Kind::array || value.kind == RespValue::Kind::map;
    open += is_list ? static_cast<std::size_t>(value.number) : 0;
    --open;
  }
  return at;
}

RespValues take_front(RespValues& values) {
  const RespValues front = values.first(extent(values));
  values = values.subspan(front.size());
  return front;
}

bool is_slot(const RespValue& value) {
  return value.kind == RespValue::Kind::integer && value.number >= 0 &&
         value.number < static_cast<std::int64_t>(kHashSlots);
}

// Parses a node's host, port and further fields. The host is empty if the address is unknown.
std::optional<HostPort> parse_node(RespValues node, std::string_view replying_host) {
  if (node.size() < 3 || node[0].kind != RespValue::Kind::array) return std::nullopt;
  const RespValue& port = node[2];
  if (port.kind != RespValue::Kind::integer || port.number < 0 || port.number > 65535) {
    return std::nullopt;
  }
  const std::string_view host = node[1].text;
  if (host == "?" || port.number == 0) return HostPort{};
  return HostPort{std::string{host.empty() ? replying_host : host},
                  static_cast<std::uint16_t>(port.number)};
}

std::uint16_t index_in(const HostPort& node, std::vector<HostPort>& nodes) {
  if (node.host.empty()) return SlotMap::kUnassigned;
  const auto found = std::ranges::find(nodes, node);
  const auto number = static_cast<std::uint16_t>(found - nodes.begin());
  if (found == nodes.end()) nodes.push_back(node);
  return number;
}

}  // namespace

std::uint16_t hash_slot_of(std::string_view key) {
  return static_cast<std::uint16_t>(crc16(hash_tag_of(key)) % kHashSlots);
}

std::optional<SlotMap> parse_slot_map(RespValues reply, std::string_view replying_host) {
  if (reply.empty() || reply[0].kind != RespValue::Kind::array) return std::nullopt;
  SlotMap map;
  std::vector<HostPort> replicas;
  reply = reply.subspan(1);
  while (!reply.empty()) {
    RespValues range = take_front(reply);
    if (range.size() < 4 || range[0].kind != RespValue::Kind::array) return std::nullopt;
    if (!is_slot(range[1]) || !is_slot(range[2])) return std::nullopt;
    const auto first = static_cast<std::size_t>(range[1].number);
    const auto last = static_cast<std::size_t>(range[2].number);
    range = range.subspan(3);
    const auto primary = parse_node(take_front(range), replying_host);
    if (!primary || last < first) return std::nullopt;
    const std::uint16_t owner = index_in(*primary, map.nodes);
    std::fill_n(map.owners.begin() + static_cast<std::ptrdiff_t>(first), last - first + 1, owner);
    while (!range.empty()) {
      const auto replica = parse_node(take_front(range), replying_host);
      if (replica) index_in(*replica, replicas);
    }
  }
  map.primaries = map.nodes.size();
  for (const HostPort& replica : replicas) index_in(replica, map.nodes);
  return map;
}

std::optional<Redirection> parse_redirection(std::string_view error,
                                             std::string_view replying_host) {
  Redirection read{.asks = error.starts_with("ASK ")};
  if (!read.asks && !error.starts_with("MOVED ")) return std::nullopt;
  error.remove_prefix(error.find(' ') + 1);
  const std::size_t space = error.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view where = error.substr(space + 1);
  // The last colon: an IPv6 address comes without brackets.
  const std::size_t colon = where.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view host = where.substr(0, colon);
  if (!parse_number(error.substr(0, space), read.slot) || read.slot >= kHashSlots)
    return std::nullopt;
  if (!parse_number(where.substr(colon + 1), read.to.port) || host == "?") return std::nullopt;
  read.to.host = host.empty() ? replying_host : host;
  return read;
}

}  // namespace weir::store::redis
