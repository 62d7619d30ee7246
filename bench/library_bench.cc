// The cost of the library, compared with what people would write themselves.
//
//   clock            one read of the system clock, the ceiling of a limiter that reads the time
//   limiter          Limiter::try_acquire, clock included; refused: the same when nothing is left
//   keyed …          KeyedLimiter::try_acquire_at on N keys of 16 bytes, uniform or Zipf 0.99
//   map …            the peer: absl::flat_hash_map<std::string, State> in 64 shards with mutexes
//   batch …          KeyedLimiter::try_acquire_all, 16 at a time
//   two threads …    the same work on each of two threads, different keys
//   hot refused …    one key with nothing left, on one thread and on two
//
// Prints a JSON object: name → nanoseconds per take, one number for each round. Within a round the
// contenders take turns, so that disturbances of the machine affect all of them. bench/run prints a
// table of it.

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/limit.h"
#include "weir/keyed_limiter.h"
#include "weir/limiter.h"

namespace {

using weir::Instant;
using weir::Nanos;

constexpr std::size_t kKeyBytes = 16;
const Instant kStart{std::chrono::seconds{1'700'000'000}};
const weir::Quota kQuota = weir::per_second(1000).burst(1000);

// ---- The peer

class ShardedMap {
 public:
  bool take(std::string_view key, Instant now) {
    const absl::string_view text(key.data(), key.size());
    Shard& shard = shards_[absl::Hash<absl::string_view>{}(text) >> 58];
    const std::lock_guard lock(shard.mutex);
    auto found = shard.states.find(text);
    if (found == shard.states.end()) found = shard.states.try_emplace(std::string(key)).first;
    const auto taken = weir::core::take(limit_, found->second, now);
    found->second = taken.next;
    return static_cast<bool>(taken.decision);
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    absl::flat_hash_map<std::string, weir::core::State> states;
  };
  std::array<Shard, 64> shards_;
  weir::core::Bucket limit_ = *weir::core::Bucket::make({.count = 1000}, 1000);
};

// ---- Keys

// A sequence of keys, generated before the measurement.
class Arrivals {
 public:
  template <typename Draw>
  Arrivals(std::size_t count, Draw draw) : bytes_(count * kKeyBytes) {
    for (std::size_t i = 0; i < count; ++i) write_key(draw(), bytes_.data() + i * kKeyBytes);
    for (std::size_t i = 0; i < count; ++i)
      keys_.emplace_back(bytes_.data() + i * kKeyBytes, kKeyBytes);
  }
  const std::vector<std::string_view>& keys() const { return keys_; }

  static void write_key(std::size_t number, char* to) {
    char text[kKeyBytes + 8];
    std::snprintf(text, sizeof text, "user:%011zu", number % 100'000'000'000);
    std::memcpy(to, text, kKeyBytes);
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::string_view> keys_;
};

// Zipf by Gray's method: rank r with a probability in proportion to r^-0.99.
class Zipf {
 public:
  explicit Zipf(std::size_t count) : count_(count) {
    for (std::size_t i = 1; i <= count; ++i) zeta_ += std::pow(static_cast<double>(i), -kTheta);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(count), 1 - kTheta)) /
           (1 - (1 + std::pow(0.5, kTheta)) / zeta_);
  }
  template <typename Random>
  std::size_t operator()(Random& random) const {
    const double u = std::uniform_real_distribution<>{}(random);
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, kTheta)) return 1;
    const double rank =
        static_cast<double>(count_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta));
    // Popular keys must not all be inserted first.
    return static_cast<std::size_t>(rank) * 0x9e37'79b9'7f4a'7c15 % count_;
  }

 private:
  static constexpr double kTheta = 0.99;
  std::size_t count_;
  double zeta_ = 0;
  double eta_ = 0;
};

// ---- Measuring

std::map<std::string, std::vector<double>> results;

void pin(unsigned core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core % std::thread::hardware_concurrency(), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

double nanos_of(const std::function<void()>& work) {
  const auto before = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before)
      .count();
}

