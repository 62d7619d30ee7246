#include "store/lease/purses.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/saturating.h"

namespace weir::store::lease {

namespace {

// Of how many keys a thread remembers what it has borrowed: those that hold nothing make room.
constexpr std::size_t kMostPurses = std::size_t{1} << 16;

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

// When a term that was asked for at `sent_at` is over, for sure before it is over for the store,
// whose clock may go a little faster.
Instant end_of(Instant sent_at, Nanos lasts) { return sent_at + lasts - lasts / 128; }

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

Purses::Purses(SharedStore& store, const Fleet& fleet, std::function<Instant()> now,
               std::string borrower, std::shared_ptr<PurseCounts> counts)
    : store_(store),
      fleet_(fleet),
      now_(std::move(now)),
      borrower_(std::move(borrower)),
      kept_counts_(std::move(counts)),
      counts_(*kept_counts_),
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

Purse& Purses::purse_for(const Fingerprint& key) {
  const auto found = purses_.find(key);
  if (found != purses_.end()) return *found->second;
  if (purses_.size() >= kMostPurses) {
    std::erase_if(purses_, [](const auto& entry) {
      return entry.second->held_ == 0 && !entry.second->open_;
    });
  }
  Purse& purse = *purses_.emplace(key, std::make_unique<Purse>(*this)).first->second;
  purse.since_ = now_();
  counts_.keys.set(purses_.size());
  return purse;
}

// ---- Asking

void Purses::ask(const core::Limit& limit, const Fingerprint& key, std::string_view name,
                 Permits cost, Waiter& waiter) {
  Purse& purse = purse_for(key);
  purse.waiting_.push_back({&waiter, cost});
  purse.waited_for_ += cost;
  if (purse.open_) return;  // what it brings may do
  const Instant now = now_();
  lapse(purse, now);
  forget_repetition(purse, now);
  purse.note_demand(now);
  purse.limit_ = limit;
  purse.name_ = name;
  const Permits there = std::max<Permits>(purse.held_, 0);
  const Permits wanted = purse.waited_for_ + need(purse) - there;
  question(purse, {.least = cost - there, .wanted = std::max(wanted, cost - there)}, now);
}

// A question that was not answered is not remembered by the store for longer than its term.
void Purses::forget_repetition(Purse& purse, Instant now) {
  if (now >= purse.asked_at_ + kTerm) purse.repeats_ = false;
}

void Purses::borrow_ahead(Purse& purse, Instant now) {
  if (purse.open_ || now < purse.closed_until_) return;
  purse.note_demand(now);
  const Permits wanted = need(purse) - purse.held_;
  if (wanted > 0) question(purse, {.least = 1, .wanted = wanted}, now);
}

void Purses::question(Purse& purse, const Wish& wish, Instant now) {
  // Whether the last one was heard may not be known: then it is asked again, so that what it has
  // brought is not lost.
  if (!std::exchange(purse.repeats_, false)) {
    purse.asked_at_ = now;
    change_held(purse, -wish.returned);
    purse.question_ = {.limit = &purse.limit_,
                       .key = purse.name_,
                       .borrower = borrower_,
                       .number = ++last_number_,
                       .held = purse.held_,
                       .returned = wish.returned,
                       .least = wish.least,
                       .wanted = wish.wanted,
                       .term = kTerm};
  }
  purse.sent_at_ = now;
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
  // (From within, one may ask for this purse again, and wait: then also for those behind it.)
  for (const Purse::Waiting& one : std::exchange(purse.waiting_, {})) {
    purse.waited_for_ -= one.cost;
    one.waiter->on_purse(is_answered ? nullptr : &answer);
  }
}

void Purses::take_in(Purse& purse, const LoanAnswer& answer) {
  const LoanQuestion& asked = purse.question_;
  const Instant now = now_();
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

void Purses::settle(const core::Limit& limit, const Fingerprint& key, std::string_view name,
                    Permits correction, std::uint64_t mark) {
  if (correction > 0) {
    Purse& purse = purse_for(key);
    if (!purse.open_) {
      purse.limit_ = limit;
      purse.name_ = name;
    }
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
  const Instant now = now_();
  for (const auto& [key, purse] : purses_) tidy(*purse, now);
  std::erase_if(purses_, [&](const auto& entry) {
    const Purse& purse = *entry.second;
    return purse.held_ == 0 && !purse.open_ && !purse.repeats_ && purse.rate_ < 1;
  });
  counts_.keys.set(purses_.size());
}

// Gives back what is not needed, and sees to it that what is does not lapse.
void Purses::tidy(Purse& purse, Instant now) {
  if (purse.open_) return;
  lapse(purse, now);
  forget_repetition(purse, now);
  purse.note_demand(now);
  const Permits needed = need(purse);
  const bool too_much = purse.held_ > 2 * needed;
  const bool ends_soon = purse.held_ > 0 && now >= purse.until_ - kTerm / 2;
  if (!too_much && !ends_soon && purse.held_ >= 0 && !purse.repeats_) return;
  question(purse, {.returned = too_much ? purse.held_ - needed : 0}, now);
}

void Purses::give_all_back() {
  const Instant now = now_();
  for (const auto& [key, purse] : purses_) {
    if (purse->open_) continue;
    lapse(*purse, now);
    purse->repeats_ = false;
    if (purse->held_ > 0) question(*purse, {.returned = purse->held_}, now);
  }
}

}  // namespace weir::store::lease
