#pragma once

#include <string>

namespace weir::store {

// 128 random bits as text: a name that nobody else has, and nobody guesses.
std::string random_name();

}  // namespace weir::store
