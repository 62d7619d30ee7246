#include "engine/fleet_call.h"

#include <algorithm>

#include "core/share.h"
#include "policy/key.h"
#include "store/key_name.h"
#include "store/link_access.h"
#include "store/random_name.h"

namespace weir {
inline namespace v0 {

using engine::LentSide;
using engine::placed;
using engine::Verb;
using policy::OnStoreFailure;

namespace {

store::SharedVerb shared_verb(Verb verb) {
  switch (verb) {
    case Verb::take:
      return store::SharedVerb::take;
    case Verb::peek:
      return store::SharedVerb::peek;
    case Verb::settle:
      return store::SharedVerb::settle;
    case Verb::reset:
      return store::SharedVerb::reset;
    case Verb::enter:
      return store::SharedVerb::enter;
    case Verb::leave:
      break;
  }
  return store::SharedVerb::leave;
}

bool all_shadow(std::span<const store::Item> items) {
  return std::ranges::all_of(items, &store::Item::shadow);
}

struct OneSide {
  core::Verdict verdict;  // over the policy
  bool shadow = false;    // none of its limits may refuse
};

// What two sides say together: the tighter of the two, as if it were one decision.
core::Verdict joined(const OneSide& a, const OneSide& b) {
  const bool in_order = a.verdict.tightest <= b.verdict.tightest;
  const OneSide& first = in_order ? a : b;
  const OneSide& second = in_order ? b : a;
  const std::array decisions{first.verdict.decision, second.verdict.decision};
  const std::array charges{core::Charge{.shadow = first.shadow},
                           core::Charge{.shadow = second.shadow}};
  core::Verdict verdict = core::judge(decisions, charges);
  verdict.tightest = (verdict.tightest == 0 ? first : second).verdict.tightest;
  verdict.refusing = a.verdict.refusing | b.verdict.refusing;
  return verdict;
}

// Calls that are over, to be used again by their thread.
template <typename Call>
std::vector<std::unique_ptr<Call>>& spare_calls() {
  thread_local std::vector<std::unique_ptr<Call>> calls;
  return calls;
}

}  // namespace

// ---- The question

void AsyncEngine::Call::start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                              const engine::Items& items, Instant now, const Question& question,
                              Finish finish) {
  Call& call = spare_or_new();
  call.finish_ = std::move(finish);
  call.begin(engine, link, planned, items, now, question);
}

void AsyncEngine::Call::start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                              const engine::Items& items, Instant now, const Question& question,
                              Done done) {
  Call& call = spare_or_new();
  call.done_ = std::move(done);
  call.begin(engine, link, planned, items, now, question);
}

AsyncEngine::Call& AsyncEngine::Call::spare_or_new() {
  auto& spare = spare_calls<Call>();
  if (spare.empty()) return *std::make_unique<Call>().release();
  Call& call = *spare.back().release();
  spare.pop_back();
  return call;
}

void AsyncEngine::Call::begin(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                              const engine::Items& items, Instant now, const Question& question) {
  engine_ = &engine;
  now_ = now;
  began_ = engine.time.passed();
  rules_ = engine.used_rules();
  link_ = &link;
  prepare(planned, items, question);
  advance();
}

void AsyncEngine::Call::prepare(const engine::Planned& planned, const engine::Items& items,
                                const Question& question) {
  policy_ = planned.policy;
  limits_ = planned.limits;
  split_ = planned.split;
  verb_ = question.verb;
  holder_ = question.holder;
  given_ = question.receipt;
  wants_receipt_ = question.wants_receipt;
  // (One by one: their memory is used again.)
  result_.verdict = {};
  result_.receipt.reset();
  result_.decisions.clear();
  result_.left = false;
  result_.trouble.clear();
  rounds_ = 0;
  for (Side* side : {&here_, &there_, &leased_}) {
    side->items.clear();
    side->positions.clear();
  }
  lent_.clear();
  // (Whoever only looks wants to know what there is for all.)
  const bool pays = verb_ == Verb::take || verb_ == Verb::settle;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = limits_->rules[i];
    const bool from_purse = rule.leased && pays;
    Side& side = from_purse ? leased_ : rule.shared ? there_ : here_;
    side.items.push_back(items[i]);
    side.positions.push_back(i);
    if (from_purse) lent_.add(items[i], i);
  }
  copy_request(question.request);
  remember_prices();
  name_keys();
  if (!leased_.items.empty()) name_lent();
}

