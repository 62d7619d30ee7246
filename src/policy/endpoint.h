#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/config.h"

namespace weir::policy {

// host:port, an IPv6 address in brackets. `place` is the position of the text in its source.
Result<Endpoint, Problem> parse_endpoint(std::string_view text, SourcePosition place);

// The address of a store.
struct StoreAddress {
  enum class Kind : std::uint8_t { memory, redis, sentinel, cluster, unix_socket };

  Kind kind = Kind::memory;
  bool tls = false;
  std::vector<Endpoint> hosts{};  // one; several for a cluster or sentinels
  std::string user{};             // percent-decoded, as the password is
  std::string password{};
  std::uint32_t database = 0;
  std::string path{};    // of the Unix socket
  std::string master{};  // name of the primary, for sentinels
};

// memory, redis://user:password@host:port/db, redis+sentinel://h1,h2/name, redis+cluster://h1,h2,
// each with rediss for TLS, unix:///path. Error messages never contain a password.
Result<StoreAddress, Problem> parse_store(std::string_view text, SourcePosition place);

}  // namespace weir::policy
