// Limits incoming calls: a caller that is too fast is told when to come back.

#include <weir/limiter.h>

#include <chrono>
#include <iostream>

int main() {
  weir::Limiter mails{weir::per_minute(6).burst(5)};  // five at once, then one every ten seconds

  for (int call = 1; call <= 7; ++call) {
    if (const weir::Decision decision = mails.try_acquire()) {
      std::cout << "200 OK, " << decision.remaining << " left\n";
    } else {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(decision.retry_after);
      std::cout << "429 Too Many Requests, Retry-After: " << seconds.count() << '\n';
    }
  }
}
