#include "wire/h2_frames.h"

#include <algorithm>
#include <cstring>

namespace weir::wire {

namespace {

enum Type : unsigned char { kData = 0, kHeaders = 1, kSettings = 4, kContinuation = 9 };
constexpr unsigned char kEndStream = 1;
constexpr unsigned char kEndHeaders = 4;

// What an answered request earns, and a second, and how many bytes of answers earn one frame.
constexpr std::int64_t kFramesEach = 4;
constexpr std::int64_t kFramesPerSecond = 100;
constexpr std::int64_t kResetsPerSecond = 100;
constexpr std::size_t kBytesEach = 2 << 10;

// Each makes us look at all streams.
constexpr std::int64_t kSettingsCost = 20;

}  // namespace

bool H2FrameCounter::look(std::string_view input, std::int64_t now) {
  if (now > second_) {
    const std::int64_t passed = std::min<std::int64_t>(now - second_, kMostFrames);
    earn(passed * kFramesPerSecond, passed * kResetsPerSecond);
    second_ = now;
  }
  while (!input.empty()) {
    ++seen_;
    if (left_ > 0) {
      const std::size_t some = std::min(left_, input.size());
      left_ -= some;
      input.remove_prefix(some);
      continue;
    }
    const std::size_t some = std::min(kHeader - have_, input.size());
    std::memcpy(header_.data() + have_, input.data(), some);
    have_ += some;
    input.remove_prefix(some);
    if (have_ == kHeader) count_header();
  }
  return is_bearable();
}

void H2FrameCounter::count_header() {
  have_ = 0;
  left_ = std::size_t{header_[0]} << 16 | std::size_t{header_[1]} << 8 | header_[2];
  const unsigned char type = header_[3];
  const bool ends = (header_[4] & kEndStream) != 0;
  in_data_ = type == kData;
  if (type == kHeaders || type == kContinuation) open_ = (header_[4] & kEndHeaders) == 0;
  if (type == kHeaders || (type == kData && (left_ > 0 || ends))) return;
  frames_ -= type == kSettings ? kSettingsCost : 1;
}

void H2FrameCounter::note_answered() { earn(kFramesEach, 1); }

void H2FrameCounter::note_sent(std::size_t bytes) {
  sent_ += bytes;
  earn(static_cast<std::int64_t>(sent_ / kBytesEach), 0);
  sent_ %= kBytesEach;
}

// (Who has overdrawn does not get away with it.)
void H2FrameCounter::earn(std::int64_t frames, std::int64_t resets) {
  if (!is_bearable()) return;
  frames_ = std::min(frames_ + frames, kMostFrames);
  resets_ = std::min(resets_ + resets, kMostResets);
}

}  // namespace weir::wire
