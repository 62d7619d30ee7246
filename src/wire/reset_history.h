#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::wire {

// The numbers of streams of HTTP/2 that we have reset. The peer may not have heard of that: what
// still comes is passed over. Of streams that have ended otherwise nothing may come any more.
//
// The latest are known. Of older ones nobody knows, and nothing is held against the peer.
class ResetHistory {
 public:
  void add(std::int32_t id) {
    if (ids_.size() < kMost) return ids_.push_back(id);
    forgotten_ = std::max(forgotten_, std::exchange(ids_[oldest_], id));
    oldest_ = (oldest_ + 1) % kMost;
  }

  // Whether something may still come, of a stream that has ended.
  bool may_go_on(std::int32_t id) const {
    return id <= forgotten_ || std::ranges::find(ids_, id) != ids_.end();
  }

 private:
  static constexpr std::size_t kMost = 64;

  std::vector<std::int32_t> ids_;
  std::size_t oldest_ = 0;
  std::int32_t forgotten_ = 0;  // the largest number of those
};

}  // namespace weir::wire
