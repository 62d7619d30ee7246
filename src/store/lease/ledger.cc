#include "store/lease/ledger.h"

#include <algorithm>
#include <type_traits>

#include "base/saturating.h"
#include "store/fit.h"

namespace weir::store::lease {

namespace {

using core::Bucket;
using core::Quota;
using core::Sliding;
using core::State;
using core::Window;

constexpr std::int64_t kMicro = 1000;

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMostCount); }

// ---- Accounts: what of a limit is occupied, for as long as a question takes

class BucketAccount {
 public:
  BucketAccount(const Bucket& limit, const State& state, Instant now, const LoanQuestion& question)
      : limit_(limit), found_(carried(limit, state, now, nullptr)), now_(in_range(now)) {
    const Instant since = core::present_since(question.history);
    if (since > Instant{}) priced_since_ = instant((ns(since) / kMicro + 1) * kMicro);
    const auto parts = static_cast<Int128>(found_.what >> core::gcra::kPartsShift);
    const Nanos ahead = between(now_, core::instant_of(found_.when));
    const Int128 debt = Int128{ahead.count()} * limit.pace.parts + parts;
    debt_ = was_ = std::clamp<Int128>(debt, 0, kMostLentDebt);
  }

  Instant as_of() const { return now_; }
  Instant end() const { return kLatest; }
  bool is_over(Instant) const { return false; }

  // Of what is outstanding, so much was spent so long ago, and has drained since: at the present
  // price, so not for longer than that holds.
  void occupy(Permits outstanding, Permits spent, Nanos ago) {
    ago = std::min(ago, until(priced_since_, now_));
    debt_ = std::max({debt_, price_of(outstanding) - in_parts(ago), price_of(outstanding - spent)});
  }
  // Was occupied until then, and has drained since.
  void lapse(Permits outstanding, Instant then) {
    const Nanos ago = until(std::max(then, priced_since_), now_);
    debt_ = std::max(debt_, price_of(outstanding) - in_parts(ago));
  }
  void charge(Permits permits) { debt_ = std::min(debt_ + price_of(permits), kMostLentDebt); }
  void give_back(Permits permits) {
    debt_ = std::max<Int128>(debt_ - price_of(permits), 0);
    gives_back_ = gives_back_ || permits > 0;
  }
  Permits available() const {
    return debt_ > limit_.depth ? 0 : static_cast<Permits>((limit_.depth - debt_) / price());
  }

  // When the debt leaves room for so many, if those who have loans let them end. `loans` are by
  // their ends, the last one first.
  Nanos retry_after(Permits permits, const std::vector<Loan>& loans) const {
    const Nanos alone = decide(limit_, state(), now_, {.cost = permits}).retry_after;
    if (alone == core::kNever) return alone;
    const Int128 room = limit_.depth - price_of(permits);
    Int128 wait = 0;
    Permits outstanding = 0;
    for (const Loan& loan : loans) {
      outstanding += loan.outstanding;
      const Int128 above = price_of(outstanding) - room;
      if (above > 0) wait = std::max(wait, in_parts(between(now_, loan.ends)) + above);
    }
    return std::max(alone, Nanos{to_int64(ceil_div(wait, limit_.pace.parts))});
  }

  State state() const {
    if (debt_ == was_) return found_;
    const Int128 nanos = debt_ / limit_.pace.parts;
    const auto rest = static_cast<std::uint64_t>(debt_ - nanos * limit_.pace.parts);
    // As after a refund: no receipt may take the debt of others for its own.
    constexpr std::uint64_t one_more = core::gcra::kStampMask + 1;
    const std::uint64_t refunds =
        (found_.what + (gives_back_ ? one_more : 0)) & core::gcra::kRefundMask;
    const std::uint64_t waited = found_.what & core::gcra::kWaited;
    return {.when = core::word_of(later(now_, Nanos{static_cast<std::int64_t>(nanos)})),
            .what = rest << core::gcra::kPartsShift | waited | refunds | limit_.stamp};
  }

 private:
  Int128 price() const { return limit_.pace.price; }
  Int128 price_of(Permits permits) const { return std::min(permits * price(), kMostLentDebt); }
  Int128 in_parts(Nanos span) const { return Int128{span.count()} * limit_.pace.parts; }

  const Bucket& limit_;
  const State found_;
  const Instant now_;
  Int128 debt_ = 0;
  Int128 was_ = 0;
  bool gives_back_ = false;
  Instant priced_since_{};  // in whole microseconds, in which stores count
};

