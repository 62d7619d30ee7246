// fleet_client PORT LIMIT KEYS IN_FLIGHT SECONDS [forgets]: the cost of a program that uses a
// Redis.
//
// An AsyncEngine on one link, with one policy of one limit, takes from KEYS keys, one after the
// other in a pseudo-random order, with IN_FLIGHT open calls at any time. `forgets`: the link has no
// denial cache. Prints: answers a second, nanoseconds of CPU for each, the kernel's part of them,
// the number of admitted calls and of calls without an answer.

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "store/redis/link.h"
#include "weir/async_engine.h"
#include "weir/parse_limit.h"
#include "weir/redis.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr weir::Nanos kPatience = std::chrono::seconds{5};

struct Cpu {
  double all = 0;
  double kernel = 0;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Cpu cpu_so_far() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const double kernel = seconds_of(use.ru_stime);
  return {seconds_of(use.ru_utime) + kernel, kernel};
}

[[noreturn]] void fail(std::string_view what) {
  std::fprintf(stderr, "fleet_client: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

// A fleet whose links have no denial cache: only for the comparison in a bench.
class ForgetfulFleet final : public weir::Fleet {
 public:
  explicit ForgetfulFleet(std::uint16_t port) {
    options_.address.host = "127.0.0.1";
    options_.address.port = port;
    options_.connection.timeout = kPatience;
    options_.make_codec = weir::store::redis::make_script_codec;
    options_.caches_denials = false;
  }
  std::unique_ptr<weir::Link> connect() override {
    return std::make_unique<weir::store::redis::RedisLink>(
        options_, std::make_shared<weir::store::redis::LinkCounts>(), 1);
  }

 private:
  weir::store::redis::LinkOptions options_{};
};

std::unique_ptr<weir::Fleet> fleet_at(const std::string& port, bool forgets) {
  if (forgets) {
    return std::make_unique<ForgetfulFleet>(static_cast<std::uint16_t>(std::stoi(port)));
  }
  auto fleet = weir::RedisFleet::open("redis://127.0.0.1:" + port, {.timeout = kPatience});
  if (!fleet) fail(fleet.error().message);
  return *std::move(fleet);
}

// Takes, and counts the answers.
class Client {
 public:
  Client(weir::Engine& engine, weir::Link& link, std::uint64_t keys)
      : link_(link), async_(engine, link), keys_(keys) {}

  // Fills up to IN_FLIGHT, then runs a turn of the link. (Calls that need no answer from the server
  // complete at once.)
  void turn(std::size_t in_flight) {
    for (std::size_t i = open_; i < in_flight; ++i) ask();
    if (open_ > 0) link_.wait(kPatience);
  }

  void finish() {
    while (open_ > 0) link_.wait(kPatience);
  }

  std::uint64_t answered = 0;
  std::uint64_t admitted = 0;
  std::uint64_t degraded = 0;

 private:
  void ask() {
    ++open_;
    async_.take({.policy = "one", .key = next_key()}, [this](const weir::Verdict& verdict) {
      --open_;
      ++answered;
      if (verdict) ++admitted;
      if (verdict.degraded) ++degraded;
    });
  }

  // user:00000000000 and so on.
  std::string_view next_key() {
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    std::uint64_t number = (random_ >> 33) % keys_;
    for (auto digit = key_.rbegin(); *digit != ':'; ++digit) {
      *digit = static_cast<char>('0' + number % 10);
      number /= 10;
    }
    return key_;
  }

  weir::Link& link_;
  weir::AsyncEngine async_;
  const std::uint64_t keys_;
  std::uint64_t random_ = 1;
  std::string key_ = "user:00000000000";
  std::size_t open_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: fleet_client PORT LIMIT KEYS IN_FLIGHT SECONDS [forgets]\n");
    return 2;
  }
  const bool forgets = argc > 6;
  const std::unique_ptr<weir::Fleet> fleet = fleet_at(argv[1], forgets);
  const auto limit = weir::parse_limit(argv[2]);
  if (!limit) fail(limit.error().message);
  weir::PolicySet policies;
  policies.add("one", *limit);
  weir::Engine engine(policies, {.fleet = fleet.get()});
  const std::unique_ptr<weir::Link> link = fleet->connect();
  Client client(engine, *link, static_cast<std::uint64_t>(std::atoll(argv[3])));
  const auto in_flight = static_cast<std::size_t>(std::atoll(argv[4]));

  client.turn(in_flight);  // connects, and finds out whether the server has the script
  client.finish();
  const std::uint64_t answered = client.answered;
  const std::uint64_t admitted = client.admitted;
  const Cpu before = cpu_so_far();
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(std::atof(argv[5])));
  // (A busy machine may need longer for the first answer.)
  while (Clock::now() < end || client.answered == answered) client.turn(in_flight);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  const Cpu after = cpu_so_far();
  const auto count = static_cast<double>(client.answered - answered);
  std::printf("%.0f %.1f %.1f %llu %llu\n", count / took, (after.all - before.all) / count * 1e9,
              (after.kernel - before.kernel) / count * 1e9,
              static_cast<unsigned long long>(client.admitted - admitted),
              static_cast<unsigned long long>(client.degraded));
  client.finish();
}
