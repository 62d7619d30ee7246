#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/bench/bench_plan.h"
#include "core/limit.h"

namespace weir::cli::bench {

// The ad hoc limit of --limit as the daemon applies it. Over RESP it is sent with CL.THROTTLE,
// which supports token buckets only.
Result<core::Limit, Error> ad_hoc_limit(const BenchPlan& plan);

// The bytes of requests. Requests with the same verb differ only in the digits of the key, so one
// template for each verb is built in advance; a request is a copy of it with its digits.
class Messages {
 public:
  // Precondition: `check` accepts the plan.
  explicit Messages(const BenchPlan& plan);

  void append(std::string& out, RequestVerb verb, std::uint64_t key) const;

  // The first bytes of a connection: AUTH over RESP, if there is a password; otherwise empty.
  const std::string& login() const { return login_; }

 private:
  struct Message {
    std::string bytes;
    std::size_t digits_end = 0;
  };

  Message message(const BenchPlan& plan, RequestVerb verb) const;

  std::array<Message, kVerbNames.size()> messages_{};
  std::string login_;
};

// A command as a RESP array of bulk strings.
std::string resp_command(std::initializer_list<std::string_view> words);

}  // namespace weir::cli::bench
