#pragma once

#include <string_view>

#include "policy/config.h"

namespace weir::policy {

// host:port; the host of an IPv6 address stands in brackets. `place` is where the text starts.
Result<Endpoint, Problem> parse_endpoint(std::string_view text, Place place);

// What is wrong with the address of a store, if something is: memory, redis://host:port/db, …
std::optional<Problem> check_store(std::string_view text, Place place);

}  // namespace weir::policy
