#pragma once

#include "gateway/config.h"
#include "gateway/key_yaml.h"
#include "policy/yaml.h"

namespace weir::gateway {

// `refused:`: the reply to denied requests. A fallback inherits the settings of `defaults`.
RefusalConfig read_refused(const policy::YamlNode& node, const ServiceConfig& defaults,
                           const ReadText& read_text, policy::Problems& problems);

}  // namespace weir::gateway
