#include "envoy/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/saturating.h"
#include "engine/engine_access.h"
#include "envoy/units.h"
#include "store/fit.h"
#include "store/memory/fingerprint.h"

namespace weir::envoy {

using engine::GivenAnswer;
using engine::GivenLimit;
using engine::GivenReceipt;
using engine::Verb;
using policy::OnStoreFailure;

namespace {

// More limits than this are asked for by nobody who means well, and each may be a round trip.
constexpr std::size_t kMostLimits = 1024;

// (To give back that many is to give back all there is: in a node's memory more may be counted than
// a store that nodes share can count.)
Permits permits_of(std::uint64_t hits, bool gives_back) {
  constexpr auto most = static_cast<std::uint64_t>(store::kMostCount);
  if (gives_back && hits >= most) return core::kMaxPermits;
  return static_cast<Permits>(std::min(hits, most));
}

std::string_view name_of(Unit unit) {
  const NamedUnit* known = find(unit);
  return known != nullptr ? known->capitals : "UNKNOWN";
}

Nanos period_of(const core::Limit& limit) {
  if (const auto* bucket = std::get_if<core::Bucket>(&limit)) return bucket->rate.period;
  if (const auto* sliding = std::get_if<core::Sliding>(&limit)) return sliding->period;
  return Nanos{0};
}

// When a limit starts anew, or would admit again what it has refused. (Of an idle window this is
// its end as well: those who ask are told where they are in it. Who asks for more than there ever
// is need not come back at once either: windows and buckets say the same to them.)
Nanos until_reset(const core::Limit& limit, const core::Decision& decision, Instant now) {
  if (const auto* window = std::get_if<core::Window>(&limit)) {
    return until(now, core::aligned_span(window->period, now).end);
  }
  if (const auto* quota = std::get_if<core::Quota>(&limit)) {
    return until(now, quota->calendar->span_at(now).end);
  }
  if (decision.outcome == Outcome::impossible) return period_of(limit);
  return decision.outcome == Outcome::limited ? decision.retry_after : decision.reset_after;
}

// Whole seconds, rounded up: proxies drop the rest.
Nanos in_seconds(Nanos duration) { return std::chrono::ceil<std::chrono::seconds>(duration); }

// The same limit for whoever gives back. What a bucket owes beyond its depth are no turns that
// somebody waits for: all of it can be given back.
core::Limit without_turns(core::Limit limit) {
  if (auto* bucket = std::get_if<core::Bucket>(&limit)) {
    bucket->at_once = core::kMaxPermits;
    bucket->free = Int128{core::kLongestDebt.count()} * bucket->pace.parts;
  }
  return limit;
}

// A limit with the same states that never refuses, so that a receipt can be had of anything.
core::Limit generous(core::Limit limit) {
  if (auto* window = std::get_if<core::Window>(&limit)) window->count = core::kMaxPermits;
  if (auto* quota = std::get_if<core::Quota>(&limit)) quota->count = core::kMaxPermits;
  // (Two counters of 32 bits.)
  if (auto* sliding = std::get_if<core::Sliding>(&limit)) sliding->count = Permits{1} << 33;
  return without_turns(std::move(limit));
}

// Makes a receipt of nothing, which tells only what is there, one for so many permits. What is
// counted in a window was taken in it. A bucket does not know when what it owes was taken: any of
// it may have been just now, at the price of now, and was not the last thing that happened.
void claim(core::Receipt& receipt, const core::Limit& limit, Permits permits) {
  receipt.taken = permits;
  const auto* bucket = std::get_if<core::Bucket>(&limit);
  if (bucket == nullptr) return;
  constexpr std::uint64_t of_no_state = std::uint64_t{1} << 63;
  receipt.at = kLatest;
  receipt.after.when |= of_no_state;
  receipt.after.what = (receipt.after.what & ~core::gcra::kStampMask) | bucket->stamp;
}

}  // namespace

// ---- The question

void Run::begin(const RunContext& context, std::shared_ptr<const Edition> edition) {
  context_ = context;
  edition_ = std::move(edition);
  names_.clear();
  asked_.clear();
  order_.clear();
  rounds_.clear();
  receipts_.clear();
  left_.clear();
  trouble_.clear();
  mistaken_ = false;
  has_quota_ = refused_ = degraded_ = false;
  phase_ = Phase::deciding;
  round_ = 0;
}

std::optional<Failure> Run::prepare(const Call& call) {
  if (call.domain.empty()) return Failure{"rate limit domain must not be empty"};
  if (call.descriptors.empty()) return Failure{"rate limit descriptor list must not be empty"};
  if (call.descriptors.size() > kMostDescriptors) {
    return Failure{fmt::format("the call has more descriptors than {}, the most it may have",
                               kMostDescriptors)};
  }
  asked_.resize(call.descriptors.size());
  const auto domain = edition_->rules->domains.find(call.domain);
  knows_domain_ = domain != edition_->rules->domains.end();
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Descriptor& descriptor = call.descriptors[i];
    asked_[i].hits = permits_of(descriptor.hits.value_or(std::max<std::uint32_t>(call.hits, 1)),
                                descriptor.gives_back);
    asked_[i].gives_back = descriptor.gives_back;
    if (!knows_domain_) continue;
    if (descriptor.limit) {
      if (auto failure = use_override(call, domain->second, i)) return failure;
    } else {
      find_limit(call, domain->second, i);
    }
  }
  replace_rules();
  if (options().dynamic_metadata) keep_metadata(call);
  make_rounds(false);
  make_rounds(true);
  if (order_.size() > kMostLimits) {
    return Failure{fmt::format("{} descriptors of the call have limits, at most {} may have",
                               order_.size(), kMostLimits)};
  }
  return std::nullopt;
}

