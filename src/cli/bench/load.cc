#include "cli/bench/load.h"

#include <algorithm>

namespace weir::cli::bench {

Load::Load(const Plan& plan, std::size_t thread, Asked* asked)
    : plan_(plan),
      thread_(thread),
      asked_(asked),
      random_(Random(plan.seed + thread).next()),
      mix_sum_(plan.mix.sum()) {
  if (plan.zipf) zipf_.emplace(plan.keys, *plan.zipf);
  if (plan.requests) {
    measured_left_ = *plan.requests / plan.threads + (thread < *plan.requests % plan.threads);
  } else {
    end_ = plan.warmup + plan.duration;
  }
}

// The threads take turns.
Nanos Load::due(std::uint64_t index) const {
  const auto overall = static_cast<double>(index * plan_.threads + thread_);
  return Nanos{static_cast<std::int64_t>(overall / plan_.rate * 1e9)};
}

// When the next one starts, if that is not later than the end. What fell due while the thread slept
// through the end is sent the first time it looks again; what has no room even then stays.
std::optional<Nanos> Load::next_start(Nanos now) {
  if (ran_out()) return std::nullopt;
  if (now >= end_ && !looked_at_end_) looked_at_end_ = now;
  if (looked_at_end_ && now > *looked_at_end_) return std::nullopt;
  const Nanos start = plan_.open_loop() ? due(index_) : now;
  if (start >= end_) return std::nullopt;
  return start;
}

Nanos Load::next_due() const {
  if (!plan_.open_loop() || ran_out()) return kForever;
  const Nanos next = due(index_);
  return next < end_ ? next : kForever;
}

bool Load::over(Nanos now) const { return now >= end_ || ran_out(); }

void Load::stop(Nanos now) { end_ = std::min(end_, now); }

Verb Load::choose_verb() {
  if (plan_.mix.parts[0] == mix_sum_) return Verb::take;
  std::uint64_t chosen = random_.below(mix_sum_);
  std::size_t verb = 0;
  for (; chosen >= plan_.mix.parts[verb]; ++verb) chosen -= plan_.mix.parts[verb];
  return static_cast<Verb>(verb);
}

std::uint64_t Load::choose_key() {
  return zipf_ ? zipf_->next(random_) - 1 : random_.below(plan_.keys);
}

std::optional<Request> Load::next(Nanos now) {
  const auto start = next_start(now);
  if (!start || *start > now) return std::nullopt;
  const Request request{.start = *start,
                        .sent = now,
                        .key = choose_key(),
                        .verb = choose_verb(),
                        .measured = *start >= plan_.warmup};
  ++index_;
  if (request.measured && measured_left_) --*measured_left_;
  if (asked_ != nullptr && request.verb == Verb::take) {
    (*asked_)[request.key].fetch_add(1, std::memory_order_relaxed);
  }
  return request;
}

void Load::answered(const Request& request, const Answer& answer, Nanos now) {
  tally_.last_answer = now;
  if (answer.kind == Answer::Kind::error) {
    return failed(request, answer.error_kind, answer.text);
  }
  const bool allowed = answer.kind == Answer::Kind::allowed;
  if (request.verb == Verb::take && allowed) ++tally_.admitted_ever;
  if (!request.measured || request.verb == Verb::login) return;
  ++tally_.answers;
  tally_.latency.add(now - request.start);
  Tally::Decided& decided = tally_.decided[static_cast<std::size_t>(request.verb)];
  ++(allowed ? decided.allowed : decided.refused);
}

void Load::failed(const Request&, std::string_view kind, std::string_view text) {
  tally_.errors.add(kind, text);
}

void Load::timed_out(const Request& request, Nanos now) {
  failed(request, "timeout", "no answer in time: --timeout says how long that is");
  if (request.measured) tally_.latency.add(now - request.start);
}

void Load::abandoned(const Request& request, Nanos now) {
  if (!request.measured || request.verb == Verb::login) return;
  ++tally_.unanswered;
  tally_.latency.add(now - request.start);
}

void Load::count_unsent(Nanos now) {
  if (!plan_.open_loop()) return;
  for (; !ran_out(); ++index_) {
    const Nanos start = due(index_);
    if (start >= std::min(end_, now)) return;
    if (start < plan_.warmup) continue;
    ++tally_.unsent;
    tally_.latency.add(now - start);
    if (measured_left_) --*measured_left_;
  }
}

}  // namespace weir::cli::bench
