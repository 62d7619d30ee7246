#include "server/policies.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "engine/policy_set_access.h"
#include "policy/config.h"
#include "policy/limit_text.h"

namespace weir::server {

namespace {

// One policy, or all that is wrong with it.
Result<policy::Policy, Error> read(const std::string& name, std::string_view text) {
  const policy::Source source{.name = name, .text = std::string{text}};
  policy::Problems problems;
  policy::Policy policy = policy::read_policy(source, problems);
  if (problems.empty()) return policy;
  std::string all;
  for (const policy::Problem& problem : problems) all += source.render(problem);
  return Error{std::move(all)};
}

Error failed(const std::string& what, const std::string& path) {
  return Error{fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

// Whole or not at all: written beside it, then moved into its place.
std::optional<Error> replace_file(const std::string& path, std::string_view content) {
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return failed("write", fresh);
  const bool written =
      write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      fsync(file) == 0;
  std::optional<Error> error;
  if (!written) error = failed("write", fresh);
  close(file);
  if (!error && rename(fresh.c_str(), path.c_str()) != 0) error = failed("write", path);
  return error;
}

}  // namespace

std::uint64_t Policies::next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::optional<Error> Policies::restore() {
  const std::lock_guard lock(mutex_);
  if (path_.empty() || access(path_.c_str(), F_OK) != 0) return std::nullopt;
  const auto source = policy::Source::read(path_);
  if (!source) return Error{source.error()};
  const auto kept = nlohmann::json::parse(source->text, nullptr, false);
  if (!kept.is_object()) return Error{path_ + " is damaged: move it away"};
  for (const auto& [name, text] : kept.items()) {
    if (!text.is_string()) return Error{path_ + " is damaged: move it away"};
    auto policy = read(name, text.get<std::string>());
    if (!policy) return Error{path_ + ": " + policy.error().message};
    puts_.insert_or_assign(name, Put{text.get<std::string>(), *std::move(policy)});
  }
  return std::nullopt;
}

policy::PolicySet Policies::merged_locked() const {
  policy::PolicySet all = file_;
  for (const auto& [name, put] : puts_) all.insert_or_assign(name, put.policy);
  return all;
}

PolicySet Policies::merged() const {
  const std::lock_guard lock(mutex_);
  return policy_set_of(merged_locked());
}

void Policies::use_file(policy::PolicySet policies, Engine* engine) {
  const std::lock_guard lock(mutex_);
  file_ = std::move(policies);
  if (engine != nullptr) engine->replace(policy_set_of(merged_locked()));
}

std::optional<Error> Policies::put(Engine& engine, const std::string& name, std::string_view text) {
  // The reader would take UTF-16, too, but what is put is kept as JSON.
  if (!is_utf8(text)) return Error{"a policy is written in UTF-8"};
  auto policy = read(name, text);
  if (!policy) return policy.error();
  const std::lock_guard lock(mutex_);
  Puts puts = puts_;
  puts.insert_or_assign(name, Put{std::string{text}, *std::move(policy)});
  if (auto error = save(puts)) return error;
  puts_ = std::move(puts);
  engine.replace(policy_set_of(merged_locked()));
  return std::nullopt;
}

Result<bool, Error> Policies::remove(Engine& engine, const std::string& name) {
  const std::lock_guard lock(mutex_);
  Puts puts = puts_;
  if (puts.erase(name) == 0) return false;
  if (auto error = save(puts)) return *std::move(error);
  puts_ = std::move(puts);
  engine.replace(policy_set_of(merged_locked()));
  return true;
}

std::optional<Error> Policies::save(const Puts& puts) const {
  if (path_.empty()) return std::nullopt;
  nlohmann::json kept = nlohmann::json::object();
  for (const auto& [name, put] : puts) kept[name] = put.text;
  // (Names and texts are UTF-8: nothing is replaced.)
  return replace_file(path_, kept.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<Policies::Listed> Policies::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> listed;
  for (const auto& [name, policy] : merged_locked()) {
    Listed& each =
        listed.emplace_back(Listed{.name = name, .limits = {}, .put = puts_.contains(name)});
    for (const policy::Limit& limit : policy.limits)
      each.limits.push_back(policy::to_text(limit.rule));
  }
  return listed;
}

bool Policies::has(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return file_.find(name) != file_.end() || puts_.find(name) != puts_.end();
}

policy::PolicySet Policies::in_force() const {
  const std::lock_guard lock(mutex_);
  return merged_locked();
}

std::vector<std::string> Policies::names() const {
  std::vector<std::string> names;
  for (const Listed& each : list()) names.push_back(each.name);
  return names;
}

}  // namespace weir::server
