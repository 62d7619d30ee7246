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
#include "server/texts.h"
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

// Takes that came together and wait to be decided together. One for all sessions of a thread, as
// none of them keeps anything in it.
struct Batch {
  static constexpr std::size_t kMost = 64;

  // Forgets those that an exception has left undecided: they borrow from their connection.
  struct Guard {
    Batch& batch;
    ~Guard() { batch.size = 0; }
  };

  std::array<Request, kMost> requests;
  std::array<Verdict, kMost> verdicts;
  std::size_t size = 0;
};

Batch& batch() {
  thread_local const auto of_this_thread = std::make_unique<Batch>();
  return *of_this_thread;
}

// What stands before each of the eight values.
using Prefixes = std::array<std::string_view, 8>;
constexpr Prefixes kUnnamed{"\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n:", "\r\n$", "\r\n:"};
constexpr Prefixes kNamed{
    "\r\n$7\r\nallowed\r\n:",         "\r\n$5\r\nlimit\r\n:",           "\r\n$9\r\nremaining\r\n:",
    "\r\n$14\r\nretry_after_ms\r\n:", "\r\n$14\r\nreset_after_ms\r\n:", "\r\n$7\r\nwait_ms\r\n:",
    "\r\n$10\r\nlimited_by\r\n$",     "\r\n$8\r\ndegraded\r\n:"};

// (A template, so that the prefixes are constants and are copied as such.)
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

// `more`, if it has a name, is a ninth value.
void append(std::string& out, int protocol, const Verdict& verdict, std::string_view more_name = {},
            std::string_view more = {}) {
  if (!verdict.error.empty()) return RespWriter(out, protocol).error("ERR " + verdict.error);
  wire::TextWriter writer(out);
  const std::string_view count = more_name.empty() ? "8" : "9";
  if (protocol >= 3) {
    write<kNamed>(writer.text("%").text(count), verdict);
  } else {
    write<kUnnamed>(writer.text("*").text(count), verdict);
  }
  if (more_name.empty()) return;
  RespWriter last(writer.flush(), protocol);
  if (protocol >= 3) last.bulk(more_name);
  last.bulk(more);
}

// After so many commands that are no takes somebody looks at the clock.
constexpr unsigned kUnwatched = 8;

}  // namespace

struct RespSession::Command {
  using Handler = void (RespSession::*)(Arguments, std::string&);
  enum class For { anybody, let_in, admin };

  std::string_view name;
  Handler handler;
  std::size_t least;  // arguments, with the name
  std::size_t most;
  For whom = For::let_in;
  // For clients that ask: its first key's position, and what Redis would call it.
  int key = 0;
  std::string_view flag{};
};

std::span<const RespSession::Command> RespSession::commands() {
  using S = RespSession;
  using For = Command::For;
  constexpr std::size_t any = wire::RespLimits::kArguments;
  // In the order of their names: they are looked up.
  static constexpr std::array all{
      Command{"AUTH", &S::auth, 2, 3, For::anybody, 0, "no_auth"},
      Command{"CL.THROTTLE", &S::throttle, 1, any, For::let_in, 1, "write"},
      Command{"CLIENT", &S::client, 2, any},
      Command{"COMMAND", &S::command, 1, any},
      Command{"CONFIG", &S::config, 2, any},
      Command{"ECHO", &S::echo, 2, 2},
      Command{"HELLO", &S::hello, 1, any, For::anybody, 0, "no_auth"},
      Command{"INFO", &S::info, 1, any},
      Command{"PING", &S::ping, 1, 2},
      Command{"QUIT", &S::quit, 1, any, For::anybody, 0, "no_auth"},
      Command{"RESET", &S::reset, 1, 1, For::anybody, 0, "no_auth"},
      Command{"SELECT", &S::select, 2, 2},
      Command{"WEIR.ENTER", &S::enter, 3, any, For::let_in, 2, "write"},
      Command{"WEIR.EXPLAIN", &S::explain, 3, any, For::let_in, 2, "readonly"},
      Command{"WEIR.LEAVE", &S::leave, 3, any, For::let_in, 2, "write"},
      Command{"WEIR.PEEK", &S::peek, 3, any, For::let_in, 2, "readonly"},
      Command{"WEIR.POLICIES", &S::policies, 1, 1},
      Command{"WEIR.RESET", &S::reset_key, 3, any, For::admin, 2, "write"},
      Command{"WEIR.SETTLE", &S::settle, 3, any, For::admin, 2, "write"},
      Command{"WEIR.TAKE", &S::collect_take, 3, any, For::let_in, 2, "write"},
  };
  return all;
}

