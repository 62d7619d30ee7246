#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "store/redis/redis_call.h"

namespace weir::store::redis {

// A call whose command is a word. Notes its replies and its end.
class FakeCall final : public RedisCall {
 public:
  explicit FakeCall(std::string word = "hello") : word_(std::move(word)) {}
  FakeCall(const FakeCall&) = delete;
  FakeCall& operator=(const FakeCall&) = delete;

  void append_command(std::string& out, bool with_source) const override {
    out += with_source ? "<source of " + word_ + ">" : "<" + word_ + ">";
  }
  std::string_view key() const override { return word_; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    replies.emplace_back(reply.front().text);
    return replies.size() <= agains ? ReplyResult::again : ReplyResult::answered;
  }
  void on_answered() override {
    ++answers;
    if (then) then();
  }
  void on_failure(CallFailure failure, std::string_view why) override {
    ++failures;
    is_misconfigured = failure == CallFailure::misconfigured;
    reason = why;
    if (then) then();
  }

  bool is_open() const { return answers + failures == 0; }
  bool was_answered() const { return answers == 1 && failures == 0; }
  bool is_unavailable() const { return failures == 1 && answers == 0 && !is_misconfigured; }
  bool has_misconfiguration() const { return failures == 1 && answers == 0 && is_misconfigured; }

  std::size_t agains = 0;  // number of replies after which it sends another command
  std::vector<std::string> replies;
  int answers = 0;
  int failures = 0;
  bool is_misconfigured = false;
  std::string reason;
  std::function<void()> then;

 private:
  const std::string word_;
};

}  // namespace weir::store::redis
