#include "store/lease/ledger.h"

#include <algorithm>
#include <type_traits>

#include "base/saturating.h"
#include "store/why_not_shareable.h"

namespace weir::store::lease {

namespace {

using core::Bucket;
using core::CalendarWindow;
using core::SlidingCounter;
using core::State;
using core::Window;

constexpr std::int64_t kMicro = 1000;

Permits clamped_count(Permits permits) { return std::clamp<Permits>(permits, 0, kMaxSharedCount); }

// ---- Accounts: the occupied part of a limit, for the duration of one request

class BucketAccount {
 public:
  BucketAccount(const Bucket& limit, const State& state, Instant now, const LeaseRequest& question)
      : limit_(limit),
        found_(state_under_current_limit(limit, state, now, nullptr)),
        now_(in_range(now)) {
    const Instant since = core::present_since(question.history);
    if (since > Instant{}) priced_since_ = instant((ns(since) / kMicro + 1) * kMicro);
    const auto parts = static_cast<Int128>(found_.what >> core::gcra::kPartsShift);
    const Nanos ahead = between(now_, core::instant_of(found_.when));
    const Int128 debt = Int128{ahead.count()} * limit.interval.parts + parts;
    debt_ = was_ = std::clamp<Int128>(debt, 0, kMaxLeasedDebt);
  }

  Instant as_of() const { return now_; }
  Instant end() const { return kLatest; }
  bool is_over(Instant) const { return false; }

  // `spent` of the outstanding permits were spent `ago`, and have drained since then. They drain at
  // the present price, so only since that has been in force.
  void occupy(Permits outstanding, Permits spent, Nanos ago) {
    ago = std::min(ago, until(priced_since_, now_));
    debt_ = std::max({debt_, price_of(outstanding) - in_parts(ago), price_of(outstanding - spent)});
  }
  // The outstanding permits occupied the limit until `then`, and have drained since.
  void expire(Permits outstanding, Instant then) {
    const Nanos ago = until(std::max(then, priced_since_), now_);
    debt_ = std::max(debt_, price_of(outstanding) - in_parts(ago));
  }
  void charge(Permits permits) { debt_ = std::min(debt_ + price_of(permits), kMaxLeasedDebt); }
  void give_back(Permits permits) {
    debt_ = std::max<Int128>(debt_ - price_of(permits), 0);
    gives_back_ = gives_back_ || permits > 0;
  }
  Permits available() const {
    return debt_ > limit_.depth ? 0 : static_cast<Permits>((limit_.depth - debt_) / price());
  }

  // The time until the debt leaves room for `permits`, if all leases run until their end. `loans`
  // are ordered by end, the last one first.
  Nanos retry_after(Permits permits, const std::vector<LeaseGrant>& loans) const {
    const Nanos alone = decide(limit_, state(), now_, {.cost = permits}).retry_after;
    if (alone == core::kNever) return alone;
    const Int128 room = limit_.depth - price_of(permits);
    Int128 wait = 0;
    Permits outstanding = 0;
    for (const LeaseGrant& loan : loans) {
      outstanding += loan.outstanding;
      const Int128 above = price_of(outstanding) - room;
      if (above > 0) wait = std::max(wait, in_parts(between(now_, loan.ends)) + above);
    }
    return std::max(alone, Nanos{to_int64(ceil_div(wait, limit_.interval.parts))});
  }

  State state() const {
    if (debt_ == was_) return found_;
    const Int128 nanos = debt_ / limit_.interval.parts;
    const auto rest = static_cast<std::uint64_t>(debt_ - nanos * limit_.interval.parts);
    // As after a refund: no receipt may match a state that others have changed.
    constexpr std::uint64_t one_more = core::gcra::kStampMask + 1;
    const std::uint64_t refunds =
        (found_.what + (gives_back_ ? one_more : 0)) & core::gcra::kRefundMask;
    const std::uint64_t waited = found_.what & core::gcra::kWaited;
    return {.when = core::word_of(later(now_, Nanos{static_cast<std::int64_t>(nanos)})),
            .what = rest << core::gcra::kPartsShift | waited | refunds | limit_.stamp};
  }

 private:
  Int128 price() const { return limit_.interval.price; }
  Int128 price_of(Permits permits) const { return std::min(permits * price(), kMaxLeasedDebt); }
  Int128 in_parts(Nanos span) const { return Int128{span.count()} * limit_.interval.parts; }

