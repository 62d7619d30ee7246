// The end of HTTP/2 streams: each ends once, from either side, whatever frames follow; and time
// limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "h2_fixture.h"

namespace weir::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class H2Endings : public H2Test {
 protected:
  void refuse_all() {
    on_each = [this](H2Stream& stream) { machine->respond(stream, kFields); };
  }
  // Sends a ping each second.
  std::vector<Frame> ping_for(int seconds) {
    std::vector<Frame> heard;
    for (int i = 0; i < seconds; ++i) {
      ++now;
      std::ranges::copy(say(H2Peer::ping()), std::back_inserter(heard));
    }
    return heard;
  }
};

// ---- Ending once

TEST_F(H2Endings, DataAfterAnAnsweredRequestEndsNothingTwice) {
  connect();
  refuse_all();
  say(peer.request(1) + H2Peer::data(1, "", true) + H2Peer::data(1, "more", true));
  EXPECT_THAT(gone, ElementsAre(1));
  say(peer.request(3) + peer.request(5));
  EXPECT_THAT(gone, testing::UnorderedElementsAre(1, 3, 5));
  EXPECT_THAT(machine->streams(), IsEmpty());
}

// ---- Frames after the end (RFC 9113, 5.1 and 6.1)

TEST_F(H2Endings, DataAfterEndStreamIsAStreamError) {
  connect();
  answer_all();
  say(peer.request(1));
  const auto frames = say(H2Peer::data(1, "more", false));
  EXPECT_EQ(reset_of(frames, 1), NGHTTP2_STREAM_CLOSED);
  EXPECT_EQ(goodbye(frames), -1);
  EXPECT_THAT(say(H2Peer::data(1, "and more", true)), IsEmpty());  // our reset may not have arrived
  // Also for a stream that the peer has cancelled, or has skipped.
  say(peer.headers(5, H2Peer::post("/"), false) + H2Peer::reset(5));
  EXPECT_EQ(reset_of(say(H2Peer::data(5, "more", true)), 5), NGHTTP2_STREAM_CLOSED);
  EXPECT_EQ(reset_of(say(H2Peer::data(3, "more", true)), 3), NGHTTP2_STREAM_CLOSED);
  EXPECT_FALSE(body_of(say(peer.request(7)), 7).empty());
}

TEST_F(H2Endings, HeadersAfterEndStreamAreAConnectionError) {
  const TestFields trailers{{"x-trailer", "x"}};
  for (const bool taken_back : {false, true}) {
    H2Peer other;
    connect();
    answer_all();
    taken_back ? say(other.headers(1, H2Peer::post("/"), false) + H2Peer::reset(1))
               : say(other.request(1));
    EXPECT_EQ(goodbye(say(other.headers(1, trailers, true))), NGHTTP2_STREAM_CLOSED);
    EXPECT_TRUE(machine->is_over());
  }
}

TEST_F(H2Endings, FramesAfterOurResetAreIgnored) {
  connect();
  on_each = [this](H2Stream& stream) { machine->reset(stream); };
  // More resets than are remembered.
  for (std::int32_t id = 1; id < 200; id += 2) {
    EXPECT_EQ(reset_of(say(peer.headers(id, H2Peer::post("/parts"), false)), id), NGHTTP2_CANCEL);
  }
  for (std::int32_t id = 1; id < 200; id += 2) {
    EXPECT_THAT(say(H2Peer::data(id, "more", false)), IsEmpty());
    EXPECT_THAT(say(peer.headers(id, {{"x-trailer", "x"}}, true)), IsEmpty());
  }
  EXPECT_FALSE(machine->is_over());
}

// A request after the last GOAWAY is ignored, with all of its frames.
TEST_F(H2Endings, RequestsAfterGoawayAreIgnored) {
  connect();
  say(peer.headers(1, H2Peer::post("/"), false));
  machine->drain_now();
  hear();
  EXPECT_THAT(say(peer.headers(3, H2Peer::post("/"), false)), IsEmpty());
  EXPECT_THAT(say(H2Peer::data(3, "more", false)), IsEmpty());
  EXPECT_THAT(say(peer.headers(3, {{"x-trailer", "x"}}, true)), IsEmpty());
  answer_all();
  EXPECT_EQ(body_of(say(H2Peer::data(1, "", true)), 1), "hello");
  EXPECT_TRUE(machine->is_over());
}

TEST_F(H2Endings, AStreamThatDependsOnItselfIsAnError) {
  const std::string itself{"\0\0\0\1\x10", 5};
  connect();
  EXPECT_EQ(goodbye(say(H2Peer::frame(Frame::priority, 0, 1, itself))), NGHTTP2_PROTOCOL_ERROR);
  connect();
  constexpr int with_priority = 0x20;
  EXPECT_EQ(goodbye(say(H2Peer::frame(Frame::headers, with_priority | H2Peer::kEndHeaders, 1,
                                      itself + peer.block(H2Peer::get("/"))))),
            NGHTTP2_PROTOCOL_ERROR);
}

// ---- Ending once

