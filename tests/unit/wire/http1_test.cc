#include "wire/http1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "http_transcript.h"

namespace weir::wire {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Status = HttpParser::Status;
using std::string_literals::operator""s;

constexpr HttpLimits kSmall{.target = 64, .header = 256, .body = 100, .fields = 4};

// The transcript of `input`, which must be the same however it is cut.
std::string seen(std::string_view input, HttpLimits limits = {}) {
  const std::string whole = transcript_at_once(input, limits);
  EXPECT_EQ(transcript_by_pieces(input, 1, limits), whole) << input;
  EXPECT_EQ(transcript_by_pieces(input, 3, limits), whole) << input;
  for (std::size_t cut = 1; cut < input.size() && cut < 400; ++cut) {
    EXPECT_EQ(transcript_in_two(input, cut, limits), whole) << input << "\ncut at " << cut;
  }
  return whole;
}

// The error status if `input` is refused and no request was read before; else 0.
int refused(std::string_view input, HttpLimits limits = {}) {
  const std::string text = seen(input, limits);
  return text.size() == 3 ? std::stoi(text) : 0;
}

std::string get(std::string_view fields) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

std::string post(std::string_view fields, std::string_view body) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

std::string chunked(std::string_view body) { return post("Transfer-Encoding: chunked\r\n", body); }

TEST(Http1, ReadsARequestWithoutABody) {
  EXPECT_EQ(seen("GET /healthz HTTP/1.1\r\nHost: localhost:7380\r\nAccept: */*\r\n\r\n"),
            "GET /healthz  localhost:7380 11 stays Host=localhost:7380 Accept=*/* {}\n"
            "between messages");
}

TEST(Http1, ReadsABodyOfAGivenLength) {
  EXPECT_EQ(seen("POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
            "POST /v1/take  a 11 stays Host=a Content-Length=5 {hello}\nbetween messages");
}

TEST(Http1, ReadsPipelinedRequests) {
  const std::string both = post("Content-Length: 3\r\n", "one") + chunked("3\r\ntwo\r\n0\r\n\r\n") +
                           get("") + post("Content-Length: 0\r\n", "");
  const std::string text = seen(both);
  EXPECT_THAT(text, HasSubstr("{one}\n"));
  EXPECT_THAT(text, HasSubstr("{two}\n"));
  EXPECT_THAT(text, EndsWith("{}\nbetween messages"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
}

TEST(Http1, ConsumesOnlyOneRequest) {
  const std::string both = post("Content-Length: 3\r\n", "one") + get("");
  HttpParser parser;
  const auto step = parser.parse(both);
  EXPECT_EQ(step.status, Status::complete);
  EXPECT_EQ(step.consumed, both.size() - get("").size());
}

// The body is a view of the input.
TEST(Http1, DoesNotCopyABodyThatIsCompleteInTheInput) {
  const std::string input = post("Content-Length: 3\r\n", "one");
  HttpParser parser;
  ASSERT_EQ(parser.parse(input).status, Status::complete);
  EXPECT_EQ(parser.request().body.data(), input.data() + input.size() - 3);
}

TEST(Http1, ReadsAnAbsoluteTarget) {
  EXPECT_EQ(seen("GET http://other:80/v1/auth?key=a HTTP/1.1\r\nHost: a\r\n\r\n"),
            "GET /v1/auth key=a other:80 11 stays Host=a {}\nbetween messages");
  EXPECT_EQ(seen("GET HTTPS://other HTTP/1.1\r\nHost: a\r\n\r\n"),
            "GET /  other 11 stays Host=a {}\nbetween messages");
  EXPECT_EQ(seen("GET http://other?q=/ HTTP/1.1\r\nHost: a\r\n\r\n"),
            "GET / q=/ other 11 stays Host=a {}\nbetween messages");
}

// The path "/" is a constant, not part of the header that is copied.
TEST(Http1, KeepsThePathOfATargetWithoutOneWhileTheBodyArrives) {
  EXPECT_THAT(seen("POST http://other HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok"),
              StartsWith("POST /  other 11 stays"));
}

TEST(Http1, ReadsAQuery) {
  EXPECT_THAT(seen("GET /a?b=c?d HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("GET /a b=c?d a"));
  EXPECT_THAT(seen("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("OPTIONS *  a"));
}

TEST(Http1, KnowsWhetherTheConnectionPersists) {
  const auto stays = [](std::string_view version, std::string_view fields) {
    const std::string text = seen("GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n" +
                                  std::string(fields) + "\r\n");
    return text.find(" stays ") != std::string::npos;
  };
  EXPECT_TRUE(stays("1.1", ""));
  EXPECT_FALSE(stays("1.1", "Connection: close\r\n"));
  EXPECT_FALSE(stays("1.1", "Connection: foo, CLOSE\r\n"));
  EXPECT_TRUE(stays("1.1", "Connection: keep-alive\r\n"));
  EXPECT_FALSE(stays("1.0", ""));
  EXPECT_TRUE(stays("1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(stays("1.0", "Connection: keep-alive, close\r\n"));
}

TEST(Http1, FindsFieldsCaseInsensitively) {
  const std::string input = get("X-Weir-Key: a b \r\nx-weir-key: second\r\nEmpty:\r\n");
  HttpParser parser;
  ASSERT_EQ(parser.parse(input).status, Status::complete);
  EXPECT_EQ(parser.request().field("x-WEIR-key"), "a b");
  EXPECT_EQ(parser.request().field("empty"), "");
  EXPECT_EQ(parser.request().field("absent"), "");
}

TEST(Http1, ReportsTheMethodHead) {
  const std::string input = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
  HttpParser parser;
  ASSERT_EQ(parser.parse(input).status, Status::complete);
  EXPECT_TRUE(parser.request().head);
}

TEST(Http1, NeedsNoHostInHttp10) {
  EXPECT_THAT(seen("GET / HTTP/1.0\r\n\r\n"), StartsWith("GET /   10 goes {}"));
}

// Some old clients send one after a body.
TEST(Http1, SkipsOneEmptyLineBeforeARequest) {
  EXPECT_THAT(seen(post("Content-Length: 3\r\n", "one") + "\r\n" + get("")),
              EndsWith("{}\nbetween messages"));
  EXPECT_EQ(refused("\r\n\r\n" + get("")), 400);
  EXPECT_EQ(refused("\n" + get("")), 400);
  EXPECT_EQ(seen("\r\n"), "between messages");
}

TEST(Http1, TellsSlowClientsFromIdleOnes) {
  HttpParser parser;
  EXPECT_FALSE(parser.in_message());
  (void)parser.parse("");
  EXPECT_FALSE(parser.in_message());
  (void)parser.parse("G");
  EXPECT_TRUE(parser.in_message());
  (void)parser.parse(get(""));
  parser.next();
  EXPECT_FALSE(parser.in_message());
}

TEST(Http1, ReadsChunks) {
  EXPECT_THAT(seen(chunked("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")),
              HasSubstr("{hello world}\n"));
  EXPECT_THAT(seen(chunked("0\r\n\r\n")), HasSubstr("{}\n"));
  EXPECT_THAT(seen(chunked("00A\r\n0123456789\r\n000\r\n\r\n")), HasSubstr("{0123456789}\n"));
  EXPECT_THAT(seen(chunked("1;a=b;c=\"d e\";f\r\nx\r\n1 ;a\r\ny\r\n0;last\r\n\r\n")),
              HasSubstr("{xy}\n"));
  EXPECT_THAT(seen(chunked("1;a=\"\\\"\"\r\nx\r\n0\r\n\r\n")), HasSubstr("{x}\n"));
  EXPECT_THAT(seen(chunked("1\r\n\n\r\n1\r\n\r\r\n0\r\n\r\n")), HasSubstr("{\n\r}\n"));
  EXPECT_THAT(seen(post("transfer-encoding:\tCHUNKED \r\n", "1\r\nx\r\n0\r\n\r\n")),
              HasSubstr("{x}\n"));
}

TEST(Http1, DropsTrailers) {
  const std::string text = seen(chunked("1\r\nx\r\n0\r\nA: b\r\nContent-Length: 7\r\n\r\n"));
  EXPECT_THAT(text, HasSubstr(" Transfer-Encoding=chunked {x}\n"));
}

TEST(Http1, RefusesMalformedChunks) {
  for (const std::string& body : {"x\r\n\r\n"s,
                                  "\r\n\r\n"s,
                                  "-1\r\nx\r\n"s,
                                  "+1\r\nx\r\n0\r\n\r\n"s,
                                  " 1\r\nx\r\n0\r\n\r\n"s,
                                  "0x1\r\nx\r\n0\r\n\r\n"s,
                                  "1x\r\nx\r\n0\r\n\r\n"s,
                                  "1 2\r\nx\r\n0\r\n\r\n"s,
                                  "1\nx\r\n0\r\n\r\n"s,
                                  "1\r\nx\n0\r\n\r\n"s,
                                  "1\r\nxy\r\n0\r\n\r\n"s,
                                  "1\r\nxyz0\r\n\r\n"s,
                                  "1\rx\r\n"s,
                                  "1;a\nb\r\nx\r\n0\r\n\r\n"s,
                                  "1;a=\"\r\n\"\r\nx\r\n0\r\n\r\n"s,
                                  "1;a=\"\r\nx\r\n0\r\n\r\n"s,
                                  "1;a=\"\\\"\r\nx\r\n0\r\n\r\n"s,
                                  "1;a\0b\r\nx\r\n0\r\n\r\n"s,
                                  "1;a\rb\r\nx\r\n0\r\n\r\n"s,
                                  "0\r\na: \0\r\n\r\n"s,
                                  "10000000000000001\r\nx\r\n"s,
                                  "0\r\n bad: x\r\n\r\n"s,
                                  "0\r\nbad\r\n\r\n"s,
                                  "0\r\nbad : x\r\n\r\n"s,
                                  "0\r\na: b\n\r\n"s,
                                  "0\r\n\n"s}) {
    EXPECT_EQ(refused(chunked(body)), 400) << body;
  }
}

TEST(Http1, RefusesABodyThatIsTooLarge) {
  EXPECT_EQ(refused(post("Content-Length: 101\r\n", ""), kSmall), 413);
  EXPECT_EQ(refused(post("Content-Length: 100\r\n", std::string(100, 'x')), kSmall), 0);
  EXPECT_EQ(refused(chunked("65\r\n"), kSmall), 413);
  EXPECT_EQ(refused(chunked("ffffffffffffffff\r\n"), kSmall), 413);
  EXPECT_EQ(refused(chunked("64\r\n" + std::string(100, 'x') + "\r\n1\r\n"), kSmall), 413);
  EXPECT_EQ(refused(chunked("64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n"), kSmall), 0);
}

TEST(Http1, LimitsTheOverheadOfChunks) {
  EXPECT_EQ(refused(chunked("1;" + std::string(5000, 'a'))), 400);
  EXPECT_EQ(refused(chunked("0\r\nA: " + std::string(300, 'a')), kSmall), 431);
  EXPECT_EQ(refused(chunked("0\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n"), kSmall), 0);
  EXPECT_EQ(refused(chunked("0\r\nA:\r\nB:\r\nC:\r\nD:\r\nE:\r\n\r\n"), kSmall), 431);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1;" + std::string(1000, 'a') + "\r\nx\r\n";
  EXPECT_EQ(transcript_at_once(chunked(many)), "400");
}

TEST(Http1, ReadsChunkOverheadUpToItsLimit) {
  const auto extended = [](std::size_t line) {
    return "1;" + std::string(line - 4, 'a') + "\r\nx\r\n";
  };
  const auto read = [](const std::string& chunks) {
    return transcript_at_once(chunked(chunks + "0\r\n\r\n"));
  };
  EXPECT_THAT(read(extended(4096)), HasSubstr("{x}\n"));
  EXPECT_EQ(read(extended(4097)), "400");
  // 18 bytes of overhead are free for a chunk of one byte; 16 KiB beyond that are allowed.
  const std::string four = extended(4096) + extended(4096) + extended(4096) + extended(4096);
  const std::size_t left = (16 << 10) - 4 * (4096 - 18) + 18;
  EXPECT_THAT(read(four + extended(left)), HasSubstr("{xxxxx}\n"));
  EXPECT_EQ(read(four + extended(left + 1)), "400");
}

TEST(Http1, ReadsTrailersUpToTheirLimit) {
  const auto trailer = [](std::size_t size) {
    return chunked("0\r\nA: " + std::string(size - 7, 'a') + "\r\n\r\n");
  };
  EXPECT_EQ(refused(trailer(256), kSmall), 0);
  EXPECT_EQ(refused(trailer(257), kSmall), 431);
}

// Chunks of one byte are wasteful, but allowed.
TEST(Http1, ReadsManySmallChunks) {
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "1\r\nx\r\n";
  EXPECT_THAT(transcript_at_once(chunked(many + "0\r\n\r\n")),
              HasSubstr("{" + std::string(5000, 'x') + "}"));
}

TEST(Http1, RefusesATargetThatIsTooLong) {
  const auto target = [](std::size_t size) {
    return "GET /" + std::string(size - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(refused(target(64), kSmall), 0);
  EXPECT_EQ(refused(target(65), kSmall), 414);
  EXPECT_EQ(refused("GET /" + std::string(64, 'x'), kSmall), 414);
  EXPECT_EQ(transcript_at_once(target(8 * 1024 + 1)), "414");
}

TEST(Http1, RefusesAHeaderThatIsTooLarge) {
  const std::string frame = get("A: \r\n");
  EXPECT_EQ(refused(get("A: " + std::string(256 - frame.size(), 'x') + "\r\n"), kSmall), 0);
  EXPECT_EQ(refused(get("A: " + std::string(257 - frame.size(), 'x') + "\r\n"), kSmall), 431);
  EXPECT_EQ(refused(std::string(300, 'x'), kSmall), 431);
  EXPECT_EQ(refused(get("A:\r\nB:\r\nC:\r\n"), kSmall), 0);
  EXPECT_EQ(refused(get("A:\r\nB:\r\nC:\r\nD:\r\n"), kSmall), 431);
}

// The defaults are those of the documentation.
TEST(Http1, HasTheDocumentedLimits) {
  const auto read = [](const std::string& input) {
    const std::string text = transcript_at_once(input);
    EXPECT_EQ(transcript_by_pieces(input, 1000), text) << input.substr(0, 100);
    return text.ends_with("between messages") ? "" : text;
  };
  const auto fields = [](std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += "A:\r\n";
    return all;
  };
  const auto target = [](std::size_t size) {
    return "GET /" + std::string(size - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  const auto header = [](std::size_t size) {
    return get("A: " + std::string(size - get("A: \r\n").size(), 'x') + "\r\n");
  };
  const auto body = [](std::size_t size) {
    return post("Content-Length: " + std::to_string(size) + "\r\n", std::string(size, 'x'));
  };
  const auto chunks = [](std::size_t size) {
    std::string all;
    for (; size > 1024; size -= 1024) all += "400\r\n" + std::string(1024, 'x') + "\r\n";
    return chunked(all + "400\r\n" + std::string(size, 'x') + "\r\n0\r\n\r\n");
  };
  EXPECT_EQ(read(target(8 << 10)), "");
  EXPECT_EQ(read(target((8 << 10) + 1)), "414");
  EXPECT_EQ(read(header(16 << 10)), "");
  EXPECT_EQ(read(header((16 << 10) + 1)), "431");
  EXPECT_EQ(read(get(fields(99))), "");  // and Host
  EXPECT_EQ(read(get(fields(100))), "431");
  EXPECT_EQ(read(chunked("0\r\n" + fields(100) + "\r\n")), "");
  EXPECT_EQ(read(chunked("0\r\n" + fields(101) + "\r\n")), "431");
  EXPECT_EQ(read(body(1 << 20)), "");
  EXPECT_EQ(read(body((1 << 20) + 1)), "413");
  EXPECT_EQ(read(chunks(1 << 20)), "");
  EXPECT_EQ(read(chunks(1 << 20) + chunks(1 << 20)), "");
  EXPECT_EQ(read(chunked("100001\r\n")), "413");
}

TEST(Http1, RefusesOtherVersions) {
  EXPECT_EQ(refused("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(refused("GET / HTTP/0.9\r\n\r\n"), 505);
}

TEST(Http1, ReportsWhetherALengthIsDeclared) {
  const auto declares_length = [](std::string_view input) {
    HttpParser parser;
    EXPECT_NE(parser.parse(input).status, HttpParser::Status::error);
    return parser.request().declares_length;
  };
  EXPECT_FALSE(declares_length("POST / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(declares_length("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(declares_length("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_TRUE(
      declares_length("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
}

TEST(Http1, SupportsOnlyTheChunkedCoding) {
  EXPECT_EQ(refused(post("Transfer-Encoding: gzip\r\n", "")), 501);
  EXPECT_EQ(refused(post("Transfer-Encoding: gzip, chunked\r\n", "")), 501);
  EXPECT_EQ(refused(post("Transfer-Encoding: xchunked\r\n", "")), 501);
  EXPECT_EQ(refused(post("Transfer-Encoding: identity\r\n", "")), 501);
  EXPECT_EQ(refused(post("Transfer-Encoding:\r\n", "")), 501);
}

TEST(Http1, SupportsOnlyTheExpectation100Continue) {
  EXPECT_EQ(refused(get("Expect: coffee\r\n")), 417);
  EXPECT_EQ(refused(get("Expect: 100-continue\r\nExpect: coffee\r\n")), 417);
  EXPECT_EQ(refused(get("Expect: 100-Continue\r\n")), 0);
}

TEST(Http1, WantsContinueBeforeABody) {
  HttpParser parser;
  const std::string header = post("Content-Length: 2\r\nExpect: 100-continue\r\n", "");
  const auto step = parser.parse(header);
  EXPECT_EQ(step.status, Status::head);
  EXPECT_TRUE(parser.framing().wants_continue);
  EXPECT_EQ(step.consumed, header.size());
  EXPECT_EQ(parser.request().path, "/");
  EXPECT_EQ(parser.parse("").status, Status::need_more);
  EXPECT_EQ(parser.parse("o").status, Status::need_more);
  EXPECT_EQ(parser.parse("k").status, Status::complete);
  EXPECT_EQ(parser.request().body, "ok");
  EXPECT_EQ(parser.request().field("host"), "a");
}

TEST(Http1, ReportsTheHeadBeforeItBuffersABody) {
  const std::string piece(10'000, 'x');
  for (const std::string& head : {post("Content-Length: 20000\r\n", ""),
                                  post("Transfer-Encoding: chunked\r\n", "4e20\r\n")}) {
    HttpParser parser;
    const auto step = parser.parse(head + piece);
    EXPECT_EQ(step.status, Status::head);
    EXPECT_LT(parser.memory(), 1'000u);
    EXPECT_FALSE(parser.framing().wants_continue);
    EXPECT_EQ(parser.request().method, "POST");
    EXPECT_EQ(parser.parse((head + piece).substr(step.consumed)).status, Status::need_more);
    EXPECT_GE(parser.memory(), piece.size());
    parser.next();
    EXPECT_LT(parser.memory(), 5'000u);
  }
}

TEST(Http1, WantsContinueOnlyIfTheClientWaits) {
  const auto asked = [](const std::string& input) {
    HttpTranscript transcript;
    transcript.receive(input);
    return transcript.continues();
  };
  EXPECT_EQ(asked(post("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", "")), 1);
  EXPECT_EQ(asked(post("Content-Length: 2\r\nExpect: 100-continue\r\n", "o")), 0);
  EXPECT_EQ(asked(post("Content-Length: 0\r\nExpect: 100-continue\r\n", "")), 0);
  EXPECT_EQ(asked("POST / HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"), 0);
  EXPECT_EQ(refused(post("Content-Length: 101\r\nExpect: 100-continue\r\n", ""), kSmall), 413);
}

TEST(Http1, RefusesMalformedRequestLines) {
  for (const std::string& input : {"*1\r\n$4\r\nPING\r\n"s,
                                   "PING\r\n"s,
                                   "\x16\x03\x01\x02\n"s,
                                   "GET /\r\n"s,
                                   "GET\r\n"s,
                                   " GET / HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"s,
                                   "GET / http/1.1\r\nHost: a\r\n\r\n"s,
                                   "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET / HTTP/1.1\nHost: a\n\n"s,
                                   "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET v1 HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET * HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET http://u@h/a HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET ftp://h/ HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"s,
                                   "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"s}) {
    EXPECT_EQ(refused(input), 400) << input;
  }
}

// Each of these was once used for request smuggling: two servers in a row read it differently.
TEST(Http1, RefusesAmbiguousRequests) {
  for (const std::string& fields : {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"s,
                                    "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"s,
                                    "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n"s,
                                    "Content-Length: 3\r\nContent-Length: 4\r\n"s,
                                    "Content-Length: 3\r\nContent-Length: 3\r\n"s,
                                    "Content-Length: 3, 3\r\n"s,
                                    "Content-Length: 3,4\r\n"s,
                                    "Content-Length: +3\r\n"s,
                                    "Content-Length: -3\r\n"s,
                                    "Content-Length: 0x3\r\n"s,
                                    "Content-Length: 3 3\r\n"s,
                                    "Content-Length: 3.0\r\n"s,
                                    "Content-Length:\r\n"s,
                                    "Content-Length: \"3\"\r\n"s,
                                    "Content-Length: 99999999999999999999\r\n"s,
                                    "Content-Length : 3\r\n"s,
                                    "Content-Length\t: 3\r\n"s,
                                    " Content-Length: 3\r\n"s,
                                    "Content-Length: 3\r\n Transfer-Encoding: chunked\r\n"s,
                                    "A: b\r\n\tContent-Length: 3\r\n"s,
                                    "A: b\r\n \r\nContent-Length: 3\r\n"s,
                                    "Transfer-Encoding : chunked\r\n"s,
                                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"s,
                                    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"s,
                                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"s,
                                    "Transfer-Encoding: \vchunked\r\n"s,
                                    "Transfer-Encoding\0: chunked\r\n"s,
                                    "Transfer_Encoding\r\n: chunked\r\n"s,
                                    "A: b\nTransfer-Encoding: chunked\r\n"s,
                                    "A: b\rTransfer-Encoding: chunked\r\n"s,
                                    "A: b\r\r\nContent-Length: 3\r\n"s,
                                    "A: b\0c\r\nContent-Length: 3\r\n"s,
                                    "A\r\nContent-Length: 3\r\n"s,
                                    ": b\r\nContent-Length: 3\r\n"s,
                                    "A b: c\r\nContent-Length: 3\r\n"s,
                                    "Host: b\r\nContent-Length: 3\r\n"s,
                                    "host: a\r\nContent-Length: 3\r\n"s,
                                    "\x80: b\r\nContent-Length: 3\r\n"s}) {
    EXPECT_EQ(refused(post(fields, "0\r\n\r\nGET / HTTP/1.1\r\n\r\n")), 400) << fields;
  }
}

TEST(Http1, RefusesMissingAndMalformedHosts) {
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET http://b/ HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 0);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: [::1]:7380\r\n\r\n"), 0);
}

TEST(Http1, RefusesChunksInHttp10) {
  EXPECT_EQ(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(Http1, RepeatsItsErrorAfterAnError) {
  HttpParser parser;
  const auto first = parser.parse("nonsense\r\n");
  EXPECT_EQ(first.status, Status::error);
  EXPECT_EQ(first.consumed, 0u);
  const auto again = parser.parse(get(""));
  EXPECT_EQ(again.error_status, first.error_status);
  EXPECT_EQ(again.reason, first.reason);
}

// The error of the second request does not hide the first.
TEST(Http1, ReadsRequestsBeforeAnError) {
  EXPECT_THAT(seen(get("") + "nonsense\r\n"), EndsWith("{}\n400"));
}

}  // namespace
}  // namespace weir::wire
