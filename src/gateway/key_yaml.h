#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "policy/yaml.h"
#include "weir/result.h"

namespace weir::gateway {

// Reads a file that the policy file names, or returns the reason why it cannot be read.
using ReadText = std::function<Result<std::string, Error>(const std::string& path)>;

// `key:`: a source, or a list of sources that are joined to one key.
KeyPart read_key(const policy::YamlNode& node, policy::Problems& problems);

// `parts:`: names with their sources, sorted by name.
std::vector<KeyPart> read_parts(const policy::YamlNode& node, policy::Problems& problems);

// `jwt:`. Returns a reader that accepts no token if there is a problem.
std::shared_ptr<const JwtReader> read_jwt(const policy::YamlNode& node, const ReadText& read_text,
                                          policy::Problems& problems, policy::Problems& warnings);

// `cost:`.
RequestCost read_cost(const policy::YamlNode& node, policy::Problems& problems);

}  // namespace weir::gateway
