// Applies the same limit to every user, and keeps no more users than fit in its memory.

#include <weir/clock.h>
#include <weir/keyed_limiter.h>

#include <chrono>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main() {
  weir::ManualClock clock;  // for reproducible output; leave it out for real time
  weir::KeyedLimiter logins{weir::Limit::sliding_exact(3, 1min), {.max_keys = 100'000}, clock};

  const auto try_to_log_in = [&](const std::string& user) {
    const weir::Decision decision = logins.try_acquire(user);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(decision.retry_after);
    std::cout << user << (decision ? " may try" : " has to wait, seconds: ");
    if (!decision) std::cout << seconds.count();
    std::cout << '\n';
  };

  for (int i = 0; i < 4; ++i) try_to_log_in("ann");
  clock.advance(20s);
  try_to_log_in("ann");
  try_to_log_in("bob");
  clock.advance(40s);
  try_to_log_in("ann");
  std::cout << "users that are remembered: " << logins.memory().live << '\n';
  clock.advance(2min);
  std::cout << "two minutes later: " << logins.memory().live << '\n';
}
