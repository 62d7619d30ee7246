#include <nlohmann/json.hpp>
#include <numeric>

#include "server/http_handlers.h"
#include "wire/json_write.h"

namespace weir::server {

using nlohmann::json;

namespace {

json nodes_in(const RedisNodes& all) {
  json nodes = json::array();
  for (const RedisNodes::Node& node : all.nodes) {
    nodes.push_back({{"name", node.name},
                     {"version", node.version},
                     {"rank", nodes.size()},
                     {"silent_ms", wire::millis_up(node.silent)},
                     {"seen", node.seen},
                     {"self", node.self}});
  }
  return nodes;
}

json split_in(Engine& engine) {
  json limits = json::array();
  for (const SplitLimit& limit : engine.split_limits()) {
    limits.push_back({{"policy", limit.policy},
                      {"name", limit.name},
                      {"limit", limit.limit},
                      {"share", limit.share.part},
                      {"whole", limit.share.whole},
                      {"granted", limit.granted},
                      {"grows_in_ms", wire::millis_up(limit.grows_in)}});
  }
  return limits;
}

json leases_of(const LeaseUse& use) {
  return {{"keys", use.keys},         {"held", use.held},         {"asked", use.asked},
          {"borrowed", use.borrowed}, {"returned", use.returned}, {"lapsed", use.lapsed}};
}

json store_of(const RedisCounts& counts) {
  const std::uint64_t answers = std::accumulate(counts.answers_by_time.begin(),
                                                counts.answers_by_time.end(), std::uint64_t{0});
  const double all = std::chrono::duration<double, std::milli>(counts.answer_time).count();
  return {{"links", counts.links},
          {"connected", counts.connected},
          {"breakers_open", counts.breakers_open},
          {"calls", counts.calls},
          {"timeouts", counts.timeouts},
          {"unavailable", counts.unavailable},
          {"misconfigured", counts.misconfigured},
          {"answer_ms", answers == 0 ? 0.0 : all / static_cast<double>(answers)}};
}

}  // namespace

void show_fleet(HttpCall& call) {
  json body{{"fleet", call.context.redis != nullptr}};
  if (const RedisFleet* redis = call.context.redis) {
    const RedisNodes all = redis->all_nodes();
    body["member"] = all.member;
    body["generation"] = all.generation;
    body["nodes"] = nodes_in(all);
    body["split"] = split_in(call.context.engine);
    body["leases"] = leases_of(call.context.engine.leases());
    body["store"] = store_of(redis->counts());
  }
  call.response().json(200, body.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace weir::server
