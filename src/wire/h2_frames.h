#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Frames of HTTP/2 (RFC 9113, 4 and 6) as bytes.

namespace weir::wire {

// With the numbers of the wire. What has another number is passed over.
enum class H2Type : std::uint8_t {
  data = 0,
  headers = 1,
  priority = 2,
  rst_stream = 3,
  settings = 4,
  push_promise = 5,
  ping = 6,
  goaway = 7,
  window_update = 8,
  continuation = 9,
};

enum class H2Error : std::uint32_t {
  none = 0,
  protocol = 1,
  internal = 2,
  flow_control = 3,
  stream_closed = 5,
  frame_size = 6,
  refused_stream = 7,
  cancel = 8,
  compression = 9,
  calm = 11,  // ENHANCE_YOUR_CALM
};

enum class H2Setting : std::uint16_t {
  table = 1,
  push = 2,
  streams = 3,
  window = 4,
  frame = 5,
  header = 6,
  no_priorities = 9,
};

struct H2Flags {
  static constexpr std::uint8_t kEndStream = 1;  // of DATA and HEADERS
  static constexpr std::uint8_t kAck = 1;        // of SETTINGS and PING
  static constexpr std::uint8_t kEndHeaders = 4;
  static constexpr std::uint8_t kPadded = 8;
  static constexpr std::uint8_t kPriority = 32;
};

// The header of a frame.
struct H2FrameHead {
  static constexpr std::size_t kSize = 9;

  std::size_t size = 0;  // of what follows
  H2Type type{};
  std::uint8_t flags = 0;
  std::int32_t stream = 0;  // 0: it is about the connection

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }

  // Of kSize bytes.
  static H2FrameHead read(const char* from);
};

// The longest that anybody must take, and the longest that is taken here.
inline constexpr std::size_t kH2FrameSize = 16 << 10;

std::uint32_t read_h2_number(const char* from);
void append_h2_number(std::string& out, std::uint32_t number);
void append_h2_head(std::string& out, const H2FrameHead& head);
void append_h2_frame(std::string& out, H2Type type, std::uint8_t flags, std::int32_t stream,
                     std::string_view payload);

}  // namespace weir::wire
