#include <fmt/format.h>

#include <array>
#include <span>
#include <tuple>

#include "server/http_handlers.h"
#include "server/version.h"

namespace weir::server {

namespace {

// The last bucket of an answer's time has no bound.
constexpr std::size_t kStoreBounds = std::tuple_size_v<decltype(RedisCounts::answers_by_time)> - 1;

void append_memory(Exposition& to, const MemoryUse& use) {
  to.gauge("weir_memory_bytes", "The size of the table.");
  to.sample(use.bytes);
  to.gauge("weir_memory_slots", "Keys under a limit that it holds at most.");
  to.sample(use.slots);
  to.gauge("weir_memory_slots_live", "Of these, in use by keys that are not at rest.");
  to.sample(use.live);
  to.gauge("weir_memory_record_bytes", "The part of it for exact logs and holders.");
  to.sample(use.record_bytes);
  to.gauge("weir_memory_record_bytes_used", "Of these, in use.");
  to.sample(use.record_used);
  to.counter("weir_memory_forgotten_total", "Keys at rest that made room for others.");
  to.sample(use.forgotten);
  to.counter("weir_memory_full_total",
             "Calls of keys for which there was no room, by what the policy says about that.");
  to.sample({{"when_full", "share"}}, use.shared);
  to.sample({{"when_full", "deny"}}, use.denied);
  to.sample({{"when_full", "allow"}}, use.untracked);
}

void append_orders(Exposition& to, const Service& service) {
  std::array<std::uint64_t, kOrderVerbs> counts{};
  for (const GivenOrder& given : service.policies.orders(service.engine.now())) {
    ++counts[static_cast<std::size_t>(given.order.verb)];
  }
  to.gauge("weir_orders", "Orders of operators that are in force.");
  for (int i = 0; i < kOrderVerbs; ++i) {
    const auto verb = static_cast<policy::Order::Verb>(i);
    to.sample({{"verb", name_of(verb)}}, counts[static_cast<std::size_t>(i)]);
  }
}

void append_answer_time(Exposition& to, const RedisCounts& counts) {
  to.histogram("weir_store_seconds", "How long the store took to answer.");
  std::uint64_t so_far = 0;
  double bound = 0.000016;
  for (const std::uint64_t count : std::span(counts.answers_by_time).first(kStoreBounds)) {
    so_far += count;
    to.sample({{"le", fmt::format("{}", bound)}}, so_far, "_bucket");
    bound *= 2;
  }
  so_far += counts.answers_by_time.back();
  to.sample({{"le", "+Inf"}}, so_far, "_bucket");
  to.sample({}, std::chrono::duration<double>(counts.answer_time).count(), "_sum");
  to.sample({}, so_far, "_count");
}

void append_store(Exposition& to, const RedisCounts& counts) {
  to.gauge("weir_store_nodes", "Nodes that share the store, as far as this one knows.");
  to.sample(counts.nodes);
  to.gauge("weir_store_links", "Threads that ask the store, each over a connection of its own.");
  to.sample(counts.links);
  to.gauge("weir_store_links_connected", "Of these, connected.");
  to.sample(counts.connected);
  to.gauge("weir_store_breakers_open",
           "Of these, not asking: the store has not answered them in time.");
  to.sample(counts.breakers_open);
  to.counter("weir_store_connects_total", "Connections to the store that were made.");
  to.sample(counts.connects);
  to.counter("weir_store_calls_total", "Questions to the store.");
  to.sample(counts.calls);
  to.counter("weir_store_round_trips_total", "Questions sent together count as one.");
  to.sample(counts.round_trips);
  to.counter("weir_store_sent_calls_total", "Questions in those round trips.");
  to.sample(counts.sent_calls);
  to.counter("weir_store_refused_without_asking_total",
             "Refused without a question: the store had refused the same a moment ago.");
  to.sample(counts.refused_without_asking);
  to.counter("weir_store_redirections_total",
             "Questions that one node of a cluster has sent to another.");
  to.sample(counts.redirections);
  to.counter("weir_store_maps_total", "Maps of the slots of a cluster that were read.");
  to.sample(counts.maps);
  to.counter("weir_store_given_back_total",
             "Taken from one node of a cluster in vain, as another refused, and given back.");
  to.sample(counts.given_back);
  to.counter("weir_store_failures_total", "Questions without an answer, by what was the matter.");
  to.sample({{"kind", "timeout"}}, counts.timeouts);
  to.sample({{"kind", "unavailable"}}, counts.unavailable - counts.timeouts);
  to.sample({{"kind", "misconfigured"}}, counts.misconfigured);
  append_answer_time(to, counts);
}

void append_leases(Exposition& to, const LeaseUse& use) {
  to.gauge("weir_lease_keys", "Keys of leased limits that permits are borrowed of.");
  to.sample(use.keys);
  to.gauge(
      "weir_lease_permits_held",
      "Permits that are borrowed and not spent: what this node may leave unused of its limits.");
  to.sample(use.held);
  to.counter("weir_lease_questions_total", "Questions to the store about permits to borrow.");
  to.sample(use.asked);
  to.counter("weir_lease_permits_total",
             "Permits that were borrowed, and of these given back or not spent in time.");
  to.sample({{"what", "borrowed"}}, use.borrowed);
  to.sample({{"what", "returned"}}, use.returned);
  to.sample({{"what", "lapsed"}}, use.lapsed);
}

void append_fleet(Exposition& to, const RedisNodes& all) {
  to.gauge("weir_fleet_nodes", "Nodes in the list of those that share the store.");
  to.sample(all.nodes.size());
  to.gauge("weir_fleet_generation", "How often a node has come or gone, as far as this one knows.");
  to.sample(all.generation);
  to.gauge("weir_fleet_member", "0: the others do not know that this node is there.");
  to.sample(all.member ? 1 : 0);
}

void append_split(Exposition& to, Engine& engine) {
  const std::vector<SplitLimit> limits = engine.split_limits();
  to.gauge("weir_split_share", "What this node has of a limit that is split.");
  for (const SplitLimit& limit : limits) {
    to.sample({{"policy", limit.policy}, {"limit", limit.name}}, limit.share.part);
  }
  to.gauge("weir_split_whole", "What all nodes have of it together.");
  for (const SplitLimit& limit : limits) {
    to.sample({{"policy", limit.policy}, {"limit", limit.name}}, limit.share.whole);
  }
}

// There are as many series as rules, and at most a thousand that values of calls have named.
void append_envoy(Exposition& to, const envoy::Counts& counts) {
  to.counter("weir_envoy_hits_total", "Hits that Envoy's descriptors brought to a rule.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.total);
  to.counter("weir_envoy_over_limit_total", "Of these, over the limit.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.over);
  to.counter("weir_envoy_near_limit_total", "Of these, above four fifths of it.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.near);
  to.counter("weir_envoy_within_limit_total", "Of these, of calls that the rule let through.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.within);
  to.counter("weir_envoy_shadow_mode_total", "Of these, over the limit of a rule in shadow_mode.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.shadow);
  to.counter("weir_envoy_domain_not_found_total", "Calls about a domain that has no rules.");
  to.sample(counts.domain_not_found);
  to.counter("weir_envoy_global_shadow_mode_total",
             "Calls over a limit that passed, since shadow_mode is set for all.");
  to.sample(counts.shadow);
  to.counter("weir_envoy_errors_total", "Calls that were answered with an error, by whose it is.");
  to.sample({{"kind", "service"}}, counts.service_errors);
  to.sample({{"kind", "store"}}, counts.store_errors);
  to.counter("weir_envoy_degraded_total", "Calls that were answered without the store.");
  to.sample(counts.degraded);
  to.counter("weir_envoy_config_loads_total", "How often the rules were read.");
  to.sample({{"result", "succeeded"}}, counts.loads);
  to.sample({{"result", "failed"}}, counts.failed_loads);
}

void append_process(Exposition& to, const Service& service) {
  const net::LoopCounts connections = service.loops.counts();
  to.gauge("weir_connections_open", "Connections that are open.");
  to.sample(connections.open);
  to.counter("weir_connections_total", "Connections that were accepted.");
  to.sample(connections.accepted);
  to.counter("weir_connections_refused_total", "Turned away: there were too many.");
  to.sample(connections.turned_away);
  const net::MemoryCounts memory = service.loops.memory();
  to.gauge("weir_connection_memory_bytes", "What connections hold in buffers.");
  to.sample(memory.held);
  to.gauge("weir_connection_memory_limit_bytes", "What they may hold together.");
  to.sample(memory.limit);
  to.counter("weir_connections_shed_total",
             "Connections closed to free memory: the largest, as all held more than the limit "
             "(limit), or one for which an allocation had failed (out_of_memory).");
  to.sample({{"reason", "limit"}}, memory.shed);
  to.sample({{"reason", "out_of_memory"}}, memory.out_of_memory);
  to.gauge("weir_receipt_bytes", "Memory of receipts that callers may come back with.");
  to.sample(service.receipts.memory());
  to.counter("weir_tls_failures_total", "Ended because there was no TLS with them, or no longer.");
  to.sample(service.tls_failures.load());
  to.gauge("weir_generation", "How often the policies have been replaced.");
  to.sample(service.engine.generation());
  to.counter("weir_reloads_total", "How often the policy file was read again.");
  to.sample({{"result", "succeeded"}}, service.reloads.succeeded.load());
  to.sample({{"result", "failed"}}, service.reloads.failed.load());
  to.gauge("weir_last_reload_successful", "0: the policy file as it is now is not in force.");
  to.sample(service.reloads.last_succeeded ? 1 : 0);
  // The name that Prometheus' own clients use.
  to.gauge("process_start_time_seconds", "When the daemon started, in seconds since 1970.");
  to.sample(std::chrono::floor<std::chrono::seconds>(service.started).time_since_epoch().count());
  to.gauge("weir_build_info", "Which version this is.");
  to.sample({{"version", kVersion}}, 1);
}

}  // namespace

void show_metrics(HttpCall& call) {
  const Service& service = call.service;
  Exposition all;
  service.metrics.append_to(all);
  append_memory(all, service.memory.last());
  append_orders(all, service);
  if (service.redis != nullptr) {
    append_store(all, service.redis->counts());
    append_leases(all, service.engine.leases());
    append_fleet(all, service.redis->all_nodes());
    append_split(all, service.engine);
  }
  if (service.envoy_rules != nullptr && service.envoy_rules->is_configured()) {
    append_envoy(all, service.envoy_rules->counts());
  }
  append_process(all, service);
  if (service.more_metrics) service.more_metrics(all);
  call.answer().respond(200, "text/plain; version=0.0.4; charset=utf-8", all.text());
}

}  // namespace weir::server
