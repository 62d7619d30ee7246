#include "server/policies.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "engine/policy_set_access.h"
#include "files/new_file.h"
#include "policy/config.h"
#include "policy/order_check.h"
#include "server/log.h"
#include "server/texts.h"

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
  return files::replace(path, what.dump(2, ' ', false, json::error_handler_t::replace));
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
  const std::lock_guard changing(changing_);
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

policy::PolicySet Policies::merged(const Orders& orders) const {
  policy::PolicySet all = file_;
  for (const auto& [name, put] : puts_) all.insert_or_assign(name, put.policy);
  for (const auto& [id, given] : orders) {
    for (auto& [name, policy] : all) {
      if (given.concerns(name)) policy.orders.push_back(given.order);
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
  const std::lock_guard changing(changing_);
  return policy_set_of(merged(orders_));
}

// Policies that have just come may have limits that an order in force cannot change.
void Policies::replace(Engine& engine) const {
  policy::PolicySet all = merged(orders_);
  for (const auto& [name, policy] : all) {
    if (const auto why =
            policy.orders.empty() ? std::nullopt : policy::unfit(policy, engine.now())) {
      log(Level::warning, "an order is not followed under {}: {}", in_quotes(name), *why);
    }
  }
  engine.replace(policy_set_of(std::move(all)));
}

void Policies::use_file(policy::PolicySet policies, Engine* engine) {
  const std::lock_guard changing(changing_);
  {
    const std::lock_guard lock(mutex_);
    file_.swap(policies);
  }
  if (engine != nullptr) replace(*engine);
}

std::optional<Policies::Flaw> Policies::put(Engine& engine, const std::string& name,
                                            std::string_view text) {
  // The reader would take UTF-16, too, but what is put is kept as JSON.
  if (!is_utf8(text)) return Flaw{.message = "a policy is written in UTF-8"};
  auto policy = read(name, text, sharing_);
  if (!policy) return policy.error();
  const std::lock_guard changing(changing_);
  Puts puts = puts_;
  puts.insert_or_assign(name, Put{std::string{text}, *std::move(policy)});
  if (auto error = use(engine, std::move(puts))) {
    return Flaw{.message = error->message, .not_kept = true};
  }
  return std::nullopt;
}

Result<bool, Error> Policies::remove(Engine& engine, const std::string& name) {
  const std::lock_guard changing(changing_);
  Puts puts = puts_;
  if (puts.erase(name) == 0) return false;
  if (auto error = use(engine, std::move(puts))) return *std::move(error);
  return true;
}

// Nothing is changed that could not be kept.
std::optional<Error> Policies::use(Engine& engine, Puts puts) {
  if (auto error = save(puts)) return error;
  {
    const std::lock_guard lock(mutex_);
    puts_.swap(puts);
  }
  replace(engine);
  return std::nullopt;
}

std::optional<Error> Policies::save(const Puts& puts) const {
  json kept = json::object();
  for (const auto& [name, put] : puts) kept[name] = put.text;
  return keep(puts_path_, kept);
}

// ---- Orders

namespace {

// Orders are kept for so long after their end: after a restart the engine has to know until when
// they held.
constexpr Nanos kRemembered = std::chrono::hours{24};

bool is_in_force(const GivenOrder& given, Instant now) { return given.order.until > now; }

bool is_for(const GivenOrder& given, const policy::Subject& subject) {
  if (given.order.who.empty()) return true;
  const policy::Pattern who = policy::Pattern::of(given.order.who);
  const policy::PatternIndex only(std::span(&who, 1));
  return only.find(subject).has_value();
}

}  // namespace

std::optional<Error> Policies::save(const Orders& orders) const {
  json kept = json::array();
  for (const auto& [id, given] : orders) kept.push_back(to_json(given));
  return keep(orders_path_, kept);
}

std::optional<Error> Policies::use(Engine& engine, Orders orders) {
  if (auto error = save(orders)) return error;
  {
    const std::lock_guard lock(mutex_);
    orders_.swap(orders);
  }
  engine.replace(policy_set_of(merged(orders_)));
  return std::nullopt;
}

Result<GivenOrder, Policies::Flaw> Policies::give(Engine& engine, GivenOrder order) {
  const std::lock_guard changing(changing_);
  Orders orders = orders_;
  std::erase_if(orders, [&](const auto& each) { return order.is_about_the_same_as(each.second); });
  if (orders.size() >= kMostOrders) return Flaw{.message = "there are too many orders: lift some"};
  order.id = last_order_ + 1;
  orders.emplace(order.id, order);
  for (const auto& [name, policy] : merged(orders)) {
    if (!order.concerns(name)) continue;
    // (The one with the highest id is the last of them.)
    const auto why = policy::unfit(policy, engine.now(), &policy.orders.back());
    if (why) return Flaw{.message = fmt::format("{}: {}", in_quotes(name), *why)};
  }
  if (auto error = use(engine, std::move(orders))) {
    return Flaw{.message = error->message, .not_kept = true};
  }
  last_order_ = order.id;
  return order;
}

std::vector<std::string> Policies::not_reached(const GivenOrder& order) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  const auto found = found_locked();
  const auto policy = found.find(order.policy);
  if (policy == found.end()) return all;
  for (const policy::Pattern& each : policy::not_reached(order.order, policy->second->overrides)) {
    all.push_back(each.written());
  }
  return all;
}

Result<bool, Error> Policies::lift(Engine& engine, std::uint64_t id) {
  const std::lock_guard changing(changing_);
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
    return !given.concerns(request.policy) || !is_for(given, subject);
  });
  return all;
}

std::vector<GivenOrder> Policies::ended_orders(Engine& engine) {
  const std::lock_guard changing(changing_);
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

Policies::Listed Policies::listed_locked(std::string_view name, const policy::Policy& policy,
                                         Instant now, std::size_t most_overrides) const {
  Listed listed{.name = std::string(name), .policy = {}, .put = puts_.contains(name)};
  listed.policy = {.limits = policy.limits,
                   .when_full = policy.when_full,
                   .on_store_failure = policy.on_store_failure,
                   .schedule = policy.schedule};
  const auto count = std::min(policy.overrides.size(), most_overrides);
  listed.policy.overrides.assign(policy.overrides.begin(),
                                 policy.overrides.begin() + static_cast<std::ptrdiff_t>(count));
  listed.overrides = policy.overrides.size();
  for (const auto& [id, given] : orders_) {
    if (is_in_force(given, now) && given.concerns(name)) listed.orders.push_back(given);
  }
  return listed;
}

std::vector<Policies::Listed> Policies::list(Instant now, std::size_t most_overrides) const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> listed;
  for (const auto& [name, policy] : found_locked()) {
    listed.push_back(listed_locked(name, *policy, now, most_overrides));
  }
  return listed;
}

std::optional<Policies::Listed> Policies::find(std::string_view name, Instant now) const {
  const std::lock_guard lock(mutex_);
  const auto put = puts_.find(name);
  if (put != puts_.end()) return listed_locked(name, put->second.policy, now, SIZE_MAX);
  const auto written = file_.find(name);
  if (written == file_.end()) return std::nullopt;
  return listed_locked(name, written->second, now, SIZE_MAX);
}

bool Policies::has(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return file_.find(name) != file_.end() || puts_.find(name) != puts_.end();
}

policy::PolicySet Policies::in_force() const {
  const std::lock_guard lock(mutex_);
  return merged(orders_);
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