void measure(const std::string& name, std::size_t takes, const std::function<void()>& work) {
  results[name].push_back(nanos_of(work) / static_cast<double>(takes));
}

// The same on several threads at once, each on its own core: nanoseconds per take over all threads.
void measure_threads(const std::string& name, unsigned threads, std::size_t takes_each,
                     const std::function<void(unsigned)>& work) {
  const double all = nanos_of([&] {
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        pin(t);
        work(t);
      });
    }
    for (std::thread& thread : running) thread.join();
  });
  results[name].push_back(all / static_cast<double>(threads * takes_each));
}

volatile std::size_t sink;

void bench_limiter(std::size_t takes) {
  const weir::Clock& clock = weir::system_clock();
  // One that always admits, one that never does.
  static weir::Limiter open{weir::per(1'000'000'000, std::chrono::seconds{1}).burst(1'000'000'000)};
  static weir::Limiter shut = [] {
    return weir::Limiter{weir::per(1, std::chrono::hours{1}).burst(1)};
  }();
  (void)shut.try_acquire();
  measure("clock", takes, [&] {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < takes; ++i) sum += clock.now().time_since_epoch().count();
    sink = static_cast<std::size_t>(sum);
  });
  const auto all = [&](weir::Limiter& limiter) {
    return [&limiter, takes] {
      std::size_t allowed = 0;
      for (std::size_t i = 0; i < takes; ++i) allowed += limiter.try_acquire() ? 1 : 0;
      sink = allowed;
    };
  };
  measure("limiter", takes, all(open));
  measure("limiter refused", takes, all(shut));
}

// Time passes fast enough for every key to have permits left.
struct VirtualTime {
  Instant now = kStart;
  Instant next() { return now += Nanos{200}; }
};

class KeyedBench {
 public:
  KeyedBench(std::size_t keys, std::size_t takes)
      : takes_(takes), limiter_(kQuota, {.max_keys = keys}), map_(std::make_unique<ShardedMap>()) {
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    std::array<char, kKeyBytes> key;
    for (std::size_t i = 0; i < keys; ++i) {
      Arrivals::write_key(i, key.data());
      map_->take({key.data(), kKeyBytes}, kStart);
    }
    const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (std::size_t i = 0; i < keys; ++i) {
      Arrivals::write_key(i, key.data());
      (void)limiter_.try_acquire_at(kStart, {key.data(), kKeyBytes});
    }
    const weir::MemoryUse use = limiter_.memory();
    if (use.shared != 0) std::fprintf(stderr, "library_bench: %zu keys did not fit\n", keys);
    const auto per_key = [keys](std::size_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(keys);
    };
    results["bytes keyed " + size(keys)] = {per_key(use.bytes)};
    results["bytes map " + size(keys)] = {per_key(after - before)};
  }

  static std::string size(std::size_t keys) {
    return keys % 1'000'000 == 0 ? std::to_string(keys / 1'000'000) + "M" : std::to_string(keys);
  }

  void round(const std::string& name, const Arrivals& arrivals) {
    const auto& keys = arrivals.keys();
    measure("map " + name, takes_, [&] {
      std::size_t allowed = 0;
      for (const auto& key : keys) allowed += map_->take(key, map_time_.next()) ? 1 : 0;
      sink = allowed;
    });
    measure("keyed " + name, takes_, [&] { run_single(keys, time_); });
    measure("batch " + name, takes_, [&] { run_batches(keys); });
  }

  void threads_round(const std::string& name, const Arrivals& one, const Arrivals& other) {
    const auto work = [&](unsigned thread) {
      VirtualTime time = time_;
      run_single(thread == 0 ? one.keys() : other.keys(), time);
    };
    measure_threads("one thread " + name, 1, takes_, work);
    measure_threads("two threads " + name, 2, takes_, work);
    time_.now += Nanos{200} * static_cast<std::int64_t>(takes_);
  }

