// A limit shared through Redis, used by a thread that must not block: calls are sent together, and
// callbacks receive the answers. Run it as: fleet_async redis://127.0.0.1:6379

#include <poll.h>
#include <unistd.h>
#include <weir/async_engine.h>
#include <weir/redis.h>

#include <chrono>
#include <iostream>
#include <string>

constexpr auto kPolicies = R"(
policies:
  mails: { limits: [ 100/h ], on_store_failure: closed }
)";

int main(int argc, char** argv) {
  const char* const address = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  const auto fleet = weir::RedisFleet::open(address, {.timeout = std::chrono::seconds{5}});
  if (!fleet) {
    std::cerr << fleet.error().message << '\n';
    return 1;
  }
  weir::Engine engine{*weir::PolicySet::parse(kPolicies), {.fleet = fleet->get()}};
  const auto link = (*fleet)->connect();
  weir::AsyncEngine async{engine, *link};

  const std::string tenant = "tenant-" + std::to_string(getpid());  // a new one in each run
  int open = 160;
  int passed = 0;
  bool degraded = false;
  for (int i = 0; i < 160; ++i) {
    async.take({.policy = "mails", .key = tenant}, [&](const weir::Verdict& verdict) {
      --open;
      if (verdict) ++passed;
      if (verdict.degraded) degraded = true;
    });
  }
  link->flush();

  while (open > 0) {
    pollfd ready{.fd = link->descriptor(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, -1);  // here a program has its own descriptors as well
    link->run_ready();
  }
  if (degraded) {
    std::cerr << "no answer from " << address << ": start one with redis-server\n";
    return 1;
  }
  std::cout << "160 mails by one thread that never waited, " << passed << " sent\n";
}
