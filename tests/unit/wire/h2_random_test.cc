// Random conversations. The client does anything with its streams that does not end the connection,
// responses are made in any way and at any time, and the input is cut anywhere. The frames must
// come in a valid order, keep to the windows and have decodable fields, and no stream may remain at
// the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "h2_peer.h"
#include "wire/h2.h"

namespace weir::wire {
namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  // A random number below that.
  std::size_t upto(std::size_t most) { return random_() % most; }
  bool one_in(std::size_t n) { return upto(n) == 0; }

 private:
  std::mt19937_64 random_;
};

// A handler that responds at random.
class Moody : public H2Handler {
 public:
  Moody(Dice& dice, const H2Limits& limits) : machine(*this, limits), dice_(dice) {}

  // Does a random step for each stream.
  void go_on() {
    for (H2Stream* const stream : machine.streams()) {
      if (machine.find(stream->id()) == nullptr || dice_.one_in(2)) continue;
      stream->is_answered() ? say_more(*stream) : answer(*stream);
      if (in_parts_.contains(stream->id())) take_some(*stream);
    }
  }
  // Finishes all responses.
  void finish_all() {
    for (H2Stream* const stream : machine.streams()) {
      if (machine.find(stream->id()) == nullptr) continue;
      if (!stream->is_answered()) machine.start(*stream, kFields);
      machine.finish(*stream);
    }
  }

  Http2Server machine;

 private:
  static constexpr std::array kFields{H2Field{":status", "200"}, H2Field{"content-type", "x/y"}};
  static constexpr std::array kTrailers{H2Field{"grpc-status", "0"}};