void Run::find_limit(const Call& call, const Domain& domain, std::size_t i) {
  const auto& entries = call.descriptors[i].entries;
  const Walk walked = walk(domain, entries);
  if (walked.end != End::limit) return;
  Asked& asked = asked_[i];
  const Rule& rule = *walked.node->rule;
  asked.rule = &rule;
  asked.unlimited = rule.unlimited;
  if (rule.unlimited) return;
  if (rule.detailed || walked.node->names_values) {
    asked.counted_as = counted_as(call.domain, *walked.node, entries);
  } else {
    asked.statistics = edition_->statistics[rule.number].get();
  }
  asked.name_start = names_.size();
  append_counter(names_, domain, walked.node, entries, rule.tail);
  asked.name_end = names_.size();
}

std::optional<Failure> Run::use_override(const Call& call, const Domain& domain, std::size_t i) {
  const Descriptor& descriptor = call.descriptors[i];
  Asked& asked = asked_[i];
  const NamedUnit* unit = find(descriptor.limit->unit);
  if (unit == nullptr) {
    return Failure{
        "the unit of a limit that comes with the call is unknown: write one from SECOND "
        "to YEAR"};
  }
  asked.own = std::make_unique<Rule>();
  Rule& rule = *asked.own;
  rule.requests_per_unit = descriptor.limit->requests_per_unit;
  rule.unit = descriptor.limit->unit;
  rule.limit = core::Window{.count = rule.requests_per_unit, .period = unit->length};
  rule.tail = counter_tail(rule.limit);
  rule.identity = store::hash_of(domain.head + rule.tail).low;
  asked.rule = &rule;
  asked.counted_as = counted_as(call.domain, descriptor.entries);
  asked.name_start = names_.size();
  append_counter(names_, domain, nullptr, descriptor.entries, rule.tail);
  asked.name_end = names_.size();
  return std::nullopt;
}

// A rule that another one of the call replaces says nothing. (One that is unlimited goes on saying
// so, as theirs do.)
void Run::replace_rules() {
  std::vector<std::string_view> gone;
  for (const Asked& asked : asked_) {
    if (asked.rule == nullptr) continue;
    for (const std::string& name : asked.rule->replaces) gone.push_back(name);
  }
  if (gone.empty()) return;
  for (Asked& asked : asked_) {
    if (asked.rule == nullptr || asked.unlimited || asked.rule->name.empty()) continue;
    asked.replaced = std::ranges::find(gone, asked.rule->name) != gone.end();
    if (asked.replaced) asked.rule = nullptr;
  }
}

void Run::make_rounds(bool that_give_back) {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Asked& asked = asked_[i];
    if (asked.rule == nullptr || asked.unlimited || asked.gives_back != that_give_back) continue;
    has_quota_ = has_quota_ || is_quota(asked);
    const auto fits = [&](const Round& round) {
      if (round.gives_back != that_give_back) return false;
      if (round.last - round.first == core::kMaxLimits) return false;
      return std::none_of(
          order_.begin() + static_cast<std::ptrdiff_t>(round.first), order_.end(),
          [&](std::size_t other) { return name_of(asked_[other]) == name_of(asked); });
    };
    if (rounds_.empty() || !fits(rounds_.back())) {
      rounds_.push_back(
          {.first = order_.size(), .last = order_.size(), .gives_back = that_give_back});
    }
    order_.push_back(i);
    ++rounds_.back().last;
  }
}

