#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_file.h"
#include "weir/engine.h"

namespace weir::server {

// The policies in force: those of the policy file, and those that were put while running, which win
// over the file until they are deleted. What was put is kept beside the state file.
// Thread-safe.
class Policies {
 public:
  // `path`: where to keep what is put; empty: nowhere.
  explicit Policies(std::string path) : path_(std::move(path)) {}

  // Tells these policies from all others of this process.
  std::uint64_t id() const { return id_; }

  // What was put before, read from its place.
  std::optional<Error> restore();

  // The merged policies, for an engine that starts with them.
  PolicySet merged() const;

  // The policies of the file. The engine is told, if there is one yet.
  void use_file(policy::PolicySet policies, Engine* engine = nullptr);

  // Each raises the engine's generation.
  std::optional<Error> put(Engine& engine, const std::string& name, std::string_view text);
  Result<bool, Error> remove(Engine& engine, const std::string& name);

  struct Listed {
    std::string name;
    std::vector<std::string> limits;  // as text
    bool put = false;
  };
  std::vector<Listed> list() const;
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  policy::PolicySet in_force() const;

 private:
  static std::uint64_t next_id();
  struct Put {
    std::string text;
    policy::Policy policy;
  };
  using Puts = std::map<std::string, Put, std::less<>>;

  policy::PolicySet merged_locked() const;
  std::optional<Error> save(const Puts& puts) const;

  const std::string path_;
  const std::uint64_t id_ = next_id();
  mutable std::mutex mutex_;
  policy::PolicySet file_;
  Puts puts_;
};

}  // namespace weir::server
