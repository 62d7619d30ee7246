#pragma once

#include <algorithm>
#include <vector>

#include "base/int128.h"
#include "core/bucket.h"

namespace weir::core {

// Permits released by a bucket or queue, at the instant at which the caller may go.
struct Release {
  Instant at;
  Permits permits;
  bool waited;  // then `at` is rounded up, by less than a nanosecond
};

// True if no interval between two releases holds more than `at_once` permits plus those granted by
// the rate in that time. Exact: permits are compared as whole numbers of nanoseconds / count.
inline bool within_rate(std::vector<Release> releases, const Rate& rate, Permits at_once) {
  std::ranges::sort(releases, {}, &Release::at);
  const Int128 permit = Int128{rate.period.count()} * rate.scale;
  for (std::size_t first = 0; first < releases.size(); ++first) {
    Permits sum = 0;
    bool rounded = false;
    for (std::size_t last = first; last < releases.size(); ++last) {
      sum += releases[last].permits;
      rounded = rounded || releases[last].waited;
      const Int128 time = (releases[last].at - releases[first].at).count();
      const Int128 granted = at_once * permit + (time + (rounded ? 1 : 0)) * rate.count;
      if (sum * permit > granted) return false;
    }
  }
  return true;
}

}  // namespace weir::core
