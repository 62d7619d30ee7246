#include "base/truncated_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace weir {

namespace {

constexpr std::string_view kEllipsis = "…";

}  // namespace

void TruncatedText::clear() noexcept {
  size_ = 0;
  cut_ = false;
}

void TruncatedText::append(std::string_view more) noexcept {
  if (cut_) return;
  const std::size_t fits = std::min(more.size(), kMaxBytes - size_);
  more.copy(bytes_.data() + size_, fits);
  size_ = static_cast<std::uint8_t>(size_ + fits);
  if (fits == more.size()) return;
  cut_ = true;
  const std::size_t kept = truncate_utf8(view(), kMaxBytes - kEllipsis.size()).size();
  kEllipsis.copy(bytes_.data() + kept, kEllipsis.size());
  size_ = static_cast<std::uint8_t>(kept + kEllipsis.size());
}

}  // namespace weir
