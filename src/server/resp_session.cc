#include "server/resp_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "base/ascii.h"
#include "base/utf8.h"
#include "server/audit.h"
#include "server/format.h"
#include "store/random_name.h"
#include "wire/text_writer.h"

namespace weir::server {

using wire::RespParser;
using wire::RespWriter;

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Pipelined takes that wait to be decided together. It is empty between turns of the loop, so one
// object serves all sessions of a thread.
struct PendingTakes {
  static constexpr std::size_t kMaxTakes = 64;

  // Drops takes that an exception has left undecided: they borrow from their connection.
  struct ClearGuard {
    PendingTakes& takes;
    ~ClearGuard() { takes.size = 0; }
  };

  std::array<Request, kMaxTakes> requests;
  std::array<Verdict, kMaxTakes> verdicts;
  std::size_t size = 0;
};

PendingTakes& pending_takes() {
  thread_local const auto of_this_thread = std::make_unique<PendingTakes>();
  return *of_this_thread;
}

// The bytes before each of the eight values: without their names in RESP2, with them in RESP3.
using Prefixes = std::array<std::string_view, 8>;
constexpr Prefixes kUnnamed{"\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n$", "\r\n:"};
constexpr Prefixes kNamed{
    "\r\n$7\r\nallowed\r\n:",         "\r\n$5\r\nlimit\r\n:",           "\r\n$9\r\nremaining\r\n:",
    "\r\n$14\r\nretry_after_ms\r\n:", "\r\n$14\r\nreset_after_ms\r\n:", "\r\n$7\r\nwait_ms\r\n:",
    "\r\n$10\r\nlimited_by\r\n$",     "\r\n$8\r\ndegraded\r\n:"};

// (A template, so that the prefixes and their sizes are constants.)
template <const Prefixes& kPrefixes>
void write(wire::TextWriter& writer, const Verdict& verdict) {
  const Decision& decision = verdict.decision;
  writer.text(kPrefixes[0], decision ? 1 : 0);
  writer.text(kPrefixes[1], decision.limit);
  writer.text(kPrefixes[2], decision.remaining);
  writer.text(kPrefixes[3], millis_or_never(decision.retry_after));
  writer.text(kPrefixes[4], wire::millis_up(decision.reset_after));
  writer.text(kPrefixes[5], wire::millis_up(decision.wait));
  writer.text(kPrefixes[6], static_cast<std::int64_t>(verdict.limited_by.size()));
  writer.text("\r\n").text(verdict.limited_by);
  writer.text(kPrefixes[7]).text(verdict.degraded ? "1\r\n" : "0\r\n");
}

// Appends the reply for a verdict. `extra`, if it has a name, is a ninth value.
void append(std::string& out, int protocol, const Verdict& verdict,
            std::string_view extra_name = {}, std::string_view extra = {}) {
  if (!verdict.error.empty()) return RespWriter(out, protocol).error("ERR " + verdict.error);
  wire::TextWriter writer(out);
  const std::string_view count = extra_name.empty() ? "8" : "9";
  if (protocol >= 3) {
    write<kNamed>(writer.text("%").text(count), verdict);
  } else {
    write<kUnnamed>(writer.text("*").text(count), verdict);
  }
  if (extra_name.empty()) return;
  RespWriter last(writer.flush(), protocol);
  if (protocol >= 3) last.bulk(extra_name);
  last.bulk(extra);
}

// Commands other than takes between two readings of the clock.
constexpr unsigned kCommandsPerClockRead = 8;

}  // namespace

struct RespSession::Command {
  using CommandHandler = void (RespSession::*)(RespArguments, std::string&);

  std::string_view name;
  CommandHandler handler;
  std::size_t min_arguments;  // with the name
  std::size_t max_arguments;
  RequiredRights required = RequiredRights::call;
  // For COMMAND: the position of the key (0: none), and a flag of Redis.
  int key = 0;
  std::string_view flag{};
};