// The limits that need nobody to be asked are decided first, then the purses are paid from: nobody
// else does that meanwhile. Then the fleet is asked.
void AsyncEngine::Call::advance() {
  if (!lent_.empty() && verb_ == Verb::take) {
    const LentSide::Standing standing = lent_.look(engine_->purses_of(*link_), now_);
    constexpr int enough = 3;  // others may be faster again and again
    if (standing == LentSide::Standing::lacking && rounds_ < enough) return borrow();
    if (standing != LentSide::Standing::covered) {
      result_.verdict = engine::judge(*limits_, lent_.refuse(engine_->purses_of(*link_), now_));
      return tell();
    }
  }
  if (!decide_here()) return tell();
  if (!lent_.empty()) {
    if (verb_ == Verb::take) {
      verdict_lent_ = lent_.spend(engine_->purses_of(*link_), now_);
    } else {
      settle_lent();
    }
  }
  if (!there_.items.empty()) return ask();
  if (wants_receipt_) keep_receipts(nullptr);
  conclude(nullptr);
  tell();
}

std::optional<Verdict> AsyncEngine::Call::at_once(Engine::Impl& engine, Link& link,
                                                  const engine::Planned& planned,
                                                  const engine::Items& items, Instant now,
                                                  const Request& request) {
  LentSide lent;
  engine::Items here;
  std::array<std::size_t, core::kMaxLimits> positions{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (planned.limits->rules[i].leased) {
      lent.add(items[i], i);
    } else {
      positions[here.size()] = i;
      here.emplace_back(items[i]);
    }
  }
  store::lease::Purses& purses = engine.purses_of(link);
  const LentSide::Standing standing = lent.look(purses, now);
  if (standing == LentSide::Standing::lacking) return std::nullopt;
  core::Verdict verdict;
  if (standing == LentSide::Standing::refused) {
    verdict = lent.refuse(purses, now);
  } else if (here.empty()) {
    verdict = lent.spend(purses, now);
  } else {
    verdict = placed(engine.table->take(here, now), std::span(positions).first(here.size()));
    if (verdict.decision) {
      const OneSide of_purses{lent.spend(purses, now), lent.is_shadow()};
      verdict = joined({verdict, all_shadow(here)}, of_purses);
    }
  }
  Verdict answer = engine::judge(*planned.limits, verdict);
  engine::amend(answer, planned.split);
  engine.tell_sink(*planned.policy, *planned.limits, request, answer);
  return answer;
}

// The texts of a request are borrowed from somebody who does not wait.
void AsyncEngine::Call::copy_request(const Request& request) {
  const auto parts = request.parts.all();
  std::size_t bytes = request.key.size();
  for (const Part& part : parts) bytes += part.name.size() + part.value.size();
  texts_.clear();
  texts_.reserve(bytes);
  const auto copy = [this](std::string_view text) {
    const std::size_t at = texts_.size();
    texts_ += text;
    return std::string_view(texts_).substr(at, text.size());
  };
  request_ = {.policy = policy_->name,
              .key = copy(request.key),
              .permits = request.permits,
              .max_wait = request.max_wait};
  for (const Part& part : parts) request_.parts.add({copy(part.name), copy(part.value)});
}

// (What the plan has told the items borrows the texts of the request.)
void AsyncEngine::Call::remember_prices() {
  prices_.clear();
  if (!policy_->has_changed) return;
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  prices_.reserve(limits_->rules.size());
  for (Side* side : {&here_, &there_, &leased_}) {
    for (std::size_t i = 0; i < side->items.size(); ++i) {
      const std::uint64_t identity = limits_->rules[side->positions[i]].identity;
      side->items[i].history = &prices_.emplace_back(*policy_, subject, identity);
    }
  }
}

