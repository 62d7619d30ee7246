#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "store/redis/redis_call.h"
#include "store/shared_store.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Encodes one store request as commands of Redis, and decodes the replies to a response. Used for
// one request after the other: it keeps its buffers. Not thread-safe.
class RequestCodec {
 public:
  virtual ~RequestCodec() = default;

  // The request lives until its response. `server_time` is an estimate of the server's clock.
  virtual void start(const StoreRequest& request, Instant server_time) = 0;
  virtual void append_command(std::string& out, bool with_source) const = 0;
  // Never gets an error reply: the connection handles those. `again`: there is another command to
  // send.
  virtual RedisCall::ReplyResult on_reply(std::span<const wire::RespValue> reply,
                                          StoreResponse& response) = 0;
};

// Makes a codec; a link has one for each request in flight. Called on the threads of links.
using MakeRequestCodec = std::function<std::unique_ptr<RequestCodec>()>;

// The codec that decides limits by Lua scripts: see LimitScript.
std::unique_ptr<RequestCodec> make_script_codec();

}  // namespace weir::store::redis
