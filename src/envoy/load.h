#pragma once

#include <memory>
#include <string>
#include <vector>

#include "envoy/rules.h"
#include "policy/limit.h"
#include "policy/source.h"

namespace weir::envoy {

struct LoadOptions {
  bool merge_domains = false;  // several files may have rules of one domain
  // Where the limits will count: some do not fit into a store that nodes share.
  policy::Sharing sharing = policy::Sharing::none;
};

// What was read of one file.
struct FileReport {
  policy::Source source{};
  policy::Problems problems{};
  policy::Problems warnings{};
};

struct Loaded {
  std::shared_ptr<const Rules> rules{};  // none if there is anything wrong
  std::vector<FileReport> files{};
  std::string error{};    // why the files could not even be read
  std::string warning{};  // what is odd about them together

  // All that is wrong, and where. Empty: nothing.
  std::string problems() const;
};

// The files of a configuration: the one that `path` is, or all *.yaml and *.yml in the directory it
// is, by name. Perhaps none: they may come later.
Result<std::vector<std::string>, std::string> files_of(const std::string& path);

// envoyproxy/ratelimit's configuration from a file or a directory, everything that is wrong with it
// at once.
Loaded load(const std::string& path, const LoadOptions& options = {});
Loaded load(std::vector<policy::Source> sources, const LoadOptions& options = {});

}  // namespace weir::envoy
