#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/way.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Redis Cluster deals its keys out by slots.
inline constexpr std::size_t kSlots = 16384;

// The slot of a key: by what is in its first braces, if something is, or else by all of it.
std::uint16_t slot_of(std::string_view key);

// Who has which slots.
struct SlotMap {
  static constexpr std::uint16_t kNobody = 0xffff;

  std::vector<Place> nodes{};  // primaries, then replicas
  std::size_t primaries = 0;   // how many of them
  // By slot: which of the nodes; kNobody if none has it, or it is not known where that one is.
  std::vector<std::uint16_t> owners = std::vector<std::uint16_t>(kSlots, kNobody);
};

// The reply to CLUSTER SLOTS by who was asked at `asked`; none if it is not one. A node that has no
// name for itself is where it was asked.
std::optional<SlotMap> read_slots(std::span<const wire::RespValue> reply, std::string_view asked);

// MOVED 3999 127.0.0.1:6381, or ASK.
struct Redirection {
  bool asks = false;  // this once: the slot has not moved yet
  std::uint16_t slot = 0;
  Place to{};
};

// None if it is no such error, or says nothing that can be followed.
std::optional<Redirection> read_redirection(std::string_view error, std::string_view asked);

}  // namespace weir::store::redis
