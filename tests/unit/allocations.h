#pragma once

#include <cstddef>

// How often this program has asked for memory so far. Link allocations.cc, which counts.
std::size_t allocations();

// While one of these exists, no memory is given to this program.
class NoMemory {
 public:
  NoMemory();
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};
