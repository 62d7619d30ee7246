#include "gateway/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace weir::gateway {
namespace {

AccessLogEntry request() {
  return {.time = Instant{std::chrono::seconds{1'767'225'600}},
          .client = "192.0.2.1",
          .method = "GET",
          .target = "/a?b=\"c\"",
          .status = 200,
          .received = 3,
          .sent = 5,
          .referer = "",
          .agent = "x\n\x01y\xff",
          .host = "a.example",
          .route = "shop",
          .decision = "allowed",
          .limit = "rate",
          .server = "http://10.0.0.1:80",
          .id = "42",
          .duration = std::chrono::milliseconds{12},
          .queue_time = std::chrono::milliseconds{2}};
}

TEST(AccessLogLine, IsInNginxCombinedFormatWithAdditionalFields) {
  EXPECT_EQ(
      access_log_line(false, request()),
      "192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /a?b=\\\"c\\\" HTTP/1.1\" 200 5 \"-\" "
      "\"x\\x0A\\x01y\xff\" host=\"a.example\" route=\"shop\" decision=\"allowed\" "
      "limit=\"rate\" upstream=\"http://10.0.0.1:80\" id=\"42\" received=3 time=0.012000 "
      "wait=0.002000 degraded=0\n");
}

TEST(AccessLogLine, HasTheKeyIfKeysAreLogged) {
  AccessLogEntry logged = request();
  logged.key = "a\"b";
  logged.degraded = true;
  const std::string text = access_log_line(false, logged);
  EXPECT_NE(text.find(" limit=\"rate\" key=\"a\\\"b\" upstream="), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" degraded=1\n")) << text;
  const std::string json = access_log_line(true, logged);
  EXPECT_NE(json.find("\"limit\":\"rate\",\"key\":\"a\\\"b\",\"degraded\":true,"),
            std::string::npos)
      << json;
}

TEST(AccessLogLine, HasTheHttpVersion) {
  AccessLogEntry logged = request();
  logged.version = 20;
  EXPECT_NE(access_log_line(false, logged).find(" HTTP/2.0\" 200 5 "), std::string::npos);
}

// Client bytes cannot end a line or a string, and every line is valid JSON.
TEST(AccessLogLine, IsAValidJsonObjectWhateverBytesTheClientSends) {
  EXPECT_EQ(access_log_line(true, request()),
            "{\"time\":\"2026-01-01T00:00:00Z\",\"client\":\"192.0.2.1\",\"method\":\"GET\","
            "\"target\":\"/a?b=\\\"c\\\"\",\"host\":\"a.example\",\"status\":200,\"received\":3,"
            "\"sent\":5,\"referer\":\"\",\"agent\":\"x\\u000a\\u0001y\\u00ff\",\"route\":\"shop\","
            "\"decision\":\"allowed\",\"limit\":\"rate\",\"degraded\":false,\"upstream\":\"http://"
            "10.0.0.1:80\",\"id\":\"42\","
            "\"seconds\":0.012000,\"waited\":0.002000}\n");
}

// A named pipe that is not read.
class Fifo {
 public:
  Fifo() : path_(testing::TempDir() + "access_log." + std::to_string(getpid())) {
    signal(SIGPIPE, SIG_IGN);  // as in the daemon: the log may still be writing when this ends
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Fifo() {
    close(fd_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::string read_some() const {
    std::string some(64 << 10, 0);
    some.resize(
        static_cast<std::size_t>(std::max<ssize_t>(read(fd_, some.data(), some.size()), 0)));
    return some;
  }

 private:
  const std::string path_;
  int fd_;
};

// A blocking write would hang here as soon as the pipe is full.
TEST(AccessLogFile, WriteDoesNotBlockOnAFullPipe) {
  const Fifo fifo;
  std::atomic<std::uint64_t> dropped{0};
  auto log = AccessLogFile::open({.path = fifo.path()}, dropped);
  ASSERT_TRUE(log);
  constexpr std::uint64_t count = 20'000;
  for (std::uint64_t i = 0; i < count; ++i) (*log)->write(request());
  EXPECT_GT(dropped, 0U);
  // All lines that fit into the buffer are written completely.
  const std::string line = access_log_line(false, request());
  const std::uint64_t expected_size = (count - dropped) * line.size();
  EXPECT_GT(expected_size, 900U << 10);
  (*log)->flush_and_reopen();
  std::string seen;
  while (seen.size() < expected_size) seen += fifo.read_some();
  EXPECT_EQ(seen.size(), expected_size);
  EXPECT_EQ(seen.substr(seen.size() - 2 * line.size()), line + line);
}

TEST(AccessLogFile, DestructorWaitsABoundedTimeForAFullPipe) {
  const Fifo fifo;
  std::atomic<std::uint64_t> dropped{0};
  auto log = AccessLogFile::open({.path = fifo.path()}, dropped);
  ASSERT_TRUE(log);
  for (int i = 0; i < 5000; ++i) (*log)->write(request());
  log = Error{"gone"};
}

TEST(AccessLogFile, DestructorWritesTheBufferedLines) {
  const std::string path = testing::TempDir() + "access_log.file." + std::to_string(getpid());
  std::atomic<std::uint64_t> dropped{0};
  auto log = AccessLogFile::open({.path = path}, dropped);
  ASSERT_TRUE(log);
  for (int i = 0; i < 3; ++i) (*log)->write(request());
  log = Error{"gone"};
  std::ifstream file(path);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  const std::string line = access_log_line(false, request());
  EXPECT_EQ(all, line + line + line);
  EXPECT_EQ(dropped, 0U);
}

}  // namespace
}  // namespace weir::gateway
