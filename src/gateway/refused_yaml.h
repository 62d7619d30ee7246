#pragma once

#include "gateway/config.h"
#include "gateway/key_yaml.h"
#include "policy/yaml.h"

namespace weir::gateway {

// `refused:`: what is answered to who is refused. A fallback is a service as `common` is.
Refused read_refused(const policy::Node& node, const Service& common, const ReadText& read_text,
                     policy::Problems& problems);

}  // namespace weir::gateway
