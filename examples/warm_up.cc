// Calls a service that is slow when cold: a rested SmoothLimiter starts at a third of its rate and
// reaches the full rate within two seconds. Prints the wait of each call.

#include <weir/clock.h>
#include <weir/smooth_limiter.h>

#include <chrono>
#include <iomanip>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main() {
  weir::ManualClock clock;  // advances when a caller sleeps
  weir::SmoothLimiter limiter{weir::per_second(10), 2s, clock};

  const weir::Instant start = clock.now();
  const auto call = [&] {
    const auto waited = std::chrono::round<std::chrono::milliseconds>(limiter.acquire());
    const std::chrono::duration<double> at = clock.now() - start;
    std::cout << std::setw(6) << at.count() << " s |"
              << std::string(static_cast<std::size_t>(waited / 10ms), '#') << ' ' << waited.count()
              << " ms\n";
  };

  std::cout << std::fixed << std::setprecision(2);
  for (int i = 0; i < 16; ++i) call();
  std::cout << "a rest of ten seconds\n";
  clock.advance(10s);
  for (int i = 0; i < 4; ++i) call();
}