void AsyncEngine::Call::name_keys() {
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  thread_local std::vector<std::size_t> ends;
  ends.clear();
  names_.clear();
  for (const std::size_t position : there_.positions) {
    const engine::Rule& rule = limits_->rules[position];
    policy::append_name(names_, policy_->head, subject, rule.by, rule.tail);
    ends.push_back(names_.size());
  }
  shared_.clear();
  std::size_t at = 0;
  for (std::size_t i = 0; i < ends.size(); at = ends[i++]) {
    const store::Item& item = there_.items[i];
    shared_.push_back({.limit = item.limit,
                       .key = std::string_view(names_).substr(at, ends[i] - at),
                       .ask = item.ask,
                       .shadow = item.shadow,
                       .history = item.history});
  }
}

void AsyncEngine::Call::name_lent() {
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  lent_names_.resize(leased_.positions.size());
  for (std::size_t i = 0; i < leased_.positions.size(); ++i) {
    const engine::Rule& rule = limits_->rules[leased_.positions[i]];
    lent_names_[i].clear();
    policy::append_name(lent_names_[i], policy_->head, subject, rule.by, rule.tail);
  }
}

// Whether to go on. If not, the result is there to be told.
bool AsyncEngine::Call::decide_here() {
  if (verb_ == Verb::settle) settle_here();
  if (here_.items.empty()) return true;
  store::Table& table = *engine_->table;
  const core::HolderId holder = holder_.empty() ? core::HolderId{} : engine_->holder_id(holder_);
  switch (verb_) {
    case Verb::take:
    case Verb::enter:
      resets_ = engine_->resets_of(here_.items);
      verdict_here_ =
          table.take(here_.items, now_, holder, std::span(receipts_).first(here_.items.size()));
      break;
    case Verb::peek:
      verdict_here_ = table.peek(here_.items, now_, holder);
      break;
    case Verb::settle:
      verdict_here_ = engine_->settle(here_.items, now_, given_);
      break;
    case Verb::reset:
      table.reset(here_.items, now_);
      break;
    case Verb::leave:
      break;
  }
  if (!charges() || verdict_here_.decision) return true;
  result_.verdict = engine::judge(*limits_, placed(verdict_here_, here_.positions));
  return false;
}

// What was admitted by this node while the fleet was gone is settled here; the rest over there.
void AsyncEngine::Call::settle_here() {
  shared_receipts_.assign(shared_.size(), {});
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const store::Item& item = there_.items[i];
    const Receipt::Impl::Entry* entry = given_ != nullptr ? given_->find(item.key) : nullptr;
    if (entry == nullptr) continue;
    if (entry->shared) {
      shared_receipts_[i] = entry->receipt;
    } else {
      (void)engine_->settle({&item, 1}, now_, given_);
      shared_[i].ask.cost = 0;
    }
  }
}

// What was paid from a purse goes back to it, if it may.
void AsyncEngine::Call::settle_lent() {
  store::lease::Purses& purses = engine_->purses_of(*link_);
  for (std::size_t i = 0; i < leased_.items.size(); ++i) {
    const store::Item& item = leased_.items[i];
    Receipt::Impl::Entry* const entry = given_ != nullptr ? given_->find(item.key) : nullptr;
    Permits correction = entry != nullptr ? entry->receipt.left_of(item.ask.cost) : item.ask.cost;
    if (entry != nullptr && !entry->lent) {
      (void)engine_->settle({&item, 1}, now_, given_);
      continue;
    }
    if (correction < 0) {
      core::Receipt left = entry != nullptr ? entry->receipt.receipt : core::Receipt{};
      correction = std::max(correction, -left.taken);
      left.taken += correction;
      if (entry != nullptr) entry->receipt.update(left);
    }
    if (correction == 0) continue;
    purses.settle({*item.limit, item.history, rules_->leased_edition}, item.key, lent_names_[i],
                  correction, entry != nullptr ? entry->mark : 0);
  }
  verdict_lent_ = lent_.settled(purses, now_);
}

// ---- Purses that have too little