const RespSession::Command* RespSession::find(std::string_view name) {
  // (Its size is a constant, so that to compare it takes a few instructions.)
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

bool is_http(Arguments arguments) {
  return is_word(arguments[0], "HOST:") || arguments.back().starts_with("HTTP/");
}

}  // namespace

RespSession::RespSession(Service& service, const net::Peer& peer)
    : service_(service), peer_(peer), rights_{.loopback = peer.loopback}, id_(next_id()) {}

// ---- The way of a message

std::size_t RespSession::on_input(std::string_view input, std::string& out) {
  Timed timed(service_.metrics, DoorName::resp);
  const Batch::Guard guard{batch()};
  std::size_t used = 0;
  unsigned others = 0;
  while (used < input.size() && out.size() < kEnough && !ends_) {
    const RespParser::Status status = parser_.parse(
        input.substr(used), rights_.may_call(service_.access) ? RespParser::Sender::authenticated
                                                              : RespParser::Sender::stranger);
    const Command* const command =
        status == RespParser::Status::command ? find(parser_.arguments()[0]) : nullptr;
    if (status != RespParser::Status::need_more && must_wait(command, out)) break;
    used += parser_.consumed();
    if (status == RespParser::Status::need_more) break;
    if (status == RespParser::Status::error) {
      answer(out).error(fmt::format("ERR {}", parser_.error()));
      ends_ = true;
      break;
    }
    timed.count_one();
    dispatch(command, parser_.arguments(), out);
    // What the parser has put together itself is gone with the next command.
    if (parser_.owns_arguments()) decide_collected(out);
    if (!is_take(command) && ++others % kUnwatched == 0 && timed.is_long()) break;
  }
  decide_collected(out);
  parser_.release_arguments();
  answers_.flush(out);
  return used;
}

bool RespSession::is_take(const Command* command) {
  return command != nullptr && command->handler == &RespSession::collect_take;
}

// Takes go out together, one behind the other. Everything else is done when all before it is.
bool RespSession::must_wait(const Command* command, std::string& out) {
  if (is_take(command)) return false;
  decide_collected(out);
  answers_.flush(out);
  return answers_.owed();
}

void RespSession::on_timeout(std::string& out) {
  answer(out).error("ERR the command was not finished in time");
}

// (Answers that are owed come first, so it cannot be told while there are some.)
void RespSession::on_shed(std::string& out) {
  if (!answers_.owed()) answer(out).error("ERR clients hold too much memory, try again later");
}

// A page in a browser of this machine can make it send a request here, with commands in its body:
// nothing behind the first line is read.
void RespSession::refuse_http(std::string& out) {
  answer(out).error("ERR this is HTTP: ask the HTTP listener");
  ends_ = true;
}

void RespSession::dispatch(const Command* command, Arguments arguments, std::string& out) {
  if (command == nullptr) {
    if (is_http(arguments)) return refuse_http(out);
    return answer(out).error(fmt::format("ERR unknown command '{}'", shortened(arguments[0])));
  }
  if (command->whom != Command::For::anybody && !rights_.may_call(service_.access)) {
    return refuse("NOAUTH Authentication required.", out);
  }
  if (command->whom == Command::For::admin && !rights_.may_change(service_.access)) {
    return refuse(service_.access.admin_token.empty()
                      ? "NOPERM this command is for this machine only, or with an admin_token"
                      : "NOPERM this command needs the admin token: AUTH admin TOKEN",
                  out);
  }
  if (arguments.size() < command->least || arguments.size() > command->most) {
    return refuse(
        fmt::format("ERR wrong number of arguments for '{}' command", lowered(command->name)), out);
  }
  (this->*command->handler)(arguments, out);
}

