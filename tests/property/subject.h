#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/price_history.h"

namespace weir::core {

// One limit and its state for one key, whatever kind of memory the limit needs. Copies are
// independent, so a test can try something and go back.
class Subject {
 public:
  explicit Subject(Limit limit);

  const Limit& limit() const { return limit_; }
  // A change that the state applies only at its next use.
  void change(const Limit& limit) { limit_ = limit; }
  // The update by a store that visits its states when a limit changes.
  void change(const Limit& limit, Instant now);

  Decision take(Instant now, const Ask& ask, std::uint64_t holder = 0);
  Decision take(Instant now, const Ask& ask, Receipt& receipt);
  Decision peek(Instant now, const Ask& ask, std::uint64_t holder = 0) const;
  // Above zero debits, below zero refunds.
  Decision settle(Instant now, Permits delta, Receipt& receipt);
  void forget();

  // Every byte of the state.
  std::string bytes() const;
  // The same state, read from bytes that were written to a file.
  void load(const std::string& bytes);

  // For a plan over several subjects.
  Charge charge(const Ask& ask, bool shadow = false);

 private:
  Limit limit_;
  PriceTimeline prices_{};
  State state_{};
  AdmissionLog::Head head_{};
  std::vector<LogEntry> ring_;
  std::uint32_t seated_ = 0;
  std::vector<Holder> seats_;
};

}  // namespace weir::core