TEST_F(H2Endings, ABodyThatEndsTwiceEndsNothingTwice) {
  connect();
  refuse_all();
  TestFields fields = H2Peer::post("/");
  fields.emplace_back("content-length", std::to_string(2 << 20));  // is refused before it arrives
  say(peer.headers(1, fields, false));
  fields.pop_back();
  EXPECT_EQ(seen.back().flaw, 413);
  say(peer.headers(3, fields, false) + H2Peer::data(3, "", true) + H2Peer::data(3, "", true) +
      H2Peer::reset(3));
  EXPECT_THAT(gone, ElementsAre(3));
  EXPECT_EQ(goodbye(say(peer.request(5))), -1);
}

TEST_F(H2Endings, AnAnsweredStreamIsGoneWhenItsBodyEnds) {
  connect({.body = 10});
  refuse_all();
  say(peer.headers(1, H2Peer::post("/"), false));
  say(H2Peer::data(1, "more than ten bytes", false));
  EXPECT_EQ(seen.back().flaw, 413);
  EXPECT_THAT(machine->streams(), SizeIs(1));
  machine->drain_now();
  hear();
  machine->receive(H2Peer::data(1, "", true), now);
  EXPECT_THAT(machine->streams(), IsEmpty());
  EXPECT_TRUE(machine->is_over());
}

TEST_F(H2Endings, AResponseIsFinishedOnce) {
  connect();
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  on_each = [this](H2Stream& stream) {
    stream.answer = "hello";
    machine->start(stream, kFields);
    for (const char* text : {"the first", "another one that is longer than the first was"}) {
      const std::string copy(text);
      machine->finish(stream, std::array{H2Field{"grpc-message", copy, false}});
    }
  };
  const auto head = say(peer.request(1));
  (void)peer.fields(head.at(0));
  const auto frames = say(H2Peer::window(1, 100));
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_THAT(peer.fields(frames[1]), ElementsAre("grpc-message: the first"));
}

// HPACK encodes headers in the order in which they are sent.
TEST_F(H2Endings, AResponseMadeInOnGoneIsSentInOrder) {
  class Chain : public H2Handler {
   public:
    bool takes_parts(const H2Stream&) override { return false; }
    std::size_t most_body(const H2Stream&) override { return SIZE_MAX; }
    void on_request(H2Stream& stream) override {
      if (stream.id() == 3) answer(stream);
    }
    void on_gone(H2Stream& stream) override {
      H2Stream* const other = stream.id() == 3 ? machine->find(1) : nullptr;
      if (other != nullptr) answer(*other);
    }
    void answer(H2Stream& stream) {
      stream.answer = "body";
      machine->start(stream, kFields);
      machine->finish(stream, std::array{H2Field{"x-trailer", "of the answer"}});
    }
    Http2Server* machine = nullptr;
  } chain;
  Http2Server chained(chain);
  chain.machine = &chained;
  chained.receive(H2Peer::preface() + peer.request(1) + peer.request(3), now);
  std::string out;
  chained.send(out, 1 << 20);
  std::map<std::int32_t, std::string> order;
  for (const Frame& frame : H2Peer::frames(out)) {
    if (frame.type == Frame::headers) {
      EXPECT_THAT(peer.fields(frame), testing::Not(testing::Contains("cannot be read")));
    }
    if (frame.stream != 0) order[frame.stream] += frame.type == Frame::data ? 'd' : 'h';
  }
  EXPECT_THAT(order, ElementsAre(std::pair(1, "hdh"), std::pair(3, "hdh")));
}

// Also within one input.
TEST_F(H2Endings, AClosedStreamDoesNotBlockOthers) {
  connect({.streams = 2});
  refuse_all();
  say(peer.request(1) + peer.request(3) + peer.request(5) + peer.request(7));
  EXPECT_THAT(seen, SizeIs(4));
}

// ---- Timeouts

TEST_F(H2Endings, AnIncompleteRequestIsAnsweredAndThenReset) {
  connect({.seconds = 5});
  answer_all();
  say(peer.headers(1, H2Peer::post("/"), false));
  ping_for(5);
  EXPECT_THAT(seen, IsEmpty());
  const auto answered = ping_for(1);
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].flaw, 408);
  EXPECT_EQ(body_of(answered, 1), "hello");
  EXPECT_EQ(reset_of(ping_for(7), 1), NGHTTP2_NO_ERROR);
  EXPECT_THAT(gone, ElementsAre(1));
}

TEST_F(H2Endings, AResponseThatIsNotReadIsReset) {
  connect({.seconds = 5});
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  answer_all();
  say(peer.request(1));
  EXPECT_EQ(reset_of(ping_for(5), 1), -1);
  EXPECT_EQ(reset_of(ping_for(1), 1), NGHTTP2_CANCEL);
  EXPECT_EQ(machine->unsent(), 0u);
}

TEST_F(H2Endings, AResponseThatIsReadSlowlyDoesNotTimeOut) {
  connect({.seconds = 5});
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  on_each = [this](H2Stream& stream) { answer(stream, std::string(20, 'x')); };
  say(peer.request(1));
  std::string body;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(reset_of(ping_for(4), 1), -1);
    body += body_of(say(H2Peer::window(1, 1)), 1);
  }
  EXPECT_EQ(body.size(), 20u);
}

