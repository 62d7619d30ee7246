#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/bench/plan.h"
#include "core/limit.h"

namespace weir::cli::bench {

// The limit that comes with the call, as the daemon will make it: over RESP that of CL.THROTTLE,
// which knows token buckets only.
Result<core::Limit, Error> own_limit(const Plan& plan);

// The bytes of requests. All requests with the same verb are the same but for a few digits of the
// key, so they are written once, and each is a copy with its digits.
class Messages {
 public:
  // `plan` is one that `check` finds nothing wrong with.
  explicit Messages(const Plan& plan);

  void append(std::string& out, Verb verb, std::uint64_t key) const;

  // What a connection says first; empty if nothing.
  const std::string& login() const { return login_; }

 private:
  struct Message {
    std::string bytes;
    std::size_t digits_end = 0;
  };

  Message message(const Plan& plan, Verb verb) const;

  std::array<Message, kVerbNames.size()> messages_{};
  std::string login_;
};

// A command of RESP.
std::string resp_command(std::initializer_list<std::string_view> words);

}  // namespace weir::cli::bench
