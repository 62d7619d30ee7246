#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/router.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// A Redis Cluster assigns keys to nodes by hash slots.
inline constexpr std::size_t kHashSlots = 16384;

// The hash slot of a key: of its hash tag, the text in its first braces, if that is not empty; else
// of the whole key.
std::uint16_t hash_slot_of(std::string_view key);

// The assignment of hash slots to nodes.
struct SlotMap {
  static constexpr std::uint16_t kUnassigned = 0xffff;

  std::vector<HostPort> nodes{};  // primaries, then replicas
  std::size_t primaries = 0;      // number of primaries
  // By hash slot: an index into `nodes`; kUnassigned if no node serves it, or its address is
  // unknown.
  std::vector<std::uint16_t> owners = std::vector<std::uint16_t>(kHashSlots, kUnassigned);
};

// Parses the reply to CLUSTER SLOTS; empty if it is malformed. `replying_host` is the host that
// sent the reply: it replaces an empty host.
std::optional<SlotMap> parse_slot_map(std::span<const wire::RespValue> reply,
                                      std::string_view replying_host);

// An error such as MOVED 3999 127.0.0.1:6381 or ASK 3999 127.0.0.1:6381.
struct Redirection {
  bool asks = false;  // ASK: for this call only, because the hash slot is being migrated
  std::uint16_t slot = 0;
  HostPort to{};
};

// Parses a redirection; empty if the error is another one, or has no usable address.
// `replying_host` replaces an empty host.
std::optional<Redirection> parse_redirection(std::string_view error,
                                             std::string_view replying_host);

}  // namespace weir::store::redis
