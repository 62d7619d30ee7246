// Two processes share a limit: what they count lies on a Redis, so that together they get what one
// of them would have got alone. Run it as: fleet redis://127.0.0.1:6379

#include <sys/wait.h>
#include <unistd.h>
#include <weir/engine.h>
#include <weir/redis.h>

#include <chrono>
#include <iostream>
#include <string>

constexpr auto kPolicies = R"(
policies:
  mails: { limits: [ 100/h ], on_store_failure: closed }
)";

constexpr int kFailed = 255;

// How many of `calls` pass; the other process takes from the same limit meanwhile.
int send_mails(const char* address, const std::string& tenant, int calls) {
  const auto fleet = weir::RedisFleet::open(address, {.timeout = std::chrono::seconds{5}});
  if (!fleet) {
    std::cerr << fleet.error().message << '\n';
    return kFailed;
  }
  weir::Engine engine{*weir::PolicySet::parse(kPolicies), {.fleet = fleet->get()}};
  int passed = 0;
  for (int i = 0; i < calls; ++i) {
    const weir::Verdict verdict = engine.take({.policy = "mails", .key = tenant});
    if (verdict.degraded) {
      std::cerr << "no answer from " << address << ": start one with redis-server\n";
      return kFailed;
    }
    if (verdict) ++passed;
  }
  return passed;
}

int main(int argc, char** argv) {
  const char* const address = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  const std::string tenant = "tenant-" + std::to_string(getpid());  // another one each time
  const pid_t other = fork();
  const int passed = send_mails(address, tenant, 80);
  if (other == 0) return passed;  // (as its exit code)

  int status = 0;
  waitpid(other, &status, 0);
  const int passed_there = WEXITSTATUS(status);
  if (passed == kFailed || passed_there == kFailed) return 1;
  std::cout << "160 mails by two processes, " << passed + passed_there << " sent\n";
}
