#include "server/orders.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/date.h"
#include "base/suggest.h"
#include "policy/key.h"
#include "policy/limit_text.h"
#include "server/format.h"

namespace weir::server {

using nlohmann::json;
using policy::Change;
using policy::Order;
using Verb = policy::Order::Verb;

namespace {

constexpr std::array<std::string_view, kOrderVerbs> kNames{"boost", "block", "pause", "squeeze"};
constexpr std::array<std::string_view, 7> kFields{"policy", "key",   "times", "add",
                                                  "for",    "until", "reason"};
constexpr std::size_t kMaxReason = 256;  // bytes

// An order is temporary: a permanent change belongs in the policy file.
constexpr Nanos kMaxDuration = std::chrono::hours{24 * 366};
constexpr double kMaxTimes = 1000;

using MaybeError = std::optional<OrderError>;

MaybeError make_error(std::string_view field, std::string detail) {
  return OrderError{std::string{field}, std::move(detail)};
}

// Reads the fields of an order one by one, up to the first invalid one.
class OrderReader {
 public:
  OrderReader(Verb verb, const json& written, Instant now)
      : verb_(verb), written_(written), now_(now) {
    given_.order.verb = verb;
  }

  Result<GivenOrder, OrderError> read() {
    if (!written_.is_object()) return OrderError{"", "an order must be a JSON object"};
    for (const auto step :
         {&OrderReader::read_names, &OrderReader::read_policy, &OrderReader::read_key,
          &OrderReader::read_change, &OrderReader::read_end, &OrderReader::read_reason}) {
      if (MaybeError error = (this->*step)()) return *std::move(error);
    }
    return std::move(given_);
  }

 private:
  const json* find(std::string_view name) const {
    const auto found = written_.find(name);
    return found == written_.end() ? nullptr : &*found;
  }

  MaybeError read_names() {
    for (const auto& [name, value] : written_.items()) {
      if (std::ranges::find(kFields, name) != kFields.end()) continue;
      return make_error(
          name, fmt::format("there is no field \"{}\" here{}", name, did_you_mean(name, kFields)));
    }
    return std::nullopt;
  }

  MaybeError read_text(std::string_view name, std::string& text) {
    const json* field = find(name);
    if (field == nullptr) return std::nullopt;
    if (!field->is_string()) return make_error(name, fmt::format("\"{}\" must be a string", name));
    text = field->get<std::string>();
    if (text.empty()) return make_error(name, fmt::format("\"{}\" is empty", name));
    return std::nullopt;
  }

  MaybeError read_policy() {
    if (MaybeError error = read_text("policy", given_.policy)) return error;
    if (given_.policy.empty() && verb_ != Verb::squeeze) {
      return make_error("policy", "\"policy\" is missing");
    }
    return std::nullopt;
  }

  MaybeError read_key() {
    if (MaybeError error = read_text("key", given_.order.who)) return error;
    std::string& who = given_.order.who;
    if (who.size() > policy::kMaxKeyLength) {
      return make_error("key", fmt::format("a key has at most {} bytes", policy::kMaxKeyLength));
    }
    if (verb_ == Verb::block) {
      return who.empty()
                 ? make_error("key", "\"key\" is missing: write a key, or \"*\" for every key")
                 : std::nullopt;
    }
    if (!who.empty() && verb_ != Verb::boost) {
      return make_error("key",
                        fmt::format("a {} is for every key, without a \"key\"", kNames[index()]));
    }
    if (who == "*") who.clear();
    return std::nullopt;
  }

  MaybeError read_change() {
    const json* times = find("times");
    const json* add = find("add");
    const bool changes = verb_ == Verb::boost || verb_ == Verb::squeeze;
    for (const auto& [name, field] : {std::pair{"times", times}, {"add", add}}) {
      if (field != nullptr && !changes) {
        return make_error(name, fmt::format("a {} has no \"{}\"", kNames[index()], name));
      }
    }
    if (!changes) return std::nullopt;
    if (verb_ == Verb::squeeze) {
      if (add != nullptr) return make_error("add", "a squeeze has no \"add\"");
      return times == nullptr ? make_error("times", "\"times\" is missing: 0.5 leaves half")
                              : read_times(*times, 0, 1, "above 0 and below 1");
    }
    if ((times == nullptr) == (add == nullptr)) {
      return make_error(times == nullptr ? "times" : "add",
                        "a boost has either \"times\" or \"add\"");
    }
    return times != nullptr ? read_times(*times, 1, kMaxTimes, "above 1, and at most 1000")
                            : read_add(*add);
  }

  MaybeError read_times(const json& field, double above, double max, std::string_view range) {
    const double times = field.is_number() ? field.get<double>() : 0;
    const auto millionths = std::llround(times * Change::kOne);
    const bool fits = times > above && (verb_ == Verb::squeeze ? times < max : times <= max);
    if (!fits || millionths == 0 || millionths == Change::kOne) {
      return make_error("times", fmt::format("\"times\" must be a number {}", range));
    }
    given_.order.change.millionths = millionths;
    return std::nullopt;
  }

