#pragma once

#include <string>
#include <string_view>

namespace weir::server {

// Appends the response to a ServerReflectionRequest of v1 or v1alpha, which have the same messages;
// false if the message is malformed.
bool reflect(std::string_view message, std::string& out);

}  // namespace weir::server