std::span<const RespSession::Command> RespSession::commands() {
  constexpr std::size_t any = wire::RespLimits::kArguments;
  // Sorted by name, for binary search.
  static constexpr std::array all{
      Command{"AUTH", &RespSession::auth, 2, 3, RequiredRights::none, 0, "no_auth"},
      Command{"CL.THROTTLE", &RespSession::throttle, 1, any, RequiredRights::call, 1, "write"},
      Command{"CLIENT", &RespSession::client, 2, any},
      Command{"COMMAND", &RespSession::command, 1, any},
      Command{"CONFIG", &RespSession::config, 2, any},
      Command{"ECHO", &RespSession::echo, 2, 2},
      Command{"HELLO", &RespSession::hello, 1, any, RequiredRights::none, 0, "no_auth"},
      Command{"INFO", &RespSession::info, 1, any},
      Command{"PING", &RespSession::ping, 1, 2},
      Command{"QUIT", &RespSession::quit, 1, any, RequiredRights::none, 0, "no_auth"},
      Command{"RESET", &RespSession::reset, 1, 1, RequiredRights::none, 0, "no_auth"},
      Command{"SELECT", &RespSession::select, 2, 2},
      Command{"WEIR.ENTER", &RespSession::enter, 3, any, RequiredRights::call, 2, "write"},
      Command{"WEIR.EXPLAIN", &RespSession::explain, 3, any, RequiredRights::call, 2, "readonly"},
      Command{"WEIR.LEAVE", &RespSession::leave, 3, any, RequiredRights::call, 2, "write"},
      Command{"WEIR.PEEK", &RespSession::peek, 3, any, RequiredRights::call, 2, "readonly"},
      Command{"WEIR.POLICIES", &RespSession::policies, 1, 1},
      Command{"WEIR.RESET", &RespSession::reset_key, 3, any, RequiredRights::change, 2, "write"},
      Command{"WEIR.SETTLE", &RespSession::settle, 3, any, RequiredRights::change, 2, "write"},
      Command{"WEIR.TAKE", &RespSession::collect_take, 3, any, RequiredRights::call, 2, "write"},
  };
  return all;
}

const RespSession::Command* RespSession::find(std::string_view name) {
  // (A constant size lets the compiler inline the comparison.)
  static constexpr std::string_view most_frequent = "WEIR.TAKE";
  if (name.size() == most_frequent.size() &&
      std::memcmp(name.data(), most_frequent.data(), most_frequent.size()) == 0) {
    return &commands().back();
  }
  std::array<char, 16> capitals;
  if (name.size() > capitals.size()) return nullptr;
  std::ranges::transform(name, capitals.begin(), upper);
  const std::string_view wanted(capitals.data(), name.size());
  const auto found = std::ranges::lower_bound(commands(), wanted, {}, &Command::name);
  return found != commands().end() && found->name == wanted ? &*found : nullptr;
}

namespace {

bool is_http(RespArguments arguments) {
  return is_keyword(arguments[0], "HOST:") || arguments.back().starts_with("HTTP/");
}

}  // namespace

RespSession::RespSession(ServerContext& context, const net::Peer& peer)
    : context_(context), peer_(peer), rights_{.loopback = peer.loopback}, id_(next_id()) {}

// ---- Input

std::size_t RespSession::on_input(std::string_view input, std::string& out) {
  RequestTimer timer(context_.metrics, ListenerKind::resp);
  const PendingTakes::ClearGuard guard{pending_takes()};
  std::size_t used = 0;
  unsigned other_commands = 0;
  while (used < input.size() && out.size() < kOutputHighWater && !ends_) {
    const RespParser::Status status =
        parser_.parse(input.substr(used), rights_.may_call(context_.access)
                                              ? RespParser::Sender::authenticated
                                              : RespParser::Sender::unauthenticated);
    const Command* const command =
        status == RespParser::Status::command ? find(parser_.arguments()[0]) : nullptr;
    if (status != RespParser::Status::need_more && must_wait(command, out)) break;
    used += parser_.consumed();
    if (status == RespParser::Status::need_more) break;
    if (status == RespParser::Status::error) {
      reply(out).error(fmt::format("ERR {}", parser_.error()));
      ends_ = true;
      break;
    }
    timer.count_one();
    dispatch(command, parser_.arguments(), out);
    // Arguments in the parser's own memory are overwritten by the next command.
    if (parser_.owns_arguments()) decide_collected(out);
    const bool reads_clock = !is_take(command) && ++other_commands % kCommandsPerClockRead == 0;
    if (reads_clock && timer.has_expired()) break;
  }
  decide_collected(out);
  parser_.release_arguments();
  responses_.flush(out);
  return used;
}

bool RespSession::is_take(const Command* command) {
  return command != nullptr && command->handler == &RespSession::collect_take;
}

// Takes are pipelined. Any other command waits until the responses before it are complete.
bool RespSession::must_wait(const Command* command, std::string& out) {
  if (is_take(command)) return false;
  decide_collected(out);
  responses_.flush(out);
  return responses_.has_pending();
}

void RespSession::on_timeout(std::string& out) {
  reply(out).error("ERR the command was not finished in time");
}

