#pragma once

#include <memory>
#include <string>
#include <vector>

#include "envoy/rules.h"
#include "policy/limit.h"
#include "policy/source.h"

namespace weir::envoy {

struct ReadOptions {
  bool merge_domains = false;  // several files may have rules of one domain
  // The store that the limits will use: some limits cannot be shared by nodes.
  policy::Sharing sharing = policy::Sharing::none;
};

// One file and the problems found in it.
struct FileReport {
  policy::Source source{};
  policy::Problems problems{};
  policy::Problems warnings{};
};

struct ReadRulesResult {
  std::shared_ptr<const RuleSet> rules{};  // null if there is any problem
  std::vector<FileReport> files{};
  std::string error{};    // why the files could not be opened
  std::string warning{};  // about all files together

  // All problems with their positions. Empty: there are none.
  std::string problems() const;
};

// The files of a configuration: `path` itself if it is a file, else all *.yaml and *.yml of the
// directory, sorted by name. There may be none: they may be written later.
Result<std::vector<std::string>, std::string> files_of(const std::string& path);

// Reads a configuration of envoyproxy/ratelimit from a file or a directory. Reports all problems at
// once.
ReadRulesResult read_rules(const std::string& path, const ReadOptions& options = {});
ReadRulesResult read_rules(std::vector<policy::Source> sources, const ReadOptions& options = {});

}  // namespace weir::envoy
