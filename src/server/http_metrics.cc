#include <fmt/format.h>

#include <array>
#include <span>
#include <tuple>

#include "server/http_handlers.h"
#include "server/version.h"

namespace weir::server {

namespace {

// All buckets of the response time but the last, which has no bound.
constexpr std::size_t kStoreBounds = std::tuple_size_v<decltype(RedisCounts::answers_by_time)> - 1;

void append_memory(Exposition& to, const MemoryUse& use) {
  to.gauge("weir_memory_bytes", "Size of the table of states, in bytes.");
  to.sample(use.bytes);
  to.gauge("weir_memory_slots", "Slots of the table: one for each key under each limit.");
  to.sample(use.slots);
  to.gauge("weir_memory_slots_live", "Slots in use by keys that are not at rest.");
  to.sample(use.live);
  to.gauge("weir_memory_record_bytes",
           "Bytes of the table for the records of exact windows and concurrency limits.");
  to.sample(use.record_bytes);
  to.gauge("weir_memory_record_bytes_used", "Bytes of records in use.");
  to.sample(use.record_used);
  to.counter("weir_memory_forgotten_total", "Keys at rest that were evicted for new keys.");
  to.sample(use.forgotten);
  to.counter("weir_memory_full_total",
             "Calls whose key found no slot in the full table, by the policy's when_full.");
  to.sample({{"when_full", "share"}}, use.shared);
  to.sample({{"when_full", "deny"}}, use.denied);
  to.sample({{"when_full", "allow"}}, use.untracked);
}

void append_orders(Exposition& to, const ServerContext& context) {
  std::array<std::uint64_t, kOrderVerbs> counts{};
  for (const GivenOrder& given : context.policies.orders(context.engine.now())) {
    ++counts[static_cast<std::size_t>(given.order.verb)];
  }
  to.gauge("weir_orders", "Operators' orders in force, by verb.");
  for (int i = 0; i < kOrderVerbs; ++i) {
    const auto verb = static_cast<policy::Order::Verb>(i);
    to.sample({{"verb", name_of(verb)}}, counts[static_cast<std::size_t>(i)]);
  }
}

void append_answer_time(Exposition& to, const RedisCounts& counts) {
  to.histogram("weir_store_seconds", "Response time of the store, in seconds.");
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
  to.gauge("weir_store_nodes", "weir nodes that share the store, as this node knows them.");
  to.sample(counts.nodes);
  to.gauge("weir_store_links", "Links to the store: one for each thread.");
  to.sample(counts.links);
  to.gauge("weir_store_links_connected", "Links to the store that are connected.");
  to.sample(counts.connected);
  to.gauge("weir_store_breakers_open",
           "Links whose circuit breaker is open, as the store did not respond in time.");
  to.sample(counts.breakers_open);
  to.counter("weir_store_connects_total", "Connections to the store that were established.");
  to.sample(counts.connects);
  to.counter("weir_store_calls_total", "Calls to the store.");
  to.sample(counts.calls);
  to.counter("weir_store_round_trips_total",
             "Round trips to the store: calls of one pipeline count as one.");
  to.sample(counts.round_trips);
  to.counter("weir_store_sent_calls_total", "Calls that were sent in these round trips.");
  to.sample(counts.sent_calls);
  to.counter("weir_store_refused_without_asking_total",
             "Calls refused from the cache of the store's recent refusals.");
  to.sample(counts.refused_without_asking);
  to.counter("weir_store_redirections_total",
             "Calls that a node of a Redis Cluster redirected (MOVED, ASK).");
  to.sample(counts.redirections);
  to.counter("weir_store_maps_total", "Slot maps of a Redis Cluster that were read.");
  to.sample(counts.maps);
  to.counter("weir_store_given_back_total",
             "Takes given back to one node of a Redis Cluster, as another node refused.");
  to.sample(counts.given_back);
  to.counter("weir_store_failures_total", "Calls to the store that failed, by cause.");
  to.sample({{"kind", "timeout"}}, counts.timeouts);
  to.sample({{"kind", "unavailable"}}, counts.unavailable - counts.timeouts);
  to.sample({{"kind", "misconfigured"}}, counts.misconfigured);
  append_answer_time(to, counts);
}

void append_leases(Exposition& to, const LeaseUse& use) {
  to.gauge("weir_lease_keys", "Keys of leased limits with permits leased to this node.");
  to.sample(use.keys);
  to.gauge("weir_lease_permits_held", "Permits leased to this node and not spent yet.");
  to.sample(use.held);
  to.counter("weir_lease_questions_total", "Calls to the store that lease or return permits.");
  to.sample(use.asked);
  to.counter("weir_lease_permits_total",
             "Permits that were leased (borrowed), given back (returned), or not spent before the "
             "lease ended (lapsed).");
  to.sample({{"what", "borrowed"}}, use.borrowed);
  to.sample({{"what", "returned"}}, use.returned);
  to.sample({{"what", "lapsed"}}, use.lapsed);
}

void append_fleet(Exposition& to, const RedisNodes& all) {
  to.gauge("weir_fleet_nodes", "weir nodes in the membership list of the store.");
  to.sample(all.nodes.size());
  to.gauge("weir_fleet_generation",
           "Generation of the membership list: how often a node has joined or left.");
  to.sample(all.generation);
  to.gauge("weir_fleet_member", "1 if this node is in the membership list, else 0.");
  to.sample(all.member ? 1 : 0);
}

void append_split(Exposition& to, Engine& engine) {
  const std::vector<SplitLimit> limits = engine.split_limits();
  to.gauge("weir_split_share", "Permits of a split limit that are this node's share.");
  for (const SplitLimit& limit : limits) {
    to.sample({{"policy", limit.policy}, {"limit", limit.name}}, limit.share.part);
  }
  to.gauge("weir_split_whole", "Permits of a split limit over all nodes.");
  for (const SplitLimit& limit : limits) {
    to.sample({{"policy", limit.policy}, {"limit", limit.name}}, limit.share.whole);
  }
}

// The number of series is bounded: one for each rule, and at most a thousand that are named by
// values of calls.
void append_envoy(Exposition& to, const envoy::ServiceCounters& counts) {
  to.counter("weir_envoy_hits_total", "Hits of Envoy's descriptors, by the rule they matched.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.total);
  to.counter("weir_envoy_over_limit_total", "Hits over the limit of their rule.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.over);
  to.counter("weir_envoy_near_limit_total", "Hits above 80% of the limit of their rule.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.near);
  to.counter("weir_envoy_within_limit_total", "Hits of calls that their rule let pass.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.within);
  to.counter("weir_envoy_shadow_mode_total", "Hits over the limit of a rule in shadow_mode.");
  for (const auto& rule : counts.rules) to.sample({{"rule", rule.key}}, rule.shadow);
  to.counter("weir_envoy_domain_not_found_total", "Calls with a domain that has no rules.");
  to.sample(counts.domain_not_found);
  to.counter("weir_envoy_global_shadow_mode_total",
             "Calls over a limit that passed because of the global shadow_mode.");
  to.sample(counts.shadow);
  to.counter("weir_envoy_errors_total",
             "Calls that were answered with an error, by kind: of the call (service) or of the "
             "store.");
  to.sample({{"kind", "service"}}, counts.service_errors);
  to.sample({{"kind", "store"}}, counts.store_errors);
  to.counter("weir_envoy_degraded_total", "Calls that were decided without the store.");
  to.sample(counts.degraded);
  to.counter("weir_envoy_config_loads_total", "Loads of Envoy's rules, by result.");
  to.sample({{"result", "succeeded"}}, counts.loads);
  to.sample({{"result", "failed"}}, counts.failed_loads);
}

void append_process(Exposition& to, const ServerContext& context) {
  const net::LoopCounts connections = context.loops.counts();
  to.gauge("weir_connections_open", "Open client connections.");
  to.sample(connections.open);
  to.counter("weir_connections_total", "Client connections that were accepted.");
  to.sample(connections.accepted);
  to.counter("weir_connections_refused_total",
             "Client connections that were turned away, as too many were open.");
  to.sample(connections.rejected);
  const net::MemoryCounts memory = context.loops.memory();
  to.gauge("weir_connection_memory_bytes", "Bytes in the buffers of all client connections.");
  to.sample(memory.held);
  to.gauge("weir_connection_memory_limit_bytes",
           "Limit of the bytes in the buffers of all client connections.");
  to.sample(memory.limit);
  to.counter("weir_connections_shed_total",
             "Connections closed to free memory: the largest, as all held more than the limit "
             "(limit), or one for which an allocation had failed (out_of_memory).");
  to.sample({{"reason", "limit"}}, memory.shed);
  to.sample({{"reason", "out_of_memory"}}, memory.out_of_memory);
  to.gauge("weir_receipt_bytes", "Memory of the receipts that can still be settled, in bytes.");
  to.sample(context.receipts.memory());
  to.counter("weir_tls_failures_total", "Connections closed because TLS failed.");
  to.sample(context.tls_failures.load());
  to.gauge("weir_generation", "Generation of the policies: how often they were replaced.");
  to.sample(context.engine.generation());
  to.counter("weir_reloads_total", "Reloads of the policy file, by result.");
  to.sample({{"result", "succeeded"}}, context.reloads.succeeded.load());
  to.sample({{"result", "failed"}}, context.reloads.failed.load());
  to.gauge("weir_last_reload_successful",
           "1 if the last reload succeeded; 0: the policies of an earlier one are still in force.");
  to.sample(context.reloads.last_succeeded ? 1 : 0);
  // (The name that Prometheus' client libraries use.)
  to.gauge("process_start_time_seconds", "Start time of the daemon, in seconds since 1970.");
  to.sample(std::chrono::floor<std::chrono::seconds>(context.started).time_since_epoch().count());
  to.gauge("weir_build_info", "The version of weir, as a label; the value is always 1.");
  to.sample({{"version", kVersion}}, 1);
}

}  // namespace

void show_metrics(HttpCall& call) {
  const ServerContext& context = call.context;
  Exposition all;
  context.metrics.append_to(all);
  append_memory(all, context.memory.last());
  append_orders(all, context);
  if (context.redis != nullptr) {
    append_store(all, context.redis->counts());
    append_leases(all, context.engine.leases());
    append_fleet(all, context.redis->all_nodes());
    append_split(all, context.engine);
  }
  if (context.envoy_rules != nullptr && context.envoy_rules->is_configured()) {
    append_envoy(all, context.envoy_rules->counts());
  }
  append_process(all, context);
  if (context.extra_metrics) context.extra_metrics(all);
  call.response().respond(200, "text/plain; version=0.0.4; charset=utf-8", all.text());
}

}  // namespace weir::server
