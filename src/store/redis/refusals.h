#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fixed_vector.h"
#include "base/time.h"
#include "store/shared.h"

namespace weir::store::redis {

// Takes that were refused a moment ago, and will be again: who hammers at a limit costs the server
// nothing. Of a fixed size.
//
// A refusal is remembered for a tenth of a second at most, and never beyond its retry_after, with
// all keys and limits that it was about. A take of the same, at the same cost and with the same
// patience, is refused without asking: its durations are those of then, less the time that has
// passed. (One that costs more would be refused as well, but when it would pass is not known, nor
// which limit it would wait for the longest.) Limits with other parameters are others, so that a
// raised limit is seen at once. What another link gives back is seen when the refusal is forgotten.
//
// Never remembered: limits of concurrency, where a leave can end a refusal at any time; shadow
// limits, whose numbers count; and what can never pass, which has no time to be forgotten at.
class Refusals {
 public:
  // The seed keeps strangers from making keys that push each other out.
  explicit Refusals(std::uint64_t seed, std::size_t size = 1024);

  // Whether the question is refused; if so, `answer` says how.
  bool refuses(const SharedQuestion& question, Nanos now, SharedAnswer& answer) const;
  // To be shown every answer; remembers it if it is a refusal.
  void remember(const SharedQuestion& question, const SharedAnswer& answer, Nanos now);
  // To be shown every question: after some, refusals of their keys may be none any more.
  void forget(const SharedQuestion& question);
  // The server was lost: the next one may know nothing of what this one has refused for.
  void forget_all() { forgotten_before_ = last_number_; }

 private:
  // What tells limits apart: the kind and its numbers. A calendar is kept, so that no other can
  // come to be at its address.
  struct Parameters {
    std::array<std::int64_t, 8> numbers{};
    std::shared_ptr<const core::Calendar> calendar{};
    friend bool operator==(const Parameters&, const Parameters&) = default;
  };
  struct Part {
    std::string key{};
    Parameters parameters{};
    core::Ask ask{};
    core::Decision decision{};
  };
  struct Entry {
    std::vector<Part> parts{};
    std::size_t count = 0;  // how many of the parts are in use
    core::Verdict verdict{};
    Instant store_time{};
    Nanos at{};
    std::uint64_t number = 0;  // refusals are numbered, so that older ones can be told
  };

  static Parameters parameters_of(const core::Limit& limit);
  static bool can_be_kept(const SharedQuestion& question);
  std::uint64_t hash_of(std::string_view key) const;
  std::uint64_t hash_of(const core::Ask& ask) const;
  std::size_t place_of(const SharedQuestion& question) const;
  bool is_about(const Entry& entry, const SharedQuestion& question) const;
  bool is_forgotten(const Entry& entry) const;

  const std::uint64_t seed_;
  std::vector<Entry> entries_;  // a power of two
  // Until when each of them counts. Apart, so that it stays in the cache: most questions find that
  // nobody was refused, and look no further.
  std::vector<Nanos> until_;
  Nanos last_until_ = Nanos::min();  // of all: behind it there is nothing to look for
  // By the hash of a key: the number of the last refusal that was there when it was forgotten. Keys
  // that share a place forget together, which does no harm.
  std::vector<std::uint64_t> forgotten_;
  std::uint64_t last_number_ = 0;
  std::uint64_t forgotten_before_ = 0;  // this one and all that are older
};

}  // namespace weir::store::redis
