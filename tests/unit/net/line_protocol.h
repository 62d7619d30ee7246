#pragma once

#include <atomic>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "net/protocol.h"

namespace weir::net {

// Totals over all connections of a listener.
struct Counters {
  std::atomic<std::uint64_t> bytes{0};    // of new input that was passed to protocols
  std::atomic<std::uint64_t> answers{0};  // bytes of responses
  std::atomic<std::uint64_t> unsent{0};   // calls of on_input while output was unsent: must stay 0
  std::atomic<std::uint64_t> shutdowns{0};
};

// Echoes each line. Responds to "<n> <text>" with the text and n dots, and to "quit" with "bye",
// and closes.
class LineProtocol : public Protocol {
 public:
  explicit LineProtocol(Counters& counters) : counters_(counters) {}

  std::size_t on_input(std::string_view input, std::string& out) override {
    if (!out.empty()) ++counters_.unsent;
    counters_.bytes += input.size() - kept_;
    std::size_t used = 0;
    while (out.size() < kOutputHighWater && !ends_) {
      const std::size_t end = input.find('\n', used);
      if (end == std::string_view::npos) break;
      answer(input.substr(used, end - used), out);
      used = end + 1;
    }
    kept_ = input.size() - used;
    counters_.answers += out.size();
    return used;
  }
  bool in_message() const override { return false; }
  bool ends() const override { return ends_; }
  void on_timeout(std::string& out) override { out += "too slow\n"; }
  void on_shutdown() override { ++counters_.shutdowns; }

  static std::string answer_to(std::string_view line) {
    std::string out;
    std::size_t dots = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), dots);
    out += error == std::errc{} ? line.substr(static_cast<std::size_t>(rest - line.data())) : line;
    out.append(dots, '.');
    return out += '\n';
  }

 private:
  void answer(std::string_view line, std::string& out) {
    ends_ = line == "quit";
    out += ends_ ? "bye\n" : answer_to(line);
  }

  Counters& counters_;
  std::size_t kept_ = 0;  // bytes of input that the last call left
  bool ends_ = false;
};

inline ListenerOptions line_listener(Counters& counters) {
  return {.make_protocol =
              [&counters](const Peer&) { return std::make_unique<LineProtocol>(counters); },
          .over_limit_reply = "too many\n",
          .max_input = 64 << 10};
}

}  // namespace weir::net
