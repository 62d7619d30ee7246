#pragma once

#include <string_view>

namespace weir::server {

inline constexpr std::string_view kVersion = WEIR_VERSION;

}  // namespace weir::server
