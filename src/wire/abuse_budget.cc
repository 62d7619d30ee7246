#include "wire/abuse_budget.h"

#include <algorithm>

namespace weir::wire {

namespace {

// Budget earned by an answered request and by a second; bytes of responses that earn one frame.
constexpr std::int64_t kFramesEach = 4;
constexpr std::int64_t kFramesPerSecond = 100;
constexpr std::int64_t kResetsPerSecond = 100;
constexpr std::size_t kBytesEach = 2 << 10;

// Each makes us look at all streams.
constexpr std::int64_t kSettingsCost = 20;

}  // namespace

void AbuseBudget::pass(std::int64_t now) {
  if (now <= second_) return;
  const std::int64_t passed = std::min<std::int64_t>(now - second_, kMostFrames);
  earn(passed * kFramesPerSecond, passed * kResetsPerSecond);
  second_ = now;
}

void AbuseBudget::note_frame(const H2FrameHead& head) {
  if (head.type == H2Type::headers) return;
  if (head.type == H2Type::data && (head.size > 0 || head.has(H2Flags::kEndStream))) return;
  frames_ -= head.type == H2Type::settings ? kSettingsCost : 1;
}

void AbuseBudget::note_answered() { earn(kFramesEach, 1); }

void AbuseBudget::note_sent(std::size_t bytes, bool all) {
  sent_ += all ? std::max(bytes, kBytesEach) : bytes;
  if (sent_ < kBytesEach) return;
  earn(static_cast<std::int64_t>(sent_ / kBytesEach), 0);
  sent_ %= kBytesEach;
}

// A budget that is used up stays so.
void AbuseBudget::earn(std::int64_t frames, std::int64_t resets) {
  if (!is_left()) return;
  frames_ = std::min(frames_ + frames, kMostFrames);
  resets_ = std::min(resets_ + resets, kMostResets);
}

}  // namespace weir::wire
