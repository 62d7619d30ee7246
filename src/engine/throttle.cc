#include "engine/throttle.h"

#include "policy/identity.h"
#include "policy/key.h"
#include "store/key_name.h"

namespace weir::engine {

// (Identities of policies start with a number.)
Throttle Throttle::of(const core::Limit& limit, Permits permits, std::optional<Nanos> max_wait) {
  Throttle throttle{.limit = limit};
  if (std::holds_alternative<core::Concurrency>(limit)) {
    throttle.error = "a concurrent limit is entered and left: give it to a policy";
    return throttle;
  }
  const std::vector<policy::Limit> alone{{.limit = limit}};
  const Nanos patience = core::is_queue(limit) ? kForever : Nanos{0};
  throttle.ask = {.cost = permits, .max_wait = max_wait.value_or(patience)};
  throttle.identity = store::hash_of("throttle" + policy::identities_of("", alone).front()).low;
  throttle.tail = store::key_suffix(policy::readable_identities_of(alone).front());
  return throttle;
}

Throttle Throttle::of(const core::RedisCell& limit, Permits permits) {
  static const std::uint64_t identity = store::hash_of("cl.throttle").low;
  return {.limit = limit,
          .ask = {.cost = permits},
          .identity = identity,
          .tail = store::key_suffix("cell")};
}

Result<store::Item, Error> Throttle::item(std::uint64_t seed, std::string_view key) const {
  thread_local std::string unused;
  const auto checked = policy::key_of({.key = key, .parts = {}}, {}, unused);
  if (!checked) return checked.error();
  const bool has_record = std::holds_alternative<core::SlidingLog>(limit);
  const auto print = [&](store::KeyKind kind, std::string_view bytes) {
    return store::fingerprint(seed, identity, kind, bytes, has_record);
  };
  return store::Item{.limit = &limit,
                     .key = print(store::KeyKind::whole, checked->bytes),
                     .overflow_key = print(store::KeyKind::overflow, {}),
                     .ask = ask};
}

Verdict throttled(const core::Decision& decision) {
  Verdict verdict{.decision = decision, .limited_by = "0"};
  if (!decision) verdict.refusing = 1;
  return verdict;
}

}  // namespace weir::engine
