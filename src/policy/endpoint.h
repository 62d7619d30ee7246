#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/config.h"

namespace weir::policy {

// host:port; the host of an IPv6 address stands in brackets. `place` is where the text starts.
Result<Endpoint, Problem> parse_endpoint(std::string_view text, Place place);

// Where counts are kept.
struct StoreAddress {
  enum class Kind : std::uint8_t { memory, redis, sentinel, cluster, unix_socket };

  Kind kind = Kind::memory;
  bool tls = false;
  std::vector<Endpoint> hosts{};  // one, but of a cluster or of sentinels
  std::string user{};             // %40 and the like are undone, in the password too
  std::string password{};
  std::uint32_t database = 0;
  std::string path{};    // of the socket
  std::string master{};  // its name, for sentinels
};

// memory, redis://user:password@host:port/db, redis+sentinel://h1,h2/name, redis+cluster://h1,h2,
// each with rediss for TLS, unix:///path. Problems quote no password.
Result<StoreAddress, Problem> parse_store(std::string_view text, Place place);

}  // namespace weir::policy
