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
#include "server/texts.h"

namespace weir::server {

using nlohmann::json;
using policy::Change;
using policy::Order;
using Verb = policy::Order::Verb;

namespace {

constexpr std::array<std::string_view, kOrderVerbs> kNames{"boost", "block", "pause", "squeeze"};
constexpr std::array<std::string_view, 7> kFields{"policy", "key",   "times", "add",
                                                  "for",    "until", "reason"};
constexpr std::size_t kLongestReason = 256;

// An order is for a while. What is to stay belongs into the policy file.
constexpr Nanos kLongest = std::chrono::hours{24 * 366};
constexpr double kMostTimes = 1000;

using Flaw = std::optional<OrderFlaw>;

Flaw flaw(std::string_view field, std::string detail) {
  return OrderFlaw{std::string{field}, std::move(detail)};
}

// Reads the fields of an order one by one, up to the first that is wrong.
class Reader {
 public:
  Reader(Verb verb, const json& written, Instant now) : verb_(verb), written_(written), now_(now) {
    given_.order.verb = verb;
  }

  Result<GivenOrder, OrderFlaw> read() {
    if (!written_.is_object()) return OrderFlaw{"", "an order is an object"};
    for (const auto step : {&Reader::read_names, &Reader::read_policy, &Reader::read_key,
                            &Reader::read_change, &Reader::read_end, &Reader::read_reason}) {
      if (Flaw wrong = (this->*step)()) return *std::move(wrong);
    }
    return std::move(given_);
  }

 private:
  const json* find(std::string_view name) const {
    const auto found = written_.find(name);
    return found == written_.end() ? nullptr : &*found;
  }

  Flaw read_names() {
    for (const auto& [name, value] : written_.items()) {
      if (std::ranges::find(kFields, name) != kFields.end()) continue;
      return flaw(
          name, fmt::format("there is no field \"{}\" here{}", name, did_you_mean(name, kFields)));
    }
    return std::nullopt;
  }

  Flaw read_text(std::string_view name, std::string& text) {
    const json* field = find(name);
    if (field == nullptr) return std::nullopt;
    if (!field->is_string()) return flaw(name, fmt::format("\"{}\" is a text", name));
    text = field->get<std::string>();
    if (text.empty()) return flaw(name, fmt::format("\"{}\" is empty", name));
    return std::nullopt;
  }

  Flaw read_policy() {
    if (Flaw wrong = read_text("policy", given_.policy)) return wrong;
    if (given_.policy.empty() && verb_ != Verb::squeeze) {
      return flaw("policy", "\"policy\" is missing");
    }
    return std::nullopt;
  }

  Flaw read_key() {
    if (Flaw wrong = read_text("key", given_.order.who)) return wrong;
    std::string& who = given_.order.who;
    if (who.size() > policy::kLongestKey) {
      return flaw("key", fmt::format("a key has at most {} bytes", policy::kLongestKey));
    }
    if (verb_ == Verb::block) {
      return who.empty() ? flaw("key", "\"key\" is missing: say who, or \"*\" for everybody")
                         : std::nullopt;
    }
    if (!who.empty() && verb_ != Verb::boost) {
      return flaw("key", fmt::format("a {} is for everybody, without a \"key\"", kNames[index()]));
    }
    if (who == "*") who.clear();
    return std::nullopt;
  }

  Flaw read_change() {
    const json* times = find("times");
    const json* add = find("add");
    const bool changes = verb_ == Verb::boost || verb_ == Verb::squeeze;
    for (const auto& [name, field] : {std::pair{"times", times}, {"add", add}}) {
      if (field != nullptr && !changes) {
        return flaw(name, fmt::format("a {} has no \"{}\"", kNames[index()], name));
      }
    }
    if (!changes) return std::nullopt;
    if (verb_ == Verb::squeeze) {
      if (add != nullptr) return flaw("add", "a squeeze has no \"add\"");
      return times == nullptr ? flaw("times", "\"times\" is missing: 0.5 leaves half")
                              : read_times(*times, 0, 1, "above 0 and below 1");
    }
    if ((times == nullptr) == (add == nullptr)) {
      return flaw(times == nullptr ? "times" : "add", "a boost has \"times\" or \"add\"");
    }
    return times != nullptr ? read_times(*times, 1, kMostTimes, "above 1, and at most 1000")
                            : read_add(*add);
  }

