// Any bytes as what comes through a connection of HTTP/2: the same requests however they are cut,
// each told once and ended once, within the limits; and frames as answers.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "wire/grpc.h"
#include "wire/h2.h"

namespace {

using namespace weir::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr H2Limits kLimits{.streams = 8,
                           .header = 2000,
                           .fields = 20,
                           .body = 4000,
                           .dropped = 5000,
                           .bodies = 70'000,
                           .unsent = 20'000};
constexpr std::array kFields{H2Field{":status", "200"}, H2Field{"content-type", "x"}};
constexpr std::array kTrailers{H2Field{"grpc-status", "0"}};

// Answers by what is asked for: at once, later, in pieces, never.
class Peer final : public H2Handler {
 public:
  explicit Peer(std::size_t first) : first_(first) {}

  void hear(std::string_view input) {
    std::size_t piece = std::max<std::size_t>(first_, 1);
    while (!input.empty()) {
      piece = std::min(piece, input.size());
      // Memory of just that size, so that reading beyond it shows.
      const std::vector<char> shown(input.begin(), input.begin() + static_cast<long>(piece));
      input.remove_prefix(piece);
      machine_.receive({shown.data(), shown.size()}, 1);
      require(machine_.streams().size() <= kLimits.streams);
      if (first_ == 0) continue;
      piece = 1 + piece * 7 % 23;
    }
    answer_late();
    for (int i = 0; i < 3; ++i) {
      drain(i);
      send();
    }
  }

  // What was asked on each stream, and what became of it.
  std::map<std::int32_t, std::string> asked;

 private:
  bool takes_parts(const H2Stream& stream) override {
    return stream.request().path.starts_with("/parts");
  }

  void on_request(H2Stream& stream) override {
    const HttpRequest& request = stream.request();
    require(machine_.find(stream.id()) == &stream);
    std::string& text = asked[stream.id()];
    if (takes_parts(stream)) return take_parts(stream);
    require(text.empty());
    text.append(request.method).append(" ").append(request.target);
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      text.append(request.fields[i].name).append(":").append(request.fields[i].value);
    }
    text.append(request.body).append(std::to_string(stream.flaw()));
    require(request.body.size() <= kLimits.body && request.fields.size() <= kLimits.fields);
    (void)read_grpc_message(request.body, 100);
    (void)parse_grpc_timeout(request.field("grpc-timeout"));
    if (request.path.starts_with("/later")) return late_.push_back(stream.id());
    if (request.path.starts_with("/never")) return;
    if (request.head) return machine_.respond(stream, kFields);
    stream.answer.assign(request.path.starts_with("/long") ? 30'000 : 10, 'x');
    machine_.start(stream, kFields);
    machine_.finish(stream, kTrailers);
  }

  void take_parts(H2Stream& stream) {
    if (!stream.is_answered()) machine_.start(stream, kFields);
    stream.answer += stream.parts();
    stream.parts().clear();
    machine_.go_on(stream);
    if (stream.is_whole() || stream.flaw() != 0) machine_.finish(stream, kTrailers);
  }

  void on_gone(H2Stream& stream) override {
    ++gone_[stream.id()];
    require(gone_[stream.id()] == 1);
  }

  void answer_late() {
    for (const std::int32_t id : late_) {
      H2Stream* const stream = machine_.find(id);
      if (stream == nullptr || stream->is_answered()) continue;
      stream->answer = "late";
      machine_.start(*stream, kFields);
      machine_.finish(*stream);
    }
  }

  void drain(int step) {
    if (step == 1) machine_.drain();
    if (step == 2) machine_.drain_now();
  }

  void send() {
    std::string out;
    while (machine_.has_more()) {
      const std::size_t before = out.size();
      machine_.send(out, out.size() + 1);
      if (out.size() == before) break;
    }
    // Whole frames, each of a size that may be.
    std::string_view rest = out;
    while (!rest.empty()) {
      require(rest.size() >= 9);
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
      const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
      require(size <= 16'777'215 && rest.size() >= 9 + size && byte(3) <= 9);
      rest.remove_prefix(9 + size);
    }
  }

  const std::size_t first_;
  H2Machine machine_{*this, kLimits};
  std::vector<std::int32_t> late_;
  std::map<std::int32_t, int> gone_;
};

// Whether it has a GOAWAY: who has nothing under way when it comes has left, and what follows in
// the same piece may still be told.
bool says_goodbye(std::string_view input) {
  input.remove_prefix(std::min(H2Machine::kPreface.size(), input.size()));
  while (input.size() >= 9) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    if (byte(3) == 7) return true;
    const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
    input.remove_prefix(std::min(9 + size, input.size()));
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A peer that does not begin as it must is soon over.
  std::string input(reinterpret_cast<const char*>(data), size);
  if (!input.starts_with("PRI")) input.insert(0, H2Machine::kPreface);
  Peer whole(input.size());
  whole.hear(input);
  Peer cut(1 + size % 7);
  cut.hear(input);
  require(whole.asked == cut.asked || says_goodbye(input));
  return 0;
}
