#pragma once

#include <optional>

#include "gateway/config.h"
#include "gateway/key_yaml.h"

namespace weir::gateway {

// A policy file, and its gateway if it has one.
struct WholeFile {
  policy::Config config{};  // limits that routes write down are among its policies
  std::optional<Config> gateway{};
};

// Problems and warnings as of policy::read_config, those of the gateway among them. `read_text`
// reads the files that the gateway names: pages and keys.
WholeFile read_config(const policy::Source& source, policy::Problems& problems,
                      policy::Problems& warnings, const ReadText& read_text);
// From the disk.
WholeFile read_config(const policy::Source& source, policy::Problems& problems,
                      policy::Problems& warnings);

}  // namespace weir::gateway
