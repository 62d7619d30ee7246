#include "store/redis/talk.h"

#include "store/redis/conversation.h"

namespace weir::store::redis {

namespace {

class ScriptCodec final : public RequestCodec {
 public:
  void start(const SharedQuestion& request, Instant server_time) override {
    script_.start(request, {.now = server_time});
  }
  void append_command(std::string& out, bool with_source) const override {
    script_.append_command(out, with_source);
  }
  Call::Next on_reply(std::span<const wire::RespValue> reply, SharedAnswer& response) override {
    const bool is_done = script_.on_reply(reply, response) == Conversation::Next::answered;
    return is_done ? Call::Next::answered : Call::Next::again;
  }

 private:
  Conversation script_;
};

}  // namespace

std::unique_ptr<RequestCodec> talk_by_scripts() { return std::make_unique<ScriptCodec>(); }

}  // namespace weir::store::redis
