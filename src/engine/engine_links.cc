#include <mutex>

#include "engine/engine_impl.h"
#include "store/link_access.h"
#include "store/random_name.h"

// The links of an engine to its fleet for synchronous calls, and the lease cache of each link.

namespace weir {
inline namespace v0 {

store::lease::LeaseCache& Engine::Impl::lease_cache_of(Link& link) {
  store::SharedStore& store = detail::LinkAccess::store(link);
  for (const auto& attached : store.tasks) {
    if (attached.id == id) return static_cast<store::lease::LeaseCache&>(*attached.task);
  }
  auto counts = std::make_shared<store::lease::LeaseCacheCounts>();
  {
    const std::lock_guard lock(counts_mutex);
    lease_counts.push_back(counts);
  }
  // The cache lives as long as the link, perhaps longer than the engine: it copies `time`.
  store::lease::LeaseClock clock{.now = [time = time] { return time.now(); },
                                 .monotonic = [time = time] { return time.monotonic(); }};
  auto cache = std::make_unique<store::lease::LeaseCache>(
      store, *fleet, std::move(clock), store::random_name(), std::move(counts), in_force);
  store::lease::LeaseCache& made = *cache;
  store.tasks.push_back({id, std::move(cache)});
  return made;
}

Engine::Impl::~Impl() {
  close();
  for (const auto& link : links) return_leases(*link);
}

void Engine::Impl::return_leases(Link& link) {
  if (fleet == nullptr) return;
  store::lease::LeaseCache& cache = lease_cache_of(link);
  // Terminates: no question is open for longer than the fleet's timeout.
  const auto wait = [&] {
    while (cache.is_asking()) link.wait(std::chrono::seconds{1});
  };
  wait();  // leases that arrive until now are returned as well
  cache.give_all_back();
  wait();
}

LeaseUse Engine::Impl::leases() const {
  const std::lock_guard lock(counts_mutex);
  LeaseUse sum;
  for (const auto& counts : lease_counts) {
    sum.keys += counts->keys.get();
    sum.held += counts->held.get();
    sum.asked += counts->asked.get();
    sum.borrowed += counts->borrowed.get();
    sum.returned += counts->returned.get();
    sum.lapsed += counts->lapsed.get();
  }
  return sum;
}

void Engine::Impl::run_on_link(const std::function<void(Link&, bool&)>& start) {
  std::unique_ptr<Link> link;
  {
    const std::lock_guard lock(links_mutex);
    if (!links.empty()) {
      link = std::move(links.back());
      links.pop_back();
    }
  }
  if (link == nullptr) link = fleet->connect();
  bool done = false;
  start(*link, done);
  while (!done) link->wait(std::chrono::seconds{1});
  const std::lock_guard lock(links_mutex);
  links.push_back(std::move(link));
}

}  // namespace v0
}  // namespace weir
