// Two processes share a limit: their counts are in Redis, so that together they get as much as one
// of them alone. Run it as: fleet redis://127.0.0.1:6379

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

struct Sent {
  int mails = 0;
  std::string problem;  // the reason for fewer, if it is not the limit
};

// Tries to send `wanted` mails, and sends those that pass; the other process takes from the same
// limit meanwhile.
Sent send_mails(const std::string& address, const std::string& tenant, int wanted) {
  const auto fleet = weir::RedisFleet::open(address, {.timeout = std::chrono::seconds{5}});
  if (!fleet) return {.problem = fleet.error().message};
  weir::Engine engine{*weir::PolicySet::parse(kPolicies), {.fleet = fleet->get()}};
  Sent sent;
  for (int i = 0; i < wanted; ++i) {
    const weir::Verdict verdict = engine.take({.policy = "mails", .key = tenant});
    if (verdict.degraded) {
      sent.problem = "no answer from " + address + ": start one with redis-server";
      return sent;
    }
    if (verdict) ++sent.mails;
  }
  return sent;
}

int main(int argc, char** argv) {
  const char* const address = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  const std::string tenant = "tenant-" + std::to_string(getpid());  // a new one in each run
  const pid_t other = fork();
  const Sent here = send_mails(address, tenant, 80);
  if (other == 0) return here.problem.empty() ? here.mails : kFailed;

  int status = 0;
  waitpid(other, &status, 0);
  const int sent_there = WEXITSTATUS(status);
  if (!here.problem.empty() || sent_there == kFailed) {
    std::cerr << (here.problem.empty() ? "the other process got no answer" : here.problem) << '\n';
    return 1;
  }
  std::cout << "160 mails by two processes, " << here.mails + sent_there << " sent\n";
}
