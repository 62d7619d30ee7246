// The server's side of HTTP/2, frame by frame.

#include "wire/h2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "h2_fixture.h"

namespace weir::wire {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- Requests and answers

TEST_F(H2Test, SendsItsSettingsFirst) {
  machine = std::make_unique<Http2Server>(*this, H2Limits{});
  const auto frames = say(H2Peer::preface());
  ASSERT_GE(frames.size(), 2u);
  EXPECT_EQ(frames[0].type, Frame::settings);
  EXPECT_FALSE(frames[0].ends());
  const auto acks = of_type(frames, Frame::settings);
  ASSERT_EQ(acks.size(), 2u);
  EXPECT_TRUE(acks[1].ends());
}

TEST_F(H2Test, AssemblesARequestFromHeaderAndBody) {
  connect();
  on_each = [](H2Stream& stream) {
    const HttpRequest& request = stream.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/take");
    EXPECT_EQ(request.query, "a=b");
    EXPECT_EQ(request.host, "localhost");
    EXPECT_EQ(request.content_type, "application/json");
    EXPECT_EQ(request.authorization, "Bearer x");
    EXPECT_EQ(request.field("X-Other"), "y");
    EXPECT_EQ(request.version, 20);
    EXPECT_TRUE(request.declares_length);
    EXPECT_FALSE(request.head);
    EXPECT_EQ(request.body, "hello, world");
  };
  TestFields fields = H2Peer::post("/v1/take?a=b");
  fields.insert(
      fields.end(),
      {{"content-type", "application/json"}, {"authorization", "Bearer x"}, {"x-other", "y"}});
  say(peer.headers(1, fields, false));
  EXPECT_THAT(seen, IsEmpty());
  EXPECT_TRUE(machine->in_message());
  say(H2Peer::data(1, "hello, ", false));
  EXPECT_THAT(seen, IsEmpty());
  say(H2Peer::data(1, "world", true));
  EXPECT_THAT(seen, SizeIs(1));
}

TEST_F(H2Test, ReadsTheSameHoweverTheInputIsCut) {
  std::string all = H2Peer::preface() + peer.headers(1, H2Peer::post("/a"), false) +
                    H2Peer::data(1, "one", false) + H2Peer::data(1, "two", true) +
                    peer.request(3, "/b");
  machine = std::make_unique<Http2Server>(*this, H2Limits{});
  answer_all();
  std::string out;
  for (const char& c : all) {
    machine->receive({&c, 1}, now);
    EXPECT_TRUE(machine->in_message() || &c == &all.back() || *(&c + 1) == '\0');
    machine->send(out, 1 << 20);
  }
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_EQ(seen[0].line, "POST /a");
  EXPECT_EQ(seen[0].body, "onetwo");
  EXPECT_EQ(seen[1].line, "GET /b");
  EXPECT_FALSE(machine->in_message());
}

TEST_F(H2Test, AnswersWithFieldsAndBody) {
  connect();
  answer_all();
  const auto frames = say(peer.request(1));
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_THAT(peer.fields(frames[0]), ElementsAre(":status: 200", "content-type: text/plain"));
  EXPECT_FALSE(frames[0].ends());
  EXPECT_EQ(frames[1].payload, "hello");
  EXPECT_TRUE(frames[1].ends());
  EXPECT_THAT(gone, ElementsAre(1));
}

TEST_F(H2Test, AnswersPipelinedRequestsTogether) {
  connect();
  answer_all();
  std::string asked;
  for (int i = 1; i < 200; i += 2) asked += peer.request(i);
  const auto frames = say(asked);
  EXPECT_EQ(of_type(frames, Frame::data).size(), 100u);
  EXPECT_FALSE(machine->has_more());
}

// The handler sees a request although the same input cancels it.
TEST_F(H2Test, DeliversARequestThatIsResetInTheSameInput) {
  connect();
  answer_all();
  const auto frames =
      say(peer.request(1, "/a") + peer.request(3, "/b") + H2Peer::reset(1) + peer.request(5, "/c"));
  ASSERT_THAT(seen, SizeIs(3));
  EXPECT_THAT(gone, Contains(1));
  EXPECT_EQ(body_of(frames, 1), "");
  EXPECT_EQ(body_of(frames, 3), "hello");
  EXPECT_EQ(body_of(frames, 5), "hello");
}

// A connection error does not affect complete requests before it.
TEST_F(H2Test, AnswersRequestsBeforeAConnectionError) {
  connect();
  on_each = [this](H2Stream& stream) { machine->respond(stream, kFields); };
  const auto frames = say(peer.request(1, "/a") + H2Peer::data(0, "of no stream", false));
  const auto answers = of_type(frames, Frame::headers);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].stream, 1);
  EXPECT_EQ(goodbye(frames), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_THAT(say(peer.request(3)), IsEmpty());
}

TEST_F(H2Test, AnswersWithoutABody) {
  connect();
  on_each = [this](H2Stream& stream) { machine->respond(stream, kFields); };
  const auto frames = say(peer.request(1));
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_TRUE(frames[0].ends());
}

TEST_F(H2Test, AnswersInAnyOrderAndAtAnyTime) {
  connect();
  EXPECT_THAT(say(peer.request(1) + peer.request(3)), IsEmpty());
  EXPECT_TRUE(machine->in_message());
  answer(*machine->find(3), "three");
  EXPECT_TRUE(machine->has_more());
  EXPECT_EQ(body_of(hear(), 3), "three");
  answer(*machine->find(1), "one");
  EXPECT_EQ(body_of(hear(), 1), "one");
  EXPECT_EQ(machine->find(1), nullptr);
  EXPECT_FALSE(machine->in_message());
}