core::Span span_at(const Window& limit, const State& state, Instant t) {
  if (!limit.from_first) return core::aligned_span(limit.period, t);
  const Instant opened = core::instant_of(state.when);
  const bool goes_on = state.what > 0 && t < later(opened, limit.period);
  return goes_on ? core::Span{opened, later(opened, limit.period)}
                 : core::Span{t, later(t, limit.period)};
}
core::Span span_at(const Quota& limit, const State&, Instant t) {
  return limit.calendar->span_at(t);
}
core::Span span_at(const Sliding& limit, const State&, Instant t) {
  return core::aligned_span(limit.period, t);
}

constexpr std::uint64_t kCurrent = 0xffff'ffff;

// What was used in the window, if the state is of that one.
template <typename L>
Permits used_in(const L&, const State& state, core::Span span) {
  if (core::instant_of(state.when) < span.start) return 0;
  constexpr std::uint64_t counted = std::is_same_v<L, Sliding> ? kCurrent : ~std::uint64_t{0};
  return static_cast<Permits>(std::min<std::uint64_t>(state.what & counted, kMostCount));
}

// What may be used of the window: all but what the one before still counts for.
template <typename L>
Permits usable(const L& limit, const State&, core::Span, Instant) {
  return limit.count;
}
Permits usable(const Sliding& limit, const State& state, core::Span span, Instant t) {
  const bool current = core::instant_of(state.when) >= span.start;
  const State before =
      current ? State{.when = core::word_of(t), .what = state.what & ~kCurrent} : state;
  return remaining(limit, before, t);
}

// A window, a quota or a sliding counter.
template <typename L>
class WindowAccount {
 public:
  WindowAccount(const L& limit, const State& state, Instant now, const LoanQuestion&)
      : limit_(limit),
        found_(state),
        now_(in_range(now)),
        as_of_(std::max(now_, core::instant_of(state.when))),
        span_(span_at(limit, state, as_of_)),
        was_(used_in(limit, state, span_)),
        most_(usable(limit, state, span_, as_of_)),
        used_(was_) {}

  Instant as_of() const { return as_of_; }
  Instant end() const { return span_.end; }
  // Whether what ended then was lent in a window that is over.
  bool is_over(Instant ends) const { return ends <= span_.start; }

  void occupy(Permits outstanding, Permits, Nanos) { used_ = std::max(used_, outstanding); }
  void lapse(Permits, Instant) {}  // used is used
  void charge(Permits permits) { used_ = countable(used_ + permits); }
  void give_back(Permits permits) { used_ = std::max<Permits>(used_ - permits, 0); }
  Permits available() const { return std::max<Permits>(most_ - used_, 0); }

  Nanos retry_after(Permits permits, const std::vector<Loan>&) const {
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
  const Instant as_of_;  // not before the state
  const core::Span span_;
  const Permits was_;
  const Permits most_;
  Permits used_;
};

// ---- The step, the same for all of them

Permits outstanding_of(const std::vector<Loan>& loans) {
  Permits all = 0;
  for (const Loan& loan : loans) all = countable(all + loan.outstanding);
  return all;
}

// What has ended counts as spent, at the time when it ended. The others stay.
template <typename Account>
void forget_ended(Account& account, std::vector<Loan>& loans) {
  std::stable_sort(loans.begin(), loans.end(),
                   [](const Loan& a, const Loan& b) { return a.ends < b.ends; });
  while (!loans.empty() && loans.front().ends <= account.as_of()) {
    account.lapse(outstanding_of(loans), loans.front().ends);
    loans.erase(loans.begin());
  }
}

std::vector<Loan>::iterator find(std::vector<Loan>& loans, std::string_view borrower) {
  return std::find_if(loans.begin(), loans.end(),
                      [&](const Loan& loan) { return loan.borrower == borrower; });
}

template <typename Account>
class Lending {
 public:
  Lending(Account& account, Ledger& ledger, Instant now, const LoanQuestion& question)
      : account_(account), ledger_(ledger), now_(in_range(now)), question_(question) {}

