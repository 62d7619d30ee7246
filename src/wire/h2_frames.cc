#include "wire/h2_frames.h"

namespace weir::wire {

namespace {

std::uint32_t byte_at(const char* from, std::size_t i) {
  return static_cast<unsigned char>(from[i]);
}

constexpr std::uint32_t kNumberOfStream = 0x7fff'ffff;  // the bit above it means nothing

}  // namespace

std::uint32_t read_h2_number(const char* from) {
  return byte_at(from, 0) << 24 | byte_at(from, 1) << 16 | byte_at(from, 2) << 8 | byte_at(from, 3);
}

H2FrameHead H2FrameHead::read(const char* from) {
  return {.size = byte_at(from, 0) << 16 | byte_at(from, 1) << 8 | byte_at(from, 2),
          .type = static_cast<H2Type>(byte_at(from, 3)),
          .flags = static_cast<std::uint8_t>(byte_at(from, 4)),
          .stream = static_cast<std::int32_t>(read_h2_number(from + 5) & kNumberOfStream)};
}

void append_h2_number(std::string& out, std::uint32_t number) {
  const char bytes[] = {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
                        static_cast<char>(number >> 8), static_cast<char>(number)};
  out.append(bytes, sizeof bytes);
}

void append_h2_head(std::string& out, const H2FrameHead& head) {
  const auto id = static_cast<std::uint32_t>(head.stream);
  const char bytes[] = {static_cast<char>(head.size >> 16),
                        static_cast<char>(head.size >> 8),
                        static_cast<char>(head.size),
                        static_cast<char>(head.type),
                        static_cast<char>(head.flags),
                        static_cast<char>(id >> 24),
                        static_cast<char>(id >> 16),
                        static_cast<char>(id >> 8),
                        static_cast<char>(id)};
  static_assert(sizeof bytes == H2FrameHead::kSize);
  out.append(bytes, sizeof bytes);
}

void append_h2_frame(std::string& out, H2Type type, std::uint8_t flags, std::int32_t stream,
                     std::string_view payload) {
  append_h2_head(out, {.size = payload.size(), .type = type, .flags = flags, .stream = stream});
  out.append(payload);
}

}  // namespace weir::wire
