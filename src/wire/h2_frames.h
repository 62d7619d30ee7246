#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::wire {

// Looks at the frames of an HTTP/2 connection from outside: where one begins and ends, and how many
// of them are of no use. A PING costs its sender seventeen bytes, and us an answer; so do changed
// settings, windows that open by a byte, data without data, requests that are taken back at once.
// An honest peer sends few of them for each request that it lets be answered, so that is what
// earns it more; and time does, since there are connections that only live.
class H2FrameCounter {
 public:
  // Looks at what comes. Whether that is still bearable.
  bool look(std::string_view input, std::int64_t now);

  // Whether a frame has begun and not ended.
  bool in_frame() const { return seen_ > 0 && (have_ > 0 || left_ > 0); }

  // Whether fields have begun and not ended, or a frame that is no part of a body.
  bool in_header() const { return open_ || have_ > 0 || (left_ > 0 && !in_data_); }

  // A request was answered, and the peer has taken it.
  void note_answered();
  // So much of answers was sent: who takes them says so.
  void note_sent(std::size_t bytes);
  // A request was taken back, or was such that its stream could not go on.
  void note_reset() { --resets_; }
  bool is_bearable() const { return frames_ >= 0 && resets_ >= 0; }

  static constexpr std::int64_t kMostFrames = 2'000;
  static constexpr std::int64_t kMostResets = 500;

 private:
  static constexpr std::size_t kHeader = 9;

  void count_header();
  void earn(std::int64_t frames, std::int64_t resets);

  static constexpr std::size_t kPreface = 24;
  std::array<unsigned char, kHeader> header_{};
  std::size_t have_ = 0;         // bytes of a frame's header
  std::size_t left_ = kPreface;  // bytes of its content that are still to come
  bool in_data_ = false;         // it is a part of a body
  bool open_ = false;            // fields go on in the next one
  std::uint64_t seen_ = 0;
  std::int64_t frames_ = kMostFrames;
  std::int64_t resets_ = kMostResets;
  std::int64_t second_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace weir::wire