void AsyncEngine::Call::borrow() {
  // What is refused anyway costs the store nothing. (The peek decides: a take may be admitted, by
  // what another thread has given back meanwhile, and nothing would be paid for it.)
  if (!here_.items.empty()) {
    const core::Verdict verdict = engine_->table->peek(here_.items, now_);
    if (!verdict.decision) {
      result_.verdict = engine::judge(*limits_, placed(verdict, here_.positions));
      return tell();
    }
  }
  if (is_too_late()) return do_without_purses();
  ++rounds_;
  trouble_.error.clear();
  trouble_.kind = store::SharedAnswer::Kind::decided;
  const auto items = lent_.items();
  pending_ = 1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].standing != LentSide::Standing::lacking) continue;
    ++pending_;
    engine_->purses_of(*link_).ask(
        {*items[i].limit, leased_.items[i].history, rules_->leased_edition}, items[i].key,
        lent_names_[i], items[i].cost, deadline(), *this);
  }
  on_purses_asked();
}

void AsyncEngine::Call::on_purse(const store::LoanAnswer* trouble) {
  // (A mistake tells more than an outage.)
  if (trouble != nullptr && trouble_.kind != store::SharedAnswer::Kind::misconfigured) {
    trouble_.kind = trouble->kind;
    trouble_.error = trouble->error;
  }
  on_purses_asked();
}

void AsyncEngine::Call::on_purses_asked() {
  if (--pending_ > 0) return;
  now_ = engine_->now();
  if (trouble_.kind == store::SharedAnswer::Kind::decided) return advance();
  do_without_purses();
}

// Without the store they are limits of the fleet like others.
void AsyncEngine::Call::do_without_purses() {
  for (std::size_t i = 0; i < leased_.items.size(); ++i) {
    there_.items.push_back(leased_.items[i]);
    there_.positions.push_back(leased_.positions[i]);
  }
  lent_.clear();
  if (!decide_here()) return tell();
  on_answer(trouble_);
}

Nanos AsyncEngine::Call::deadline() const {
  return began_ + detail::LinkAccess::store(*link_).timeout();
}

Nanos AsyncEngine::Call::time_left() const { return deadline() - engine_->time.passed(); }

// Whether it has waited for purses for as long as a call may wait for the store.
bool AsyncEngine::Call::is_too_late() {
  if (rounds_ == 0 || time_left() > Nanos{0}) return false;
  trouble_.kind = store::SharedAnswer::Kind::unavailable;
  trouble_.error = "no answer within the time of the call";
  return true;
}

void AsyncEngine::Call::ask() {
  question_ = {.verb = shared_verb(verb_),
               .items = shared_,
               .holder = holder_,
               .wants_receipts = wants_receipt_};
  if (verb_ == Verb::settle) name_receipts();
  if (rounds_ > 0) {
    if (is_too_late()) return on_answer(trouble_);
    question_.within = time_left();
  }
  detail::LinkAccess::store(*link_).ask(question_, *this);
}

// What is given back has a name, so that it can be asked for again if the answer is lost.
void AsyncEngine::Call::name_receipts() {
  question_.receipts = shared_receipts_;
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    if (shared_[i].ask.cost >= 0 || shared_receipts_[i].receipt.taken == 0) continue;
    if (given_->name.empty()) given_->name = store::random_name();
    question_.receipt_name = given_->name;
    return;
  }
}

// ---- The answer

void AsyncEngine::Call::on_answer(store::SharedAnswer& answer) {
  if (verb_ == Verb::settle) update_receipts();
  if (answer.kind == store::SharedAnswer::Kind::decided) {
    follow(answer);
  } else {
    do_without(answer);
  }
  tell();
}

void AsyncEngine::Call::follow(store::SharedAnswer& answer) {
  result_.left = answer.left;
  if (limits_->leases) tell_of_purses(answer);
  if (verb_ == Verb::leave || verb_ == Verb::reset) return;
  if (charges() && !answer.verdict.decision) give_back();
  if (charges() && answer.verdict.decision && wants_receipt_) keep_receipts(&answer);
  if (verb_ == Verb::peek) {
    result_.decisions.resize(limits_->rules.size());
    for (std::size_t i = 0; i < here_.items.size(); ++i) {
      result_.decisions[here_.positions[i]] =
          engine_->decision_of(limits_->rules[here_.positions[i]], here_.items[i], now_);
    }
    for (std::size_t i = 0; i < answer.decisions.size(); ++i) {
      result_.decisions[there_.positions[i]] = answer.decisions[i];
    }
  }
  conclude(&answer.verdict);
}

