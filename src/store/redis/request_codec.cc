#include "store/redis/request_codec.h"

#include "store/redis/limit_script.h"

namespace weir::store::redis {

namespace {

class ScriptCodec final : public RequestCodec {
 public:
  void start(const StoreRequest& request, Instant server_time) override {
    script_.start(request, {.now = server_time});
  }
  void append_command(std::string& out, bool with_source) const override {
    script_.append_command(out, with_source);
  }
  RedisCall::ReplyResult on_reply(std::span<const wire::RespValue> reply,
                                  StoreResponse& response) override {
    const bool is_done = script_.on_reply(reply, response) == LimitScript::ReplyResult::answered;
    return is_done ? RedisCall::ReplyResult::answered : RedisCall::ReplyResult::again;
  }

 private:
  LimitScript script_;
};

}  // namespace

std::unique_ptr<RequestCodec> make_script_codec() { return std::make_unique<ScriptCodec>(); }

}  // namespace weir::store::redis
