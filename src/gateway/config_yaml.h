#pragma once

#include <optional>

#include "gateway/config.h"
#include "gateway/key_yaml.h"

namespace weir::gateway {

// A policy file, with its gateway if it has one.
struct FullConfig {
  policy::DaemonConfig config{};  // its policies include the limits that routes define
  std::optional<GatewayConfig> gateway{};
};

// Reads the whole file. Problems and warnings as in policy::read_config, with those of the gateway.
// `read_text` reads files that the gateway section names: bodies and keys.
FullConfig read_config(const policy::Source& source, policy::Problems& problems,
                       policy::Problems& warnings, const ReadText& read_text);
// Reads these files from disk.
FullConfig read_config(const policy::Source& source, policy::Problems& problems,
                       policy::Problems& warnings);

}  // namespace weir::gateway