// The server may be the slow side, and parts of a streamed body may arrive at any time.
TEST_F(H2Endings, AStreamThatWaitsForTheServerDoesNotTimeOut) {
  connect({.seconds = 5});
  say(peer.request(1) + peer.headers(3, H2Peer::post("/parts"), false));
  EXPECT_THAT(of_type(ping_for(20), Frame::rst_stream), IsEmpty());
  machine->start(*machine->find(1), kFields);
  EXPECT_THAT(of_type(ping_for(20), Frame::rst_stream), IsEmpty());
  EXPECT_THAT(seen, SizeIs(2));
}

// ---- Memory

TEST_F(H2Endings, HeadersOfAllRequestsTogetherAreLimited) {
  connect({.headers = 50'000});
  TestFields fields = H2Peer::post("/");
  fields.emplace_back("cookie", std::string(10'000, 'x'));
  std::int32_t stream = 1;
  for (; stream < 11; stream += 2) {
    EXPECT_EQ(reset_of(say(peer.headers(stream, fields, false)), stream), -1);
  }
  EXPECT_EQ(reset_of(say(peer.headers(stream, fields, false)), stream), NGHTTP2_REFUSED_STREAM);
  say(H2Peer::reset(1));
  EXPECT_EQ(reset_of(say(peer.headers(stream + 2, fields, false)), stream + 2), -1);
}

// ---- Flow control while other streams are blocked

class H2Windows : public H2Endings {
 protected:
  // Sends as an honest client does, as far as the windows allow. Returns the bytes sent.
  std::size_t send_body(std::int32_t stream, std::size_t size, bool ends = true) {
    std::size_t sent = 0;
    while (sent < size) {
      const auto open = std::min({connection, streams.try_emplace(stream, window).first->second,
                                  static_cast<std::int64_t>(size - sent), std::int64_t{16'000}});
      if (open <= 0) break;
      connection -= open;
      streams[stream] -= open;
      sent += static_cast<std::size_t>(open);
      hear_windows(say(H2Peer::data(stream, std::string(static_cast<std::size_t>(open), 'x'),
                                    ends && sent == size)));
    }
    return sent;
  }
  void begin(std::int32_t stream, const std::string& path) {
    hear_windows(say(peer.headers(stream, H2Peer::post(path), false)));
  }
  void hear_windows(const std::vector<Frame>& frames) {
    for (const Frame& frame : of_type(frames, Frame::window_update)) {
      (frame.stream == 0 ? connection : streams.try_emplace(frame.stream, window).first->second) +=
          frame.number(0);
    }
  }

  std::int64_t window = 0;
  std::int64_t connection = 0;
  std::map<std::int32_t, std::int64_t> streams;
};

TEST_F(H2Windows, LetTwoLongBodiesThroughAfterAnother) {
  connect();
  answer_all();
  window = (1 << 20) + (64 << 10);
  connection = 2 << 20;
  begin(1, "/");
  EXPECT_EQ(send_body(1, 1'000'000), 1'000'000u);
  begin(3, "/");
  begin(5, "/");
  EXPECT_EQ(send_body(3, 600'000), 600'000u);
  EXPECT_EQ(send_body(5, 600'000), 600'000u);
  EXPECT_THAT(seen, SizeIs(3));
}

TEST_F(H2Windows, LetAStreamedBodyPassBlockedOnes) {
  window = 64 << 10;
  connection = 100 * window;
  connect({.body = SIZE_MAX,
           .window = static_cast<std::size_t>(window),
           .bodies = static_cast<std::size_t>(connection)});
  on_each = [](H2Stream& stream) {
    if (stream.id() == 199) stream.parts().clear();
  };
  for (std::int32_t stream = 1; stream < 197; stream += 2) {
    begin(stream, "/parts");
    EXPECT_EQ(send_body(stream, 100'000), static_cast<std::size_t>(window));
  }
  begin(199, "/parts");
  EXPECT_EQ(send_body(199, 10'000'000), 10'000'000u);
}

TEST_F(H2Windows, LetALongPartThroughAfterShortOnes) {
  connect();
  window = (1 << 20) + (64 << 10);
  connection = 2 << 20;
  bool takes = true;
  on_each = [&](H2Stream& stream) {
    if (takes) stream.parts().clear();
  };
  begin(1, "/parts");
  EXPECT_EQ(send_body(1, 500'000, false), 500'000u);
  takes = false;
  EXPECT_EQ(send_body(1, 1 << 20), 1u << 20);
}

// A client that writes the whole body before it reads must get to the refusal.
TEST_F(H2Windows, LetAClientFinishABodyThatIsTooLong) {
  connect();
  answer_all();
  window = (1 << 20) + (64 << 10);
  connection = 2 << 20;
  begin(1, "/");
  EXPECT_EQ(send_body(1, 4'000'000), 4'000'000u);
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].flaw, 413);
  EXPECT_THAT(gone, ElementsAre(1));
}

}  // namespace
}  // namespace weir::wire
