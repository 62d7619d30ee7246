#include "cli/bench/load_generator.h"

#include <algorithm>

namespace weir::cli::bench {

LoadGenerator::LoadGenerator(const BenchPlan& plan, std::size_t thread, TakesPerKey* takes_per_key)
    : plan_(plan),
      thread_(thread),
      takes_per_key_(takes_per_key),
      random_(Random(plan.seed + thread).next()),
      mix_sum_(plan.mix.sum()) {
  if (plan.zipf) zipf_.emplace(plan.keys, *plan.zipf);
  if (plan.requests) {
    measured_left_ = *plan.requests / plan.threads + (thread < *plan.requests % plan.threads);
  } else {
    end_ = plan.warmup + plan.duration;
  }
}

// Thread t sends the requests t, t + threads, t + 2 × threads, …
Nanos LoadGenerator::due(std::uint64_t index) const {
  const auto overall = static_cast<double>(index * plan_.threads + thread_);
  return Nanos{static_cast<std::int64_t>(overall / plan_.rate * 1e9)};
}

// The start of the next request, if it is before the end. The first call after the end still
// returns requests that fell due while the thread slept; later calls return none, and
// `count_unsent` counts the rest.
std::optional<Nanos> LoadGenerator::next_start(Nanos now) {
  if (ran_out()) return std::nullopt;
  if (now >= end_ && !first_call_after_end_) first_call_after_end_ = now;
  if (first_call_after_end_ && now > *first_call_after_end_) return std::nullopt;
  const Nanos start = plan_.open_loop() ? due(index_) : now;
  if (start >= end_) return std::nullopt;
  return start;
}

Nanos LoadGenerator::next_due() const {
  if (!plan_.open_loop() || ran_out()) return kForever;
  const Nanos next = due(index_);
  return next < end_ ? next : kForever;
}

bool LoadGenerator::over(Nanos now) const { return now >= end_ || ran_out(); }

void LoadGenerator::stop(Nanos now) { end_ = std::min(end_, now); }

RequestVerb LoadGenerator::choose_verb() {
  if (plan_.mix.parts[0] == mix_sum_) return RequestVerb::take;
  std::uint64_t chosen = random_.below(mix_sum_);
  std::size_t verb = 0;
  for (; chosen >= plan_.mix.parts[verb]; ++verb) chosen -= plan_.mix.parts[verb];
  return static_cast<RequestVerb>(verb);
}

std::uint64_t LoadGenerator::choose_key() {
  return zipf_ ? zipf_->next(random_) - 1 : random_.below(plan_.keys);
}

std::optional<BenchRequest> LoadGenerator::next(Nanos now) {
  const auto start = next_start(now);
  if (!start || *start > now) return std::nullopt;
  const BenchRequest request{.start = *start,
                             .sent = now,
                             .key = choose_key(),
                             .verb = choose_verb(),
                             .measured = *start >= plan_.warmup};
  ++index_;
  if (request.measured && measured_left_) --*measured_left_;
  if (takes_per_key_ != nullptr && request.verb == RequestVerb::take) {
    (*takes_per_key_)[request.key].fetch_add(1, std::memory_order_relaxed);
  }
  return request;
}

void LoadGenerator::answered(const BenchRequest& request, const BenchReply& answer, Nanos now) {
  tally_.last_answer = now;
  if (answer.kind == ReplyKind::error) {
    return failed(request, answer.error_kind, answer.text);
  }
  const bool allowed = answer.kind == ReplyKind::allowed;
  if (request.verb == RequestVerb::take && allowed) ++tally_.admitted_ever;
  if (!request.measured || request.verb == RequestVerb::login) return;
  ++tally_.answers;
  tally_.latency.add(now - request.start);
  Tally::DecisionCounts& decided = tally_.decided[static_cast<std::size_t>(request.verb)];
  ++(allowed ? decided.allowed : decided.refused);
}

void LoadGenerator::failed(const BenchRequest&, std::string_view kind, std::string_view text) {
  tally_.errors.add(kind, text);
}

void LoadGenerator::timed_out(const BenchRequest& request, Nanos now) {
  failed(request, "timeout", "no answer within --timeout");
  if (request.measured) tally_.latency.add(now - request.start);
}

void LoadGenerator::abandoned(const BenchRequest& request, Nanos now) {
  if (!request.measured || request.verb == RequestVerb::login) return;
  ++tally_.unanswered;
  tally_.latency.add(now - request.start);
}

void LoadGenerator::count_unsent(Nanos now) {
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
