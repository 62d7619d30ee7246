#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/h2_frames.h"

namespace weir::wire {

// How many frames of no use one connection of HTTP/2 is forgiven. A PING costs its sender seventeen
// bytes, and us an answer; so do changed settings, windows that open by a byte, data without data,
// requests that are taken back at once. An honest peer sends few of them for each request that it
// lets be answered, so that is what earns it more; and time does, since there are connections that
// only live.
class AbuseBudget {
 public:
  // It is that second now, of any clock that does not go back.
  void pass(std::int64_t now);
  // A frame has begun to come.
  void note_frame(const H2FrameHead& head);
  // A request was answered, and the peer has taken it.
  void note_answered();
  // So much of an answer was sent, or all that there is of it: who takes it says so. (Not if a
  // window that is opened byte by byte was what kept the rest back.)
  void note_sent(std::size_t bytes, bool all);
  // A frame was about nothing: its stream has ended, or there is only padding in it.
  void note_useless() { --frames_; }
  // A request was taken back, or was such that its stream could not go on.
  void note_reset() { --resets_; }

  bool is_left() const { return frames_ >= 0 && resets_ >= 0; }

  static constexpr std::int64_t kMostFrames = 2'000;
  static constexpr std::int64_t kMostResets = 500;

 private:
  void earn(std::int64_t frames, std::int64_t resets);

  std::int64_t frames_ = kMostFrames;
  std::int64_t resets_ = kMostResets;
  std::int64_t second_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace weir::wire