// What a purse holds is there for calls on this node, whatever the store says to others.
void AsyncEngine::Call::tell_of_purses(store::SharedAnswer& answer) {
  store::lease::Purses& purses = engine_->purses_of(*link_);
  std::vector<core::Charge> charges(there_.items.size());
  for (std::size_t i = 0; i < there_.items.size(); ++i) {
    const store::Item& item = there_.items[i];
    charges[i].shadow = item.shadow;
    if (!limits_->rules[there_.positions[i]].leased) continue;
    if (verb_ == Verb::reset) purses.reopen(item.key);
    if (verb_ == Verb::peek && i < answer.decisions.size()) {
      purses.add_to(answer.decisions[i], item.key, item.ask.cost, engine_->now());
    }
  }
  if (verb_ == Verb::peek) answer.verdict = core::judge(answer.decisions, charges);
}

void AsyncEngine::Call::keep_receipts(const store::SharedAnswer* answer) {
  result_.receipt = std::make_unique<Receipt::Impl>();
  result_.receipt->add(here_.items, resets_, receipts_);
  for (const LentSide::Item& item : lent_.items()) {
    if (item.standing != LentSide::Standing::covered) continue;
    result_.receipt->entries.push_back({.key = item.key,
                                        .lent = true,
                                        .mark = item.mark,
                                        .receipt = {.receipt = {.at = now_, .taken = item.cost}}});
  }
  for (std::size_t i = 0; answer != nullptr && i < answer->receipts.size(); ++i) {
    result_.receipt->entries.push_back(
        {.key = there_.items[i].key, .shared = true, .receipt = answer->receipts[i]});
  }
}

void AsyncEngine::Call::update_receipts() {
  if (given_ == nullptr) return;
  for (std::size_t i = 0; i < there_.items.size(); ++i) {
    Receipt::Impl::Entry* const entry = given_->find(there_.items[i].key);
    if (entry != nullptr && entry->shared) entry->receipt = shared_receipts_[i];
  }
}

// ---- Without an answer

void AsyncEngine::Call::do_without(const store::SharedAnswer& answer) {
  result_.trouble = answer.error;
  result_.verdict.degraded = true;
  const bool mistaken = answer.kind == store::SharedAnswer::Kind::misconfigured;
  const OnStoreFailure mode = engine::mode_of(policy_->on_store_failure, mistaken);
  switch (verb_) {
    case Verb::take:
    case Verb::enter:
    case Verb::peek:
      if (mode == OnStoreFailure::local) return decide_locally();
      if (mode == OnStoreFailure::closed) return refuse();
      return conclude(nullptr);
    case Verb::settle:
      return mode == OnStoreFailure::local ? settle_locally() : conclude(nullptr);
    case Verb::leave:
      if (mode == OnStoreFailure::local) {
        take_shares();
        result_.left = engine_->table->leave(there_.items, now_, engine_->holder_id(holder_));
      }
      return;
    case Verb::reset:
      return;
  }
}

// This node's part of what the nodes may admit together.
void AsyncEngine::Call::take_shares() {
  const Permits nodes = engine_->fleet->nodes();
  shares_.clear();
  shares_.reserve(there_.items.size());
  share_prices_.clear();
  share_prices_.reserve(there_.items.size());
  if (nodes <= 1) return;
  for (store::Item& item : there_.items) {
    const auto* const whole = std::get_if<core::Bucket>(item.limit);
    item.limit = &shares_.emplace_back(core::share_of(*item.limit, nodes));
    if (whole == nullptr) continue;
    auto& share = std::get<core::Bucket>(shares_.back());
    share = core::in_epoch(share, core::epoch_number(*whole));
    if (item.history == nullptr) continue;
    item.history = &share_prices_.emplace_back(*item.history, nodes);
  }
}

