#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "policy/yaml.h"
#include "weir/result.h"

namespace weir::gateway {

// Reads a file that the policy file names. The error says why it cannot.
using ReadText = std::function<Result<std::string, Error>(const std::string& path)>;

// `key:`: a source, or a list of them that are one key together.
KeyPart read_key(const policy::Node& node, policy::Problems& problems);

// `parts:`: names and what they are made of, in the order of the alphabet.
std::vector<KeyPart> read_parts(const policy::Node& node, policy::Problems& problems);

// `jwt:`. One that believes nothing if there is a problem with it.
std::shared_ptr<const JwtReader> read_jwt(const policy::Node& node, const ReadText& read_text,
                                          policy::Problems& problems, policy::Problems& warnings);

// `cost:`.
Cost read_cost(const policy::Node& node, policy::Problems& problems);

}  // namespace weir::gateway
