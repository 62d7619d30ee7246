// A foreign program that uses weir::engine.

#include <weir/engine.h>
#include <weir/limiter.h>
#include <weir/parse_limit.h>

#include <iostream>

int main() {
  const auto limit = weir::parse_limit("2/s burst 3");
  std::cout << weir::to_string(*limit) << '\n';
  std::cout << weir::parse_limit("2/sec").error().message << '\n';
  weir::Limiter limiter{*limit};
  std::cout << "burst " << limiter.peek().limit << '\n';

  auto policies = weir::PolicySet::parse(
      "policies:\n  api:\n    limits: [ 2/min, { limit: 9/day in Asia/Shanghai, name: quota } ]\n");
  weir::Engine engine{*policies};
  for (int i = 0; i < 3; ++i) {
    const weir::Verdict verdict = engine.take({.policy = "api", .key = "ann"});
    std::cout << (verdict ? "allowed" : "refused") << " by limit " << verdict.limited_by << '\n';
  }
  std::cout
      << weir::PolicySet::parse("policies: { a: { limits: [ 1/s brst 2 ] } }").error().message;
}
