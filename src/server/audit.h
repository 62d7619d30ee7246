#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "server/log.h"
#include "server/texts.h"

namespace weir::server {

// Who did something that only operators may. Borrows its texts.
struct Caller {
  std::string_view address;
  std::string_view door;
};

// The same, for what is done after the call.
struct CallerCopy {
  explicit CallerCopy(const Caller& who) : address(who.address), door(who.door) {}
  operator Caller() const { return {address, door}; }

  std::string address;
  std::string door;
};

template <typename... Args>
std::string audit_line(const Caller& who, fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format("{}, by {} over {}", fmt::format(format, std::forward<Args>(args)...),
                     who.address, who.door);
}

// A line in the log that is never left out: who has changed what.
template <typename... Args>
void audit(const Caller& who, fmt::format_string<Args...> format, Args&&... args) {
  write_log(Level::audit, audit_line(who, format, std::forward<Args>(args)...));
}

// To be written once it is done, when who asked may be gone.
inline std::string reset_line(const Caller& who, const Request& request) {
  return audit_line(who, "{} reset under {}", subject_of(request),
                    in_quotes(shortened(request.policy)));
}

}  // namespace weir::server
