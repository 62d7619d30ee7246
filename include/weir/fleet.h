#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weir/time.h"

namespace weir {

namespace store {
class SharedStore;
}  // namespace store

inline namespace v0 {

namespace detail {
struct LinkAccess;
}  // namespace detail

// One thread's way to a store that nodes share. It has no thread of its own: whoever owns it lets
// it run, with a poll or an event loop of the program's own.
//
//   while (…) {
//     poll descriptor() for reading;
//     link.run_ready();
//   }
//
// Not thread-safe: each thread has its own.
class Link {
 public:
  virtual ~Link() = default;

  // Becomes readable when there is something to do.
  virtual int descriptor() const noexcept = 0;

  // Does what there is to do: sends what was asked, reads answers, tells who asked, gives up on
  // what has taken too long, connects again. Never waits.
  virtual void run_ready() = 0;

  // Sends what was asked since. Questions that are sent together cost less, so it is not done with
  // each of them.
  virtual void flush() = 0;

  // Waits until there is something to do, at most so long, and does it.
  virtual void wait(Nanos longest) = 0;

 private:
  friend struct detail::LinkAccess;
  virtual store::SharedStore& store() noexcept = 0;
};

// Where this node stands among those that share a store, as it became known step by step.
struct Membership {
  // How many nodes there were in one generation of their list, and which of them this one was,
  // counted from 0. None: it was not among them.
  struct Place {
    std::uint32_t nodes = 0;
    std::optional<std::uint32_t> rank{};

    friend bool operator==(const Place&, const Place&) = default;
  };

  // From then on, this node uses of a limit the least of what these places give it: they are those
  // of all generations that some node may still go by, oldest first. None: it uses nothing.
  struct Step {
    Nanos ago{0};
    std::vector<Place> places{};
    bool founding = false;  // it was there when the list began: nobody has used anything before
  };

  std::uint64_t version = 0;  // of the last step, counted from 1; 0: it was never a member
  std::vector<Step> steps{};  // in order
};

// A store that nodes share. Thread-safe. Must outlive its links.
class Fleet {
 public:
  virtual ~Fleet() = default;

  // A way to it for one thread. It need not be reachable: a link goes on trying.
  virtual std::unique_ptr<Link> connect() = 0;

  // How many nodes there are, as far as is known: each has so much less of a limit while the store
  // cannot be asked.
  virtual std::uint32_t nodes() const noexcept { return 1; }

  // Whether the others count on this node being there, right now. If not, they may use its part of
  // the limits that are split. It takes a link that runs: see there.
  virtual bool is_member() const noexcept { return false; }
  // If not: because of something that somebody has to put right.
  virtual bool is_mistaken() const noexcept { return false; }
  // Of the newest membership. Where both are asked for, this comes second: who is a member again
  // may have been left out meanwhile.
  virtual std::uint64_t membership_version() const noexcept { return 0; }
  // The steps since that version.
  virtual Membership membership(std::uint64_t /*since*/) const { return {}; }
};

}  // namespace v0
}  // namespace weir
