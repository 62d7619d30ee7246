#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// An exact sliding window: every admission is remembered until it is `period` old, so that no
// window, wherever it is laid, holds more than `count` permits. Costs memory by the permit;
// Sliding is the estimate that does not.
struct ExactLog {
  Permits count = 1;
  Nanos period{1'000'000'000};

  static Result<ExactLog, Flaw> make(const Rate& rate);
};

inline constexpr Permits kMaxExact = 4096;

struct LogEntry {
  Instant at{};
  Permits permits = 0;
};

// The admissions of one key, oldest first, in a ring that its owner provides: `limit.count` places
// are always enough, since an admission holds at least one permit. Never grows, never allocates.
class Log {
 public:
  struct Head {
    std::uint32_t first = 0;
    std::uint32_t size = 0;
  };

  Log(Head& head, std::span<LogEntry> ring) : head_(&head), ring_(ring) {}

  std::uint32_t size() const { return head_->size; }
  bool full() const { return head_->size == ring_.size(); }
  LogEntry& operator[](std::uint32_t i) const {
    const std::size_t place = std::size_t{head_->first} + i;
    return ring_[place < ring_.size() ? place : place - ring_.size()];
  }
  LogEntry& newest() const { return (*this)[head_->size - 1]; }

  void append(LogEntry entry);
  void drop_oldest();
  void drop_newest() { --head_->size; }
  void erase(std::uint32_t i);
  void clear() { *head_ = {}; }

 private:
  Head* head_;
  std::span<LogEntry> ring_;
};

// As for the other algorithms, but the record is too large to hand around: `decide` says what
// would happen, `charge` makes it so. `charge` returns the instant to put on a receipt.
Choice decide(const ExactLog& limit, const Log& log, Instant now, const Ask& ask);
Instant charge(const ExactLog& limit, Log log, Instant now, Permits cost);
// Makes room by dropping what counts no more.
void forget_old(const ExactLog& limit, Log log, Instant now);
Permits remaining(const ExactLog& limit, const Log& log, Instant now);
Instant rest_at(const ExactLog& limit, const Log& log);
void refund(const ExactLog& limit, Log log, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const ExactLog& limit) { return limit.count; }

}  // namespace weir::core
