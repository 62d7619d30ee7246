#include "core/sliding_log.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/window.h"

namespace weir::core {

namespace {

// If the clock has stepped back, the time of the newest entry is used: entries that were dropped by
// then cannot count again.
Instant not_before_log(const AdmissionLog& log, Instant now) {
  return log.size() == 0 ? in_range(now) : std::max(in_range(now), log.newest().at);
}

bool counts(const SlidingLog& limit, const LogEntry& entry, Instant now) {
  return now < later(entry.at, limit.period);
}

Permits used_at(const SlidingLog& limit, const AdmissionLog& log, Instant now) {
  Permits used = 0;
  for (std::uint32_t i = log.size(); i > 0 && counts(limit, log[i - 1], now); --i) {
    used = sat_add(used, log[i - 1].permits);
  }
  return used;
}

// The instant at which enough of the oldest entries have expired to free `excess` permits.
Instant freed_at(const SlidingLog& limit, const AdmissionLog& log, Instant now, Permits excess) {
  Instant freed = now;
  for (std::uint32_t i = 0; i < log.size() && excess > 0; ++i) {
    if (!counts(limit, log[i], now)) continue;
    freed = later(log[i].at, limit.period);
    excess -= std::min(excess, log[i].permits);
  }
  return freed;
}

}  // namespace

void AdmissionLog::append(LogEntry entry) {
  ++head_->size;
  newest() = entry;
}

void AdmissionLog::drop_oldest() {
  head_->first = static_cast<std::uint32_t>((head_->first + 1) % ring_.size());
  --head_->size;
}

void AdmissionLog::erase(std::uint32_t i) {
  for (; i + 1 < head_->size; ++i) (*this)[i] = (*this)[i + 1];
  --head_->size;
}

Result<SlidingLog, Flaw> SlidingLog::make(const Rate& rate) {
  const auto window = Window::make(rate, false);
  if (!window) return window.error();
  if (window->count > kMaxExact) return Flaw::capacity_too_large;
  return SlidingLog{.count = window->count, .period = window->period};
}

Evaluation decide(const SlidingLog& limit, const AdmissionLog& log, Instant now, const Ask& ask) {
  if (ask.cost < 0 || ask.cost > limit.count) return impossible({});
  const Instant t = not_before_log(log, now);
  const Permits used = used_at(limit, log, t);
  const Permits room = limit.count - ask.cost;
  if (used <= room) return {};
  return refused(between(in_range(now), freed_at(limit, log, t, used - room)), {});
}

void forget_old(const SlidingLog& limit, AdmissionLog log, Instant now) {
  const Instant t = not_before_log(log, now);
  while (log.size() > 0 && !counts(limit, log[0], t)) log.drop_oldest();
}

Instant charge(const SlidingLog& limit, AdmissionLog log, Instant now, Permits cost) {
  const Instant t = not_before_log(log, now);
  if (cost <= 0) return t;
  forget_old(limit, log, t);
  if (log.size() > 0 && log.newest().permits == 0) log.drop_newest();
  // The ring can be full only because of debits, which are not checked against the limit. The
  // charge is then merged into the newest entry, which takes the later time.
  const bool merges = log.size() > 0 && (log.newest().at == t || log.full());
  if (merges) {
    log.newest() = {t, sat_add(log.newest().permits, cost)};
  } else {
    log.append({t, cost});
  }
  return t;
}

Permits remaining(const SlidingLog& limit, const AdmissionLog& log, Instant now) {
  return std::max<Permits>(limit.count - used_at(limit, log, not_before_log(log, now)), 0);
}

Instant rest_at(const SlidingLog& limit, const AdmissionLog& log) {
  for (std::uint32_t i = log.size(); i > 0; --i) {
    if (log[i - 1].permits > 0) return later(log[i - 1].at, limit.period);
  }
  return {};
}

void refund(const SlidingLog& limit, AdmissionLog log, Instant now, Receipt& receipt,
            Permits back) {
  const Instant t = not_before_log(log, now);
  for (std::uint32_t i = 0; i < log.size(); ++i) {
    LogEntry& entry = log[i];
    if (entry.at != receipt.at || !counts(limit, entry, t)) continue;
    back = std::clamp<Permits>(back, 0, std::min(receipt.taken, entry.permits));
    receipt.taken -= back;
    entry.permits -= back;
    // The newest entry stays even if it is empty: its time protects against a clock that steps
    // back.
    if (entry.permits == 0 && i + 1 < log.size()) log.erase(i);
    return;
  }
}

}  // namespace weir::core
