#include "store/lease/purses.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/saturating.h"

namespace weir::store::lease {

namespace {

// Of how many keys a thread remembers what it has borrowed: from then on, those that hold nothing
// make room. Each new key looks for them in so many buckets, which are more than the purses.
constexpr std::size_t kMostPurses = std::size_t{1} << 16;
constexpr int kBucketsAtATime = 4;

// What was spent is reported without being asked if nodes together keep back more than this part of
// a limit by not reporting it.
constexpr int kReportedParts = 32;

// Demand is averaged over this long, and not judged by less than the other.
constexpr double kMemorySeconds = 0.05;
constexpr Nanos kShortestLook = std::chrono::milliseconds{5};

double seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

// How long a limit takes to fill up.
Nanos filling_time(const core::Limit& limit) {
  if (const auto* bucket = std::get_if<core::Bucket>(&limit)) {
    return Nanos{to_int64(bucket->depth / bucket->pace.parts)};
  }
  if (const auto* window = std::get_if<core::Window>(&limit)) return window->period;
  if (const auto* sliding = std::get_if<core::Sliding>(&limit)) return sliding->period;
  return kForever;
}

// Whether usage under both drains alike.
bool same_price(const core::Limit& a, const core::Limit& b) {
  const auto* const one = std::get_if<core::Bucket>(&a);
  const auto* const other = std::get_if<core::Bucket>(&b);
  if (one == nullptr || other == nullptr) return a.index() == b.index();
  return one->pace.parts == other->pace.parts && one->pace.price == other->pace.price;
}

// When a term that was asked for at `sent_at` is over, for sure before it is over for the store,
// whose clock may go a little faster.
Instant end_of(Instant sent_at, Nanos lasts) { return sent_at + lasts - lasts / 128; }

// The same for an age by this node's clock.
Nanos at_least(Nanos age) { return age - age / 128; }

// Numbers that no others have given, to start counting from.
std::uint64_t own_numbers() {
  static std::atomic<std::uint64_t> last{0};
  return last++ << 32;
}

}  // namespace

// ---- One purse

core::Decision Purse::admission(const core::Limit& limit, Instant now) const {
  return {.limit = core::capacity(limit),
          .remaining = std::min(there(now) + beyond_, core::capacity(limit)),
          .reset_after = until(now, reset_at_)};
}

core::Decision Purse::refusal(const core::Limit& limit, Instant now) const {
  return {.outcome = Outcome::limited,
          .limit = core::capacity(limit),
          .remaining = std::min(there(now) + beyond_, core::capacity(limit)),
          .retry_after = std::max({until(now, retry_at_), until(now, closed_until_), Nanos{1}}),
          .reset_after = until(now, reset_at_)};
}

void Purse::on_loan(LoanAnswer& answer) { owner_.on_loan(*this, answer); }

// How much is asked for lately, in permits a second.
void Purse::note_demand(Instant now) {
  const Nanos passed = now - since_;
  if (passed < kShortestLook) return;
  const double latest = static_cast<double>(asked_for_) / seconds(passed);
  rate_ += (latest - rate_) * std::min(seconds(passed) / kMemorySeconds, 1.0);
  asked_for_ = 0;
  since_ = now;
}

// ---- All purses

Purses::Purses(SharedStore& store, const Fleet& fleet, PurseTime time, std::string borrower,
               std::shared_ptr<PurseCounts> counts,
               std::shared_ptr<const RulesInForce> rules_in_force)
    : store_(store),
      fleet_(fleet),
      time_(std::move(time)),
      borrower_(std::move(borrower)),
      kept_counts_(std::move(counts)),
      counts_(*kept_counts_),
      rules_in_force_(std::move(rules_in_force)),
      last_number_(own_numbers()) {}

Purses::~Purses() {
  counts_.lapsed.add(counts_.held.get());
  counts_.held.set(0);
  counts_.keys.set(0);
}

// (What is owed is no permit that is held.)
void Purses::change_held(Purse& purse, Permits by) {
  const Permits before = std::max<Permits>(purse.held_, 0);
  purse.held_ += by;
  counts_.held.add(static_cast<std::uint64_t>(std::max<Permits>(purse.held_, 0) - before));
}

void Purses::lapse(Purse& purse, Instant now) {
  if (now < purse.until_ || purse.held_ <= 0) return;
  counts_.lapsed.add(static_cast<std::uint64_t>(purse.held_));
  change_held(purse, -purse.held_);
}

// What should be there: for some time ahead, and not too much of what is there for all.
Permits Purses::need(const Purse& purse) const {
  const Permits share = core::capacity(purse.limit_) / (2 * std::max<Permits>(fleet_.nodes(), 2));
  const double ahead = std::ceil(purse.rate_ * seconds(kAhead));
  // (Who asks for less than one in that time gets what it asks for.)
  const auto needed = ahead > 1 ? static_cast<Permits>(std::min(ahead, 1e15)) : 0;
  return std::min(needed, share);
}

// Whether the store keeps back a noticeable part of a bucket because it does not know that it was
// spent: as much as would have refilled by the end of the loan. (Windows do not refill.)
bool Purses::should_report(const Purse& purse, Instant now) const {
  const auto* const bucket = std::get_if<core::Bucket>(&purse.limit_);
  if (bucket == nullptr || now >= purse.until_) return false;
  const Int128 unreported = purse.outstanding_ - std::max<Permits>(purse.held_, 0);
  const Int128 refills = Int128{kTerm.count()} * bucket->pace.parts / bucket->pace.price;
  const Int128 parts = Int128{kReportedParts} * std::max<Permits>(fleet_.nodes(), 1);
  return std::min(unreported, refills) * parts >= core::capacity(purse.limit_);
}

// How long ago something was last spent of what the next question reports as spent: after the last
// one was asked. If the wall clock was set forward since, that is no age.
Nanos Purses::spent_ago(const Purse& purse, Instant now) const {
  const Nanos passed = time_.passed() - purse.asked_passed_;
  const Nanos set_forward = std::max(now - purse.asked_at_ - passed, Nanos{0});
  return at_least(std::max(now - purse.spent_at_ - set_forward, Nanos{0}));
}

bool Purses::is_idle(const Purse& purse) {
  return purse.held_ == 0 && !purse.open_ && !purse.telling_;
}

void Purses::make_room() {
  for (int i = 0; i < kBucketsAtATime; ++i) {
    const std::size_t bucket = next_bucket_++ % purses_.bucket_count();
    for (auto at = purses_.begin(bucket); at != purses_.end(bucket);) {
      const auto& [key, purse] = *at++;
      if (is_idle(*purse)) purses_.erase(Fingerprint{key});
    }
  }
}

Purse& Purses::purse_for(const Fingerprint& key) {
  const auto found = purses_.find(key);
  if (found != purses_.end()) return *found->second;
  if (purses_.size() >= kMostPurses) make_room();
  Purse& purse = *purses_.emplace(key, std::make_unique<Purse>(*this)).first->second;
  purse.since_ = purse.spent_at_ = purse.asked_at_ = time_.now();
  purse.asked_passed_ = time_.passed();
  counts_.keys.set(purses_.size());
  return purse;
}

// ---- Asking

// Whether the limit of the purse may have become another one. The store must not be told of it
// then: what was spent would drain at a price that does not hold any more.
bool Purses::is_outdated(const Purse& purse, Instant now) const {
  if (rules_in_force_ == nullptr) return false;
  return purse.edition_ != rules_in_force_->edition.load(std::memory_order_acquire) ||
         now >= rules_in_force_->until.load(std::memory_order_acquire);
}

void Purses::set_limit(Purse& purse, const LimitInRules& limit, std::string_view name) {
  purse.limit_ = limit.limit;
  purse.history_ = core::copy_of(limit.history);
  purse.edition_ = limit.edition;
  purse.name_ = name;
}

void Purses::ask(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
                 Permits cost, Nanos deadline, Waiter& waiter) {
  Purse& purse = purse_for(key);
  const std::uint64_t ticket = ++last_ticket_;
  purse.waiting_.push_back({&waiter, cost, ticket});
  purse.waited_for_ += cost;
  const Nanos answered_by = purse.open_ ? purse.answered_by_ : time_.passed() + store_.timeout();
  if (deadline < answered_by) expiries_.push({deadline, key, ticket});
  if (purse.open_) return;  // what it brings may do
  set_limit(purse, limit, name);
  if (!purse.telling_) ask_for_waiting(purse);
}

void Purses::ask_for_waiting(Purse& purse) {
  const Instant now = time_.now();
  lapse(purse, now);
  forget_repetition(purse, now);
  purse.note_demand(now);
  const Permits there = std::max<Permits>(purse.held_, 0);
  const Permits least = purse.waiting_.front().cost - there;
  const Permits wanted = purse.waited_for_ + need(purse) - there;
  question(purse, {.least = least, .wanted = std::max(wanted, least)}, now);
}

// A question that was not answered is not remembered by the store for longer than its term.
void Purses::forget_repetition(Purse& purse, Instant now) {
  if (now >= purse.asked_at_ + kTerm) purse.repeats_ = false;
}

void Purses::borrow_ahead(Purse& purse, const core::Limit& limit, Instant now) {
  if (purse.open_ || purse.telling_ || now < purse.closed_until_) return;
  if (is_outdated(purse, now)) return;
  // (A call that has waited for another purse may have a limit of earlier rules.)
  if (&limit != &purse.limit_ && same_price(limit, purse.limit_)) purse.limit_ = limit;
  purse.note_demand(now);
  const Permits wanted = need(purse) - purse.held_;
  if (wanted > 0) question(purse, {.least = 1, .wanted = wanted}, now);
}

void Purses::question(Purse& purse, const Wish& wish, Instant now) {
  // Whether the last one was heard may not be known: then it is asked again, so that what it has
  // brought is not lost.
  if (!std::exchange(purse.repeats_, false)) {
    const Nanos ago = spent_ago(purse, now);
    purse.asked_at_ = now;
    purse.asked_passed_ = time_.passed();
    change_held(purse, -wish.returned);
    purse.question_ = {.limit = &purse.limit_,
                       .key = purse.name_,
                       .borrower = borrower_,
                       .number = ++last_number_,
                       .held = purse.held_,
                       .returned = wish.returned,
                       .spent_ago = ago,
                       .least = wish.least,
                       .wanted = wish.wanted,
                       .term = kTerm};
  }
  purse.question_.key = purse.name_;
  purse.question_.history = purse.history_.get();
  purse.sent_at_ = now;
  purse.answered_by_ = time_.passed() + store_.timeout();
  purse.open_ = true;
  ++open_;
  counts_.asked.add();
  store_.borrow(purse.question_, purse);
}

void Purses::on_loan(Purse& purse, LoanAnswer& answer) {
  purse.open_ = false;
  --open_;
  const bool is_answered = answer.kind == SharedAnswer::Kind::decided;
  if (is_answered) {
    take_in(purse, answer);
  } else {
    purse.repeats_ = true;
  }
  tell_waiting(purse, is_answered ? nullptr : &answer);
}

void Purses::tell_waiting(Purse& purse, const LoanAnswer* trouble) {
  if (purse.waiting_.empty()) return;
  purse.telling_ = true;
  purse.waited_for_ = 0;
  for (const Purse::Waiting& one : std::exchange(purse.waiting_, {})) {
    one.waiter->on_purse(trouble);
  }
  purse.telling_ = false;
  if (!purse.waiting_.empty()) return ask_for_waiting(purse);
  // (What they have spent.)
  const bool runs_low = trouble == nullptr && purse.held_ < purse.low_;
  if (runs_low) borrow_ahead(purse, purse.limit_, time_.now());
}

Nanos Purses::due_in() const {
  if (expiries_.empty()) return kForever;
  return std::max(expiries_.top().at - time_.passed(), Nanos{0});
}

void Purses::on_due() {
  const Nanos now = time_.passed();
  while (!expiries_.empty() && expiries_.top().at <= now) {
    const Expiry next = expiries_.top();
    expiries_.pop();
    if (Purse* const purse = find(next.key)) tell_too_late(*purse, next.ticket);
  }
}

void Purses::tell_too_late(Purse& purse, std::uint64_t ticket) {
  const auto found = std::ranges::find(purse.waiting_, ticket, &Purse::Waiting::ticket);
  if (found == purse.waiting_.end()) return;
  const Purse::Waiting late = *found;
  purse.waiting_.erase(found);
  purse.waited_for_ -= late.cost;
  const LoanAnswer none{.error = "no answer within the time of the call"};
  late.waiter->on_purse(&none);
}

void Purses::take_in(Purse& purse, const LoanAnswer& answer) {
  const LoanQuestion& asked = purse.question_;
  const Instant now = time_.now();
  counts_.borrowed.add(static_cast<std::uint64_t>(answer.lent));
  counts_.returned.add(static_cast<std::uint64_t>(asked.returned));
  if (asked.held < 0) {
    change_held(purse, -asked.held);  // it is charged
  } else {
    // Its window is over, or it was not to be had again. What was spent of it since is owed.
    const Permits lost = asked.held - answer.kept;
    counts_.lapsed.add(static_cast<std::uint64_t>(std::clamp<Permits>(purse.held_, 0, lost)));
    change_held(purse, -lost);
  }
  lapse(purse, now);
  change_held(purse, answer.lent);
  purse.outstanding_ = answer.kept + answer.lent;
  purse.until_ = end_of(purse.sent_at_, answer.lasts);
  purse.beyond_ = answer.remaining;
  purse.reset_at_ = later(now, answer.reset_after);
  purse.low_ = need(purse) / 2;
  if (answer.lent >= asked.wanted) return;
  purse.closed_until_ = now + std::min(kHoldOff, filling_time(purse.limit_) / 4);
  purse.closed_to_ = answer.lent > 0 ? 1 : asked.least;
  purse.retry_at_ = answer.lent > 0 ? now : later(now, answer.retry_after);
}

// ---- Corrections

void Purses::settle(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
                    Permits correction, std::uint64_t mark) {
  if (correction > 0) {
    Purse& purse = purse_for(key);
    if (!purse.open_) set_limit(purse, limit, name);
    purse.spent_at_ = time_.now();
    return change_held(purse, -correction);
  }
  Purse* const purse = find(key);
  if (purse != nullptr && purse->question_.number == mark) change_held(*purse, -correction);
}

void Purses::add_to(core::Decision& decision, const Fingerprint& key, Permits cost, Instant now) {
  const Purse* const purse = find(key);
  if (purse == nullptr) return;
  decision.remaining = std::min(decision.remaining + purse->there(now), decision.limit);
  if (purse->standing(cost, now) != Purse::Standing::covered) return;
  decision.outcome = Outcome::allowed;
  decision.retry_after = Nanos{0};
}

void Purses::reopen(const Fingerprint& key) {
  if (Purse* const purse = find(key)) purse->closed_until_ = {};
}

// ---- Now and then

void Purses::keep_house() {
  const Instant now = time_.now();
  for (const auto& [key, purse] : purses_) tidy(*purse, now);
  std::erase_if(purses_, [&](const auto& entry) {
    const Purse& purse = *entry.second;
    return is_idle(purse) && !purse.repeats_ && purse.rate_ < 1 && !should_report(purse, now);
  });
  counts_.keys.set(purses_.size());
}

// Gives back what is not needed, and sees to it that what is does not lapse. Reports what was
// spent, if no call has done so for a while: only then has it a question of its own. After a change
// of rules what is held lapses, unless a call asks for more before.
void Purses::tidy(Purse& purse, Instant now) {
  if (purse.open_) return;
  lapse(purse, now);
  if (is_outdated(purse, now) && purse.held_ >= 0) return;
  forget_repetition(purse, now);
  purse.note_demand(now);
  const Permits needed = need(purse);
  const bool too_much = purse.held_ > 2 * needed;
  const bool ends_soon = purse.held_ > 0 && now >= purse.until_ - kTerm / 2;
  const bool reports = now >= purse.asked_at_ + kHousekeeping && should_report(purse, now);
  if (!too_much && !ends_soon && !reports && purse.held_ >= 0 && !purse.repeats_) return;
  question(purse, {.returned = too_much ? purse.held_ - needed : 0}, now);
}

void Purses::give_all_back() {
  const Instant now = time_.now();
  for (const auto& [key, purse] : purses_) {
    if (purse->open_) continue;
    lapse(*purse, now);
    purse->repeats_ = false;
    if (is_outdated(*purse, now) && purse->held_ >= 0) continue;
    if (purse->held_ == 0 && !should_report(*purse, now)) continue;
    question(*purse, {.returned = std::max<Permits>(purse->held_, 0)}, now);
  }
}

}  // namespace weir::store::lease
