// Any bytes as input from a Redis client: the same commands for any segmentation, and a session
// that answers each of them once, in replies that clients can parse.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/resp_session.h"

namespace {

using namespace weir;
using wire::RespParser;

void require(bool holds) {
  if (!holds) std::abort();
}

// The bytes themselves decide how they are cut, so that the same input is always cut in the same
// way.
class Cuts {
 public:
  explicit Cuts(std::string_view input) : state_(input.size()) {
    for (const char c : input) state_ = state_ * 31 + static_cast<unsigned char>(c);
  }
  std::size_t next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return 1 + (state_ >> 33) % 23;
  }

 private:
  std::uint64_t state_;
};

// Passes the input on in pieces, as a connection does: with the unconsumed bytes in front. `see`
// returns the number of bytes it has consumed, until that is zero.
template <typename See>
void by_pieces(std::string_view input, std::size_t first, Cuts cuts, See see) {
  std::string unused;
  std::size_t piece = first;
  while (!input.empty()) {
    piece = std::min(piece, input.size());
    // Memory of exactly that size, so that a sanitizer sees reads beyond it.
    unused = std::string(unused).append(input.substr(0, piece));
    input.remove_prefix(piece);
    const std::vector<char> shown(unused.begin(), unused.end());
    unused.erase(0, see(std::string_view(shown.data(), shown.size())));
    piece = cuts.next();
  }
}

// ---- Commands

struct Transcript {
  std::vector<std::vector<std::string>> commands;
  std::string error;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

Transcript transcript(std::string_view input, std::size_t first,
                      RespParser::Sender sender = RespParser::Sender::authenticated) {
  Transcript seen;
  RespParser parser;
  by_pieces(input, first, Cuts(input), [&](std::string_view shown) {
    std::size_t used = 0;
    while (seen.error.empty()) {
      const RespParser::Status status = parser.parse(shown.substr(used), sender);
      require(parser.consumed() <= shown.size() - used);
      used += parser.consumed();
      if (status == RespParser::Status::need_more) break;
      if (status == RespParser::Status::error) {
        seen.error = parser.error();
        require(!seen.error.empty());
        break;
      }
      const auto words = parser.arguments();
      require(!words.empty() && words.size() <= wire::RespLimits::kArguments);
      seen.commands.emplace_back(words.begin(), words.end());
    }
    return used;
  });
  return seen;
}

// ---- Answers

// Parses replies one by one; a reply that no client could parse is an error.
class Answers {
 public:
  explicit Answers(std::string_view bytes) : rest_(bytes) {}

  std::size_t count() {
    std::size_t answers = 0;
    for (; !rest_.empty(); ++answers) value(0);
    return answers;
  }
  bool speaks_resp3() const { return speaks_resp3_; }

 private:
  std::string_view line() {
    const std::size_t end = rest_.find_first_of("\r\n");
    require(end != std::string_view::npos && rest_.substr(end, 2) == "\r\n");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return text;
  }

  static std::int64_t number(std::string_view digits) {
    const bool negative = digits.starts_with('-');
    if (negative) digits.remove_prefix(1);
    require(!digits.empty() && digits.size() <= 19);
    require(digits.find_first_not_of("0123456789") == std::string_view::npos);
    const std::uint64_t value = std::strtoull(std::string(digits).c_str(), nullptr, 10);
    return static_cast<std::int64_t>(negative ? 0 - value : value);
  }

  void bulk(std::int64_t length) {
    if (length == -1) return;
    require(length >= 0 && static_cast<std::size_t>(length) + 2 <= rest_.size());
    rest_.remove_prefix(static_cast<std::size_t>(length));
    require(rest_.starts_with("\r\n"));
    rest_.remove_prefix(2);
  }