// ---- Asking

void Run::start(Link& link, bool only_look, Finished finished, void* whose) {
  link_ = &link;
  only_look_ = only_look;
  finished_ = finished;
  whose_ = whose;
  go_on();
}

// Answers may come at once: that must not pile up calls within calls.
void Run::go_on() {
  do {
    asking_ = true;
    answered_ = false;
    if (!ask_next()) {
      if (!only_look_ && trouble_.empty()) count();
      return finished_(*this, whose_);
    }
    asking_ = false;
  } while (answered_);
}

// Whether the call is not charged anything any more.
bool Run::only_looks() const { return only_look_ || (refused_ && !options().as_envoyproxy); }

// Whether what was charged may have to be given back.
bool Run::wants_receipts() const {
  return phase_ == Phase::noting || rounds_.size() > 1 || has_quota_;
}

// Whether there is a round to ask about in this phase, or a later one.
bool Run::find_next() {
  if (phase_ == Phase::deciding) {
    if (round_ < rounds_.size() && !rounds_[round_].gives_back) return true;
    if (!only_looks() && !options().as_envoyproxy && !options().shadow_mode) {
      refused_ = quotas_refuse();
    }
    phase_ = Phase::undoing;
    round_ = 0;
  }
  if (phase_ == Phase::undoing) {
    const bool takes_back = refused_ || !trouble_.empty();
    while (round_ < rounds_.size() && !(takes_back && rounds_[round_].charged)) ++round_;
    if (round_ < rounds_.size()) return true;
    tell_what_is_left();
    phase_ = only_looks() ? Phase::returning : Phase::noting;
    round_ = 0;
  }
  while (round_ < rounds_.size() && !rounds_[round_].gives_back) ++round_;
  return round_ < rounds_.size() && trouble_.empty();
}

// Whether there was something to ask.
bool Run::ask_next() {
  if (!find_next()) return false;
  switch (phase_) {
    case Phase::deciding:
      if (only_looks()) {
        ask(Verb::peek);
      } else {
        ask(options().as_envoyproxy ? Verb::settle : Verb::take);
      }
      break;
    case Phase::undoing:
      ask(Verb::settle);
      break;
    case Phase::noting:
      ask(Verb::take);
      break;
    case Phase::returning:
      ask(only_looks() ? Verb::peek : Verb::settle);
      break;
  }
  return true;
}

void Run::ask(Verb verb) {
  const Round& round = rounds_[round_];
  const bool notes = phase_ == Phase::noting;
  const bool returns = verb == Verb::settle && phase_ == Phase::returning;
  const bool gives_back = verb == Verb::settle && phase_ != Phase::deciding;
  const bool costs = gives_back || phase_ == Phase::deciding;
  const bool all_pass = options().shadow_mode;
  limits_.clear();
  generous_.clear();
  if (notes || returns) generous_.reserve(round.last - round.first);
  for (std::size_t k = round.first; k < round.last; ++k) {
    const Asked& asked = member(k);
    const Permits cost = costs ? asked.hits : 0;
    const core::Limit* limit = &asked.rule->limit;
    if (notes) limit = &generous_.emplace_back(generous(*limit));
    if (returns) limit = &generous_.emplace_back(without_turns(*limit));
    limits_.push_back({.limit = limit,
                       .key = name_of(asked),
                       .identity = asked.rule->identity,
                       .ask = {.cost = gives_back ? -cost : cost},
                       .shadow = asked.rule->shadow || is_quota(asked) || all_pass});
  }
  if (receipts_.size() < round.last) receipts_.resize(order_.size());
  const auto receipts = std::span(receipts_).subspan(round.first, round.last - round.first);
  detail::EngineAccess::ask(
      *context_.engine, *link_,
      {.verb = verb,
       .limits = limits_,
       .wants_receipts = verb == Verb::take && wants_receipts(),
       .receipts = verb == Verb::settle ? receipts : std::span<GivenReceipt>{},
       .may_be_local = options().on_store_failure == OnStoreFailure::local},
      [this](GivenAnswer& answer) { on_answer(answer); });
}

// ---- What came of it