// Sends nothing while a response is pending: the client would take the error for that response.
void RespSession::on_shed(std::string& out) {
  if (!responses_.has_pending())
    reply(out).error("ERR clients hold too much memory, try again later");
}

// A page of another site can make a browser on this machine send HTTP here, with commands in the
// body (cross-protocol attack). The connection is closed after the first line.
void RespSession::refuse_http(std::string& out) {
  reply(out).error("ERR this is HTTP: ask the HTTP listener");
  ends_ = true;
}

void RespSession::dispatch(const Command* command, RespArguments arguments, std::string& out) {
  if (command == nullptr) {
    if (is_http(arguments)) return refuse_http(out);
    return reply(out).error(fmt::format("ERR unknown command '{}'", shortened(arguments[0])));
  }
  if (command->required != RequiredRights::none && !rights_.may_call(context_.access)) {
    return refuse("NOAUTH Authentication required.", out);
  }
  if (command->required == RequiredRights::change && !rights_.may_change(context_.access)) {
    return refuse(context_.access.admin_token.empty()
                      ? "NOPERM without an admin_token, this is allowed from this machine only"
                      : "NOPERM this command needs the admin token: AUTH admin TOKEN",
                  out);
  }
  if (arguments.size() < command->min_arguments || arguments.size() > command->max_arguments) {
    return refuse(
        fmt::format("ERR wrong number of arguments for '{}' command", lowered(command->name)), out);
  }
  (this->*command->handler)(arguments, out);
}

// ---- Takes

void RespSession::collect_take(RespArguments arguments, std::string& out) {
  PendingTakes& takes = pending_takes();
  Request& request = takes.requests[takes.size];
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::take, arguments, request, options);
  if (!error.empty()) return refuse(error, out);
  if (options.wants_receipt) {
    const Request copy = request;  // decide_collected frees its slot
    decide_collected(out);
    return take_with_receipt(copy);
  }
  if (++takes.size == PendingTakes::kMaxTakes) decide_collected(out);
}

// Queues an error behind the responses to earlier takes.
void RespSession::refuse(std::string_view error, std::string& out) {
  decide_collected(out);
  const auto slot = responses_.add();
  reply(slot->text).error(error);
  slot->complete();
}

void RespSession::decide_collected(std::string& out) {
  PendingTakes& takes = pending_takes();
  if (takes.size == 0) return;
  responses_.flush(out);
  if (context_.has_fleet) return decide_on_fleet(out);
  const auto verdicts = std::span(takes.verdicts).first(takes.size);
  context_.engine.take_all(std::span(takes.requests).first(takes.size), verdicts);
  for (const Verdict& verdict : verdicts) append(out, protocol_, verdict);
  takes.size = 0;
}

// A verdict that is known at once is written at once, unless earlier responses are pending.
void RespSession::decide_on_fleet(std::string& out) {
  PendingTakes& takes = pending_takes();
  const auto requests = std::span(takes.requests).first(takes.size);
  takes.size = 0;
  for (const Request& request : requests) {
    const auto verdict = engine().take_now_or(request, [this] { return verdict_callback(); });
    if (!verdict) continue;
    responses_.has_pending() ? verdict_callback()(*verdict) : append(out, protocol_, *verdict);
  }
}

void RespSession::take_with_receipt(const Request& request) {
  const auto finish = [slot = responses_.add(), protocol = protocol_,
                       &receipts = context_.receipts](const Verdict& verdict, Receipt receipt) {
    const std::string name = verdict ? receipts.add(std::move(receipt)) : std::string();
    append(slot->text, protocol, verdict, "receipt", name);
    slot->complete();
  };
  engine().take(request, finish);
}

// ---- The other commands about a key

// Adds a slot, and returns a callback that writes the verdict there.
AsyncEngine::VerdictCallback RespSession::verdict_callback() {
  return [slot = responses_.add(), protocol = protocol_](const Verdict& verdict) {
    append(slot->text, protocol, verdict);
    slot->complete();
  };
}

void RespSession::peek(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::peek, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  engine().peek(request, {}, verdict_callback());
}

void RespSession::settle(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::settle, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  if (options.receipt.empty()) {
    if (request.permits < 0) {
      return reply(out).error("ERR giving back needs the receipt of the take: RECEIPT r");
    }
    return engine().settle(request, verdict_callback());
  }
  Receipts::Borrowed borrowed;
  switch (context_.receipts.borrow(options.receipt, borrowed)) {
    case Receipts::BorrowResult::unknown:
      // A debit needs no receipt: the price is charged also after a restart, which loses receipts.
      if (request.permits > 0) return engine().settle(request, verdict_callback());
      return reply(out).error("ERR there is no such receipt");
    case Receipts::BorrowResult::busy:
      return reply(out).error("ERR another call is settling this receipt");
    case Receipts::BorrowResult::ok:
      break;
  }
  Receipt& receipt = borrowed->receipt;
  engine().settle(request, receipt,
                  [borrowed = std::move(borrowed),
                   done = verdict_callback()](const Verdict& verdict) { done(verdict); });
}

