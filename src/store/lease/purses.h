#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "core/limit.h"
#include "store/count.h"
#include "store/memory/fingerprint.h"
#include "store/shared.h"
#include "weir/fleet.h"

namespace weir::store::lease {

// How long what is borrowed may be spent, unless it is borrowed anew.
inline constexpr Nanos kTerm = std::chrono::seconds{2};
// For how long ahead of need it is borrowed.
inline constexpr Nanos kAhead = std::chrono::milliseconds{100};
// After the store could not lend all that was wanted, it is not asked for so long; for limits that
// fill up faster, less.
inline constexpr Nanos kHoldOff = std::chrono::milliseconds{25};

// What one thread's purses have done so far, and hold. Written by that thread only.
struct PurseCounts {
  Count keys{};      // that have a purse, now
  Count held{};      // in them, now
  Count asked{};     // questions to the store
  Count borrowed{};  // permits
  Count returned{};  // permits
  Count lapsed{};    // permits, not spent in their term
};

// The time that purses go by. `passed` is Clock::passed: it does not follow a wall clock that is
// set.
struct PurseTime {
  std::function<Instant()> now{};
  std::function<Nanos()> passed{};
};

// The rules that limits are taken from, as all threads know them. Prices of an earlier edition may
// have changed since, and so may all of them from `until` on.
struct RulesInForce {
  std::atomic<std::uint64_t> edition{0};
  std::atomic<Instant> until{Instant::max()};
};

// A limit of a call, and where it comes from.
struct LimitInRules {
  LimitInRules(const core::Limit& of_call, const core::PriceHistory* of_bucket = nullptr,
               std::uint64_t of_rules = 0)
      : limit(of_call), history(of_bucket), edition(of_rules) {}

  const core::Limit& limit;
  const core::PriceHistory* history;  // of the key's bucket, if its price has changed
  std::uint64_t edition;              // of the rules
};

class Purses;

// Who waits for a purse to change.
class Waiter {
 public:
  // There is an answer: the purse may have more now, or be closed. Otherwise `trouble` says why
  // there is none.
  virtual void on_purse(const LoanAnswer* trouble) = 0;

 protected:
  ~Waiter() = default;
};

// Borrowed permits of one key.
class Purse final : private Borrower {
 public:
  explicit Purse(Purses& owner) : owner_(owner) {}

  // What there is for a call.
  enum class Standing : std::uint8_t {
    covered,
    lacking,  // the store may have some
    refused,  // it had none a moment ago
  };
  Standing standing(Permits cost, Instant now) const {
    if (held_ >= cost && now < until_) [[likely]]
      return Standing::covered;
    const bool is_closed = now < closed_until_ && cost - there(now) >= closed_to_;
    return is_closed ? Standing::refused : Standing::lacking;
  }
  // What a call is told that is covered and has been paid, or that is refused.
  core::Decision admission(const core::Limit& limit, Instant now) const;
  core::Decision refusal(const core::Limit& limit, Instant now) const;

 private:
  friend class Purses;
  void on_loan(LoanAnswer& answer) override;
  Permits there(Instant now) const { return now < until_ ? std::max<Permits>(held_, 0) : 0; }
  void note_demand(Instant now);

  Purses& owner_;
  Permits held_ = 0;         // below zero: spent beyond what was lent, by who settles
  Permits low_ = 0;          // with less, more is borrowed
  Instant until_{};          // when all of it is worth nothing
  Permits outstanding_ = 0;  // as the store knows: what was held or lent with its last answer
  // The last spending. Of a new purse: when it was made, since one that was forgotten may have
  // spent before.
  Instant spent_at_{};

  Instant closed_until_{};  // the store is not asked for so much more:
  Permits closed_to_ = 0;
  // As the store has last said.
  Permits beyond_ = 0;  // what remained for all
  Instant retry_at_{};
  Instant reset_at_{};

  // How much is asked for lately.
  Permits asked_for_ = 0;  // since:
  Instant since_{};
  double rate_ = 0;  // a second

  // The question to the store, open or to be repeated.
  bool open_ = false;
  bool repeats_ = false;
  Instant asked_at_{};    // for the first time
  Nanos asked_passed_{};  // the same by `passed`
  Instant sent_at_{};     // for the last time
  Nanos answered_by_{};   // at the latest, by `passed`
  LoanQuestion question_{};
  std::string name_{};
  core::Limit limit_{};
  std::shared_ptr<const core::PriceHistory> history_{};  // of the limit
  std::uint64_t edition_ = 0;                            // of the rules that the limit is from
  struct Waiting {
    Waiter* waiter = nullptr;
    Permits cost = 0;
    std::uint64_t ticket = 0;  // no two are the same
  };
  std::vector<Waiting> waiting_{};
  Permits waited_for_ = 0;  // by all of them
  // Those who waited are being told. They may ask again from within: that is one question behind
  // them, for all who wait by then. The purse is not forgotten meanwhile.
  bool telling_ = false;
};

// What one thread has borrowed of shared limits, by key. Spending takes no lock, no word to the
// store and no memory. Borrowed is what is needed for the next tenth of a second or so, at most
// this node's part of half the limit, and again when half of it is spent; what is not needed any
// more is given back. A purse is only worth something until its term is over, by this node's clock,
// from when it was asked for: by then the store still counts it as lent.
//
// Not thread-safe.
class Purses final : public Housekeeper {
 public:
  // `time` never goes back; it and the others outlive this. `borrower` is who this is to the store:
  // no two are the same.
  Purses(SharedStore& store, const Fleet& fleet, PurseTime time, std::string borrower,
         std::shared_ptr<PurseCounts> counts,
         std::shared_ptr<const RulesInForce> rules_in_force = nullptr);
  // What is still held lapses: see give_all_back.
  ~Purses() override;
  Purses(const Purses&) = delete;
  Purses& operator=(const Purses&) = delete;