  std::size_t most_body(const H2Stream&) override { return SIZE_MAX; }
  bool takes_parts(const H2Stream& stream) override {
    const bool parts = dice_.one_in(2);
    if (parts) in_parts_.insert(stream.id());
    return parts;
  }
  void on_request(H2Stream& stream) override {
    EXPECT_EQ(machine.find(stream.id()), &stream);
    if (in_parts_.contains(stream.id())) stream.parts().erase(0, dice_.upto(2) * 5'000);
    if (stream.flaw() != 0 && !stream.is_answered()) return machine.respond(stream, kFields);
    if (dice_.one_in(2)) return;
    stream.is_answered() ? say_more(stream) : answer(stream);
  }
  void on_gone(H2Stream& stream) override { EXPECT_TRUE(gone_.insert(stream.id()).second); }

  void answer(H2Stream& stream) {
    const std::string value(dice_.upto(600), 'v');
    switch (dice_.upto(5)) {
      case 0:
        return machine.respond(stream, kFields);
      case 1:
        stream.answer.assign(dice_.upto(40'000), 'x');
        return machine.start(stream, std::array{H2Field{":status", "200"},
                                                H2Field{"x-value", value, dice_.one_in(2)}});
      case 2:
        stream.answer = "short";
        machine.start(stream, kFields);
        return machine.finish(stream, kTrailers);
      case 3:
        return machine.reset(stream);
      default:
        constexpr H2Field hint{":status", "103"};
        return machine.hint(stream, {&hint, 1});
    }
  }
  void say_more(H2Stream& stream) {
    if (stream.is_finished()) return;
    stream.answer.append(dice_.upto(30'000), 'x');
    dice_.one_in(2) ? machine.finish(stream, kTrailers) : machine.go_on(stream);
  }
  void take_some(H2Stream& stream) {
    stream.parts().erase(0, dice_.upto(stream.parts().size() + 1));
    machine.took(stream);
  }

  Dice& dice_;
  std::set<std::int32_t> in_parts_;
  std::set<std::int32_t> gone_;
};

// A client that sends random frames, and checks the frames that it receives.
class Client {
 public:
  explicit Client(Dice& dice) : dice_(dice) {}

  // The next bytes to send; may be empty.
  std::string next() {
    if (next_ == 1) return request();
    const std::int32_t stream = some_stream();
    switch (dice_.upto(12)) {
      case 0:
      case 1:
      case 2:
        return request();
      case 3:
      case 4:
      case 5:
      case 6:
        return body(stream);
      case 7:
        known(stream).is_done = true;
        return H2Peer::reset(stream);
      case 8:
        return open(stream, dice_.upto(30'000) + 1);
      case 9:
        return open(0, dice_.upto(60'000) + 1);
      case 10:
        return trailers(stream);
      default:
        return H2Peer::ping();
    }
  }
  // Opens the windows for all that is left.
  std::string take_all() {
    std::string all = open(0, 1 << 28);
    for (std::int32_t stream = 1; stream < next_; stream += 2) all += open(stream, 1 << 20);
    return all;
  }
  std::string reset_all() const {
    std::string all;
    for (std::int32_t stream = 1; stream < next_; stream += 2) all += H2Peer::reset(stream);
    return all;
  }

  // Changes SETTINGS_INITIAL_WINDOW_SIZE, which also applies to open streams.
  std::string use_window(std::int64_t size) {
    for (auto& [id, stream] : streams_) stream.open += size - first_open_;
    first_open_ = size;
    return H2Peer::settings(
        {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<std::uint32_t>(size)}});
  }

  void hear(std::string_view bytes) {
    for (const Frame& frame : H2Peer::frames(bytes)) hear(frame);
  }

  bool is_sent_away() const { return sent_away_; }
  std::int64_t window() const { return window_; }

 private:
  struct Stream {
    std::int64_t open = 0;         // bytes that the server may send
    std::int64_t window = kFirst;  // bytes that the client may send
    bool has_header = false;
    bool is_over = false;   // the response is complete
    bool is_reset = false;  // no frame may follow
    bool is_begun = false;  // the request was sent
    bool is_done = false;   // the request is complete, or was cancelled
  };
  static constexpr std::int64_t kFirst = 65'535;

  Stream& known(std::int32_t id) {
    return streams_.try_emplace(id, Stream{.open = first_open_}).first->second;
  }
  std::int32_t some_stream() {
    const auto back = static_cast<std::int32_t>(dice_.upto(dice_.one_in(3) ? 100 : 6));
    return std::max(1, next_ - 2 - 2 * back);
  }

  std::string request() {
    TestFields fields = dice_.one_in(2) ? H2Peer::get("/a") : H2Peer::post("/b");
    if (dice_.one_in(12)) fields.emplace_back("UPPER", "is no field");
    if (dice_.one_in(12)) fields.emplace_back("host", "another");
    if (dice_.one_in(10)) fields.emplace_back("content-length", std::to_string(dice_.upto(90'000)));
    if (dice_.one_in(20)) fields.emplace_back("expect", "100-continue");
    if (dice_.one_in(3)) fields.emplace_back("x-long", std::string(dice_.upto(900), 'x'));
    if (dice_.one_in(10)) next_ += 2;  // skips some numbers
    const std::int32_t stream = next_;
    next_ += 2;
    const bool ends = dice_.one_in(2);
    known(stream).is_begun = true;
    known(stream).is_done = ends;
    if (!dice_.one_in(3)) return peer_.headers(stream, fields, ends);
    const std::string block = peer_.block(fields);
    const std::size_t cut = dice_.upto(block.size() + 1);
    return H2Peer::frame(Frame::headers, ends ? H2Peer::kEnd : 0, stream, block.substr(0, cut)) +
           H2Peer::frame(Frame::continuation, H2Peer::kEndHeaders, stream, block.substr(cut));
  }
  std::string body(std::int32_t stream) {
    std::int64_t& window = known(stream).window;
    const auto most = std::min({window_, window, std::int64_t{16'000}});
    const std::size_t size = most > 0 ? dice_.upto(static_cast<std::size_t>(most)) : 0;
    window_ -= static_cast<std::int64_t>(size);
    window -= static_cast<std::int64_t>(size);
    const bool ends = dice_.one_in(3);
    known(stream).is_done |= ends;
    if (size < 20 || !dice_.one_in(4)) return H2Peer::data(stream, std::string(size, 'x'), ends);
    constexpr int padded = 8;
    return H2Peer::frame(Frame::data, padded | (ends ? H2Peer::kEnd : 0), stream,
                         '\x0a' + std::string(size - 1, 'x'));
  }
  // After END_STREAM they would end the connection, not only the stream.
  std::string trailers(std::int32_t stream) {
    if (!known(stream).is_begun || known(stream).is_done) return {};
    const bool ends = !dice_.one_in(6);
    known(stream).is_done = ends;
    return peer_.headers(stream, {{"x-trailer", "x"}}, ends);
  }
  std::string open(std::int32_t stream, std::size_t more) {
    (stream == 0 ? open_ : known(stream).open) += static_cast<std::int64_t>(more);
    return H2Peer::window(stream, static_cast<std::uint32_t>(more));
  }

  void hear(const Frame& frame) {
    Stream& stream = known(frame.stream);
    const auto size = static_cast<std::int64_t>(frame.payload.size());
    switch (frame.type) {
      case Frame::headers:
        EXPECT_FALSE(stream.is_over) << frame.stream;
        EXPECT_THAT(peer_.fields(frame), testing::Not(testing::Contains("cannot be read")));
        stream.has_header = true;
        break;
      case Frame::data:
        EXPECT_TRUE(stream.has_header && !stream.is_over) << frame.stream;
        open_ -= size;
        stream.open -= size;
        EXPECT_TRUE(size == 0 || (open_ >= 0 && stream.open >= 0)) << frame.stream;
        break;
      case Frame::rst_stream:
        EXPECT_FALSE(stream.is_reset) << frame.stream;
        stream.is_over = stream.is_reset = true;
        return;
      case Frame::window_update:
        EXPECT_FALSE(stream.is_reset) << frame.stream;
        (frame.stream == 0 ? window_ : stream.window) += frame.number(0);
        return;
      case Frame::goaway:
        sent_away_ = true;
        return;
      default:
        return;
    }
    if (frame.ends()) stream.is_over = true;
  }

  Dice& dice_;
  H2Peer peer_;
  std::int32_t next_ = 1;
  std::map<std::int32_t, Stream> streams_;
  std::int64_t open_ = kFirst;
  std::int64_t first_open_ = kFirst;
  std::int64_t window_ = kFirst;
  bool sent_away_ = false;
};

class Conversation {
 public:
  explicit Conversation(unsigned seed)
      : dice_(seed),
        limits_{.streams = static_cast<std::uint32_t>(5 + dice_.upto(20)),
                .body = dice_.one_in(2) ? 60'000u : 200'000u,
                .window = dice_.one_in(2) ? 0u : 70'000u,
                .dropped = 100'000 + dice_.upto(100'000),
                .bodies = 100'000 + dice_.upto(500'000),
                .seconds = 20},
        server_(dice_, limits_),
        client_(dice_) {}

  void run() {
    say(H2Peer::preface());
    for (int step = 0; step < 200; ++step) {
      unsaid_ += client_.next();
      if (dice_.one_in(30)) change_window();
      if (dice_.one_in(3)) server_.go_on();
      if (dice_.one_in(2)) say_unsaid();
      if (dice_.one_in(2)) hear();
    }
    end();
  }

 private:
  void say(std::string_view bytes) { server_.machine.receive(bytes, ++now_ / 8); }
  void say_unsaid() {
    while (!unsaid_.empty()) {
      const std::size_t cut = dice_.one_in(3) ? dice_.upto(unsaid_.size()) + 1 : unsaid_.size();
      say(unsaid_.substr(0, cut));
      unsaid_.erase(0, cut);
      if (dice_.one_in(2)) hear();
    }
  }
  void hear() {
    std::string out;
    server_.machine.send(out, dice_.one_in(3) ? dice_.upto(20'000) + 1 : 1 << 20);
    client_.hear(out);
  }

  // When nothing is in flight, both sides apply it at the same time.
  void change_window() {
    say_unsaid();
    while (server_.machine.has_more()) hear();
    say(client_.use_window(static_cast<std::int64_t>(dice_.upto(70'000))));
  }

  void end() {
    say_unsaid();
    say(client_.take_all());
    server_.finish_all();
    while (server_.machine.has_more()) hear();
    say(client_.reset_all());  // some bodies never end
    while (server_.machine.has_more()) hear();
    EXPECT_FALSE(client_.is_sent_away());
    EXPECT_EQ(server_.machine.streams().size(), 0u);
    EXPECT_EQ(server_.machine.unsent(), 0u);
    EXPECT_FALSE(server_.machine.in_message());
    EXPECT_GT(client_.window(), static_cast<std::int64_t>(limits_.bodies) / 2);
  }

  Dice dice_;
  const H2Limits limits_;
  Moody server_;
  Client client_;
  std::string unsaid_;
  std::int64_t now_ = 800;
};

TEST(H2Conversation, KeepsTheProtocolForRandomInput) {
  for (unsigned seed = 1; seed <= 1'000; ++seed) {
    SCOPED_TRACE(seed);
    Conversation(seed).run();
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace weir::wire
