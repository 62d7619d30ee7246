#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "store/redis/request_codec.h"
#include "store/shared_store.h"

namespace weir::store::redis {

// A codec whose script has no limits: it denies costs above ten, for a second. `ARGV[2]` is the
// text of an error to raise, if any.
class FakeCodec final : public RequestCodec {
 public:
  static constexpr std::string_view kScript =
      "if ARGV[2] ~= '' then return redis.error_reply(ARGV[2]) end "
      "redis.call('INCR', KEYS[1]) if tonumber(ARGV[1]) > 10 then return 0 end return 1";

  void start(const StoreRequest& request, Instant) override {
    request_ = &request;
    sent_twice_ = false;
  }

  void append_command(std::string& out, bool with_source) const override {
    const StoreItem& item = request_->items.front();
    const std::string cost = std::to_string(item.ask.cost);
    const std::array<std::string_view, 6> words{with_source ? "EVAL" : "EVALSHA",
                                                with_source ? kScript : sha(),
                                                "1",
                                                item.key,
                                                cost,
                                                request_->holder};
    append_resp(out, words);
  }

  RedisCall::ReplyResult on_reply(std::span<const wire::RespValue> reply,
                                  StoreResponse& answer) override {
    if (request_->verb == StoreVerb::peek && !std::exchange(sent_twice_, true)) {
      return RedisCall::ReplyResult::again;
    }
    answer.kind = StoreResponse::Kind::decided;
    answer.error.clear();
    answer.decisions.clear();
    const bool passes = reply.front().number == 1;
    const core::Decision decision{.outcome = passes ? Outcome::allowed : Outcome::limited,
                                  .limit = 100,
                                  .retry_after = std::chrono::seconds{passes ? 0 : 1}};
    answer.decisions.push_back(decision);
    answer.verdict = {.decision = decision, .tightest = 0, .refusing = passes ? 0u : 1u};
    return RedisCall::ReplyResult::answered;
  }

 private:
  static const std::string& sha() {
    static const std::string text = [] {
      std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
      SHA1(reinterpret_cast<const unsigned char*>(kScript.data()), kScript.size(), digest.data());
      std::string hex;
      for (const unsigned char byte : digest) {
        std::array<char, 3> digits{};
        std::snprintf(digits.data(), digits.size(), "%02x", byte);
        hex += digits.data();
      }
      return hex;
    }();
    return text;
  }

  const StoreRequest* request_ = nullptr;
  bool sent_twice_ = false;
};

// Sends a request, and notes its response.
class FakeRequester final : public StoreCallback {
 public:
  explicit FakeRequester(std::string name = "key", Permits cost = 1) : key(std::move(name)) {
    item.limit = &limit;
    item.key = key;
    item.ask.cost = cost;
    request.items = {&item, 1};
  }
  FakeRequester(const FakeRequester&) = delete;
  FakeRequester& operator=(const FakeRequester&) = delete;

  void on_response(StoreResponse& received) override {
    ++answers;
    answer = received;
    if (then) then();
  }
  bool is_answered() const { return answers > 0; }
  bool is_decided() const { return answers == 1 && answer.kind == StoreResponse::Kind::decided; }
  bool is_unavailable() const {
    return answers == 1 && answer.kind == StoreResponse::Kind::unavailable;
  }
  bool is_misconfigured() const {
    return answers == 1 && answer.kind == StoreResponse::Kind::misconfigured;
  }

  const std::string key;
  core::Limit limit = core::Window{.count = 100};
  StoreItem item{};
  StoreRequest request{};
  int answers = 0;
  StoreResponse answer{};
  std::function<void()> then{};
};

}  // namespace weir::store::redis
