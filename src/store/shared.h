#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/saturating.h"
#include "core/plan.h"

// The seam to a store that nodes share. It lies over there, behind a network: questions are asked
// and answered later, by the store's own clock, or not at all.

namespace weir::store {

enum class SharedVerb : std::uint8_t {
  take,
  peek,
  settle,
  reset,
  enter,
  leave,
  start,  // for tests: lets keys that are not there begin with a state
};

// The proof of an admission by a shared store. Its key may have been reset since and taken from
// again: `birth` tells one life of a key from the next.
struct SharedReceipt {
  core::Receipt receipt{};
  std::uint64_t birth = 0;

  // Of receipts that have a name. A refund whose answer is lost may have been made or not. The
  // store keeps the number of the last one beside the key, so that the next settle finds out, and
  // nothing is given back twice.
  std::uint64_t refunds = 0;  // known to have been made with this receipt
  // Until when the store keeps it: never less than was told before, as an earlier refund may come
  // late, and must find it.
  Instant kept_until{};
  // The same of the first that was asked for and is not known to have been made, if there is one.
  Instant unknown_until{};
  // Given back since a settle was last answered as a whole, which the asker notes by setting it to
  // zero. The next settle repeats those that were not answered: it gives back so much less.
  Permits repeated = 0;

  // What is left of a correction to be made: a part of a refund may have been made before.
  Permits left_of(Permits correction) const {
    return correction < 0 ? std::min<Permits>(sat_add(correction, repeated), 0) : correction;
  }
  // After giving back, which has left this of it.
  void update(const core::Receipt& left) {
    repeated += receipt.taken - left.taken;
    receipt = left;
  }
};

// One limit's part in a decision.
struct SharedItem {
  const core::Limit* limit = nullptr;
  std::string_view key{};  // its name in the store
  core::Ask ask{};         // for `settle`, the cost is what to correct by
  bool shadow = false;
  core::State start{};                          // of `start`
  const core::PriceHistory* history = nullptr;  // of the key's bucket, as this node knows it
};

struct SharedQuestion {
  SharedVerb verb = SharedVerb::take;
  std::span<const SharedItem> items{};  // at most core::kMaxLimits, of different keys
  std::string_view holder{};            // of enter, leave and peek: any bytes
  bool wants_receipts = false;          // of take
  // Of settle, one for each item; each is updated as core::Receipt is. Nothing taken: none.
  // Of leave, if given: only the seats are left that these are of, and nobody has renewed since.
  // They are only changed by what the store is known to have done, also when it gives no answer.
  std::span<SharedReceipt> receipts{};
  // Time left for the answer, if the caller has waited before. (None: the store's timeout.)
  std::optional<Nanos> within{};
  // Of settle: what all receipts of one take are called, and no others. Empty: what is given back
  // is not asked for again, whatever the answer.
  std::string_view receipt_name{};
  // The time, honoured only where nothing but tests lives. (None: the store's own.)
  std::optional<Instant> now{};
};

struct SharedAnswer {
  enum class Kind : std::uint8_t {
    decided,
    unavailable,    // the store was not to be asked, or has not answered: it may have charged
    misconfigured,  // it has answered, and something has to be put right by somebody
  };

  Kind kind = Kind::unavailable;
  std::string error{};  // why there is no decision

  Instant now{};                            // by the store's clock
  core::Verdict verdict{};                  // over the items
  std::vector<core::Decision> decisions{};  // of each item
  std::vector<SharedReceipt> receipts{};    // of each item, if wanted and admitted
  bool left = false;                        // of leave: whether the holder was there
  // Of enter and peek, bit i: the holder had its seat of item i before.
  std::uint32_t held = 0;
};

// Who asked, and is told.
class Asker {
 public:
  // Once for each question, on the thread that runs the store's link, perhaps before `ask` returns.
  // The question and what it borrows must live until then.
  virtual void on_answer(SharedAnswer& answer) = 0;

 protected:
  ~Asker() = default;
};

// Permits of one key that are taken ahead of need, to be spent without asking. What is lent
// occupies the limit until it is reported as spent, given back, or its term has passed: what
// remains for others and what is lent are together never more than the limit would hold. Permits of
// a window are lent until its end at the latest. So all who spend stay within the limit, whoever
// dies.
struct LoanQuestion {
  const core::Limit* limit = nullptr;  // a bucket without a queue, or any window or quota
  std::string_view key{};              // its name in the store
  std::string_view borrower{};         // no two have the same name
  // Different for every question of a borrower about a key. One that is asked again, since the
  // answer has not come, has the same number: then it is answered as before, and changes nothing.
  std::uint64_t number = 0;
  Permits held = 0;      // lent before, and not spent yet; below zero: spent beyond what was lent
  Permits returned = 0;  // lent before, and given back by this; not in `held` any more
  // Minimum age of the last spending of what was lent before and is neither held nor returned. A
  // bucket has refilled since then. Zero is always safe.
  Nanos spent_ago{0};
  Permits least = 0;   // less would not help: then nothing is lent
  Permits wanted = 0;  // at most; none: only to tell what is held
  // After which nothing of it is spent any more, held or lent. An end that was told before stays,
  // if it is later: the answer to this may be lost.
  Nanos term{0};
  const core::PriceHistory* history = nullptr;  // of the key's bucket, as this node knows it
  // The time, honoured only where nothing but tests lives. (None: the store's own.)
  std::optional<Instant> now{};
};

struct LoanAnswer {
  SharedAnswer::Kind kind = SharedAnswer::Kind::unavailable;
  std::string error{};  // why there is no answer

  Instant now{};     // by the store's clock
  Permits lent = 0;  // in addition to what was held
  // Of what was held: all; none if its window is over; less, if the store has forgotten that it was
  // lent, or its term has passed, and others have been lent it since.
  Permits kept = 0;
  // How long both may be spent, from `now`: see `term`. Whoever counts it from when it asked is on
  // the safe side.
  Nanos lasts{0};
  Permits remaining = 0;    // for whoever asks next
  Permits outstanding = 0;  // lent to all borrowers, as far as is known
  Nanos retry_after{0};     // of `least`, if nothing was lent though it was wanted; or kNever
  Nanos reset_after{0};     // as of a take
};

class Borrower {
 public:
  // As Asker::on_answer.
  virtual void on_loan(LoanAnswer& answer) = 0;

 protected:
  ~Borrower() = default;
};

// Something that whoever asks keeps with a link, and that has to be seen to now and then.
class Housekeeper {
 public:
  virtual ~Housekeeper() = default;
  // To be looked at whenever the link has run.
  virtual bool has_work() const = 0;
  // Called every kHousekeeping while it has.
  virtual void keep_house() = 0;
  // Time until `on_due` has to be called; kForever if it need not be.
  virtual Nanos due_in() const = 0;
  virtual void on_due() = 0;
};
inline constexpr Nanos kHousekeeping = std::chrono::milliseconds{100};

// One thread's way to the store.
class SharedStore {
 public:
  virtual ~SharedStore() = default;
  virtual void ask(const SharedQuestion& question, Asker& asker) = 0;
  virtual void borrow(const LoanQuestion& question, Borrower& borrower) = 0;
  // Maximum time until a question is answered, or told to be unavailable.
  virtual Nanos timeout() const = 0;

  // Of those who ask, each under a number of its own; they live as long as the link.
  struct Kept {
    std::uint64_t id = 0;
    std::unique_ptr<Housekeeper> keeper{};
  };
  std::vector<Kept> kept{};
};

}  // namespace weir::store