  // The purse of a key; none if nothing was borrowed.
  Purse* find(const Fingerprint& key) {
    const auto found = purses_.find(key);
    return found == purses_.end() ? nullptr : found->second.get();
  }

  // Pays for a call that is covered. Borrows ahead of need, unless rules have changed since the
  // last call that was not covered.
  void spend(Purse& purse, const core::Limit& limit, Permits cost, Instant now) {
    purse.held_ -= cost;
    purse.asked_for_ += cost;
    purse.spent_at_ = now;
    counts_.held.add(-static_cast<std::uint64_t>(cost));
    if (purse.held_ < purse.low_) [[unlikely]]
      borrow_ahead(purse, limit, now);
  }
  // A call that is refused by a purse tells how much is asked for, too.
  void refuse(Purse& purse, Permits cost) { purse.asked_for_ += cost; }

  // Asks the store on behalf of a call that lacks something. `waiter` is told once, perhaps before
  // this returns: at `deadline`, by `passed`, if there is no answer by then. The question goes on
  // without it.
  void ask(const LimitInRules& limit, const Fingerprint& key, std::string_view name, Permits cost,
           Nanos deadline, Waiter& waiter);

  // Corrects what was spent. Above zero it is owed to the store, if it is not there. Below zero it
  // comes back if the store has not been told meanwhile that it was spent, which `mark` from before
  // it was spent shows; or else it is lost.
  void settle(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
              Permits correction, std::uint64_t mark);
  static std::uint64_t mark(const Purse& purse) { return purse.question_.number; }

  // What a look at a limit says, with what is held of it.
  void add_to(core::Decision& decision, const Fingerprint& key, Permits cost, Instant now);

  // Forgets that the store has refused: a reset may have changed that.
  void reopen(const Fingerprint& key);

  // Tells the store of all that is held, spent and owed, to be used by others: at the end. What is
  // asked for at the moment is left out.
  void give_all_back();
  // Whether the store has not answered something yet.
  bool is_asking() const { return open_ > 0; }

  bool has_work() const override { return !purses_.empty(); }
  void keep_house() override;
  Nanos due_in() const override;
  void on_due() override;

 private:
  struct Hash {
    std::size_t operator()(const Fingerprint& key) const { return key.high ^ key.low >> 48; }
  };
  friend class Purse;

  void ask_for_waiting(Purse& purse);
  void tell_waiting(Purse& purse, const LoanAnswer* trouble);
  void borrow_ahead(Purse& purse, const core::Limit& limit, Instant now);
  void tidy(Purse& purse, Instant now);
  struct Wish {
    Permits least = 0;
    Permits wanted = 0;
    Permits returned = 0;
  };
  void question(Purse& purse, const Wish& wish, Instant now);
  void on_loan(Purse& purse, LoanAnswer& answer);
  void take_in(Purse& purse, const LoanAnswer& answer);
  void tell_too_late(Purse& purse, std::uint64_t ticket);
  void lapse(Purse& purse, Instant now);
  static void forget_repetition(Purse& purse, Instant now);
  static void set_limit(Purse& purse, const LimitInRules& limit, std::string_view name);
  bool is_outdated(const Purse& purse, Instant now) const;
  Permits need(const Purse& purse) const;
  bool should_report(const Purse& purse, Instant now) const;
  Nanos spent_ago(const Purse& purse, Instant now) const;
  void change_held(Purse& purse, Permits by);
  static bool is_idle(const Purse& purse);
  void make_room();
  Purse& purse_for(const Fingerprint& key);

  // A waiter whose deadline is before the end of the question that it waits for.
  struct Expiry {
    Nanos at{};
    Fingerprint key{};
    std::uint64_t ticket = 0;
    bool operator>(const Expiry& other) const { return at > other.at; }
  };

  SharedStore& store_;
  const Fleet& fleet_;
  const PurseTime time_;
  const std::string borrower_;
  const std::shared_ptr<PurseCounts> kept_counts_;
  PurseCounts& counts_;
  const std::shared_ptr<const RulesInForce> rules_in_force_;  // none: they never change
  std::uint64_t last_number_;
  std::uint64_t last_ticket_ = 0;
  std::size_t open_ = 0;  // questions
  std::unordered_map<Fingerprint, std::unique_ptr<Purse>, Hash> purses_;
  std::size_t next_bucket_ = 0;  // of purses_, to look for room in
  // The next one first. Those that have been told meanwhile stay until their time.
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

}  // namespace weir::store::lease
