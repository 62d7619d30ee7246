// Limits our own calls to a partner, which allows two a second and eight at a time. A call that the
// partner cannot serve now is served from the cache.

#include <weir/clock.h>
#include <weir/concurrency_limiter.h>
#include <weir/limited.h>
#include <weir/limiter.h>

#include <chrono>
#include <iostream>
#include <map>
#include <string>

using namespace std::chrono_literals;

int main() {
  weir::ManualClock clock;  // for reproducible output; leave it out for real time
  weir::Limiter contract{weir::per_second(2), clock};
  weir::ConcurrencyLimiter connections{8};

  std::map<std::string, std::string> cache;
  int degrees = 20;
  const auto ask_partner = [&](const std::string& city) {
    return cache[city] = std::to_string(++degrees) + " degrees";
  };
  const auto look_into_cache = [&](const weir::Denial& denial, const std::string& city) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(denial.decision.retry_after);
    const std::string known = cache.contains(city) ? cache[city] + ", as of before" : "unknown";
    return known + " (the partner again in " + std::to_string(wait.count()) + " ms)";
  };

  auto weather = weir::limited(ask_partner).by(connections).by(contract).or_else(look_into_cache);

  for (const std::string city : {"Chengdu", "Berlin", "Chengdu", "Lagos"}) {
    std::cout << city << ": " << weather(city) << '\n';
  }
  clock.advance(500ms);
  std::cout << "half a second later\nLagos: " << weather("Lagos") << '\n';
}