// ---- Takes

void RespSession::collect_take(Arguments arguments, std::string& out) {
  Batch& collected = batch();
  Request& request = collected.requests[collected.size];
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::take, arguments, request, asked);
  if (!error.empty()) return refuse(error, out);
  if (asked.wants_receipt) {
    const Request alone = request;
    decide_collected(out);
    return take_with_receipt(alone);
  }
  if (++collected.size == Batch::kMost) decide_collected(out);
}

// An answer to a take, which others may be waiting before.
void RespSession::refuse(std::string_view error, std::string& out) {
  decide_collected(out);
  const auto place = answers_.add();
  answer(place->text).error(error);
  place->done();
}

void RespSession::decide_collected(std::string& out) {
  Batch& collected = batch();
  if (collected.size == 0) return;
  answers_.flush(out);
  if (service_.has_fleet) return ask_for_collected(out);
  const auto verdicts = std::span(collected.verdicts).first(collected.size);
  service_.engine.take_all(std::span(collected.requests).first(collected.size), verdicts);
  for (const Verdict& verdict : verdicts) append(out, protocol_, verdict);
  collected.size = 0;
}

void RespSession::ask_for_collected(std::string& out) {
  Batch& collected = batch();
  const auto requests = std::span(collected.requests).first(collected.size);
  collected.size = 0;
  for (const Request& request : requests) {
    const auto verdict = engine().take_now_or(request, [this] { return tell_verdict(); });
    if (!verdict) continue;
    answers_.owed() ? tell_verdict()(*verdict) : append(out, protocol_, *verdict);
  }
}

void RespSession::take_with_receipt(const Request& request) {
  const auto tell = [place = answers_.add(), protocol = protocol_, &receipts = service_.receipts](
                        const Verdict& verdict, Receipt receipt) {
    const std::string name = verdict ? receipts.keep(std::move(receipt)) : std::string();
    append(place->text, protocol, verdict, "receipt", name);
    place->done();
  };
  engine().take(request, tell);
}

// ---- The other commands about a key

// Writes what was decided to its place.
AsyncEngine::Done RespSession::tell_verdict() {
  return [place = answers_.add(), protocol = protocol_](const Verdict& verdict) {
    append(place->text, protocol, verdict);
    place->done();
  };
}

void RespSession::peek(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::peek, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  engine().peek(request, {}, tell_verdict());
}

void RespSession::settle(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::settle, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  if (asked.receipt.empty()) {
    if (request.permits < 0) {
      return answer(out).error("ERR giving back needs the receipt of the take: RECEIPT r");
    }
    return engine().settle(request, tell_verdict());
  }
  Receipts::Borrowed borrowed;
  switch (service_.receipts.borrow(asked.receipt, borrowed)) {
    case Receipts::Found::no:
      // (What is debited needs none: one from before a restart must not spare anybody the price.)
      if (request.permits > 0) return engine().settle(request, tell_verdict());
      return answer(out).error("ERR there is no such receipt");
    case Receipts::Found::busy:
      return answer(out).error("ERR the receipt is being settled by somebody else");
    case Receipts::Found::yes:
      break;
  }
  Receipt& receipt = borrowed->receipt;
  engine().settle(request, receipt,
                  [borrowed = std::move(borrowed), tell = tell_verdict()](const Verdict& verdict) {
                    tell(verdict);
                  });
}

