#pragma once

#include <deque>
#include <memory>
#include <string>

#include "net/protocol.h"

namespace weir::server {

// The responses of one connection in the order of its requests (pipelining). A response that is
// complete waits for those before it. Used by one thread.
class ResponseQueue {
 public:
  // The response to one request. Its holder writes `text`, then calls `complete` once. A slot may
  // outlive the queue: the connection may have closed meanwhile.
  class Slot {
   public:
    explicit Slot(ResponseQueue& queue) : queue_(&queue) {}

    std::string text;

    void complete() {
      is_complete_ = true;
      if (queue_ != nullptr && queue_->waker_ != nullptr) queue_->waker_->wake();
    }

   private:
    friend class ResponseQueue;
    ResponseQueue* queue_;  // null: the connection has closed
    bool is_complete_ = false;
  };

  ResponseQueue() = default;
  ~ResponseQueue() {
    for (const auto& slot : slots_) slot->queue_ = nullptr;
  }
  ResponseQueue(const ResponseQueue&) = delete;
  ResponseQueue& operator=(const ResponseQueue&) = delete;

  void use_waker(net::Waker& waker) { waker_ = &waker; }

  // A slot behind all others.
  std::shared_ptr<Slot> add() { return slots_.emplace_back(std::make_shared<Slot>(*this)); }

  // Appends the complete responses, up to the first that is not.
  void flush(std::string& out) {
    for (; !slots_.empty() && slots_.front()->is_complete_; slots_.pop_front()) {
      out += slots_.front()->text;
    }
  }

  // Bytes of the pending slots, roughly.
  std::size_t memory() const { return slots_.size() * 2 * sizeof(Slot); }

  // True while a response is not complete, or not flushed.
  bool has_pending() const { return !slots_.empty(); }

 private:
  net::Waker* waker_ = nullptr;
  std::deque<std::shared_ptr<Slot>> slots_;
};

}  // namespace weir::server
