#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "store/redis/lease_script.h"
#include "store/redis/limit_script.h"
#include "store/shared_store.h"
#include "wire/resp_reply.h"

namespace weir::test_support {

// A blocking connection that waits for each answer. Throws if the connection is lost.
class RedisConnection {
 public:
  explicit RedisConnection(const std::string& socket);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // The answer to a command, valid until the next one.
  std::span<const wire::RespValue> ask(std::string_view command);
  // The bytes of the last answer.
  std::string_view input() const { return input_; }
  // Sends a command given as words. Returns the text of the first value of the answer.
  std::string say(std::initializer_list<std::string_view> words);

 private:
  int fd_;
  std::string input_;
  wire::RespReplyParser parser_;
};

// A shared store that answers before `ask` returns.
class BlockingStore final : public store::SharedStore {
 public:
  explicit BlockingStore(const std::string& socket) : connection_(socket) {}

  void ask(const store::StoreRequest& question, store::StoreCallback& asker) override;
  store::StoreResponse& ask(const store::StoreRequest& question);
  void request_lease(const store::LeaseRequest& question, store::LeaseCallback& borrower) override;
  store::LeaseResponse& request_lease(const store::LeaseRequest& question);
  Nanos timeout() const override { return kForever; }

  int commands() const { return commands_; }
  RedisConnection& connection() { return connection_; }

 private:
  // `say` appends the command, `hear` reads the reply and returns true if there is more to send.
  template <typename Say, typename Hear>
  void talk(Say say, Hear hear);

  RedisConnection connection_;
  store::redis::LimitScript conversation_;
  store::StoreResponse answer_;
  store::redis::LeaseScript loan_talk_;
  store::LeaseResponse loan_;
  std::string command_;
  Instant known_{};
  int commands_ = 0;
};

}  // namespace weir::test_support
