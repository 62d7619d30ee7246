#pragma once

#include <string>

namespace weir::store {

// 128 random bits of the kernel as 32 hex digits: a name that is unique and cannot be guessed.
// Throws std::system_error if getrandom(2) fails.
std::string random_name();

}  // namespace weir::store
