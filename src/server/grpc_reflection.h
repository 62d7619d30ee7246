#pragma once

#include <string>
#include <string_view>

namespace weir::server {

// Answers a ServerReflectionRequest, of either version of that protocol: they are the same but for
// their name. Appends the message; false if the request makes no sense.
bool reflect(std::string_view message, std::string& out);

}  // namespace weir::server