TEST_F(H2Test, SendsTrailers) {
  connect();
  on_each = [this](H2Stream& stream) {
    stream.answer = "x";
    machine->start(stream, kFields);
    const std::string text = "a text that does not last";
    machine->finish(stream,
                    std::array{H2Field{"grpc-status", "5"}, H2Field{"grpc-message", text, false}});
  };
  const auto frames = say(peer.request(1));
  ASSERT_THAT(frames, SizeIs(3));
  (void)peer.fields(frames[0]);
  EXPECT_FALSE(frames[1].ends());
  EXPECT_THAT(peer.fields(frames[2]),
              ElementsAre("grpc-status: 5", "grpc-message: a text that does not last"));
  EXPECT_TRUE(frames[2].ends());
}

// As for a server-streaming call.
TEST_F(H2Test, StreamsAResponse) {
  connect();
  on_each = [this](H2Stream& stream) { machine->start(stream, kFields); };
  EXPECT_THAT(of_type(say(peer.request(1)), Frame::headers), SizeIs(1));
  EXPECT_FALSE(machine->in_message());
  for (const char* piece : {"one", "two"}) {
    machine->find(1)->answer += piece;
    machine->go_on(*machine->find(1));
    EXPECT_EQ(body_of(hear(), 1), piece);
  }
  machine->finish(*machine->find(1));
  const auto frames = hear();
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_TRUE(frames[0].ends());
}

TEST_F(H2Test, StreamsARequestBodyOnDemand) {
  connect();
  std::string parts;
  on_each = [&](H2Stream& stream) {
    parts += stream.parts() + (stream.is_whole() ? "." : ",");
    stream.parts().clear();
    if (stream.is_whole()) answer(stream);
  };
  say(peer.headers(1, H2Peer::post("/parts"), false));
  EXPECT_FALSE(machine->in_message());
  say(H2Peer::data(1, "one", false));
  say(H2Peer::data(1, "two", false));
  EXPECT_EQ(parts, ",one,two,");
  EXPECT_EQ(body_of(say(H2Peer::data(1, "", true)), 1), "hello");
  EXPECT_EQ(parts, ",one,two,.");
}

