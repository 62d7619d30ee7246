#include "cli/bench/tally.h"

#include <algorithm>

namespace weir::cli::bench {

void ErrorCounts::add(std::string_view kind, std::string_view example, std::uint64_t count) {
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    const bool has_room = kinds_.size() < kMaxKinds;
    found = kinds_.try_emplace(has_room ? std::string{kind} : "other").first;
    if (found->second.count == 0) found->second.example = example.substr(0, kMaxExampleBytes);
  }
  found->second.count += count;
}

void ErrorCounts::merge(const ErrorCounts& other) {
  for (const auto& [kind, entry] : other.kinds_) add(kind, entry.example, entry.count);
}

std::uint64_t ErrorCounts::count() const {
  std::uint64_t count = 0;
  for (const auto& [kind, entry] : kinds_) count += entry.count;
  return count;
}

void Tally::merge(const Tally& other) {
  latency.merge(other.latency);
  for (std::size_t i = 0; i < decided.size(); ++i) {
    decided[i].allowed += other.decided[i].allowed;
    decided[i].refused += other.decided[i].refused;
  }
  answers += other.answers;
  unanswered += other.unanswered;
  unsent += other.unsent;
  errors.merge(other.errors);
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  admitted_ever += other.admitted_ever;
  last_answer = std::max(last_answer, other.last_answer);
}

}  // namespace weir::cli::bench
