#include "wire/grpc.h"

#include <gtest/gtest.h>

namespace weir::wire {
namespace {

using Status = GrpcMessage::Status;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

TEST(Grpc, RecognizesItsContentTypes) {
  for (const char* type : {"application/grpc", "application/grpc+proto", "Application/gRPC",
                           "application/grpc; charset=utf-8", "application/grpc+proto ;x"}) {
    EXPECT_TRUE(is_grpc(type)) << type;
  }
  for (const char* type : {"", "application/json", "application/grpc+json", "application/grpc-web",
                           "application/grpcx", "text/application/grpc"}) {
    EXPECT_FALSE(is_grpc(type)) << type;
  }
}

TEST(Grpc, ReadsAMessage) {
  const GrpcMessage read = read_grpc_message("\0\0\0\0\3abcdef"sv, 10);
  EXPECT_EQ(read.status, Status::whole);
  EXPECT_EQ(read.message, "abc");
  EXPECT_EQ(read.size, 8u);
  EXPECT_EQ(read_grpc_message("\0\0\0\0\0"sv, 10).status, Status::whole);
}

TEST(Grpc, WaitsForTheRestOfAMessage) {
  const std::string_view all = "\0\0\0\0\3abc"sv;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(read_grpc_message(all.substr(0, i), 10).status, Status::need_more) << i;
  }
}

TEST(Grpc, RefusesMessagesThatAreMalformedTooLongOrCompressed) {
  EXPECT_EQ(read_grpc_message("\2"sv, 10).status, Status::malformed);
  EXPECT_EQ(read_grpc_message("\0\0\0\0\12"sv, 10).status, Status::need_more);
  EXPECT_EQ(read_grpc_message("\0\0\0\0\13"sv, 10).status, Status::too_long);
  EXPECT_EQ(read_grpc_message("\0\xff\xff\xff\xff"sv, 1 << 20).status, Status::too_long);
  EXPECT_EQ(read_grpc_message("\1\0\0\0\1x"sv, 10).status, Status::compressed);
}

TEST(Grpc, WritesThePrefixOfAMessage) {
  char prefix[kGrpcPrefix];
  write_grpc_prefix(prefix, 0x01020304);
  EXPECT_EQ(std::string_view(prefix, kGrpcPrefix), "\0\1\2\3\4"sv);
}

TEST(Grpc, ReadsTimeouts) {
  EXPECT_EQ(parse_grpc_timeout("20m"), 20ms);
  EXPECT_EQ(parse_grpc_timeout("1H"), 1h);
  EXPECT_EQ(parse_grpc_timeout("2M"), 2min);
  EXPECT_EQ(parse_grpc_timeout("3S"), 3s);
  EXPECT_EQ(parse_grpc_timeout("4u"), 4us);
  EXPECT_EQ(parse_grpc_timeout("0n"), 0ns);
  EXPECT_EQ(parse_grpc_timeout("99999999n"), 99'999'999ns);
  EXPECT_EQ(parse_grpc_timeout("99999999H"), Nanos::max());
  for (const char* text : {"", "m", "20", "20x", "-1m", "+1m", "1.5S", "123456789n", "1 m"}) {
    EXPECT_EQ(parse_grpc_timeout(text), std::nullopt) << text;
  }
}

TEST(Grpc, PercentEncodesMessages) {
  std::string text;
  append_grpc_text(text, "100% sure\n…");
  EXPECT_EQ(text, "100%25 sure%0A%E2%80%A6");
}

TEST(Grpc, HasTheStandardStatusNumbers) {
  EXPECT_EQ(to_digits(GrpcCode::ok), "0");
  EXPECT_EQ(to_digits(GrpcCode::unauthenticated), "16");
  EXPECT_EQ(to_digits(GrpcCode::resource_exhausted), "8");
}

}  // namespace
}  // namespace weir::wire