  MaybeError read_add(const json& field) {
    const Permits more = field.is_number_integer() ? field.get<Permits>() : 0;
    const bool fits = more > 0 && (!field.is_number_unsigned() ||
                                   field.get<std::uint64_t>() < std::uint64_t{core::kMaxPermits});
    if (!fits) return make_error("add", "\"add\" must be a whole number above 0");
    given_.order.change.more = more;
    return std::nullopt;
  }

  MaybeError read_end() {
    std::string duration, date;
    if (MaybeError error = read_text("for", duration)) return error;
    if (MaybeError error = read_text("until", date)) return error;
    if (duration.empty() == date.empty()) {
      return make_error("for",
                        "an order needs an end: write \"for\": \"10min\", or \"until\" and a date");
    }
    Nanos left{};
    if (!duration.empty()) {
      const auto parsed = policy::parse_span(duration);
      if (!parsed) return make_error("for", parsed.error().message);
      left = *parsed;
    } else {
      const auto parsed = parse_date(date);
      if (!parsed) return make_error("until", "a date is written 2026-01-31T12:00:00Z");
      left = *parsed - now_;
    }
    const std::string_view field = date.empty() ? "for" : "until";
    if (left <= Nanos{0}) return make_error(field, "the end of the order is not in the future");
    if (left > kMaxDuration) return make_error(field, "an order lasts a year at most");
    // (Whole milliseconds are easier to read.)
    given_.order.until =
        date.empty() ? std::chrono::ceil<std::chrono::milliseconds>(now_ + left) : now_ + left;
    return std::nullopt;
  }

  MaybeError read_reason() {
    if (MaybeError error = read_text("reason", given_.reason)) return error;
    if (given_.reason.size() <= kMaxReason) return std::nullopt;
    return make_error("reason", fmt::format("a reason has at most {} bytes", kMaxReason));
  }

  std::size_t index() const { return static_cast<std::size_t>(verb_); }

  const Verb verb_;
  const json& written_;
  const Instant now_;
  GivenOrder given_;
};

// 2, 0.5, 1.25: without trailing zeros.
std::string times_text(std::int64_t millionths) {
  return fmt::format("{}", static_cast<double>(millionths) / Change::kOne);
}

}  // namespace

std::string_view name_of(Verb verb) { return kNames[static_cast<std::size_t>(verb)]; }

Result<GivenOrder, OrderError> read_order(Verb verb, const json& written, Instant now) {
  return OrderReader(verb, written, now).read();
}

json to_json(const GivenOrder& given) {
  const Order& order = given.order;
  json written{{"id", given.id}, {"verb", name_of(order.verb)}, {"until", to_date(order.until)}};
  if (!given.policy.empty()) written["policy"] = given.policy;
  if (!order.who.empty()) written["key"] = order.who;
  if (order.change.millionths != Change::kOne) {
    written["times"] = static_cast<double>(order.change.millionths) / Change::kOne;
  }
  if (order.change.more != 0) written["add"] = order.change.more;
  if (!given.reason.empty()) written["reason"] = given.reason;
  return written;
}

Result<GivenOrder, OrderError> read_saved_order(const json& saved) {
  const auto number = saved.is_object() ? saved.find("id") : saved.end();
  const auto verb = saved.is_object() ? saved.find("verb") : saved.end();
  if (number == saved.end() || !number->is_number_unsigned() || verb == saved.end() ||
      !verb->is_string()) {
    return OrderError{"id", "the order has no id or no verb"};
  }
  const auto name = std::ranges::find(kNames, verb->get_ref<const std::string&>());
  if (name == kNames.end()) return OrderError{"verb", "there is no such verb"};
  json rest = saved;
  rest.erase("id");
  rest.erase("verb");
  // Read as if it were just before its end: a saved order may have ended since.
  const auto date = saved.find("until");
  const bool has_date = date != saved.end() && date->is_string();
  const auto until = parse_date(has_date ? date->get_ref<const std::string&>() : "");
  if (!until) return OrderError{"until", "the order has no date"};
  auto given = read_order(static_cast<Verb>(name - kNames.begin()), rest, *until - Nanos{1});
  if (given) given->id = number->get<std::uint64_t>();
  return given;
}

std::string to_text(const GivenOrder& given) {
  const Order& order = given.order;
  std::string text{name_of(order.verb)};
  if (order.change.millionths != Change::kOne) text += " ×" + times_text(order.change.millionths);
  if (order.change.more != 0) text += fmt::format(" +{}", order.change.more);
  if (!order.who.empty()) text += " of " + in_quotes(order.who);
  text += given.policy.empty() ? " everywhere" : " under " + in_quotes(given.policy);
  text += " until " + to_date(order.until);
  return given.reason.empty() ? text : text + ", because " + in_quotes(given.reason);
}

}  // namespace weir::server