  Flaw read_times(const json& field, double above, double most, std::string_view range) {
    const double times = field.is_number() ? field.get<double>() : 0;
    const auto millionths = std::llround(times * Change::kOne);
    const bool fits = times > above && (verb_ == Verb::squeeze ? times < most : times <= most);
    if (!fits || millionths == 0 || millionths == Change::kOne) {
      return flaw("times", fmt::format("\"times\" is a number {}", range));
    }
    given_.order.change.millionths = millionths;
    return std::nullopt;
  }

  Flaw read_add(const json& field) {
    const Permits more = field.is_number_integer() ? field.get<Permits>() : 0;
    const bool fits = more > 0 && (!field.is_number_unsigned() ||
                                   field.get<std::uint64_t>() < std::uint64_t{core::kMaxPermits});
    if (!fits) return flaw("add", "\"add\" is a whole number above 0");
    given_.order.change.more = more;
    return std::nullopt;
  }

  Flaw read_end() {
    std::string duration, date;
    if (Flaw wrong = read_text("for", duration)) return wrong;
    if (Flaw wrong = read_text("until", date)) return wrong;
    if (duration.empty() == date.empty()) {
      return flaw("for", "an order ends: write \"for\": \"10min\", or \"until\" and a date");
    }
    Nanos left{};
    if (!duration.empty()) {
      const auto parsed = policy::parse_span(duration);
      if (!parsed) return flaw("for", parsed.error().message);
      left = *parsed;
    } else {
      const auto parsed = parse_date(date);
      if (!parsed) return flaw("until", "a date is written 2026-01-31T12:00:00Z");
      left = *parsed - now_;
    }
    const std::string_view field = date.empty() ? "for" : "until";
    if (left <= Nanos{0}) return flaw(field, "that is over already");
    if (left > kLongest) return flaw(field, "an order is for a year at most");
    // (Nobody wants to read nanoseconds.)
    given_.order.until =
        date.empty() ? std::chrono::ceil<std::chrono::milliseconds>(now_ + left) : now_ + left;
    return std::nullopt;
  }

  Flaw read_reason() {
    if (Flaw wrong = read_text("reason", given_.reason)) return wrong;
    if (given_.reason.size() <= kLongestReason) return std::nullopt;
    return flaw("reason", fmt::format("a reason has at most {} bytes", kLongestReason));
  }

  std::size_t index() const { return static_cast<std::size_t>(verb_); }

  const Verb verb_;
  const json& written_;
  const Instant now_;
  GivenOrder given_;
};

// 2, 0.5, 1.25: without the zeros that a fraction does not need.
std::string times_text(std::int64_t millionths) {
  return fmt::format("{}", static_cast<double>(millionths) / Change::kOne);
}

}  // namespace

std::string_view name_of(Verb verb) { return kNames[static_cast<std::size_t>(verb)]; }

Result<GivenOrder, OrderFlaw> read_order(Verb verb, const json& written, Instant now) {
  return Reader(verb, written, now).read();
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

Result<GivenOrder, OrderFlaw> read_kept_order(const json& kept) {
  const auto number = kept.is_object() ? kept.find("id") : kept.end();
  const auto verb = kept.is_object() ? kept.find("verb") : kept.end();
  if (number == kept.end() || !number->is_number_unsigned() || verb == kept.end() ||
      !verb->is_string()) {
    return OrderFlaw{"id", "it has no id or no verb"};
  }
  const auto name = std::ranges::find(kNames, verb->get_ref<const std::string&>());
  if (name == kNames.end()) return OrderFlaw{"verb", "there is no such verb"};
  json rest = kept;
  rest.erase("id");
  rest.erase("verb");
  // Given when it was still to come, whenever that was.
  const auto date = kept.find("until");
  const bool has_date = date != kept.end() && date->is_string();
  const auto until = parse_date(has_date ? date->get_ref<const std::string&>() : "");
  if (!until) return OrderFlaw{"until", "it has no date"};
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