  const Bucket& limit_;
  const State found_;
  const Instant now_;
  Int128 debt_ = 0;
  Int128 was_ = 0;
  bool gives_back_ = false;
  Instant priced_since_{};  // start of the present price, in whole microseconds, the unit of stores
};

core::Span span_at(const Window& limit, const State& state, Instant t) {
  if (!limit.from_first) return core::aligned_span(limit.period, t);
  const Instant opened = core::instant_of(state.when);
  const bool goes_on = state.what > 0 && t < later(opened, limit.period);
  return goes_on ? core::Span{opened, later(opened, limit.period)}
                 : core::Span{t, later(t, limit.period)};
}
core::Span span_at(const CalendarWindow& limit, const State&, Instant t) {
  return limit.calendar->span_at(t);
}
core::Span span_at(const SlidingCounter& limit, const State&, Instant t) {
  return core::aligned_span(limit.period, t);
}

constexpr std::uint64_t kCurrent = 0xffff'ffff;

// The permits used in the window; 0 if the state is of an earlier one.
template <typename L>
Permits used_in(const L&, const State& state, core::Span span) {
  if (core::instant_of(state.when) < span.start) return 0;
  constexpr std::uint64_t counted =
      std::is_same_v<L, SlidingCounter> ? kCurrent : ~std::uint64_t{0};
  return static_cast<Permits>(std::min<std::uint64_t>(state.what & counted, kMaxSharedCount));
}

// The permits that may be used in the window: the count minus the weighted count of the previous
// one.
template <typename L>
Permits usable(const L& limit, const State&, core::Span, Instant) {
  return limit.count;
}
Permits usable(const SlidingCounter& limit, const State& state, core::Span span, Instant t) {
  const bool current = core::instant_of(state.when) >= span.start;
  const State before =
      current ? State{.when = core::word_of(t), .what = state.what & ~kCurrent} : state;
  return remaining(limit, before, t);
}

// A window, a calendar window or a sliding counter.
template <typename L>
class WindowAccount {
 public:
  WindowAccount(const L& limit, const State& state, Instant now, const LeaseRequest&)
      : limit_(limit),
        found_(state),
        now_(in_range(now)),
        as_of_(std::max(now_, core::instant_of(state.when))),
        span_(span_at(limit, state, as_of_)),
        was_(used_in(limit, state, span_)),
        usable_(usable(limit, state, span_, as_of_)),
        used_(was_) {}

  Instant as_of() const { return as_of_; }
  Instant end() const { return span_.end; }
  // True if a lease that ended at `ends` was granted in an earlier window.
  bool is_over(Instant ends) const { return ends <= span_.start; }

  void occupy(Permits outstanding, Permits, Nanos) { used_ = std::max(used_, outstanding); }
  void expire(Permits, Instant) {}  // counted as used already
  void charge(Permits permits) { used_ = clamped_count(used_ + permits); }
  void give_back(Permits permits) { used_ = std::max<Permits>(used_ - permits, 0); }
  Permits available() const { return std::max<Permits>(usable_ - used_, 0); }

  Nanos retry_after(Permits permits, const std::vector<LeaseGrant>&) const {
    return decide(limit_, state(), now_, {.cost = permits}).retry_after;
  }

  State state() const {
    if (used_ > was_) return debit(limit_, found_, now_, used_ - was_);
    if (used_ == was_) return found_;
    core::Receipt taken{.at = as_of_, .taken = was_, .after = {.when = core::word_of(as_of_)}};
    return refund(limit_, found_, now_, taken, was_ - used_);
  }

 private:
  const L& limit_;
  const State found_;
  const Instant now_;
  const Instant as_of_;  // not before the instant in the state
  const core::Span span_;
  const Permits was_;
  const Permits usable_;
  Permits used_;
};

// ---- The step, for all accounts

Permits outstanding_of(const std::vector<LeaseGrant>& loans) {
  Permits all = 0;
  for (const LeaseGrant& loan : loans) all = clamped_count(all + loan.outstanding);
  return all;
}

// Removes leases that have ended. Their permits count as spent at that time.
template <typename Account>
void remove_ended(Account& account, std::vector<LeaseGrant>& loans) {
  std::stable_sort(loans.begin(), loans.end(),
                   [](const LeaseGrant& a, const LeaseGrant& b) { return a.ends < b.ends; });
  while (!loans.empty() && loans.front().ends <= account.as_of()) {
    account.expire(outstanding_of(loans), loans.front().ends);
    loans.erase(loans.begin());
  }
}

std::vector<LeaseGrant>::iterator find(std::vector<LeaseGrant>& loans, std::string_view borrower) {
  return std::find_if(loans.begin(), loans.end(),
                      [&](const LeaseGrant& loan) { return loan.borrower == borrower; });
}

template <typename Account>
class Lending {
 public:
  Lending(Account& account, Ledger& ledger, Instant now, const LeaseRequest& question)
      : account_(account), ledger_(ledger), now_(in_range(now)), question_(question) {}

