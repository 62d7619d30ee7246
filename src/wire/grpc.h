#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/time.h"

// The parts that gRPC adds to HTTP/2: length-prefixed messages, timeouts and status codes.

namespace weir::wire {

// gRPC status codes, with their numbers.
enum class GrpcCode : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  resource_exhausted = 8,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16,
};

// The number as text, which is a constant.
std::string_view to_digits(GrpcCode code);

// True if the content type means gRPC with Protocol Buffers.
bool is_grpc(std::string_view content_type);

// The message at the front of a body, if it is complete.
struct GrpcMessage {
  enum class Status { need_more, whole, compressed, too_long, malformed };
  Status status = Status::need_more;
  std::string_view message{};  // points into the body
  std::size_t size = 0;        // with its prefix
};
GrpcMessage read_grpc_message(std::string_view body, std::size_t max_size);

// The prefix of an uncompressed message: a flag and the length.
inline constexpr std::size_t kGrpcPrefix = 5;
void write_grpc_prefix(char* to, std::size_t size);

// Parses a grpc-timeout field: "20m" is 20 ms. Nothing if it is malformed; saturates at
// Nanos::max().
std::optional<Nanos> parse_grpc_timeout(std::string_view text);

// Appends a text for the grpc-message field: all but printable ASCII is percent-encoded.
void append_grpc_text(std::string& out, std::string_view text);

}  // namespace weir::wire
