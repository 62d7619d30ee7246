#pragma once

#include <cstddef>

// How often this program has asked for memory so far. Link allocations.cc, which counts.
std::size_t allocations();