void AsyncEngine::Call::decide_locally() {
  take_shares();
  const core::HolderId holder = holder_.empty() ? core::HolderId{} : engine_->holder_id(holder_);
  store::Table& table = *engine_->table;
  if (verb_ == Verb::peek) {
    const core::Verdict verdict = table.peek(there_.items, now_, holder);
    return conclude(&verdict);
  }
  Engine::Impl::CoreReceipts receipts{};
  const Engine::Impl::Resets resets = engine_->resets_of(there_.items);
  const core::Verdict verdict =
      table.take(there_.items, now_, holder, std::span(receipts).first(there_.items.size()));
  if (!verdict.decision) {
    give_back();
  } else if (wants_receipt_) {
    keep_receipts(nullptr);
    result_.receipt->add(there_.items, resets, receipts);
  }
  conclude(&verdict);
}

// Debits count here, as takes do. What this node has admitted has been settled already, and what
// the fleet has admitted stays with it: given back here, it would be admitted twice.
void AsyncEngine::Call::settle_locally() {
  take_shares();
  for (std::size_t i = 0; i < there_.items.size(); ++i) {
    there_.items[i].ask.cost = std::max<Permits>(shared_[i].ask.cost, 0);
  }
  Engine::Impl::CoreReceipts none{};
  const core::Verdict verdict =
      engine_->table->settle(there_.items, now_, std::span(none).first(there_.items.size()));
  conclude(&verdict);
}

void AsyncEngine::Call::refuse() {
  if (charges()) give_back();
  // (No limit refuses: none was asked.)
  const core::Verdict verdict{.decision = {.outcome = Outcome::limited,
                                           .limit = core::capacity(*there_.items.front().limit),
                                           .retry_after = engine::kAskAgain}};
  result_.verdict = engine::judge(*limits_, placed(verdict, there_.positions));
  result_.verdict.degraded = true;
}

// ---- The end

// What this node has admitted, and the call has not got.
void AsyncEngine::Call::give_back() {
  if (!lent_.empty()) lent_.give_back(engine_->purses_of(*link_));
  if (here_.items.empty()) return;
  for (store::Item& item : here_.items) item.ask.cost = -item.ask.cost;
  (void)engine_->table->settle(here_.items, engine_->now(),
                               std::span(receipts_).first(here_.items.size()), resets_);
}

// The verdict of all sides; none of the fleet's is one that admits.
void AsyncEngine::Call::conclude(const core::Verdict* fleet) {
  const bool degraded = result_.verdict.degraded;
  if (fleet != nullptr && here_.items.empty() && lent_.empty()) {
    // Most have limits of the fleet only.
    result_.verdict = engine::judge(*limits_, placed(*fleet, there_.positions));
    result_.verdict.degraded = degraded;
    return;
  }
  std::optional<OneSide> all;
  const auto add = [&all](const OneSide& side) {
    all = all ? OneSide{joined(*all, side), all->shadow && side.shadow} : side;
  };
  if (!here_.items.empty()) {
    add({placed(verdict_here_, here_.positions), all_shadow(here_.items)});
  }
  if (!lent_.empty()) add({verdict_lent_, lent_.is_shadow()});
  if (fleet != nullptr) {
    add({placed(*fleet, there_.positions), all_shadow(there_.items)});
  } else if (!all) {
    const core::Verdict unknown{.decision = {.limit = core::capacity(*there_.items.front().limit)}};
    add({placed(unknown, there_.positions), all_shadow(there_.items)});
  }
  result_.verdict = engine::judge(*limits_, all->verdict);
  result_.verdict.degraded = degraded;
}

// (A limit of which the node has a part may be cut off while others are not.)
void AsyncEngine::Call::tell() {
  const bool is_answered = !result_.verdict.degraded;
  if (verb_ == Verb::settle && given_ != nullptr && is_answered) given_->on_answered();
  engine::amend(result_.verdict, split_);
  if (charges()) engine_->tell_sink(*policy_, *limits_, request_, result_.verdict);
  finish();
}

void AsyncEngine::Call::finish() {
  if (finish_) {
    std::exchange(finish_, nullptr)(result_);
  } else {
    std::exchange(done_, nullptr)(result_.verdict);
  }
  rules_ = nullptr;
  constexpr std::size_t plenty = 1024;
  auto& spare = spare_calls<Call>();
  std::unique_ptr<Call> self(this);
  if (spare.size() < plenty) spare.push_back(std::move(self));
}

}  // namespace v0
}  // namespace weir
