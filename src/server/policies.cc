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

using nlohmann::json;

namespace {

// One policy, or all that is wrong with it.
Result<policy::Policy, Policies::Flaw> read(const std::string& name, std::string_view text,
                                            policy::Sharing sharing) {
  const policy::Source source{.name = name, .text = std::string{text}};
  policy::Problems problems;
  policy::Policy policy = policy::read_policy(source, sharing, problems);
  if (problems.empty()) return policy;
  return Policies::Flaw{.message = source.render_all(problems),
                        .field = policy::field_with(problems.front(), source)};
}

Error failed(const std::string& what, const std::string& path) {
  return Error{fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

// Whole or not at all: written beside it, then moved into its place.
std::optional<Error> replace_file(const std::string& path, std::string_view content) {
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return failed("write", fresh);
  const ssize_t written = write(file, content.data(), content.size());
  const bool all = written == static_cast<ssize_t>(content.size());
  if (written >= 0 && !all) errno = ENOSPC;  // the rest would not have fitted
  std::optional<Error> error;
  if (!all || fsync(file) != 0) error = failed("write", fresh);
  close(file);
  if (!error && rename(fresh.c_str(), path.c_str()) != 0) error = failed("write", path);
  if (error) unlink(fresh.c_str());
  return error;
}

Error damaged(const std::string& path) { return Error{path + " is damaged: move it away"}; }

// Null if there is no such file.
Result<json, Error> read_kept(const std::string& path) {
  if (path.empty() || access(path.c_str(), F_OK) != 0) return json{};
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  json kept = json::parse(source->text, nullptr, false);
  if (kept.is_discarded() || kept.is_null()) return damaged(path);
  return kept;
}

std::optional<Error> keep(const std::string& path, const json& what) {
  if (path.empty()) return std::nullopt;
  // (Names and texts are UTF-8: nothing is replaced.)
  return replace_file(path, what.dump(2, ' ', false, json::error_handler_t::replace));
}

}  // namespace

std::uint64_t Policies::next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Policies::Policies(const std::string& state, policy::Sharing sharing)
    : sharing_(sharing),
      puts_path_(state.empty() ? "" : state + ".policies"),
      orders_path_(state.empty() ? "" : state + ".orders") {}

std::optional<Error> Policies::restore() {
  const std::lock_guard lock(mutex_);
  if (auto error = restore_puts()) return error;
  return restore_orders();
}

std::optional<Error> Policies::restore_puts() {
  auto kept = read_kept(puts_path_);
  if (!kept) return kept.error();
  if (kept->is_null()) return std::nullopt;
  if (!kept->is_object()) return damaged(puts_path_);
  for (const auto& [name, text] : kept->items()) {
    if (!text.is_string()) return damaged(puts_path_);
    auto policy = read(name, text.get<std::string>(), sharing_);
    if (!policy) return Error{puts_path_ + ": " + policy.error().message};
    puts_.insert_or_assign(name, Put{text.get<std::string>(), *std::move(policy)});
  }
  return std::nullopt;
}

std::optional<Error> Policies::restore_orders() {
  auto kept = read_kept(orders_path_);
  if (!kept) return kept.error();
  if (kept->is_null()) return std::nullopt;
  if (!kept->is_array()) return damaged(orders_path_);
  for (const json& each : *kept) {
    auto order = read_kept_order(each);
    if (!order) return damaged(orders_path_);
    last_order_ = std::max(last_order_, order->id);
    orders_.insert_or_assign(order->id, *std::move(order));
  }
  return std::nullopt;
}

policy::PolicySet Policies::merged_locked() const {
  policy::PolicySet all = file_;
  for (const auto& [name, put] : puts_) all.insert_or_assign(name, put.policy);
  for (const auto& [id, given] : orders_) {
    for (auto& [name, policy] : all) {
      if (given.policy.empty() || given.policy == name) policy.orders.push_back(given.order);
    }
  }
  return all;
}

// As they are written, without orders and without copies: to be used while the mutex is held.
std::map<std::string_view, const policy::Policy*> Policies::found_locked() const {
  std::map<std::string_view, const policy::Policy*> all;
  for (const auto& [name, policy] : file_) all.emplace(name, &policy);
  for (const auto& [name, put] : puts_) all[name] = &put.policy;
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

std::optional<Policies::Flaw> Policies::put(Engine& engine, const std::string& name,
                                            std::string_view text) {
  // The reader would take UTF-16, too, but what is put is kept as JSON.
  if (!is_utf8(text)) return Flaw{.message = "a policy is written in UTF-8"};
  auto policy = read(name, text, sharing_);
  if (!policy) return policy.error();
  const std::lock_guard lock(mutex_);
  Puts puts = puts_;
  puts.insert_or_assign(name, Put{std::string{text}, *std::move(policy)});
  if (auto error = save(puts)) return Flaw{.message = error->message, .not_kept = true};
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
  json kept = json::object();
  for (const auto& [name, put] : puts) kept[name] = put.text;
  return keep(puts_path_, kept);
}

// ---- Orders

namespace {

// What was owed under a boost is reckoned as it was then for so long after its end.
constexpr Nanos kRemembered = std::chrono::hours{24};

bool is_in_force(const GivenOrder& given, Instant now) { return given.order.until > now; }

bool concerns(const GivenOrder& given, const policy::Subject& subject) {
  if (given.order.who.empty()) return true;
  const policy::PatternIndex only({{policy::Pattern::of(given.order.who), {}}});
  return only.find(subject).has_value();
}

// Whether each limit of a policy can become what an order wants.
std::optional<Error> check(const policy::Policy& policy, const policy::Order& order) {
  const auto possible = [&](const policy::Limit& limit) {
    return static_cast<bool>(policy::changed(limit.rule, order.change));
  };
  for (const policy::Limit& limit : policy.limits) {
    if (possible(limit)) continue;
    return Error{
        fmt::format("the limit {} cannot be changed by that much", policy::to_text(limit.rule))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> Policies::save(const Orders& orders) const {
  json kept = json::array();
  for (const auto& [id, given] : orders) kept.push_back(to_json(given));
  return keep(orders_path_, kept);
}

// With the mutex held. Nothing is changed that could not be kept.
std::optional<Error> Policies::use(Engine& engine, Orders orders) {
  if (auto error = save(orders)) return error;
  orders_ = std::move(orders);
  engine.replace(policy_set_of(merged_locked()));
  return std::nullopt;
}

Result<GivenOrder, Policies::Flaw> Policies::give(Engine& engine, GivenOrder order) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, policy] : merged_locked()) {
    if (!order.policy.empty() && order.policy != name) continue;
    if (auto error = check(policy, order.order)) return Flaw{.message = error->message};
  }
  Orders orders = orders_;
  std::erase_if(orders, [&](const auto& each) { return order.is_about_the_same_as(each.second); });
  if (orders.size() >= kMostOrders) return Flaw{.message = "there are too many orders: lift some"};
  order.id = ++last_order_;
  orders.emplace(order.id, order);
  if (auto error = use(engine, std::move(orders))) {
    return Flaw{.message = error->message, .not_kept = true};
  }
  return order;
}

Result<bool, Error> Policies::lift(Engine& engine, std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Orders orders = orders_;
  const auto found = orders.find(id);
  const Instant now = engine.now();
  if (found == orders.end() || !is_in_force(found->second, now)) return false;
  found->second.order.until = now;
  if (auto error = use(engine, std::move(orders))) return *std::move(error);
  return true;
}

std::vector<GivenOrder> Policies::orders(Instant now) const {
  const std::lock_guard lock(mutex_);
  std::vector<GivenOrder> all;
  for (const auto& [id, given] : orders_) {
    if (is_in_force(given, now)) all.push_back(given);
  }
  return all;
}

std::vector<GivenOrder> Policies::orders_for(const Request& request, Instant now) const {
  const policy::Subject subject{.key = request.key, .parts = request.parts.all()};
  std::vector<GivenOrder> all = orders(now);
  std::erase_if(all, [&](const GivenOrder& given) {
    const bool elsewhere = !given.policy.empty() && given.policy != request.policy;
    return elsewhere || !concerns(given, subject);
  });
  return all;
}

std::vector<GivenOrder> Policies::ended_orders(Engine& engine) {
  const std::lock_guard lock(mutex_);
  const Instant now = engine.now();
  std::vector<GivenOrder> ended;
  bool some_are_old = false;
  for (const auto& [id, given] : orders_) {
    if (!is_in_force(given, now) && is_in_force(given, looked_at_)) ended.push_back(given);
    some_are_old |= given.order.until + kRemembered <= now;
  }
  looked_at_ = now;
  if (!some_are_old) return ended;
  Orders orders = orders_;
  std::erase_if(orders,
                [&](const auto& each) { return each.second.order.until + kRemembered <= now; });
  // (What cannot be kept now is tried again later; until then it is only longer.)
  (void)use(engine, std::move(orders));
  return ended;
}

std::vector<Policies::Listed> Policies::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> listed;
  for (const auto& [name, policy] : found_locked()) {
    Listed& each = listed.emplace_back(
        Listed{.name = std::string(name), .limits = {}, .put = puts_.contains(name)});
    for (const policy::Limit& limit : policy->limits)
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
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, policy] : found_locked()) names.emplace_back(name);
  return names;
}

std::size_t Policies::count() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = file_.size();
  for (const auto& [name, put] : puts_) count += file_.contains(name) ? 0 : 1;
  return count;
}

}  // namespace weir::server
