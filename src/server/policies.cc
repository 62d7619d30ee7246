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
#include "server/format.h"
#include "server/log.h"

namespace weir::server {

using nlohmann::json;

namespace {

// Parses one policy; the error has all problems.
Result<policy::Policy, Policies::ChangeError> read(const std::string& name, std::string_view text,
                                                   policy::Sharing sharing) {
  const policy::Source source{.name = name, .text = std::string{text}};
  policy::Problems problems;
  policy::Policy policy = policy::read_policy(source, sharing, problems);
  if (problems.empty()) return policy;
  return Policies::ChangeError{.message = source.render_all(problems),
                               .field = policy::field_with(problems.front(), source)};
}

Error damaged(const std::string& path) { return Error{path + " is damaged: move it away"}; }

// Null: there is no such file.
Result<json, Error> read_saved(const std::string& path) {
  if (path.empty() || access(path.c_str(), F_OK) != 0) return json{};
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  json saved = json::parse(source->text, nullptr, false);
  if (saved.is_discarded() || saved.is_null()) return damaged(path);
  return saved;
}

std::optional<Error> write_file(const std::string& path, const json& body) {
  if (path.empty()) return std::nullopt;
  // (Names and texts are UTF-8, so `replace` never applies.)
  return files::replace(path, body.dump(2, ' ', false, json::error_handler_t::replace));
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
  auto saved = read_saved(puts_path_);
  if (!saved) return saved.error();
  if (saved->is_null()) return std::nullopt;
  if (!saved->is_object()) return damaged(puts_path_);
  for (const auto& [name, text] : saved->items()) {
    if (!text.is_string()) return damaged(puts_path_);
    auto policy = read(name, text.get<std::string>(), sharing_);
    if (!policy) return Error{puts_path_ + ": " + policy.error().message};
    puts_.insert_or_assign(name, PutPolicy{text.get<std::string>(), *std::move(policy)});
  }
  return std::nullopt;
}

std::optional<Error> Policies::restore_orders() {
  auto saved = read_saved(orders_path_);
  if (!saved) return saved.error();
  if (saved->is_null()) return std::nullopt;
  if (!saved->is_array()) return damaged(orders_path_);
  for (const json& each : *saved) {
    auto order = read_saved_order(each);
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

// The policies as written, without orders. Points into the members: valid while the mutex is held.
std::map<std::string_view, const policy::Policy*> Policies::written_policies() const {
  std::map<std::string_view, const policy::Policy*> all;
  for (const auto& [name, policy] : file_) all.emplace(name, &policy);
  for (const auto& [name, put] : puts_) all[name] = &put.policy;
  return all;
}

PolicySet Policies::merged() const {
  const std::lock_guard changing(changing_);
  return policy_set_of(merged(orders_));
}

// Warns of policies whose new limits cannot follow an order in force.
void Policies::replace(Engine& engine) const {
  policy::PolicySet all = merged(orders_);
  for (const auto& [name, policy] : all) {
    if (const auto why = policy.orders.empty() ? std::nullopt
                                               : policy::why_not_applicable(policy, engine.now())) {
      log(LogLevel::warning, "policy {} does not follow an order in force: {}", in_quotes(name),
          *why);
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

std::optional<Policies::ChangeError> Policies::put(Engine& engine, const std::string& name,
                                                   std::string_view text) {
  // (The YAML reader would also take UTF-16, but the text is saved as JSON.)
  if (!is_utf8(text)) return ChangeError{.message = "the policy is not UTF-8"};
  auto policy = read(name, text, sharing_);
  if (!policy) return policy.error();
  const std::lock_guard changing(changing_);
  PutPolicies puts = puts_;
  puts.insert_or_assign(name, PutPolicy{std::string{text}, *std::move(policy)});
  if (auto error = use(engine, std::move(puts))) {
    return ChangeError{.message = error->message, .not_saved = true};
  }
  return std::nullopt;
}

Result<bool, Error> Policies::remove(Engine& engine, const std::string& name) {
  const std::lock_guard changing(changing_);
  PutPolicies puts = puts_;
  if (puts.erase(name) == 0) return false;
  if (auto error = use(engine, std::move(puts))) return *std::move(error);
  return true;
}

// Saves first: a change that cannot be saved is not made.
std::optional<Error> Policies::use(Engine& engine, PutPolicies puts) {
  if (auto error = save(puts)) return error;
  {
    const std::lock_guard lock(mutex_);
    puts_.swap(puts);
  }
  replace(engine);
  return std::nullopt;
}

std::optional<Error> Policies::save(const PutPolicies& puts) const {
  json body = json::object();
  for (const auto& [name, put] : puts) body[name] = put.text;
  return write_file(puts_path_, body);
}

// ---- Orders

namespace {

// Ended orders are kept for so long: after a restart the engine needs to know until when they held.
constexpr Nanos kRetention = std::chrono::hours{24};

bool is_in_force(const GivenOrder& given, Instant now) { return given.order.until > now; }

bool matches(const GivenOrder& given, const policy::Subject& subject) {
  if (given.order.who.empty()) return true;
  const policy::Pattern who = policy::Pattern::of(given.order.who);
  const policy::PatternIndex only(std::span(&who, 1));
  return only.find(subject).has_value();
}

}  // namespace

std::optional<Error> Policies::save(const Orders& orders) const {
  json body = json::array();
  for (const auto& [id, given] : orders) body.push_back(to_json(given));
  return write_file(orders_path_, body);
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

Result<GivenOrder, Policies::ChangeError> Policies::give(Engine& engine, GivenOrder order) {
  const std::lock_guard changing(changing_);
  Orders orders = orders_;
  std::erase_if(orders, [&](const auto& each) { return order.is_about_the_same_as(each.second); });
  if (orders.size() >= kMaxOrders)
    return ChangeError{.message = "there are too many orders: lift some"};
  order.id = last_order_ + 1;
  orders.emplace(order.id, order);
  for (const auto& [name, policy] : merged(orders)) {
    if (!order.concerns(name)) continue;
    // (Orders are sorted by id, so the new one is the last.)
    const auto why = policy::why_not_applicable(policy, engine.now(), &policy.orders.back());
    if (why) return ChangeError{.message = fmt::format("{}: {}", in_quotes(name), *why)};
  }
  if (auto error = use(engine, std::move(orders))) {
    return ChangeError{.message = error->message, .not_saved = true};
  }
  last_order_ = order.id;
  return order;
}

std::vector<std::string> Policies::not_reached(const GivenOrder& order) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  const auto found = written_policies();
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
    return !given.concerns(request.policy) || !matches(given, subject);
  });
  return all;
}

std::vector<GivenOrder> Policies::ended_orders(Engine& engine) {
  const std::lock_guard changing(changing_);
  const Instant now = engine.now();
  std::vector<GivenOrder> ended;
  bool some_are_old = false;
  for (const auto& [id, given] : orders_) {
    if (!is_in_force(given, now) && is_in_force(given, last_check_)) ended.push_back(given);
    some_are_old |= given.order.until + kRetention <= now;
  }
  last_check_ = now;
  if (!some_are_old) return ended;
  Orders orders = orders_;
  std::erase_if(orders,
                [&](const auto& each) { return each.second.order.until + kRetention <= now; });
  // A failed save is tried again at the next call; until then old orders stay in the file.
  (void)use(engine, std::move(orders));
  return ended;
}

Policies::PolicyInfo Policies::info_of(std::string_view name, const policy::Policy& policy,
                                       Instant now, std::size_t max_overrides) const {
  PolicyInfo info{.name = std::string(name), .policy = {}, .is_put = puts_.contains(name)};
  info.policy = {.limits = policy.limits,
                 .when_full = policy.when_full,
                 .on_store_failure = policy.on_store_failure,
                 .schedule = policy.schedule};
  const auto count = std::min(policy.overrides.size(), max_overrides);
  info.policy.overrides.assign(policy.overrides.begin(),
                               policy.overrides.begin() + static_cast<std::ptrdiff_t>(count));
  info.override_count = policy.overrides.size();
  for (const auto& [id, given] : orders_) {
    if (is_in_force(given, now) && given.concerns(name)) info.orders.push_back(given);
  }
  return info;
}

std::vector<Policies::PolicyInfo> Policies::list(Instant now, std::size_t max_overrides) const {
  const std::lock_guard lock(mutex_);
  std::vector<PolicyInfo> infos;
  for (const auto& [name, policy] : written_policies()) {
    infos.push_back(info_of(name, *policy, now, max_overrides));
  }
  return infos;
}

std::optional<Policies::PolicyInfo> Policies::find(std::string_view name, Instant now) const {
  const std::lock_guard lock(mutex_);
  const auto put = puts_.find(name);
  if (put != puts_.end()) return info_of(name, put->second.policy, now, SIZE_MAX);
  const auto written = file_.find(name);
  if (written == file_.end()) return std::nullopt;
  return info_of(name, written->second, now, SIZE_MAX);
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
  for (const auto& [name, policy] : written_policies()) names.emplace_back(name);
  return names;
}

std::size_t Policies::count() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = file_.size();
  for (const auto& [name, put] : puts_) count += file_.contains(name) ? 0 : 1;
  return count;
}

}  // namespace weir::server
