#include "store/redis/talk.h"

#include "store/redis/conversation.h"

namespace weir::store::redis {

namespace {

class ByScripts final : public Talk {
 public:
  void start(const SharedQuestion& question, Instant there) override {
    conversation_.start(question, {.now = there});
  }
  void append_command(std::string& out, bool with_source) const override {
    conversation_.append_command(out, with_source);
  }
  Call::Next on_reply(std::span<const wire::RespValue> reply, SharedAnswer& answer) override {
    const bool is_done = conversation_.on_reply(reply, answer) == Conversation::Next::answered;
    return is_done ? Call::Next::answered : Call::Next::again;
  }

 private:
  Conversation conversation_;
};

}  // namespace

std::unique_ptr<Talk> talk_by_scripts() { return std::make_unique<ByScripts>(); }

}  // namespace weir::store::redis
