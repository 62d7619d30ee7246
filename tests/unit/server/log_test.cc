#include "server/log.h"

#include <gtest/gtest.h>

namespace weir::server {
namespace {

constexpr Instant kTime{std::chrono::milliseconds{1'700'000'000'007}};

TEST(Log, WritesLinesForPeople) {
  EXPECT_EQ(log_line(LogFormat::text, kTime, LogLevel::info, "ready", 0),
            "2023-11-14T22:13:20.007Z info    ready\n");
  EXPECT_EQ(log_line(LogFormat::text, kTime, LogLevel::warning, "hm", 3),
            "2023-11-14T22:13:20.007Z warning (3 lines left out) hm\n");
}

TEST(Log, WritesOneJsonObjectPerLine) {
  EXPECT_EQ(log_line(LogFormat::json, kTime, LogLevel::error, "a \"b\"\nc", 0),
            "{\"time\":\"2023-11-14T22:13:20.007Z\",\"level\":\"error\","
            "\"message\":\"a \\\"b\\\"\\nc\"}\n");
  EXPECT_EQ(log_line(LogFormat::json, kTime, LogLevel::info, "x", 12),
            "{\"time\":\"2023-11-14T22:13:20.007Z\",\"level\":\"info\",\"message\":\"x\","
            "\"left_out\":12}\n");
}

TEST(Log, DropsLinesAboveItsRate) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5000; ++i) log(LogLevel::info, "line {}", i);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("line 199\n"), std::string::npos);
  EXPECT_EQ(text.find("line 4000\n"), std::string::npos);
}

}  // namespace
}  // namespace weir::server