void Run::on_answer(GivenAnswer& answer) {
  degraded_ = degraded_ || answer.degraded;
  Round& round = rounds_[round_];
  if (answer.decisions.empty()) {
    trouble_ = answer.trouble.empty() ? "it did not answer" : answer.trouble;
    mistaken_ = answer.mistaken;
    on_trouble();
  } else if (phase_ == Phase::deciding) {
    on_decided(answer);
  } else if (phase_ == Phase::undoing) {
    for (std::size_t k = round.first; k < round.last; ++k) {
      left_[name_of(member(k))] = answer.decisions[k - round.first].remaining;
    }
    ++round_;
  } else if (phase_ == Phase::noting) {
    for (std::size_t k = 0; k < answer.receipts.size(); ++k) {
      const Asked& asked = member(round.first + k);
      GivenReceipt& receipt = receipts_[round.first + k] = answer.receipts[k];
      claim(receipt.receipt.receipt, asked.rule->limit, asked.hits);
    }
    phase_ = Phase::returning;
  } else {
    note_decisions(answer);
    ++round_;
    if (!only_looks()) phase_ = Phase::noting;
  }
  answered_ = true;
  if (!asking_) go_on();
}

// What was charged before is given back, if that can still be.
void Run::on_trouble() {
  if (phase_ == Phase::deciding) {
    phase_ = Phase::undoing;
    round_ = 0;
  } else {
    ++round_;
  }
}

// Rounds with the same counter are taken back one after the other: only the last knows what there
// is then.
void Run::tell_what_is_left() {
  if (left_.empty()) return;
  for (const std::size_t i : order_) {
    const auto left = left_.find(name_of(asked_[i]));
    if (left != left_.end() && !asked_[i].over) asked_[i].decision.remaining = left->second;
  }
}

void Run::note_decisions(const GivenAnswer& answer) {
  const Round& round = rounds_[round_];
  for (std::size_t k = round.first; k < round.last; ++k) {
    Asked& asked = member(k);
    asked.decision = answer.decisions[k - round.first];
    asked.until_reset = until_reset(asked.rule->limit, asked.decision, answer.now);
  }
}

void Run::on_decided(GivenAnswer& answer) {
  note_decisions(answer);
  Round& round = rounds_[round_];
  for (std::size_t k = round.first; k < round.last; ++k) {
    member(k).over = (answer.verdict.refusing >> (k - round.first) & 1) != 0;
  }
  ++round_;
  if (only_looks() || options().as_envoyproxy) return;
  refused_ = !answer.verdict.decision;
  round.charged = !answer.receipts.empty();
  std::ranges::copy(answer.receipts, receipts_.begin() + static_cast<std::ptrdiff_t>(round.first));
}

// ---- The answer

// Quotas refuse together. Who never refuses is one of them all the same, and has room: a shadow, or
// what has no limit while all are quotas.
bool Run::quotas_refuse() const {
  bool some = false;
  for (const Asked& asked : asked_) {
    if (asked.unlimited || asked.gives_back || !is_quota(asked)) continue;
    if (!asked.over || asked.rule->shadow) return false;
    some = true;
  }
  return some;
}

bool Run::is_over() const {
  const bool one_refuses = std::ranges::any_of(asked_, [this](const Asked& asked) {
    return asked.over && asked.rule != nullptr && !is_quota(asked) && !asked.rule->shadow;
  });
  return one_refuses || quotas_refuse();
}

void Run::count() {
  for (const Asked& asked : asked_) {
    if (asked.rule == nullptr || asked.unlimited || asked.gives_back) continue;
    const core::Decision& decision = asked.decision;
    const Permits used = std::max<Permits>(decision.limit - decision.remaining, 0);
    const bool counted = options().as_envoyproxy || !refused_;
    const Permits before = asked.over || !counted ? used : std::max<Permits>(used - asked.hits, 0);
    // (Names are made by those who count, not by those who only look.)
    RuleStatistics& statistics = asked.statistics != nullptr
                                     ? *asked.statistics
                                     : context_.statistics->named(asked.counted_as);
    statistics.add({.hits = static_cast<std::uint64_t>(asked.hits),
                    .limit = static_cast<std::uint64_t>(decision.limit),
                    .before = static_cast<std::uint64_t>(before),
                    .over = asked.over,
                    .counts_when_over = options().as_envoyproxy},
                   asked.rule->shadow);
  }
}

Status Run::status_of(const Asked& asked) const {
  if (asked.rule == nullptr) return {};
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  if (asked.unlimited) return {.remaining = most};
  const Rule& rule = *asked.rule;
  Status status{.code = asked.over && !rule.shadow ? Code::over_limit : Code::ok,
                .limit = CurrentLimit{.requests_per_unit = rule.requests_per_unit,
                                      .unit = rule.unit,
                                      .name = rule.name},
                .until_reset = in_seconds(asked.until_reset)};
  const bool nothing_left = asked.over && options().as_envoyproxy;
  status.remaining =
      nothing_left
          ? 0
          : static_cast<std::uint32_t>(std::clamp<Permits>(asked.decision.remaining, 0, most));
  return status;
}

