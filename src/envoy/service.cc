#include "envoy/service.h"

#include <atomic>
#include <mutex>

#include "envoy/explain.h"
#include "envoy/run.h"
#include "policy/limit_text.h"

namespace weir::envoy {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// What a thread has last used. While it is current it need not be asked for, which spares all
// threads from counting the users of one object.
struct LastUsed {
  std::uint64_t service = 0;
  std::uint64_t number = 0;
  std::shared_ptr<const Edition> edition;
};
thread_local LastUsed last_used;

// Runs that are over, to be used again by their thread.
std::vector<std::unique_ptr<Run>>& spare_runs() {
  thread_local std::vector<std::unique_ptr<Run>> runs;
  return runs;
}

std::unique_ptr<Run> spare_run() {
  auto& spare = spare_runs();
  if (spare.empty()) return std::make_unique<Run>();
  std::unique_ptr<Run> run = std::move(spare.back());
  spare.pop_back();
  return run;
}

// (A call with many descriptors must not hold on to its memory.)
void keep_run(std::unique_ptr<Run> run) {
  constexpr std::size_t plenty = 1024;
  constexpr std::size_t usual = 64;
  if (spare_runs().size() >= plenty || run->asked().size() > usual) return;
  run->begin({}, nullptr);
  spare_runs().push_back(std::move(run));
}

constexpr std::string_view kNothingLoaded = "no rate limit configuration loaded";

}  // namespace

struct Service::Impl {
  explicit Impl(Engine& the_engine) : engine(the_engine) {}

  const std::shared_ptr<const Edition>& current() {
    const std::uint64_t newest = number.load(std::memory_order_acquire);
    if (last_used.service != id || last_used.number != newest) {
      const std::lock_guard lock(mutex);
      last_used = {.service = id, .number = number.load(), .edition = edition};
    }
    return last_used.edition;
  }

  RunContext context() { return {&engine, &statistics}; }

  void conclude(Run& finished);

  Failure wrong(Failure failure) {
    ++service_errors;
    return failure;
  }

  Engine& engine;
  const std::uint64_t id = next_id();
  Statistics statistics;

  std::mutex mutex;
  std::shared_ptr<const Edition> edition;  // none: nothing is configured
  std::atomic<std::uint64_t> number{1};    // of the edition

  std::atomic<std::uint64_t> domain_not_found{0};
  std::atomic<std::uint64_t> shadow{0};
  std::atomic<std::uint64_t> service_errors{0};
  std::atomic<std::uint64_t> store_errors{0};
  std::atomic<std::uint64_t> degraded{0};
  std::atomic<std::uint64_t> loads{0};
  std::atomic<std::uint64_t> failed_loads{0};
};

Service::Service(Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
Service::~Service() = default;

void Service::use(std::shared_ptr<const Rules> rules, const ServiceOptions& options) {
  std::shared_ptr<Edition> next;
  if (rules != nullptr) {
    next = std::make_shared<Edition>();
    next->statistics = impl_->statistics.use(*rules);
    next->rules = std::move(rules);
    next->options = options;
    ++impl_->loads;
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->edition = std::move(next);
  ++impl_->number;
}

void Service::note_failed_load() { ++impl_->failed_loads; }

bool Service::is_configured() const { return impl_->current() != nullptr; }

void Service::should_rate_limit(const Call& call, Link& link, Done done) {
  const auto& edition = impl_->current();
  if (edition == nullptr) return done(impl_->wrong({std::string{kNothingLoaded}}));
  std::unique_ptr<Run> run = spare_run();
  run->begin(impl_->context(), edition);
  if (auto failure = run->prepare(call)) return done(impl_->wrong(*std::move(failure)));
  if (!run->knows_domain()) ++impl_->domain_not_found;
  run->done = std::move(done);
  Run& started = *run.release();
  started.start(
      link, false,
      [](Run& finished, void* whose) { static_cast<Impl*>(whose)->conclude(finished); },
      impl_.get());
}

// Tells who asked, and keeps what was used for the next one.
void Service::Impl::conclude(Run& finished) {
  std::unique_ptr<Run> run(&finished);
  auto answer = run->answer();
  if (run->is_degraded()) ++(answer ? degraded : store_errors);
  if (answer && run->passes_as_shadow()) ++shadow;
  const Done done = std::exchange(run->done, nullptr);
  keep_run(std::move(run));
  done(std::move(answer));
}

namespace {

// A question about what there is.
struct Looking {
  Run run{};
  Explanation told{};
  std::function<void(Result<Explanation, Failure>)> done;

  void finish() {
    if (!run.trouble().empty()) {
      return done(Failure{"the store could not be asked: " + run.trouble(), true});
    }
    for (std::size_t i = 0; i < told.descriptors.size(); ++i) {
      auto& limit = told.descriptors[i].limit;
      if (limit) limit->decision = run.asked()[i].decision;
    }
    done(std::move(told));
  }
};

ExplainedLimit limit_of(const Run& run, const Asked& asked, const ServiceOptions& options) {
  const Rule& rule = *asked.rule;
  return {.text = policy::to_text(rule.limit),
          .name = rule.name,
          .counted_as = asked.statistics != nullptr ? rule.counted_as : asked.counted_as,
          .counter = std::string{run.name_of(asked)},
          .shadow = rule.shadow || options.shadow_mode,
          .quota = rule.quota || options.quota_mode,
          .hits = asked.hits};
}

}  // namespace

void Service::explain(const Call& call, Link& link,
                      std::function<void(Result<Explanation, Failure>)> done) {
  const auto& edition = impl_->current();
  if (edition == nullptr) return done(Failure{std::string{kNothingLoaded}});
  auto looking = std::make_unique<Looking>();
  looking->run.begin(impl_->context(), edition);
  if (auto failure = looking->run.prepare(call)) return done(*std::move(failure));
  looking->told.domain = call.domain;
  looking->done = std::move(done);
  const auto domain = edition->rules->domains.find(call.domain);
  const bool has_domain = domain != edition->rules->domains.end();
  for (std::size_t i = 0; i < call.descriptors.size(); ++i) {
    const Descriptor& descriptor = call.descriptors[i];
    ExplainedDescriptor& each = looking->told.descriptors.emplace_back(
        explain_walk(call.domain, has_domain ? &domain->second : nullptr, descriptor));
    const Asked& asked = looking->run.asked()[i];
    if (asked.replaced) each.why += "; but another rule of the call replaces it";
    if (asked.rule == nullptr || asked.unlimited) continue;
    each.limit = limit_of(looking->run, asked, edition->options);
  }
  Looking& started = *looking.release();
  started.run.start(
      link, true,
      [](Run&, void* whose) {
        const std::unique_ptr<Looking> self(static_cast<Looking*>(whose));
        self->finish();
      },
      &started);
}

Counts Service::counts() const {
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