  void values(std::int64_t count, int depth) {
    require(count >= 0 && count <= 10'000);
    for (std::int64_t i = 0; i < count; ++i) value(depth + 1);
  }

  void value(int depth) {
    require(depth < 4 && !rest_.empty());
    const char type = rest_.front();
    rest_.remove_prefix(1);
    const std::string_view head = line();
    switch (type) {
      case '+':
        return require(!head.empty());
      case '-':
        return require(!head.empty() && head.front() >= 'A' && head.front() <= 'Z');
      case ':':
        return (void)number(head);
      case '$':
        return bulk(number(head));
      case '*':
        return values(number(head), depth);
      case '%':
        speaks_resp3_ = true;
        return values(2 * number(head), depth);
      case '_':
        speaks_resp3_ = true;
        return require(head.empty());
      default:
        std::abort();
    }
  }

  std::string_view rest_;
  bool speaks_resp3_ = false;
};

// ---- Sessions

// Initialized once: that takes longer than all the rest.
server::Policies& policies() {
  static server::Policies all{""};
  static const bool filled = [] {
    Engine engine{PolicySet{}, {.memory = {.bytes = 64 << 10}}};
    const auto put = [&](const std::string& name, std::string_view text) {
      require(!all.put(engine, name, text));
    };
    put("p", "{ limits: [ 3/s burst 5 ] }");
    put("two", "{ limits: [ 10/min, { limit: 5/h sliding exact, name: log } ] }");
    put("parts", "{ limits: [ { by: user, limit: 2/s }, { by: ip, limit: 9/day } ] }");
    put("queue", "{ limits: [ 1/s queue 3 ] }");
    put("seats", "{ limits: [ 2 concurrent lease 30s, 100/h ] }");
    return true;
  }();
  require(filled);
  return all;
}

// A daemon without sockets, the same for every input.
struct World {
  ManualClock clock;
  Engine engine{policies().merged(), {.memory = {.bytes = 16 << 10}, .clock = &clock}};
  net::Loops loops{{.threads = 0}};
  server::Metrics metrics;
  server::MemoryGauge memory;
  server::ServerContext service{.engine = engine,
                                .policies = policies(),
                                .loops = loops,
                                .metrics = metrics,
                                .memory = memory,
                                .access = {}};
};

struct SessionOutput {
  std::string bytes;
  bool ended = false;
};

SessionOutput converse(std::string_view input, std::size_t first, const net::Peer& peer,
                       const server::Access& access) {
  World world;
  world.service.access = access;
  server::RespSession session(world.service, peer);
  SessionOutput output;
  by_pieces(input, first, Cuts(input), [&](std::string_view shown) {
    std::size_t used = 0;
    while (!session.ends()) {
      std::string out;
      const std::size_t more = session.on_input(shown.substr(used), out);
      require(more <= shown.size() - used);
      used += more;
      output.bytes += out;
      if (more == 0) break;
    }
    world.clock.advance(std::chrono::milliseconds{70});
    return session.ends() ? shown.size() : used;
  });
  output.ended = session.ends();
  if (!output.ended) session.on_timeout(output.bytes);
  return output;
}

bool is(std::string word, std::string_view name) {
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return word == name;
}

// A connection that sends HTTP is not read any longer.
bool ends_as_http(const std::vector<std::string>& words, const SessionOutput& output) {
  const bool looks_so = is(words[0], "HOST:") || words.back().starts_with("HTTP/");
  return looks_so && output.bytes.ends_with("-ERR this is HTTP: ask the HTTP listener\r\n");
}

bool answers_each_once(const Transcript& asked, const SessionOutput& output) {
  Answers answers(output.bytes);
  const std::size_t count = answers.count();
  std::size_t expected = 0;
  bool quits = false;
  bool says_hello = false;
  for (const auto& words : asked.commands) {
    ++expected;
    says_hello = says_hello || is(words[0], "HELLO");
    quits = is(words[0], "QUIT") || (expected == count && ends_as_http(words, output));
    if (quits) break;
  }
  // The last answer is about an error, or about an unfinished command.
  if (!quits) ++expected;
  return output.ended == (quits || !asked.error.empty()) && count == expected &&
         (says_hello || !answers.speaks_resp3());
}

// AUTH and HELLO may authenticate: from then on the limits for unauthenticated clients do not
// apply.
bool may_authenticate(const Transcript& asked) {
  return std::ranges::any_of(asked.commands, [](const std::vector<std::string>& words) {
    return is(words[0], "AUTH") || is(words[0], "HELLO");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Transcript whole = transcript(input, input.size());
  require(transcript(input, 1 + size % 7) == whole);
  const net::Peer here{.address = "::1", .loopback = true};
  const net::Peer stranger{.address = "10.0.0.1", .loopback = false};
  require(answers_each_once(whole, converse(input, input.size(), here, {})));
  require(answers_each_once(whole, converse(input, 1 + size % 5, here, {})));
  const server::Access access{.password = "secret", .admin_token = "token"};
  const SessionOutput output = converse(input, 1 + size % 3, stranger, access);
  const Transcript limited = transcript(input, input.size(), RespParser::Sender::unauthenticated);
  require(answers_each_once(limited, output) ||
          (may_authenticate(limited) && answers_each_once(whole, output)));
  return 0;
}