void RespSession::reset_key(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::reset, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  engine().reset(request, [place = answers_.add(), protocol = protocol_,
                           line = reset_line({.address = peer_.address, .door = "RESP"}, request)](
                              const std::optional<Trouble>& trouble) {
    if (!trouble) write_log(Level::audit, line);
    RespWriter say(place->text, protocol);
    trouble ? say.error("ERR " + trouble->message) : say.simple("OK");
    place->done();
  });
}

void RespSession::enter(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::enter, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  const std::string holder =
      asked.holder.empty() ? store::random_name() : std::string{asked.holder};
  engine().enter(request, holder,
                 [place = answers_.add(), protocol = protocol_, holder](const Verdict& verdict) {
                   append(place->text, protocol, verdict, "holder", holder);
                   place->done();
                 });
}

void RespSession::leave(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::leave, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  engine().leave(request, asked.holder,
                 [place = answers_.add(), protocol = protocol_](const Result<bool, Trouble>& left) {
                   RespWriter say(place->text, protocol);
                   // (A store that cannot be asked is no error here: nothing was left.)
                   if (left || left.error().fleet) {
                     say.integer(left && *left ? 1 : 0);
                   } else {
                     say.error("ERR " + left.error().message);
                   }
                   place->done();
                 });
}

void RespSession::explain(Arguments arguments, std::string& out) {
  Request request;
  Asked asked;
  const std::string_view error = read_arguments(KeyCommand::explain, arguments, request, asked);
  if (!error.empty()) return answer(out).error(error);
  engine().explain(request, [place = answers_.add(), protocol = protocol_,
                             orders = service_.policies.orders_for(request, service_.engine.now())](
                                const Result<Explanation, Trouble>& told) {
    RespWriter say(place->text, protocol);
    if (told) {
      say.array(told->limits.size() + orders.size());
      for (const GivenOrder& given : orders) say.bulk("order: " + to_text(given));
      for (const LimitState& limit : told->limits) say.bulk(explained(limit));
    } else {
      say.error("ERR " + told.error().message);
    }
    place->done();
  });
}

void RespSession::policies(Arguments, std::string& out) {
  const std::vector<std::string> names = service_.policies.names();
  answer(out).array(names.size());
  for (const std::string& name : names) answer(out).bulk(name);
}

// ---- COMMAND

// Its name, how many arguments it has (at least that many if below zero), its flags, and where its
// first key, its last and those between are.
void RespSession::describe(const Command& command, RespWriter& say) {
  const auto least = static_cast<std::int64_t>(command.least);
  say.array(6);
  say.bulk(lowered(command.name));
  say.integer(command.least == command.most ? least : -least);
  say.array(command.flag.empty() ? 0 : 1);
  if (!command.flag.empty()) say.simple(command.flag);
  say.integer(command.key);
  say.integer(command.key);
  say.integer(command.key == 0 ? 0 : 1);
}

void RespSession::command(Arguments arguments, std::string& out) {
  RespWriter say = answer(out);
  const std::string_view verb = arguments.size() > 1 ? arguments[1] : "INFO";
  if (is_word(verb, "COUNT")) return say.integer(static_cast<std::int64_t>(commands().size()));
  if (is_word(verb, "DOCS")) return say.map(0);
  if (is_word(verb, "LIST") && arguments.size() == 2) {
    say.array(commands().size());
    for (const Command& each : commands()) say.bulk(lowered(each.name));
    return;
  }
  if (!is_word(verb, "INFO")) {
    return say.error(fmt::format("ERR unknown subcommand '{}'.", shortened(verb)));
  }
  if (arguments.size() > 2) {
    say.array(arguments.size() - 2);
    for (const std::string_view name : arguments.subspan(2)) {
      const Command* const known = find(name);
      known != nullptr ? describe(*known, say) : say.null();
    }
    return;
  }
  say.array(commands().size());
  for (const Command& each : commands()) describe(each, say);
}

// redis-benchmark asks, and is content to hear of nothing.

}  // namespace weir::server
