#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// An exact sliding window: a log of every admission until it is `period` old, so that no window of
// that length has more than `count` permits. Needs memory per permit; SlidingCounter is an estimate
// in constant memory.
struct SlidingLog {
  Permits count = 1;
  Nanos period{1'000'000'000};

  static Result<SlidingLog, Flaw> make(const Rate& rate);
};

inline constexpr Permits kMaxExact = 4096;

struct LogEntry {
  Instant at{};
  Permits permits = 0;
};

// The admissions of one key in a ring buffer, the oldest first. A view: head and ring belong to the
// caller. A ring of `limit.count` entries is always enough, since an admission has at least one
// permit.
class AdmissionLog {
 public:
  struct Head {
    std::uint32_t first = 0;
    std::uint32_t size = 0;
  };

  AdmissionLog(Head& head, std::span<LogEntry> ring) : head_(&head), ring_(ring) {}

  std::uint32_t size() const { return head_->size; }
  bool full() const { return head_->size == ring_.size(); }
  LogEntry& operator[](std::uint32_t i) const {
    const std::size_t position = std::size_t{head_->first} + i;
    return ring_[position < ring_.size() ? position : position - ring_.size()];
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

// As for the other algorithms, but the log is too large to copy: `decide` does not compute the next
// state, and `charge` changes the log in place. `charge` returns the instant for the receipt.
Evaluation decide(const SlidingLog& limit, const AdmissionLog& log, Instant now, const Ask& ask);
Instant charge(const SlidingLog& limit, AdmissionLog log, Instant now, Permits cost);
// Drops entries that have expired.
void forget_old(const SlidingLog& limit, AdmissionLog log, Instant now);
Permits remaining(const SlidingLog& limit, const AdmissionLog& log, Instant now);
Instant rest_at(const SlidingLog& limit, const AdmissionLog& log);
void refund(const SlidingLog& limit, AdmissionLog log, Instant now, Receipt& receipt, Permits back);
inline Permits capacity(const SlidingLog& limit) { return limit.count; }

}  // namespace weir::core
