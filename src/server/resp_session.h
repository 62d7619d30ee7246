#pragma once

#include "net/protocol.h"
#include "server/resp_arguments.h"
#include "server/response_queue.h"
#include "server/server_context.h"
#include "server/thread_link.h"
#include "weir/async_engine.h"
#include "wire/resp.h"

namespace weir::server {

// A connection of a Redis client: WEIR.*, CL.THROTTLE, and the commands of Redis about connections.
// Pipelined takes are decided together. Used by the thread that made it.
class RespSession : public net::Protocol {
 public:
  RespSession(ServerContext& context, const net::Peer& peer);

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override { responses_.use_waker(waker); }
  bool waits() const override { return responses_.has_pending(); }
  bool in_message() const override { return responses_.has_pending(); }
  bool ends() const override { return ends_ && !responses_.has_pending(); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override {}
  std::size_t memory() const override {
    return parser_.memory() + name_.capacity() + responses_.memory();
  }
  void on_shed(std::string& out) override;

  static constexpr std::string_view kTlsOnly =
      "-ERR this port speaks TLS only: connect with TLS (redis-cli --tls, rediss://)\r\n";

 private:
  struct Command;
  static std::span<const Command> commands();
  static const Command* find(std::string_view name);

  static bool is_take(const Command* command);
  bool must_wait(const Command* command, std::string& out);
  void dispatch(const Command* command, RespArguments arguments, std::string& out);
  void refuse_http(std::string& out);
  void collect_take(RespArguments arguments, std::string& out);
  void decide_collected(std::string& out);
  void decide_on_fleet(std::string& out);
  void refuse(std::string_view error, std::string& out);
  AsyncEngine::VerdictCallback verdict_callback();

  // The handlers of commands; `arguments` starts with the command's name. No response is pending
  // when they are called, except for takes. Those that may call the fleet answer in a slot of the
  // queue, the others append to `out`.
  void take_with_receipt(const Request& request);
  void peek(RespArguments arguments, std::string& out);
  void settle(RespArguments arguments, std::string& out);
  void reset_key(RespArguments arguments, std::string& out);
  void enter(RespArguments arguments, std::string& out);
  void leave(RespArguments arguments, std::string& out);
  void explain(RespArguments arguments, std::string& out);
  void policies(RespArguments arguments, std::string& out);
  void throttle(RespArguments arguments, std::string& out);
  void ping(RespArguments arguments, std::string& out);
  void echo(RespArguments arguments, std::string& out);
  void hello(RespArguments arguments, std::string& out);
  void auth(RespArguments arguments, std::string& out);
  void client(RespArguments arguments, std::string& out);
  void command(RespArguments arguments, std::string& out);
  static void describe(const Command& command, wire::RespWriter& writer);
  void config(RespArguments arguments, std::string& out);
  void info(RespArguments arguments, std::string& out);
  void select(RespArguments arguments, std::string& out);
  void quit(RespArguments arguments, std::string& out);
  void reset(RespArguments arguments, std::string& out);

  bool authenticate(std::string_view user, std::string_view secret);
  wire::RespWriter reply(std::string& out) const { return {out, protocol_}; }
  AsyncEngine engine() const { return {context_.engine, link_of_this_thread()}; }

  ServerContext& context_;
  const net::Peer peer_;
  wire::RespParser parser_;
  Rights rights_;
  const std::uint64_t id_;
  std::string name_;
  int protocol_ = 2;
  bool ends_ = false;
  ResponseQueue responses_;
};

}  // namespace weir::server
