#pragma once

#include <deque>
#include <memory>
#include <string>

#include "net/protocol.h"

namespace weir::server {

// The answers of one connection in the order of its questions, where some take longer than others.
// Used by one thread.
class Answers {
 public:
  // One answer's place in the order. Whoever has it writes the text and says when it is done: the
  // connection may have gone by then.
  class Place {
   public:
    explicit Place(Answers& answers) : answers_(&answers) {}

    std::string text;

    void done() {
      done_ = true;
      if (answers_ != nullptr && answers_->waker_ != nullptr) answers_->waker_->wake();
    }

   private:
    friend class Answers;
    Answers* answers_;
    bool done_ = false;
  };

  Answers() = default;
  ~Answers() {
    for (const auto& place : places_) place->answers_ = nullptr;
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  void use_waker(net::Waker& waker) { waker_ = &waker; }

  // Behind all that there are.
  std::shared_ptr<Place> add() { return places_.emplace_back(std::make_shared<Place>(*this)); }

  // Appends those that are done, up to the first that is not.
  void flush(std::string& out) {
    for (; !places_.empty() && places_.front()->done_; places_.pop_front()) {
      out += places_.front()->text;
    }
  }

  // Bytes of those that are owed, roughly.
  std::size_t memory() const { return places_.size() * 2 * sizeof(Place); }

  // Whether some are still to come, or to be flushed.
  bool owed() const { return !places_.empty(); }

 private:
  net::Waker* waker_ = nullptr;
  std::deque<std::shared_ptr<Place>> places_;
};

}  // namespace weir::server
