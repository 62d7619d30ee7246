#include "envoy/service.h"

#include <atomic>
#include <mutex>

#include "envoy/evaluation.h"
#include "envoy/explain.h"
#include "policy/limit_text.h"

namespace weir::envoy {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The snapshot that this thread used last. While it is current, the thread needs no lock and no
// shared reference count.
struct CachedSnapshot {
  std::uint64_t service = 0;
  std::uint64_t version = 0;
  std::shared_ptr<const RulesSnapshot> snapshot;
};
thread_local CachedSnapshot cached_snapshot;

// Finished evaluations of this thread, kept for reuse.
std::vector<std::unique_ptr<RequestEvaluation>>& spare_evaluations() {
  thread_local std::vector<std::unique_ptr<RequestEvaluation>> spare;
  return spare;
}

std::unique_ptr<RequestEvaluation> reuse_or_new() {
  auto& spare = spare_evaluations();
  if (spare.empty()) return std::make_unique<RequestEvaluation>();
  std::unique_ptr<RequestEvaluation> evaluation = std::move(spare.back());
  spare.pop_back();
  return evaluation;
}

// An evaluation with many descriptors is freed, so that its memory is not kept.
void keep_for_reuse(std::unique_ptr<RequestEvaluation> evaluation) {
  constexpr std::size_t max_spare = 1024;
  constexpr std::size_t max_descriptors = 64;
  if (spare_evaluations().size() >= max_spare || evaluation->states().size() > max_descriptors)
    return;
  evaluation->begin({}, nullptr);
  spare_evaluations().push_back(std::move(evaluation));
}

constexpr std::string_view kNotConfigured = "no rate limit configuration loaded";

}  // namespace

struct RateLimitService::Impl {
  explicit Impl(Engine& the_engine) : engine(the_engine) {}

  const std::shared_ptr<const RulesSnapshot>& current() {
    const std::uint64_t newest = version.load(std::memory_order_acquire);
    if (cached_snapshot.service != id || cached_snapshot.version != newest) {
      const std::lock_guard lock(mutex);
      cached_snapshot = {.service = id, .version = version.load(), .snapshot = snapshot};
    }
    return cached_snapshot.snapshot;
  }

  EvaluationContext context() { return {&engine, &statistics}; }

  void finish(RequestEvaluation& finished);

  ServiceError count_error(ServiceError failure) {
    ++service_errors;
    return failure;
  }

  Engine& engine;
  const std::uint64_t id = next_id();
  Statistics statistics;

  std::mutex mutex;
  std::shared_ptr<const RulesSnapshot> snapshot;  // null: nothing is configured
  std::atomic<std::uint64_t> version{1};          // version of the snapshot

  std::atomic<std::uint64_t> domain_not_found{0};
  std::atomic<std::uint64_t> shadow{0};
  std::atomic<std::uint64_t> service_errors{0};
  std::atomic<std::uint64_t> store_errors{0};
  std::atomic<std::uint64_t> degraded{0};
  std::atomic<std::uint64_t> loads{0};
  std::atomic<std::uint64_t> failed_loads{0};
};

