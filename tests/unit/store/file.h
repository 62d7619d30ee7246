#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "store.h"

// Helpers for state files and processes that use them.

namespace weir::store {

// A table in a file, or the error.
struct FileTable {
  std::unique_ptr<Table> table;
  StateFileReport opened;
  std::string error;

  explicit operator bool() const { return table != nullptr; }
  Table& operator*() const { return *table; }
  Table* operator->() const { return table.get(); }
};

constexpr std::size_t kFileBytes = 72 << 10;

inline FileTable open_file(const std::string& path, std::size_t bytes = kFileBytes,
                           std::ptrdiff_t record_bytes = 24 << 10, Nanos at = Nanos{0}) {
  FileTable result;
  auto table = Table::open({.bytes = bytes, .record_bytes = record_bytes, .state_file = path},
                           kStart + at, result.opened);
  if (table) result.table = *std::move(table);
  if (!table) result.error = table.error().message;
  return result;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Runs `work` in a child process and returns its exit status, or minus the signal that killed it.
// The child ends with _exit: it runs no destructors and does not sync shared mappings.
template <typename Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace weir::store