  void hot_refused_round() {
    constexpr std::string_view hot = "everybody's key!";
    (void)limiter_.try_acquire_at(time_.now, hot, kQuota_burst);
    const auto work = [&](unsigned) {
      std::size_t allowed = 0;
      for (std::size_t i = 0; i < takes_; ++i) {
        allowed += limiter_.try_acquire_at(time_.now, hot, 2) ? 1 : 0;
      }
      sink = allowed;
    };
    measure_threads("one thread hot refused", 1, takes_, work);
    measure_threads("two threads hot refused", 2, takes_, work);
  }

 private:
  static constexpr weir::Permits kQuota_burst = 1000;

  void run_single(const std::vector<std::string_view>& keys, VirtualTime& time) {
    std::size_t allowed = 0;
    for (const auto& key : keys) allowed += limiter_.try_acquire_at(time.next(), key) ? 1 : 0;
    sink = allowed;
  }

  void run_batches(const std::vector<std::string_view>& keys) {
    std::array<weir::Decision, 16> decisions;
    std::size_t allowed = 0;
    for (std::size_t i = 0; i + 16 <= keys.size(); i += 16) {
      limiter_.try_acquire_all_at(time_.now += Nanos{200 * 16}, std::span(keys).subspan(i, 16),
                                  decisions);
      for (const weir::Decision& decision : decisions) allowed += decision ? 1 : 0;
    }
    sink = allowed;
  }

  std::size_t takes_;
  weir::KeyedLimiter limiter_;
  std::unique_ptr<ShardedMap> map_;
  VirtualTime time_;
  VirtualTime map_time_;
};

void bench_keyed(std::size_t keys, std::size_t takes, int rounds) {
  KeyedBench bench(keys, takes);
  std::mt19937_64 random(1);
  const Zipf zipf(keys);
  const std::string size = KeyedBench::size(keys);
  const auto uniform = [&] { return random() % keys; };
  const auto popular = [&] { return zipf(random); };
  for (int i = 0; i < rounds; ++i) {
    bench.round(size + " uniform", Arrivals(takes, uniform));
    bench.round(size + " zipf", Arrivals(takes, popular));
    bench.threads_round(size + " uniform", Arrivals(takes, uniform), Arrivals(takes, uniform));
    if (keys == 1'000'000 || i == 0) bench.hot_refused_round();
  }
}

// No key comes to rest: the table is permanently full after the first million keys or so.
void bench_flood(std::size_t keys, std::size_t takes, int rounds) {
  weir::KeyedLimiter limiter(weir::per(1000, std::chrono::hours{1000}).burst(1000),
                             {.max_keys = keys});
  std::mt19937_64 random(2);
  std::size_t next = 0;
  const auto newcomer = [&] { return next++; };
  const auto take_all = [&](const Arrivals& arrivals) {
    std::size_t allowed = 0;
    for (const auto& key : arrivals.keys()) {
      allowed += limiter.try_acquire_at(kStart, key) ? 1 : 0;
    }
    sink = allowed;
  };
  while (next < 2 * keys) take_all(Arrivals(takes, newcomer));
  const auto known = [&] { return random() % (keys / 2); };
  for (int i = 0; i < rounds; ++i) {
    const Arrivals calm(takes, known);
    const Arrivals flood(takes, newcomer);
    measure("calm", takes, [&] { take_all(calm); });
    measure("flood", takes, [&] { take_all(flood); });
  }
}

void print_results() {
  std::printf("{\n");
  bool first = true;
  for (const auto& [name, values] : results) {
    std::printf("%s  \"%s\": [", first ? "" : ",\n", name.c_str());
    for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.3f", i ? ", " : "", values[i]);
    std::printf("]");
    first = false;
  }
  std::printf("\n}\n");
}

}  // namespace

// library_bench ROUNDS TAKES KEYS…
int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: library_bench ROUNDS TAKES KEYS...\n");
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  const auto takes = static_cast<std::size_t>(std::atoll(argv[2]));
  pin(1);
  for (int i = 0; i < rounds; ++i) bench_limiter(takes);
  for (int i = 3; i < argc; ++i) {
    bench_keyed(static_cast<std::size_t>(std::atoll(argv[i])), takes, rounds);
  }
  bench_flood(static_cast<std::size_t>(std::atoll(argv[3])), takes, rounds);
  print_results();
}
