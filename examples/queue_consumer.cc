// Processes a queue at the pace of its receiver. A message that cannot be sent in time is put aside
// at once, not after a wait; and the consumer can be stopped while it waits.

#include <weir/limiter.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <iostream>
#include <latch>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

struct Message {
  std::string text;
  std::chrono::seconds patience;  // the maximum delay of a message
};

class Consumer {
 public:
  explicit Consumer(std::deque<Message> queue) : queue_(std::move(queue)) {}

  void run(std::stop_token stop) {
    for (; !queue_.empty(); queue_.pop_front()) {
      const auto& [text, patience] = queue_.front();
      const auto turn = receiver_.acquire(weir::Deadline::after(patience), 1, stop);
      if (stop.stop_requested()) return;
      std::cout << (turn ? "sent: " : "too late for: ") << text << '\n';
      four_done_.count_down();
    }
  }

  void await_four() const { four_done_.wait(); }
  std::size_t left() const { return queue_.size(); }

 private:
  weir::Limiter receiver_{weir::per_minute(3)};  // three at once, then one every twenty seconds
  std::deque<Message> queue_;
  std::latch four_done_{4};
};

int main() {
  Consumer consumer{{{"one", 1min}, {"two", 1min}, {"three", 1min}, {"four", 1s}, {"five", 1min}}};
  std::jthread thread{[&](std::stop_token stop) { consumer.run(stop); }};
  consumer.await_four();
  thread.request_stop();  // "five" is waiting twenty seconds, which the stop interrupts
  thread.join();
  std::cout << "stopped, left in the queue: " << consumer.left() << '\n';
}
