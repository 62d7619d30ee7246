#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/time.h"

// What gRPC adds to HTTP/2: messages with a length in front, deadlines, and a status at the end.

namespace weir::wire {

// With the numbers of the wire.
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

// The number in digits, which last forever.
std::string_view to_digits(GrpcCode code);

// Whether a body with that content type has messages of Protocol Buffers.
bool is_grpc(std::string_view content_type);

// A message at the front of a body, if it is whole.
struct GrpcMessage {
  enum class Status { need_more, whole, compressed, too_long, malformed };
  Status status = Status::need_more;
  std::string_view message{};  // borrowed from the body
  std::size_t size = 0;        // of it, with what stands in front
};
GrpcMessage read_grpc_message(std::string_view body, std::size_t most);

// What stands in front of a message, of which nothing has been compressed.
inline constexpr std::size_t kGrpcPrefix = 5;
void write_grpc_prefix(char* to, std::size_t size);

// "20m" is 20 ms. Nothing if it is no such text; very long ones are Nanos::max().
std::optional<Nanos> parse_grpc_timeout(std::string_view text);

// A text as it may stand in a field: all but printable ASCII as %41.
void append_grpc_text(std::string& out, std::string_view text);

}  // namespace weir::wire