  LeaseResponse answer() {
    std::vector<LeaseGrant> loans = ledger_.loans;
    const auto found = find(loans, question_.borrower);
    const bool is_over = found != loans.end() && account_.is_over(found->ends);
    if (found != loans.end() && found->ends <= account_.as_of()) end_when_spent(*found);
    remove_ended(account_, loans);
    const Permits outstanding = outstanding_of(loans);
    auto own = find(loans, question_.borrower);
    if (own != loans.end() && own->number == question_.number) {
      account_.occupy(outstanding, 0, Nanos{0});
      return told(*own, loans);
    }

    const bool is_known = own != loans.end();
    if (!is_known) own = loans.insert(own, LeaseGrant{.borrower = std::string(question_.borrower)});
    const bool overspent = question_.held < 0;
    settle(*own, is_over, outstanding);
    lend(*own);
    const LeaseGrant after = *own;
    if (!is_known && after.outstanding == 0 && !overspent) loans.erase(own);
    ledger_ = {account_.state(), loans};
    return told(after, loans);
  }

 private:
  // Accounts for the permits that were lent before. `outstanding` is the sum over all borrowers.
  void settle(LeaseGrant& own, bool is_over, Permits outstanding) {
    const Permits held = clamped_count(question_.held);
    const Permits known = std::min(held, own.outstanding);
    const Permits back = std::min(clamped_count(question_.returned), own.outstanding - known);
    account_.occupy(outstanding, own.outstanding - known - back, spent_ago());
    account_.give_back(back);
    account_.charge(clamped_count(sat_sub(0, question_.held)));
    const Permits anew = is_over ? 0 : std::min(held - known, account_.available());
    account_.charge(anew);
    own.kept = own.outstanding = known + anew;
  }

  void lend(LeaseGrant& own) {
    const Permits available = account_.available();
    own.number = question_.number;
    own.lent = available < least() ? 0 : std::min(wanted(), available);
    own.outstanding += own.lent;
    account_.charge(own.lent);
    const std::int64_t micros = std::clamp(question_.term, Nanos{0}, kMaxLeaseTerm) / Nanos{kMicro};
    // Never earlier than in the last answer: the borrower may not receive this one.
    const Instant ends = instant((ns(now_) / kMicro + micros) * kMicro);
    own.ends = std::min(std::max(ends, own.ends), account_.end());
  }

  // A lease that has ended counts as ended when its last permit was spent.
  void end_when_spent(LeaseGrant& own) const {
    const Instant micro = instant((ns(now_) / kMicro + 1) * kMicro);
    own.ends = std::min(own.ends, micro - spent_ago());
  }

  // In whole microseconds, the unit of stores.
  Nanos spent_ago() const {
    return std::clamp(question_.spent_ago, Nanos{0}, kMaxLeaseTerm) / kMicro * kMicro;
  }

  LeaseResponse told(LeaseGrant own, std::vector<LeaseGrant>& loans) const {
    const bool refused = own.lent == 0 && wanted() > 0;
    std::stable_sort(loans.begin(), loans.end(),
                     [](const LeaseGrant& a, const LeaseGrant& b) { return a.ends > b.ends; });
    return {.kind = StoreResponse::Kind::decided,
            .now = now_,
            .lent = own.lent,
            .kept = own.kept,
            .lasts = until(now_, own.ends),
            .outstanding = outstanding_of(loans),
            .retry_after = refused ? account_.retry_after(least(), loans) : Nanos{0}};
  }

  // A borrower that wants less than its minimum is lent the minimum.
  Permits least() const { return std::max<Permits>(clamped_count(question_.least), 1); }
  Permits wanted() const {
    const Permits most = clamped_count(question_.wanted);
    return most == 0 ? 0 : std::max(most, least());
  }

  Account& account_;
  Ledger& ledger_;
  const Instant now_;
  const LeaseRequest& question_;
};

template <typename Account, typename L>
LeaseResponse lend_from(const L& limit, Ledger& ledger, Instant now, const LeaseRequest& question) {
  Account account(limit, ledger.state, now, question);
  LeaseResponse answer = Lending<Account>(account, ledger, now, question).answer();
  const State state = account.state();
  answer.remaining = remaining(limit, state, now);
  answer.reset_after = until(in_range(now), rest_at(limit, state, now));
  return answer;
}

}  // namespace

LeaseResponse lend(const core::Limit& limit, Ledger& ledger, Instant now,
                   const LeaseRequest& question) {
  if (auto flaw = why_not_leasable(limit)) {
    return {.kind = StoreResponse::Kind::misconfigured, .error = std::move(*flaw)};
  }
  return std::visit(
      [&](const auto& l) -> LeaseResponse {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, Bucket>) {
          return lend_from<BucketAccount>(l, ledger, now, question);
        } else if constexpr (std::is_same_v<L, Window> || std::is_same_v<L, CalendarWindow> ||
                             std::is_same_v<L, SlidingCounter>) {
          return lend_from<WindowAccount<L>>(l, ledger, now, question);
        } else {
          return {};  // excluded by the check above
        }
      },
      limit);
}

}  // namespace weir::store::lease
