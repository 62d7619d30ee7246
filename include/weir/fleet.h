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

// One thread's connection to a store that nodes share. It has no thread of its own: its owner runs
// it from a poll(2) loop or an event loop.
//
//   while (…) {
//     poll descriptor() for reading;
//     link.run_ready();
//   }
//
// Not thread-safe: each thread needs its own.
class Link {
 public:
  virtual ~Link() = default;

  // Becomes readable when there is something to do.
  virtual int descriptor() const noexcept = 0;

  // Processes all pending events: sends requests, reads answers and calls their callbacks, expires
  // requests that have timed out, reconnects. Never blocks.
  virtual void run_ready() = 0;

  // Sends the requests made since the last flush. Requests are not sent one by one, because a batch
  // costs less.
  virtual void flush() = 0;

  // Blocks until there is an event, at most for `max_wait`, and processes it.
  virtual void wait(Nanos max_wait) = 0;

 private:
  friend struct detail::LinkAccess;
  virtual store::SharedStore& store() noexcept = 0;
};

// The history of this node's membership in its fleet.
struct Membership {
  // The number of nodes in one generation of the node list, and the rank of this node, counted from
  // 0. No rank: it was not in the list.
  struct NodeRank {
    std::uint32_t nodes = 0;
    std::optional<std::uint32_t> rank{};

    friend bool operator==(const NodeRank&, const NodeRank&) = default;
  };

  // A change of the ranks by which split limits are divided. Different nodes may know different
  // generations of the list, so `places` has the ranks of all generations that are still in use by
  // some node, oldest first. This node uses the smallest part of a limit that any of them gives it;
  // if there are none, nothing.
  struct Step {
    Nanos ago{0};
    std::vector<NodeRank> places{};
    bool founding = false;  // in the first generation of the list: no node has used anything before
  };

  std::uint64_t version = 0;  // of the last step, counted from 1; 0: it was never a member
  std::vector<Step> steps{};  // in order
};

// A store that nodes share. Thread-safe. Must outlive its links.
class Fleet {
 public:
  virtual ~Fleet() = default;

  // A link for one thread. The store need not be reachable: the link keeps reconnecting.
  virtual std::unique_ptr<Link> connect() = 0;

  // The number of nodes, as far as is known. While the store is unavailable, each node enforces a
  // limit divided by this number.
  virtual std::uint32_t nodes() const noexcept { return 1; }

  // True while the other nodes count this node as a member. If not, they may use its parts of split
  // limits. Needs a link that is run: see Link.
  virtual bool is_member() const noexcept { return false; }
  // True if it is not a member because of an error that an operator has to fix.
  virtual bool is_misconfigured() const noexcept { return false; }
  // The version of the newest membership. Read is_member() first: a node that is a member again may
  // have been removed in between, which only the version shows.
  virtual std::uint64_t membership_version() const noexcept { return 0; }
  // The steps after version `since`.
  virtual Membership membership(std::uint64_t /*since*/) const { return {}; }
};

}  // namespace v0
}  // namespace weir