// A proxy with a slow upstream must not have to buffer the body (flow control).
TEST_F(H2Test, OpensTheStreamWindowAsPartsAreTaken) {
  connect({.body = SIZE_MAX, .window = 20'000, .bodies = 100'000});
  H2Stream* open = nullptr;
  on_each = [&](H2Stream& stream) { open = &stream; };
  say(peer.headers(1, H2Peer::post("/parts"), false));
  EXPECT_THAT(of_type(say(H2Peer::data(1, std::string(16'000, 'x'), false)), Frame::window_update),
              IsEmpty());
  open->parts().erase(0, 15'000);
  machine->took(*open);
  const auto windows = of_type(hear(), Frame::window_update);
  ASSERT_THAT(windows, SizeIs(1));
  EXPECT_EQ(windows[0].stream, 1);
  EXPECT_EQ(windows[0].number(0), 15'000u);
  // Data beyond the window is a stream error.
  EXPECT_EQ(reset_of(say(H2Peer::data(1, std::string(16'384, 'x'), false) +
                         H2Peer::data(1, std::string(16'384, 'x'), false)),
                     1),
            NGHTTP2_FLOW_CONTROL_ERROR);
}

// An ended stream returns its part of the connection's window.
TEST_F(H2Test, OpensTheConnectionWindowForPartsOfEndedStreams) {
  connect({.body = SIZE_MAX, .window = 60'000, .bodies = 100'000});
  say(peer.headers(1, H2Peer::post("/parts"), false));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(
        of_type(say(H2Peer::data(1, std::string(16'000, 'x'), false)), Frame::window_update),
        IsEmpty());
  }
  say(H2Peer::reset(1));
  say(peer.headers(3, H2Peer::post("/parts"), false));
  const auto frames = say(H2Peer::data(3, std::string(16'000, 'x'), false) + H2Peer::reset(3));
  const auto windows = of_type(frames, Frame::window_update);
  ASSERT_THAT(windows, SizeIs(1));
  EXPECT_EQ(windows[0].stream, 0);
  EXPECT_EQ(windows[0].number(0), 48'000u);
}

TEST_F(H2Test, KeepsTrailersOfAStreamedRequest) {
  connect();
  std::string behind;
  on_each = [&](H2Stream& stream) { behind = stream.request_trailers(); };
  say(peer.headers(1, H2Peer::post("/parts"), false));
  say(H2Peer::data(1, "x", false) + peer.headers(1, {{"x-sum", "42"}, {"x-more", "a b"}}, true));
  EXPECT_EQ(behind, "x-sum: 42\r\nx-more: a b\r\n");
  // Trailers of a buffered request are dropped.
  say(peer.headers(3, H2Peer::post("/"), false));
  say(H2Peer::data(3, "x", false) + peer.headers(3, {{"x-sum", "42"}}, true));
  EXPECT_EQ(behind, "");
}

TEST_F(H2Test, JoinsCookieFields) {
  connect();
  TestFields fields = H2Peer::get("/");
  fields.emplace_back("cookie", "a=1");
  fields.emplace_back("accept", "*/*");
  fields.emplace_back("cookie", "b=2");
  fields.emplace_back("cookie", "c=3");
  say(peer.headers(1, fields, true));
  ASSERT_EQ(last->fields.size(), 2u);
  EXPECT_EQ(last->fields[0].name, "cookie");
  EXPECT_EQ(last->fields[0].value, "a=1; b=2; c=3");
  EXPECT_EQ(last->fields[1].name, "accept");
}

// The stream ends while its trailers arrive in pieces.
TEST_F(H2Test, DropsTrailersOfAnEndedStream) {
  for (const bool ended : {false, true}) {
    H2Peer other;
    connect();
    const std::size_t before = seen.size();
    const std::string block = other.block({{"x", "y"}});
    say(other.headers(1, H2Peer::post("/"), false));
    say(H2Peer::frame(Frame::headers, H2Peer::kEnd, 1, block.substr(0, 2)));
    machine->reset(*machine->find(1));
    EXPECT_EQ(machine->find(1), nullptr);
    if (ended) hear();
    say(H2Peer::frame(Frame::continuation, H2Peer::kEndHeaders, 1, block.substr(2)));
    EXPECT_THAT(seen, SizeIs(before));
    EXPECT_TRUE(machine->streams().empty());
    say(other.request(3));
    EXPECT_THAT(seen, SizeIs(before + 1));
  }
}

TEST_F(H2Test, SendsInformationalResponses) {
  connect();
  on_each = [this](H2Stream& stream) {
    constexpr std::array early{H2Field{":status", "103"}, H2Field{"link", "</style.css>"}};
    machine->hint(stream, early);
    answer(stream);
  };
  const auto frames = of_type(say(peer.request(1)), Frame::headers);
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_THAT(peer.fields(frames[0]), ElementsAre(":status: 103", "link: </style.css>"));
  EXPECT_FALSE(frames[0].ends());
  EXPECT_THAT(peer.fields(frames[1]), Contains(":status: 200"));
}

// A handler of a streamed body may not want it: it sends 100 Continue itself.
TEST_F(H2Test, LeavesContinueToTheHandlerOfAStreamedBody) {
  connect();
  TestFields fields = H2Peer::post("/parts");
  fields.emplace_back("expect", "100-continue");
  bool expects = false;
  on_each = [&](H2Stream& stream) { expects = stream.expects_continue(); };
  EXPECT_THAT(say(peer.headers(1, fields, false)), IsEmpty());
  EXPECT_TRUE(expects);
}

TEST_F(H2Test, FreesSentPartsOfALongResponse) {
  connect();
  H2Stream* open = nullptr;
  on_each = [&](H2Stream& stream) {
    machine->start(stream, kFields);
    open = &stream;
  };
  say(peer.request(1));
  say(H2Peer::window(0, 1 << 30) + H2Peer::window(1, 1 << 30));
  for (int i = 0; i < 1000; ++i) {
    open->answer.append(20'000, 'x');
    machine->go_on(*open);
    std::string out;
    machine->send(out, 10'000);  // a frame: it is never all sent
    EXPECT_LE(open->answer.size(), 2 * open->unsent() + 50'000);
  }
  EXPECT_EQ(open->unsent(), machine->unsent());
  EXPECT_EQ(open->unsent(), 1000u * (20'000 - 16'384));
}

// Other responses do not wait until a long one is sent.
TEST_F(H2Test, InterleavesLongResponses) {
  connect();
  on_each = [this](H2Stream& stream) { answer(stream, std::string(60'000, 'x')); };
  say(H2Peer::window(0, 1 << 20));
  machine->receive(peer.request(1) + peer.request(3), now);
  std::string out;
  machine->send(out, 60'000);
  const auto frames = H2Peer::frames(out);
  EXPECT_GT(body_of(frames, 1).size(), 10'000u);
  EXPECT_GT(body_of(frames, 3).size(), 10'000u);
}

TEST_F(H2Test, SendsMoreFieldsThanARequestMayHave) {
  connect();
  std::vector<std::string> names;
  for (int i = 0; i < 150; ++i) names.push_back("x-" + std::to_string(i));
  on_each = [&](H2Stream& stream) {
    std::vector<H2Field> fields{{":status", "200"}};
    for (const std::string& name : names) fields.push_back({name, "y", false});
    machine->respond(stream, fields);
  };
  const auto frames = say(peer.request(1));
  EXPECT_THAT(peer.fields(frames.at(0)), SizeIs(151));
}

// Tells a slow header from a slow body, and from an idle connection.
TEST_F(H2Test, KnowsWhenAHeaderIsIncomplete) {
  machine = std::make_unique<Http2Server>(*this, H2Limits{});
  EXPECT_TRUE(machine->in_header());
  say(H2Peer::preface());
  EXPECT_FALSE(machine->in_header());
  const std::string block = peer.block(H2Peer::post("/"));
  say(H2Peer::frame(Frame::headers, 0, 1, block.substr(0, 5)));
  EXPECT_TRUE(machine->in_header());
  say(H2Peer::frame(Frame::continuation, H2Peer::kEndHeaders, 1, block.substr(5)));
  EXPECT_FALSE(machine->in_header());
  const std::string data = H2Peer::data(1, "hello", false);
  say(data.substr(0, 12));
  EXPECT_FALSE(machine->in_header());
  say(data.substr(12) + H2Peer::ping().substr(0, 10));
  EXPECT_TRUE(machine->in_header());
}

TEST_F(H2Test, SendsContinueOnRequest) {
  connect();
  TestFields fields = H2Peer::post("/");
  fields.emplace_back("expect", "100-continue");
  const auto frames = say(peer.headers(1, fields, false));
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_THAT(peer.fields(frames[0]), ElementsAre(":status: 100"));
}

TEST_F(H2Test, AnswersPings) {
  connect();
  const auto frames = say(H2Peer::ping("abcdefgh"));
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0].type, Frame::ping);
  EXPECT_TRUE(frames[0].ends());
  EXPECT_EQ(frames[0].payload, "abcdefgh");
}

// ---- Malformed requests

TEST_F(H2Test, DetectsAnotherProtocol) {
  machine = std::make_unique<Http2Server>(*this, H2Limits{});
  EXPECT_THAT(say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), IsEmpty());
  EXPECT_TRUE(machine->is_no_http2());
  EXPECT_TRUE(machine->is_over());
}

TEST_F(H2Test, RefusesTwoDifferentHosts) {
  connect();
  TestFields fields = H2Peer::get("/");
  fields.emplace_back("host", "elsewhere");
  say(peer.headers(1, fields, true));
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].flaw, 400);
  fields.back().second = "localhost";
  say(peer.headers(3, fields, true));
  EXPECT_EQ(seen[1].flaw, 0);
}

TEST_F(H2Test, ResetsMalformedRequests) {
  const TestFields good = H2Peer::get("/");
  std::vector<TestFields> bad(14, good);
  bad[0].erase(bad[0].begin());                // no method
  bad[1].erase(bad[1].begin() + 2);            // no path
  bad[2].emplace_back("Upper", "x");           // capital letters
  bad[3].emplace_back("connection", "close");  // of HTTP/1
  bad[4].insert(bad[4].begin(), {"x", "y"});   // a field before the others
  bad[5].emplace_back(":path", "/");           // twice
  bad[6].emplace_back(":other", "x");          // unknown
  bad[7].emplace_back("te", "gzip");           // not trailers
  // Characters that would change the meaning of an HTTP/1 header (smuggling).
  bad[8].emplace_back("x", "a\r\nb: c");
  bad[9].emplace_back("x", std::string("a\0b", 3));
  bad[10].emplace_back("x y", "z");
  bad[11].emplace_back("x:", "z");
  bad[12].emplace_back("x", " z");
  bad[13].emplace_back("transfer-encoding", "chunked");
  std::int32_t stream = 1;
  connect();
  for (const TestFields& fields : bad) {
    EXPECT_EQ(reset_of(say(peer.headers(stream, fields, true)), stream), NGHTTP2_PROTOCOL_ERROR)
        << stream;
    stream += 2;
  }
  EXPECT_THAT(seen, IsEmpty());
  say(peer.request(stream));
  EXPECT_THAT(seen, SizeIs(1));
}

// The field enters the HPACK table although it is malformed: its index is as invalid.
TEST_F(H2Test, ResetsAnIndexedMalformedFieldEachTime) {
  connect();
  const std::string good = peer.block(H2Peer::get("/"));
  const auto request = [&](std::int32_t stream, const std::string& more) {
    return H2Peer::frame(Frame::headers, 5, stream, good + more);
  };
  // It arrives with a request, or for a stream that was reset.
  const std::string upper = "\x40\x01X\x01y";
  say(request(1, upper));
  EXPECT_EQ(reset_of(say(request(3, "\xbe")), 3), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_THAT(seen, IsEmpty());
  connect();
  const std::string not_kept("\0\x01X\x01y", 5);
  EXPECT_EQ(reset_of(say(request(7, not_kept)), 7), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_THAT(say(request(7, upper)), IsEmpty());
  EXPECT_EQ(reset_of(say(request(11, "\xbe")), 11), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(H2Test, ResetsTrailersWithFramingFields) {
  for (const auto& field : TestFields{{"content-length", "1"}, {"host", "localhost"}}) {
    H2Peer other;
    connect();
    say(other.headers(1, H2Peer::post("/"), false) + H2Peer::data(1, "x", false));
    EXPECT_EQ(reset_of(say(other.headers(1, {field}, true)), 1), NGHTTP2_PROTOCOL_ERROR);
  }
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(H2Test, ResetsABodyOfAnotherLengthThanDeclared) {
  connect();
  TestFields fields = H2Peer::post("/");
  fields.emplace_back("content-length", "5");
  say(peer.headers(1, fields, false));
  EXPECT_EQ(reset_of(say(H2Peer::data(1, "four", true)), 1), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_THAT(seen, IsEmpty());
}

// ---- Limits

TEST_F(H2Test, AnswersAHeaderThatIsTooLong) {
  connect({.header = 1000, .fields = 10});
  TestFields fields = H2Peer::get("/");
  fields.emplace_back("long", std::string(1000, 'x'));
  say(peer.headers(1, fields, true));
  fields.pop_back();
  for (int i = 0; i < 11; ++i) fields.emplace_back("x", "y");
  say(peer.headers(3, fields, true));
  fields.pop_back();
  say(peer.headers(5, fields, true));
  ASSERT_THAT(seen, SizeIs(3));
  EXPECT_EQ(seen[0].flaw, 431);
  EXPECT_EQ(seen[1].flaw, 431);
  EXPECT_EQ(seen[2].flaw, 0);
}

// An HPACK bomb: a few bytes that expand to many.
TEST_F(H2Test, ResetsAHeaderThatIsMuchTooLong) {
  connect({.header = 1000});
  TestFields fields = H2Peer::get("/");
  for (int i = 0; i < 100; ++i) fields.emplace_back("long", std::string(100, 'x'));
  EXPECT_EQ(reset_of(say(peer.headers(1, fields, true)), 1), NGHTTP2_INTERNAL_ERROR);
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(H2Test, ResetsTrailersThatAreTooLong) {
  connect({.header = 1000});
  say(peer.headers(1, H2Peer::post("/"), false) + H2Peer::data(1, "x", false));
  EXPECT_NE(reset_of(say(peer.headers(1, {{"long", std::string(1000, 'x')}}, true)), 1), -1);
  EXPECT_THAT(seen, IsEmpty());
  say(peer.headers(3, H2Peer::post("/"), false) + H2Peer::data(3, "x", false));
  say(peer.headers(3, {{"short", "x"}}, true));
  EXPECT_THAT(seen, SizeIs(1));
}

// Flow control goes on as if the body had been read.
TEST_F(H2Test, AnswersBeforeABodyThatItDoesNotNeed) {
  connect();
  answer_all();
  const std::size_t idle = machine->memory();
  say(peer.headers(1, H2Peer::post("/early"), false));
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].flaw, 0);
  for (int i = 0; i < 40; ++i) say(H2Peer::data(1, std::string(16'000, 'x'), false));
  EXPECT_LT(machine->memory(), idle + 8'000);
  say(H2Peer::data(1, "", true));
  EXPECT_THAT(gone, ElementsAre(1));
  EXPECT_FALSE(machine->is_over());
}

TEST_F(H2Test, CountsTheMemoryOfBodiesUntilTheyAreAnswered) {
  connect();
  answer_all();
  const std::size_t idle = machine->memory();
  say(peer.headers(1, H2Peer::post("/"), false) + H2Peer::data(1, std::string(16'000, 'x'), false));
  EXPECT_GE(machine->memory(), idle + 16'000);
  say(H2Peer::data(1, "", true));
  EXPECT_EQ(machine->memory(), idle);
}

TEST_F(H2Test, AnswersABodyThatIsTooLong) {
  connect({.body = 100});
  answer_all();
  TestFields fields = H2Peer::post("/");
  say(peer.headers(1, fields, false) + H2Peer::data(1, std::string(100, 'x'), true));
  EXPECT_EQ(seen.back().flaw, 0);
  say(peer.headers(3, fields, false));
  const auto frames = say(H2Peer::data(3, std::string(101, 'x'), false));
  EXPECT_EQ(seen.back().flaw, 413);
  EXPECT_EQ(body_of(frames, 3), "hello");
  // A declared length is refused at once.
  fields.emplace_back("content-length", "101");
  say(peer.headers(5, fields, false));
  EXPECT_EQ(seen.back().flaw, 413);
  EXPECT_THAT(seen, SizeIs(3));
}

TEST_F(H2Test, ResetsAStreamThatSendsTooMuchUnwantedBody) {
  connect({.body = 100, .dropped = 1000});
  answer_all();
  say(peer.headers(1, H2Peer::post("/"), false));
  EXPECT_EQ(reset_of(say(H2Peer::data(1, std::string(500, 'x'), false)), 1), -1);
  EXPECT_EQ(reset_of(say(H2Peer::data(1, std::string(500, 'x'), false)), 1), -1);
  EXPECT_EQ(reset_of(say(H2Peer::data(1, std::string(500, 'x'), false)), 1), NGHTTP2_NO_ERROR);
  EXPECT_THAT(seen, SizeIs(1));
}

TEST_F(H2Test, RefusesMoreStreamsThanItAllows) {
  connect({.streams = 2});
  say(peer.request(1) + peer.request(3));
  const auto frames = say(peer.request(5));
  EXPECT_THAT(seen, SizeIs(2));
  EXPECT_TRUE(reset_of(frames, 5) != -1 || goodbye(frames) != -1);
}

// A client cannot exceed the limit by cancelling requests that are still being processed.
TEST_F(H2Test, CountsPendingRequestsOfEndedStreams) {
  connect({.streams = 2});
  say(peer.request(1) + peer.request(3) + H2Peer::reset(1) + H2Peer::reset(3));
  EXPECT_THAT(gone, ElementsAre(1, 3));
  machine->note_orphan();
  machine->note_orphan();
  EXPECT_EQ(reset_of(say(peer.request(5)), 5), NGHTTP2_REFUSED_STREAM);
  machine->forget_orphan();
  EXPECT_EQ(reset_of(say(peer.request(7)), 7), -1);
  EXPECT_THAT(seen, SizeIs(3));
}

// ---- Windows

TEST_F(H2Test, SendsNoMoreThanTheStreamWindow) {
  connect();
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}}));
  on_each = [this](H2Stream& stream) { answer(stream, "0123456789abcdefghij"); };
  EXPECT_EQ(body_of(say(peer.request(1)), 1), "0123456789");
  EXPECT_TRUE(machine->in_message());
  EXPECT_FALSE(machine->has_more());
  EXPECT_EQ(body_of(say(H2Peer::window(1, 5)), 1), "abcde");
  EXPECT_EQ(body_of(say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 15}})), 1),
            "fghij");
  EXPECT_FALSE(machine->in_message());
}

TEST_F(H2Test, SendsNoMoreThanTheConnectionWindow) {
  connect();
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}}));
  on_each = [this](H2Stream& stream) { answer(stream, std::string(100'000, 'x')); };
  EXPECT_EQ(body_of(say(peer.request(1)), 1).size(), 65'535u);
  EXPECT_EQ(body_of(say(H2Peer::window(0, 100'000)), 1).size(), 100'000u - 65'535u);
}

TEST_F(H2Test, StopsAtTheOutputHighWaterMark) {
  connect();
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}}) +
      H2Peer::window(0, 1 << 20));
  on_each = [this](H2Stream& stream) { answer(stream, std::string(500'000, 'x')); };
  machine->receive(peer.request(1), now);
  std::string out;
  machine->send(out, 64 << 10);
  EXPECT_GE(out.size(), 64u << 10);
  EXPECT_LE(out.size(), (64u << 10) + (17u << 10));
  EXPECT_TRUE(machine->has_more());
  machine->send(out, 1 << 20);
  EXPECT_EQ(body_of(H2Peer::frames(out), 1).size(), 500'000u);
}

// The connection window accounts for bodies that are buffered.
TEST_F(H2Test, OpensTheConnectionWindowWhenBodiesAreReleased) {
  connect({.body = 1 << 20, .bodies = 100'000});
  answer_all();
  const std::string half(16'000, 'x');
  for (std::int32_t stream = 1; stream < 8; stream += 2) {
    say(peer.headers(stream, H2Peer::post("/"), false));
    EXPECT_THAT(of_type(say(H2Peer::data(stream, half, false)), Frame::window_update), IsEmpty());
  }
  std::uint32_t opened = 0;
  for (std::int32_t stream = 1; stream < 8; stream += 2) {
    for (const Frame& frame : of_type(say(H2Peer::data(stream, "", true)), Frame::window_update)) {
      EXPECT_EQ(frame.stream, 0);
      opened += frame.number(0);
    }
  }
  EXPECT_GE(opened, 48'000u);
  EXPECT_LE(opened, 64'000u);
}

TEST_F(H2Test, OpensTheConnectionWindowForCancelledRequests) {
  connect({.body = 1 << 20, .bodies = 100'000});
  std::uint32_t opened = 0;
  for (std::int32_t stream = 1; stream < 100; stream += 2) {
    std::string all = peer.headers(stream, H2Peer::post("/"), false);
    all += H2Peer::data(stream, std::string(16'000, 'x'), false) + H2Peer::reset(stream);
    const auto frames = say(all);
    EXPECT_EQ(goodbye(frames), -1);
    for (const Frame& frame : of_type(frames, Frame::window_update)) opened += frame.number(0);
  }
  EXPECT_GE(opened, 750'000u);
  EXPECT_LE(opened, 800'000u);
}

// Padding counts against flow control, and is released at once.
TEST_F(H2Test, OpensWindowsForPadding) {
  connect({.body = 1 << 20, .window = 70'000, .bodies = 70'000});
  say(peer.headers(1, H2Peer::post("/"), false));
  const std::string padding = H2Peer::frame(Frame::data, 8, 1, '\xff' + std::string(255, '\0'));
  std::map<std::int32_t, std::uint32_t> opened;
  for (int i = 0; i < 1'000; ++i) {
    for (const Frame& frame : say(padding)) {
      ASSERT_EQ(frame.type, Frame::window_update);
      opened[frame.stream] += frame.number(0);
    }
  }
  EXPECT_GE(opened[0], 256'000u - 35'000u);
  EXPECT_GE(opened[1], 256'000u - 35'000u);
}

TEST_F(H2Test, EndsAConnectionThatSendsMoreThanItsWindow) {
  connect({.body = 1 << 20, .bodies = 65'535});
  std::string all = peer.headers(1, H2Peer::post("/"), false);
  for (int i = 0; i < 5; ++i) all += H2Peer::data(1, std::string(16'000, 'x'), false);
  EXPECT_EQ(goodbye(say(all)), NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(H2Test, RefusesWindowUpdatesOfZeroOrOverflow) {
  connect();
  EXPECT_EQ(goodbye(say(H2Peer::window(0, 0))), NGHTTP2_PROTOCOL_ERROR);
  connect();
  EXPECT_EQ(goodbye(say(H2Peer::window(0, 0x7fffffff))), NGHTTP2_FLOW_CONTROL_ERROR);
  H2Peer other;
  connect();
  EXPECT_EQ(reset_of(say(other.request(1) + H2Peer::window(1, 0x7fffffff)), 1),
            NGHTTP2_FLOW_CONTROL_ERROR);
}

// Limits the memory for a peer that requests much and reads nothing.
TEST_F(H2Test, RefusesRequestsWhenResponsesAreNotRead) {
  connect({.unsent = 100'000});
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  on_each = [this](H2Stream& stream) { answer(stream, std::string(30'000, 'x')); };
  for (std::int32_t stream = 1; stream < 9; stream += 2) say(peer.request(stream));
  EXPECT_THAT(seen, SizeIs(4));
  EXPECT_EQ(reset_of(say(peer.request(9)), 9), NGHTTP2_REFUSED_STREAM);
  EXPECT_THAT(seen, SizeIs(4));
  EXPECT_EQ(body_of(say(H2Peer::window(1, 30'000)), 1).size(), 30'000u);
  say(peer.request(11));
  EXPECT_THAT(seen, SizeIs(5));
}

// ---- Floods

class H2FloodTest : public H2Test {
 protected:
  // Repeats the input until the connection ends; returns how often.
  int times_until_enough(const std::function<std::string(int)>& what, int most = 10'000) {
    for (int i = 0; i < most; ++i) {
      if (goodbye(say(what(i))) != NGHTTP2_ENHANCE_YOUR_CALM) continue;
      EXPECT_TRUE(machine->is_over());
      return i;
    }
    return most;
  }
};

TEST_F(H2FloodTest, EndsOnRapidResets) {
  connect();
  answer_all();
  const int times =
      times_until_enough([&](int i) { return peer.request(2 * i + 1) + H2Peer::reset(2 * i + 1); });
  EXPECT_GE(times, 100);
  EXPECT_LE(times, 600);
}

// With the error code NO_ERROR.
TEST_F(H2FloodTest, EndsOnRapidResetsWithoutAnError) {
  connect();
  const int times = times_until_enough(
      [&](int i) { return peer.request(2 * i + 1) + H2Peer::reset(2 * i + 1, 0); });
  EXPECT_LE(times, 2'000);
}

// Here the server resets the streams (MadeYouReset).
TEST_F(H2FloodTest, EndsOnRequestsThatTheServerMustReset) {
  connect();
  const int times = times_until_enough([&](int i) {
    return peer.headers(2 * i + 1, H2Peer::post("/"), false) +
           H2Peer::window(2 * i + 1, 0x7fffffff);
  });
  EXPECT_LE(times, 600);
}

TEST_F(H2FloodTest, EndsOnUselessFrames) {
  const std::pair<const char*, std::string> all[] = {
      {"ping", H2Peer::ping()},
      {"ack of a ping", H2Peer::ping("12345678", true)},
      {"settings", H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 70'000}})},
      {"empty settings", H2Peer::settings({})},
      {"window", H2Peer::window(0, 1)},
      {"window of a stream", H2Peer::window(1, 1)},
      {"priority", H2Peer::frame(Frame::priority, 0, 1, std::string(5, '\0'))},
      {"unknown", H2Peer::frame(77, 0, 0, "x")},
      {"empty data", H2Peer::data(1, "", false)},
      {"padding", H2Peer::frame(Frame::data, 8, 1, std::string("\3\0\0\0", 4))},
      {"data of a stream that has ended", H2Peer::data(5, "", true)},
      {"fields of a stream that was reset", peer.request(7)},
  };
  for (const auto& [name, frame] : all) {
    H2Peer other;
    connect();
    say(other.headers(1, H2Peer::post("/"), false) + other.request(5) + H2Peer::reset(5) +
        other.headers(7, {{"no", "request"}}, true));
    const int times = times_until_enough([&said = frame](int) { return said; });
    EXPECT_GE(times, 50) << name;
    EXPECT_LE(times, 2'100) << name;
  }
}

TEST_F(H2FloodTest, EndsOnEndlessContinuations) {
  connect();
  std::string all = H2Peer::frame(Frame::headers, 0, 1, peer.block(H2Peer::get("/")));
  for (int i = 0; i < 100; ++i) all += H2Peer::frame(Frame::continuation, 0, 1, "");
  const auto frames = say(all);
  EXPECT_NE(goodbye(frames), -1);
  EXPECT_TRUE(machine->is_over());
  EXPECT_THAT(seen, IsEmpty());
}

// A few CONTINUATION frames are normal.
TEST_F(H2FloodTest, AllowsAHeaderInSomePieces) {
  connect();
  const std::string block = peer.block(H2Peer::get("/pieces"));
  std::string all = H2Peer::frame(Frame::headers, H2Peer::kEnd, 1, block.substr(0, 3));
  all += H2Peer::frame(Frame::continuation, 0, 1, block.substr(3, 2));
  all += H2Peer::frame(Frame::continuation, H2Peer::kEndHeaders, 1, block.substr(5));
  say(all);
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].line, "GET /pieces");
}

// Before a client has our SETTINGS it cannot know the limit of streams.
TEST_F(H2FloodTest, AllowsTooManyStreamsBeforeSettingsAreKnown) {
  machine = std::make_unique<Http2Server>(*this, H2Limits{.streams = 2});
  say(H2Peer::preface());
  for (std::int32_t i = 0; i < 1'000; ++i) {
    const auto frames = say(peer.request(2 * i + 1));
    ASSERT_EQ(goodbye(frames), -1) << i;
    ASSERT_EQ(reset_of(frames, 2 * i + 1), i < 2 ? -1 : NGHTTP2_REFUSED_STREAM) << i;
  }
  say(H2Peer::frame(Frame::settings, H2Peer::kEnd, 0, ""));
  EXPECT_LE(times_until_enough([&](int i) { return peer.request(2'001 + 2 * i); }), 600);
}

// Answered requests earn the budget for control frames.
TEST_F(H2FloodTest, AllowsControlFramesWithRequests) {
  connect();
  answer_all();
  for (std::int32_t i = 0; i < 10'000; ++i) {
    const auto frames = say(peer.request(2 * i + 1) + H2Peer::window(0, 5) + H2Peer::ping());
    ASSERT_EQ(goodbye(frames), -1) << i;
  }
}

// Keepalive pings and occasional cancellations earn their budget by time.
TEST_F(H2FloodTest, AllowsSlowControlFramesAndCancellations) {
  connect();
  for (std::int32_t i = 0; i < 20'000; ++i) {
    if (i % 50 == 0) ++now;
    ASSERT_EQ(goodbye(say(peer.request(2 * i + 1) + H2Peer::reset(2 * i + 1))), -1) << i;
  }
}

// A long response in small pieces, each acknowledged by a WINDOW_UPDATE.
TEST_F(H2FloodTest, AllowsManySmallWindowUpdates) {
  connect();
  on_each = [this](H2Stream& stream) { machine->start(stream, kFields); };
  say(peer.request(1));
  for (int i = 0; i < 10'000; ++i) {
    machine->find(1)->answer += "piece";
    machine->go_on(*machine->find(1));
    ASSERT_EQ(body_of(hear(), 1), "piece");
    ASSERT_EQ(goodbye(say(H2Peer::window(1, 5))), -1) << i;
  }
}

// Each of them lets a byte through, but costs more than it is worth.
TEST_F(H2FloodTest, EndsOnWindowUpdatesOfOneByte) {
  connect();
  say(H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  on_each = [this](H2Stream& stream) { answer(stream, std::string(100'000, 'x')); };
  say(peer.request(1));
  EXPECT_LE(times_until_enough([](int) { return H2Peer::window(1, 1); }), 2'100);
}

// Clients that read long responses update their windows often.
TEST_F(H2FloodTest, AllowsWindowUpdatesForLongResponses) {
  connect();
  const std::string body(100'000, 'x');
  on_each = [&](H2Stream& stream) { answer(stream, body); };
  std::size_t heard = 0;
  for (std::int32_t i = 0; i < 2'000; ++i) {
    std::vector<Frame> frames = say(peer.request(2 * i + 1));
    while (machine->find(2 * i + 1) != nullptr) {
      ASSERT_EQ(goodbye(frames), -1) << i;
      heard += body_of(frames, 2 * i + 1).size();
      frames = say(H2Peer::window(0, 10'000) + H2Peer::window(2 * i + 1, 10'000));
    }
    heard += body_of(frames, 2 * i + 1).size();
  }
  EXPECT_EQ(heard, 2'000u * body.size());
}

// ---- Invalid stream states

TEST_F(H2Test, EndsConnectionsThatBreakTheProtocol) {
  const auto ends = [&](const std::function<std::string(H2Peer&)>& what) {
    H2Peer other;
    connect();
    answer_all();
    say(other.request(1));
    return goodbye(say(what(other)));
  };
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::data(3, "x", true); }), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer& p) { return p.request(2); }), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::reset(3); }), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::window(3, 1); }), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::ping("short"); }), NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::data(1, std::string(20'000, 'x'), true); }),
            NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::frame(Frame::headers, 5, 3, "\xff\xff\xff\xff"); }),
            NGHTTP2_COMPRESSION_ERROR);
  EXPECT_EQ(ends([](H2Peer&) { return H2Peer::frame(Frame::continuation, 4, 1, ""); }),
            NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(
      ends([](H2Peer&) { return H2Peer::frame(Frame::push_promise, 4, 1, H2Peer::number(2)); }),
      NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer& p) {
              return H2Peer::frame(Frame::headers, 1, 3, p.block(H2Peer::get("/"))) +
                     H2Peer::ping();
            }),
            NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(ends([](H2Peer&) {
              return H2Peer::settings({{NGHTTP2_SETTINGS_ENABLE_PUSH, 2}});
            }),
            NGHTTP2_PROTOCOL_ERROR);
}

TEST_F(H2Test, ContinuesAfterFramesOfEndedStreams) {
  connect();
  answer_all();
  say(peer.request(1));
  EXPECT_EQ(goodbye(say(H2Peer::reset(1) + H2Peer::window(1, 1))), -1);
  EXPECT_EQ(body_of(say(peer.request(3)), 3), "hello");
}

// It may be one that was reset before: ended streams are not remembered.
TEST_F(H2Test, RefusesStreamNumbersBelowTheLast) {
  connect();
  answer_all();
  say(peer.request(9));
  EXPECT_EQ(goodbye(say(peer.request(7))), NGHTTP2_STREAM_CLOSED);
  EXPECT_THAT(seen, SizeIs(1));
}

TEST_F(H2Test, ReportsCancelledRequests) {
  connect();
  say(peer.request(1) + H2Peer::reset(1));
  EXPECT_THAT(gone, ElementsAre(1));
  EXPECT_EQ(machine->find(1), nullptr);
  EXPECT_FALSE(machine->in_message());
  // A request that the handler has not seen is not reported.
  say(peer.headers(3, H2Peer::post("/"), false) + H2Peer::reset(3));
  EXPECT_THAT(gone, ElementsAre(1));
}

// ---- Shutdown

TEST_F(H2Test, FinishesRequestsUnderWayWhileItDrains) {
  connect();
  say(peer.request(1));
  machine->drain();
  auto frames = hear();
  ASSERT_THAT(of_type(frames, Frame::goaway), SizeIs(1));
  EXPECT_EQ(of_type(frames, Frame::goaway)[0].number(0), 0x7fffffffu);
  const auto pings = of_type(frames, Frame::ping);
  ASSERT_THAT(pings, SizeIs(1));
  // A request that the client sent before it received GOAWAY.
  say(peer.request(3));
  EXPECT_THAT(seen, SizeIs(2));
  frames = say(H2Peer::ping(pings[0].payload, true));
  ASSERT_THAT(of_type(frames, Frame::goaway), SizeIs(1));
  EXPECT_EQ(of_type(frames, Frame::goaway)[0].number(0), 3u);
  EXPECT_EQ(of_type(frames, Frame::goaway)[0].number(4), 0u);
  say(peer.request(5));
  EXPECT_THAT(seen, SizeIs(2));
  EXPECT_FALSE(machine->is_over());
  answer(*machine->find(1));
  answer(*machine->find(3));
  frames = hear();
  EXPECT_EQ(body_of(frames, 1) + body_of(frames, 3), "hellohello");
  EXPECT_TRUE(machine->is_over());
}

TEST_F(H2Test, CanDrainWithoutWaitingForThePeer) {
  connect();
  machine->drain();
  hear();
  EXPECT_FALSE(machine->is_over());
  machine->drain_now();
  EXPECT_EQ(goodbye(hear()), 0);
  EXPECT_TRUE(machine->is_over());
}

TEST_F(H2Test, EndsAfterGoawayOfThePeer) {
  connect();
  say(peer.request(1));
  say(H2Peer::frame(Frame::goaway, 0, 0, std::string(8, '\0')));
  EXPECT_FALSE(machine->is_over());
  answer(*machine->find(1));
  hear();
  EXPECT_TRUE(machine->is_over());
}

TEST(H2Refusal, SendsSettingsAndGoaway) {
  const auto frames = H2Peer::frames(Http2Server::refusal(wire::H2Error::calm, "too many"));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].type, Frame::settings);
  EXPECT_EQ(frames[1].type, Frame::goaway);
  EXPECT_EQ(frames[1].number(4), 11u);
  EXPECT_THAT(frames[1].payload, HasSubstr("too many"));
}

}  // namespace
}  // namespace weir::wire
