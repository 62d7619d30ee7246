// A foreign program that uses everything in weir::limiter.

#include <weir/concurrency_limiter.h>
#include <weir/keyed_limiter.h>
#include <weir/limited.h>
#include <weir/limiter.h>
#include <weir/smooth_limiter.h>

#include <chrono>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main() {
  weir::ManualClock clock;
  weir::Limiter limiter{weir::per_second(2), clock};
  weir::KeyedLimiter keyed{weir::Limit::queue(weir::per_second(1), 1), {.max_keys = 100}, clock};
  weir::SmoothLimiter smooth{weir::per_second(10), 1s, clock};
  weir::ConcurrencyLimiter slots{1};

  auto call = weir::limited([](const std::string& name) { return "hello " + name; })
                  .by(slots)
                  .by(limiter)
                  .or_else([](const weir::Denial& denial, const std::string&) {
                    return "refused by gate " + std::to_string(denial.gate);
                  });
  for (const char* name : {"ann", "bob", "eve"}) std::cout << call(name) << '\n';

  for (int i = 0; i < 2; ++i) {
    const weir::Reservation turn = keyed.reserve("ann");
    std::cout << "turn in " << (turn.ready_at() - clock.now()) / 1ms << " ms\n";
  }
  std::cout << "waited " << (smooth.acquire() + smooth.acquire() > 0s) << '\n';
  std::cout << "the time is known " << (weir::system_clock().now() > weir::Instant{}) << '\n';
}