Result<Answer, Failure> Run::answer() {
  const OnStoreFailure mode = engine::mode_of(options().on_store_failure, mistaken_);
  if (!trouble_.empty() && mode != OnStoreFailure::open && mode != OnStoreFailure::closed) {
    return Failure{"the store could not be asked: " + trouble_, true};
  }
  Answer answer;
  answer.statuses.reserve(asked_.size());
  for (Asked& asked : asked_) {
    if (!trouble_.empty() && asked.rule != nullptr && !asked.unlimited) {
      asked.over = mode == OnStoreFailure::closed;
      asked.decision = {};
      asked.until_reset = engine::kAskAgain;
    }
    answer.statuses.push_back(status_of(asked));
  }
  answer.overall = is_over() && !options().shadow_mode ? Code::over_limit : Code::ok;
  if (options().response_headers) add_headers(answer);
  if (options().dynamic_metadata) add_metadata(answer);
  return answer;
}

// Of the limit that has the least left; one that refuses wins, the last of several. Quotas refuse
// together, and come after limits that do. (Theirs go by what is left, which is nothing.)
void Run::add_headers(Answer& answer) const {
  const bool by_quotas = !options().as_envoyproxy && quotas_refuse();
  const Status* tightest = nullptr;
  int highest = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Status& status = answer.statuses[i];
    if (!status.limit) continue;
    const bool over = status.code == Code::over_limit;
    const int rank = !over ? 0 : !is_quota(asked_[i]) ? 2 : by_quotas ? 1 : 0;
    const bool less = tightest == nullptr || status.remaining < tightest->remaining;
    if (rank < highest || (rank == 0 && !less)) continue;
    tightest = &status;
    highest = rank;
  }
  if (tightest == nullptr) return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(tightest->until_reset.value_or(Nanos{0}));
  const HeaderNames& names = options().header_names;
  answer.response_headers = {{names.limit, std::to_string(tightest->limit->requests_per_unit)},
                             {names.remaining, std::to_string(tightest->remaining)},
                             {names.reset, std::to_string(seconds.count())}};
}

namespace {

// As Go writes the message, which leaves out what is 0.
std::string text_of(const LimitOverride& limit) {
  const std::string unit = fmt::format("unit:{}", name_of(limit.unit));
  if (limit.requests_per_unit == 0) return unit;
  return fmt::format("requests_per_unit:{} {}", limit.requests_per_unit, unit);
}

// Adds what is not there yet: of two maps with one name each has a say, of all else the first.
void merge(nlohmann::json& all, const nlohmann::json& more) {
  for (const auto& [key, value] : more.items()) {
    const auto [there, is_new] = all.emplace(key, value);
    if (!is_new && there->is_object() && value.is_object()) merge(*there, value);
  }
}

}  // namespace

// The call may be gone when it is answered.
void Run::keep_metadata(const Call& call) {
  using nlohmann::json;
  json question = {{"domain", call.domain}, {"descriptors", json::array()}};
  for (const Descriptor& descriptor : call.descriptors) {
    json& told = question["descriptors"].emplace_back(json::object());
    told["entries"] = json::array();
    for (const Entry& entry : descriptor.entries) {
      told["entries"].push_back(fmt::format("{}={}", entry.key, entry.value));
    }
    if (descriptor.limit) told["limit"] = text_of(*descriptor.limit);
    if (descriptor.hits) told["hitsAddend"] = *descriptor.hits;
  }
  if (call.hits != 0) question["hitsAddend"] = call.hits;
  question_metadata_ = question.dump(-1, ' ', false, json::error_handler_t::replace);
}

void Run::add_metadata(Answer& answer) const {
  using nlohmann::json;
  json all = json::parse(question_metadata_, nullptr, false);
  json merged = json::object();
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Rule* rule = asked_[i].rule;
    if (rule == nullptr || rule->unlimited || rule->metadata.empty()) continue;
    if (answer.statuses[i].code != Code::ok) continue;
    merge(merged, json::parse(rule->metadata, nullptr, false));
  }
  if (!merged.empty()) all["metadata"] = std::move(merged);
  answer.metadata = all.dump();
}

}  // namespace weir::envoy
