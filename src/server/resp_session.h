#pragma once

#include "net/protocol.h"
#include "server/answers.h"
#include "server/links.h"
#include "server/resp_arguments.h"
#include "server/service.h"
#include "weir/async_engine.h"
#include "wire/resp.h"

namespace weir::server {

// A connection of a Redis client: WEIR.* and CL.THROTTLE, and what such clients say to make
// themselves known. Takes that come together are decided together.
class RespSession : public net::Protocol {
 public:
  RespSession(Service& service, const net::Peer& peer);

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override { answers_.use_waker(waker); }
  bool waits() const override { return answers_.owed(); }
  bool in_message() const override { return answers_.owed(); }
  bool ends() const override { return ends_ && !answers_.owed(); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override {}
  std::size_t memory() const override {
    return parser_.memory() + name_.capacity() + answers_.memory();
  }
  void on_shed(std::string& out) override;

  static constexpr std::string_view kNotTls =
      "-ERR this port speaks TLS only: connect with TLS (redis-cli --tls, rediss://)\r\n";

 private:
  struct Command;
  static std::span<const Command> commands();
  static const Command* find(std::string_view name);

  static bool is_take(const Command* command);
  bool must_wait(const Command* command, std::string& out);
  void dispatch(const Command* command, Arguments arguments, std::string& out);
  void refuse_http(std::string& out);
  void collect_take(Arguments arguments, std::string& out);
  void decide_collected(std::string& out);
  void ask_for_collected(std::string& out);
  void refuse(std::string_view error, std::string& out);
  AsyncEngine::Done tell_verdict();

  // Answers to commands; `arguments` starts with the command's name. What the fleet may have to be
  // asked for gets its place among the answers; the others are called when there are none.
  void take_with_receipt(const Request& request);
  void peek(Arguments arguments, std::string& out);
  void settle(Arguments arguments, std::string& out);
  void reset_key(Arguments arguments, std::string& out);
  void enter(Arguments arguments, std::string& out);
  void leave(Arguments arguments, std::string& out);
  void explain(Arguments arguments, std::string& out);
  void policies(Arguments arguments, std::string& out);
  void throttle(Arguments arguments, std::string& out);
  void ping(Arguments arguments, std::string& out);
  void echo(Arguments arguments, std::string& out);
  void hello(Arguments arguments, std::string& out);
  void auth(Arguments arguments, std::string& out);
  void client(Arguments arguments, std::string& out);
  void command(Arguments arguments, std::string& out);
  static void describe(const Command& command, wire::RespWriter& say);
  void config(Arguments arguments, std::string& out);
  void info(Arguments arguments, std::string& out);
  void select(Arguments arguments, std::string& out);
  void quit(Arguments arguments, std::string& out);
  void reset(Arguments arguments, std::string& out);

  bool log_in(std::string_view user, std::string_view secret);
  wire::RespWriter answer(std::string& out) const { return {out, protocol_}; }
  AsyncEngine engine() const { return {service_.engine, link_of_this_thread()}; }

  Service& service_;
  const net::Peer peer_;
  wire::RespParser parser_;
  Rights rights_;
  const std::uint64_t id_;
  std::string name_;
  int protocol_ = 2;
  bool ends_ = false;
  Answers answers_;
};

}  // namespace weir::server
