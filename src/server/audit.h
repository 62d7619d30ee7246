#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "server/format.h"
#include "server/log.h"

namespace weir::server {

// The origin of an administrative call. Borrows its texts.
struct Caller {
  std::string_view address;
  std::string_view listener;
};

// A copy that outlives the call.
struct OwnedCaller {
  explicit OwnedCaller(const Caller& caller) : address(caller.address), listener(caller.listener) {}
  operator Caller() const { return {address, listener}; }

  std::string address;
  std::string listener;
};

template <typename... Args>
std::string audit_line(const Caller& caller, fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format("{}, by {} over {}", fmt::format(format, std::forward<Args>(args)...),
                     caller.address, caller.listener);
}

// Logs an administrative change and its origin. The log's rate limit does not apply to it.
template <typename... Args>
void audit(const Caller& caller, fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::audit, audit_line(caller, format, std::forward<Args>(args)...));
}

// The audit line of a reset. Made before the call: a reset may complete when its request, which
// the line borrows from, is gone.
inline std::string reset_audit_line(const Caller& caller, const Request& request) {
  return audit_line(caller, "{} reset under {}", subject_of(request),
                    in_quotes(shortened(request.policy)));
}

}  // namespace weir::server