void RespSession::reset_key(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::reset, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  engine().reset(request,
                 [slot = responses_.add(), protocol = protocol_,
                  line = reset_audit_line({.address = peer_.address, .listener = "RESP"}, request)](
                     const std::optional<OperationError>& failure) {
                   if (!failure) write_log(LogLevel::audit, line);
                   RespWriter writer(slot->text, protocol);
                   failure ? writer.error("ERR " + failure->message) : writer.simple("OK");
                   slot->complete();
                 });
}

void RespSession::enter(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::enter, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  const std::string holder =
      options.holder.empty() ? store::random_name() : std::string{options.holder};
  engine().enter(request, holder,
                 [slot = responses_.add(), protocol = protocol_, holder](const Verdict& verdict) {
                   append(slot->text, protocol, verdict, "holder", holder);
                   slot->complete();
                 });
}

void RespSession::leave(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::leave, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  engine().leave(
      request, options.holder,
      [slot = responses_.add(), protocol = protocol_](const Result<bool, OperationError>& left) {
        RespWriter writer(slot->text, protocol);
        // (A store failure is no error here: nothing was left, so 0.)
        if (left || left.error().fleet) {
          writer.integer(left && *left ? 1 : 0);
        } else {
          writer.error("ERR " + left.error().message);
        }
        slot->complete();
      });
}

void RespSession::explain(RespArguments arguments, std::string& out) {
  Request request;
  CommandOptions options;
  const std::string_view error = read_arguments(KeyCommand::explain, arguments, request, options);
  if (!error.empty()) return reply(out).error(error);
  engine().explain(request, [slot = responses_.add(), protocol = protocol_,
                             orders = context_.policies.orders_for(request, context_.engine.now())](
                                const Result<Explanation, OperationError>& explanation) {
    RespWriter writer(slot->text, protocol);
    if (explanation) {
      writer.array(explanation->limits.size() + orders.size());
      for (const GivenOrder& given : orders) writer.bulk("order: " + to_text(given));
      for (const LimitState& limit : explanation->limits) writer.bulk(limit_state_text(limit));
    } else {
      writer.error("ERR " + explanation.error().message);
    }
    slot->complete();
  });
}

void RespSession::policies(RespArguments, std::string& out) {
  const std::vector<std::string> names = context_.policies.names();
  reply(out).array(names.size());
  for (const std::string& name : names) reply(out).bulk(name);
}

// ---- COMMAND

// As in Redis: name, arity (negative: a minimum), flags, position of the first key and of the last,
// and the step between keys.
void RespSession::describe(const Command& command, RespWriter& writer) {
  const auto arity = static_cast<std::int64_t>(command.min_arguments);
  writer.array(6);
  writer.bulk(lowered(command.name));
  writer.integer(command.min_arguments == command.max_arguments ? arity : -arity);
  writer.array(command.flag.empty() ? 0 : 1);
  if (!command.flag.empty()) writer.simple(command.flag);
  writer.integer(command.key);
  writer.integer(command.key);
  writer.integer(command.key == 0 ? 0 : 1);
}

void RespSession::command(RespArguments arguments, std::string& out) {
  RespWriter writer = reply(out);
  const std::string_view verb = arguments.size() > 1 ? arguments[1] : "INFO";
  if (is_keyword(verb, "COUNT"))
    return writer.integer(static_cast<std::int64_t>(commands().size()));
  if (is_keyword(verb, "DOCS")) return writer.map(0);
  if (is_keyword(verb, "LIST") && arguments.size() == 2) {
    writer.array(commands().size());
    for (const Command& each : commands()) writer.bulk(lowered(each.name));
    return;
  }
  if (!is_keyword(verb, "INFO")) {
    return writer.error(fmt::format("ERR unknown subcommand '{}'.", shortened(verb)));
  }
  if (arguments.size() > 2) {
    writer.array(arguments.size() - 2);
    for (const std::string_view name : arguments.subspan(2)) {
      const Command* const known = find(name);
      known != nullptr ? describe(*known, writer) : writer.null();
    }
    return;
  }
  writer.array(commands().size());
  for (const Command& each : commands()) describe(each, writer);
}

}  // namespace weir::server
