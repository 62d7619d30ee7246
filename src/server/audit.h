#pragma once

#include <string_view>

#include "server/log.h"
#include "server/texts.h"

namespace weir::server {

// Who did something that only operators may.
struct Caller {
  std::string_view address;
  std::string_view door;
};

// A line in the log that is never left out: who has changed what.
template <typename... Args>
void audit(const Caller& who, fmt::format_string<Args...> format, Args&&... args) {
  write_log(Level::audit,
            fmt::format("{}, by {} over {}", fmt::format(format, std::forward<Args>(args)...),
                        who.address, who.door));
}

inline void audit_reset(const Caller& who, const Request& request) {
  audit(who, "{} reset under {}", subject_of(request), in_quotes(shortened(request.policy)));
}

}  // namespace weir::server