  LoanAnswer answer() {
    std::vector<Loan> loans = ledger_.loans;
    const auto found = find(loans, question_.borrower);
    const bool is_over = found != loans.end() && account_.is_over(found->ends);
    if (found != loans.end() && found->ends <= account_.as_of()) end_when_spent(*found);
    forget_ended(account_, loans);
    const Permits outstanding = outstanding_of(loans);
    auto own = find(loans, question_.borrower);
    if (own != loans.end() && own->number == question_.number) {
      account_.occupy(outstanding, 0, Nanos{0});
      return told(*own, loans);
    }

    const bool is_known = own != loans.end();
    if (!is_known) own = loans.insert(own, Loan{.borrower = std::string(question_.borrower)});
    const bool overspent = question_.held < 0;
    settle(*own, is_over, outstanding);
    lend(*own);
    const Loan after = *own;
    if (!is_known && after.outstanding == 0 && !overspent) loans.erase(own);
    ledger_ = {account_.state(), loans};
    return told(after, loans);
  }

 private:
  // What has become of what was lent before. `outstanding` is that of all borrowers.
  void settle(Loan& own, bool is_over, Permits outstanding) {
    const Permits held = countable(question_.held);
    const Permits known = std::min(held, own.outstanding);
    const Permits back = std::min(countable(question_.returned), own.outstanding - known);
    account_.occupy(outstanding, own.outstanding - known - back, spent_ago());
    account_.give_back(back);
    account_.charge(countable(sat_sub(0, question_.held)));
    const Permits anew = is_over ? 0 : std::min(held - known, account_.available());
    account_.charge(anew);
    own.kept = own.outstanding = known + anew;
  }

  void lend(Loan& own) {
    const Permits available = account_.available();
    own.number = question_.number;
    own.lent = available < least() ? 0 : std::min(wanted(), available);
    own.outstanding += own.lent;
    account_.charge(own.lent);
    const std::int64_t micros = std::clamp(question_.term, Nanos{0}, kLongestTerm) / Nanos{kMicro};
    // Not before what it was told: it may not hear this.
    const Instant ends = instant((ns(now_) / kMicro + micros) * kMicro);
    own.ends = std::min(std::max(ends, own.ends), account_.end());
  }

  // Nothing of a loan that has ended was spent behind the last spending.
  void end_when_spent(Loan& own) const {
    const Instant micro = instant((ns(now_) / kMicro + 1) * kMicro);
    own.ends = std::min(own.ends, micro - spent_ago());
  }

  // In whole microseconds, as all that stores are told.
  Nanos spent_ago() const {
    return std::clamp(question_.spent_ago, Nanos{0}, kLongestTerm) / kMicro * kMicro;
  }

  LoanAnswer told(Loan own, std::vector<Loan>& loans) const {
    const bool refused = own.lent == 0 && wanted() > 0;
    std::stable_sort(loans.begin(), loans.end(),
                     [](const Loan& a, const Loan& b) { return a.ends > b.ends; });
    return {.kind = SharedAnswer::Kind::decided,
            .now = now_,
            .lent = own.lent,
            .kept = own.kept,
            .lasts = until(now_, own.ends),
            .outstanding = outstanding_of(loans),
            .retry_after = refused ? account_.retry_after(least(), loans) : Nanos{0}};
  }

  // (Whoever wants less than would help is lent what helps.)
  Permits least() const { return std::max<Permits>(countable(question_.least), 1); }
  Permits wanted() const {
    const Permits most = countable(question_.wanted);
    return most == 0 ? 0 : std::max(most, least());
  }

  Account& account_;
  Ledger& ledger_;
  const Instant now_;
  const LoanQuestion& question_;
};

template <typename Account, typename L>
LoanAnswer lend_from(const L& limit, Ledger& ledger, Instant now, const LoanQuestion& question) {
  Account account(limit, ledger.state, now, question);
  LoanAnswer answer = Lending<Account>(account, ledger, now, question).answer();
  const State state = account.state();
  answer.remaining = remaining(limit, state, now);
  answer.reset_after = until(in_range(now), rest_at(limit, state, now));
  return answer;
}

}  // namespace

LoanAnswer lend(const core::Limit& limit, Ledger& ledger, Instant now,
                const LoanQuestion& question) {
  if (auto flaw = unfit_for_loans(limit)) {
    return {.kind = SharedAnswer::Kind::misconfigured, .error = std::move(*flaw)};
  }
  return std::visit(
      [&](const auto& l) -> LoanAnswer {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, Bucket>) {
          return lend_from<BucketAccount>(l, ledger, now, question);
        } else if constexpr (std::is_same_v<L, Window> || std::is_same_v<L, Quota> ||
                             std::is_same_v<L, Sliding>) {
          return lend_from<WindowAccount<L>>(l, ledger, now, question);
        } else {
          return {};  // none of them is fit
        }
      },
      limit);
}

}  // namespace weir::store::lease