RateLimitService::RateLimitService(Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
RateLimitService::~RateLimitService() = default;

void RateLimitService::use(std::shared_ptr<const RuleSet> rules, const ServiceOptions& options) {
  std::shared_ptr<RulesSnapshot> next;
  if (rules != nullptr) {
    next = std::make_shared<RulesSnapshot>();
    next->statistics = impl_->statistics.use(*rules);
    next->rules = std::move(rules);
    next->options = options;
    ++impl_->loads;
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->snapshot = std::move(next);
  ++impl_->version;
}

void RateLimitService::note_failed_reload() { ++impl_->failed_loads; }

bool RateLimitService::is_configured() const { return impl_->current() != nullptr; }

void RateLimitService::should_rate_limit(const RateLimitRequest& call, Link& link,
                                         ResponseCallback done) {
  const auto& snapshot = impl_->current();
  if (snapshot == nullptr) return done(impl_->count_error({std::string{kNotConfigured}}));
  std::unique_ptr<RequestEvaluation> evaluation = reuse_or_new();
  evaluation->begin(impl_->context(), snapshot);
  if (auto failure = evaluation->prepare(call))
    return done(impl_->count_error(*std::move(failure)));
  if (!evaluation->knows_domain()) ++impl_->domain_not_found;
  evaluation->done = std::move(done);
  RequestEvaluation& started = *evaluation.release();
  started.start(
      link, false,
      [](RequestEvaluation& finished, void* context) {
        static_cast<Impl*>(context)->finish(finished);
      },
      impl_.get());
}

// Calls back, and keeps the evaluation for reuse.
void RateLimitService::Impl::finish(RequestEvaluation& finished) {
  std::unique_ptr<RequestEvaluation> evaluation(&finished);
  auto answer = evaluation->answer();
  if (evaluation->is_degraded()) ++(answer ? degraded : store_errors);
  if (answer && evaluation->passes_as_shadow()) ++shadow;
  const ResponseCallback done = std::exchange(evaluation->done, nullptr);
  keep_for_reuse(std::move(evaluation));
  done(std::move(answer));
}

namespace {

// An explanation whose limits are being peeked.
struct PendingExplanation {
  RequestEvaluation evaluation{};
  RequestExplanation explanation{};
  std::function<void(Result<RequestExplanation, ServiceError>)> done;

  void finish() {
    if (!evaluation.failure_text().empty()) {
      return done(ServiceError{"the store could not be asked: " + evaluation.failure_text(), true});
    }
    for (std::size_t i = 0; i < explanation.descriptors.size(); ++i) {
      auto& limit = explanation.descriptors[i].limit;
      if (limit) limit->decision = evaluation.states()[i].decision;
    }
    done(std::move(explanation));
  }
};

ExplainedLimit limit_of(const RequestEvaluation& evaluation, const DescriptorState& state,
                        const ServiceOptions& options) {
  const DescriptorRule& rule = *state.rule;
  return {.text = policy::to_text(rule.limit),
          .name = rule.name,
          .counted_as = state.statistics != nullptr ? rule.counted_as : state.counted_as,
          .counter = std::string{evaluation.key_of(state)},
          .shadow = rule.shadow || options.shadow_mode,
          .quota = rule.quota || options.quota_mode,
          .hits = state.hits};
}

}  // namespace

void RateLimitService::explain(const RateLimitRequest& call, Link& link,
                               std::function<void(Result<RequestExplanation, ServiceError>)> done) {
  const auto& snapshot = impl_->current();
  if (snapshot == nullptr) return done(ServiceError{std::string{kNotConfigured}});
  auto pending = std::make_unique<PendingExplanation>();
  pending->evaluation.begin(impl_->context(), snapshot);
  if (auto failure = pending->evaluation.prepare(call)) return done(*std::move(failure));
  pending->explanation.domain = call.domain;
  pending->done = std::move(done);
  const auto domain = snapshot->rules->domains.find(call.domain);
  const bool has_domain = domain != snapshot->rules->domains.end();
  for (std::size_t i = 0; i < call.descriptors.size(); ++i) {
    const RateLimitDescriptor& descriptor = call.descriptors[i];
    ExplainedDescriptor& each = pending->explanation.descriptors.emplace_back(
        explain_walk(call.domain, has_domain ? &domain->second : nullptr, descriptor));
    const DescriptorState& state = pending->evaluation.states()[i];
    if (state.replaced) each.why += "; but another rule of the call replaces it";
    if (state.rule == nullptr || state.unlimited) continue;
    each.limit = limit_of(pending->evaluation, state, snapshot->options);
  }
  PendingExplanation& started = *pending.release();
  started.evaluation.start(
      link, true,
      [](RequestEvaluation&, void* context) {
        const std::unique_ptr<PendingExplanation> self(static_cast<PendingExplanation*>(context));
        self->finish();
      },
      &started);
}

ServiceCounters RateLimitService::counts() const {
  return {.rules = impl_->statistics.counts(),
          .domain_not_found = impl_->domain_not_found.load(),
          .shadow = impl_->shadow.load(),
          .service_errors = impl_->service_errors.load(),
          .store_errors = impl_->store_errors.load(),
          .degraded = impl_->degraded.load(),
          .loads = impl_->loads.load(),
          .failed_loads = impl_->failed_loads.load()};
}

}  // namespace weir::envoy
