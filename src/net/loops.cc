#include "net/loops.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/out_of_memory.h"
#include "net/connection.h"
#include "net/ground.h"
#include "net/listen.h"

namespace weir::net {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What all loops count together. Written when connections come and go, not with every message.
struct Shared {
  explicit Shared(const LoopOptions& options)
      : most_connections(options.most_connections),
        memory(options.connection_memory, static_cast<std::size_t>(options.threads)) {}

  const std::size_t most_connections;
  MemoryBudget memory;
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> turned_away{0};
  std::atomic<std::uint64_t> open{0};
  // Wakes the loops that hold more than their share of the memory, which makes them shed.
  std::function<void()> wake_large_loops{};
};

// Room for one more than there are, so that adding one cannot fail. (Grows as push_back does.)
void reserve_for(auto& list, std::size_t count) {
  if (list.capacity() < count) list.reserve(2 * count);
}

int second_of(Clock::time_point time) {
  return static_cast<int>(
      std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count());
}

// What other threads want to be run on a loop's thread.
class LoopMailbox final : public Mailbox {
 public:
  LoopMailbox(Poller& poller, LoopMemory& memory) : memory_(memory), poller_(&poller) {}

  void post(std::function<void()> function) override {
    const std::lock_guard lock(mutex_);
    if (poller_ == nullptr) return;
    functions_.push_back(std::move(function));
    has_some_.store(true, std::memory_order_release);
    poller_->wake();
  }

  // The next two are for the loop's thread.

  void run() {
    if (!has_some_.load(std::memory_order_acquire)) return;
    std::vector<std::function<void()>> functions;
    {
      const std::lock_guard lock(mutex_);
      functions.swap(functions_);
      has_some_.store(false, std::memory_order_relaxed);
    }
    for (const auto& function : functions) {
      if (!with_memory(function)) memory_.note_out_of_memory();
    }
  }
  void close() {
    std::vector<std::function<void()>> dropped;
    const std::lock_guard lock(mutex_);
    poller_ = nullptr;
    functions_.swap(dropped);
  }

 private:
  LoopMemory& memory_;  // of the loop
  std::mutex mutex_;
  std::atomic<bool> has_some_{false};
  Poller* poller_;  // none: the loop has ended
  std::vector<std::function<void()>> functions_;
};

thread_local std::shared_ptr<LoopMailbox> own_mailbox;

// One thread, and everything that happens on it.
class Loop {
 public:
  Loop(Shared& shared, const LoopOptions& options) : shared_(shared), options_(options) {
    neighbours_.second = second_of(Clock::now());
  }

  int bind(Address& address, const Door& door) {
    int error = 0;
    Descriptor socket = bind_shared(address, error);
    if (error == 0) listeners_.emplace_back(*this, std::move(socket), door);
    return error;
  }

  void start() {
    for (Listener& listener : listeners_) listener.open();
    thread_ = std::thread([this] { run(); });
  }

  // From another thread.
  void shut_down() {
    asked_to_shut_down_.store(true);
    neighbours_.poller.wake();
  }
  void end() {
    asked_to_end_.store(true);
    neighbours_.poller.wake();
    if (thread_.joinable()) thread_.join();
  }
  // Whether everybody has left.
  bool done() const { return done_.load(); }
  bool holds_too_much() const { return neighbours_.memory.holds_too_much(); }
  void wake() { neighbours_.poller.wake(); }
  // Whether it has come around since it was last forgotten that it has.
  bool came_around() const { return came_around_.load(std::memory_order_relaxed); }
  void forget_coming_around() { came_around_.store(false, std::memory_order_relaxed); }

 private:
  class Listener final : public Watcher {
   public:
    Listener(Loop& loop, Descriptor socket, const Door& door)
        : loop_(loop), socket_(std::move(socket)), door_(door) {}

    void open() {
      constexpr int backlog = 4096;
      if (listen(socket_.fd(), backlog) != 0) {
        throw std::system_error(errno, std::generic_category(), "cannot listen");
      }
      loop_.neighbours_.poller.add(socket_.fd(), Interest::read, *this);
    }

    // (Nobody is let in for a moment: memory may be free then.)
    void on_out_of_memory() noexcept override {
      loop_.neighbours_.memory.note_out_of_memory();
      pause();
    }

    // Lets in who waits, a few at a time: others wait to be served.
    void on_ready() override {
      constexpr int few = 64;
      for (int i = 0; i < few && let_in_next(); ++i) {
      }
    }

    void make_resident() {
      if (door_.house) resident_ = door_.house(loop_.ground_);
    }
    Resident* resident() const { return resident_.get(); }
    void end_resident() { resident_ = nullptr; }

    void resume() {
      if (!pausing_) return;
      pausing_ = false;
      loop_.neighbours_.poller.change(socket_.fd(), Interest::read, *this);
    }

    // Whoever has been waiting to be let in is let in.
    void close() {
      while (let_in_next()) {
      }
      socket_.close();
      pausing_ = false;
    }

   private:
    bool let_in_next() {
      if (resident_ && !resident_->has_room()) {
        pause();
        return false;
      }
      Peer peer;
      int error = 0;
      Descriptor socket = accept_next(socket_, peer, error);
      if (error == ECONNABORTED || error == EINTR) return true;  // that one has gone already
      if (error == 0) loop_.admit(std::move(socket), peer, door_, resident_.get());
      // Out of descriptors, most likely: somebody has to leave first.
      if (error != 0 && error != EAGAIN && error != EWOULDBLOCK) pause();
      return error == 0;
    }

    void pause() {
      if (pausing_) return;
      pausing_ = true;
      loop_.neighbours_.poller.change(socket_.fd(), Interest::none, *this);
    }

    Loop& loop_;
    Descriptor socket_;
    const Door& door_;
    std::unique_ptr<Resident> resident_;  // none: connections of the loop's own
    bool pausing_ = false;
  };

  // The companion's word about itself.
  class Escort final : public Watcher {
   public:
    explicit Escort(std::unique_ptr<Companion> companion) : companion_(std::move(companion)) {}

    void on_ready() override { companion_->run_ready(); }
    void on_out_of_memory() noexcept override {}  // (calls without an answer time out)
    void end_turn() { companion_->end_turn(); }
    int descriptor() const { return companion_->descriptor(); }

   private:
    const std::unique_ptr<Companion> companion_;
  };

  void run() {
    // (A thread may be woken late by this many nanoseconds, and would be by 50,000.)
    if (options_.gather.count() > 0) prctl(PR_SET_TIMERSLACK, 1'000);
    if (options_.companion) {
      escort_ = std::make_unique<Escort>(options_.companion());
      neighbours_.poller.add(escort_->descriptor(), Interest::read, *escort_);
    }
    own_mailbox = mailbox_;
    for (Listener& listener : listeners_) listener.make_resident();
    auto next_look = Clock::now();
    while (!asked_to_end_.load(std::memory_order_relaxed)) {
      const auto next = std::min(next_look, ground_.timers.next());
      const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
      wait(neighbours_.line.empty() ? std::max(left, milliseconds{0}) : milliseconds{0});
      mailbox_->run();
      neighbours_.round.serve();
      serve_line();
      if (asked_to_shut_down_.load(std::memory_order_relaxed) && !shutting_down_) {
        guard([this] { close_doors(); });
      }
      const auto now = Clock::now();
      guard([&] { ground_.timers.run(now); });
      if (now >= next_look) {
        next_look = now + (shutting_down_ ? milliseconds{10} : milliseconds{250});
        guard([&] { look_around(now); });
      }
      end_turn();
      shed();
      bury();
    }
    mailbox_->close();
    own_mailbox = nullptr;
    connections_.clear();
    for (Listener& listener : listeners_) listener.end_resident();
    bury();
    escort_ = nullptr;
  }

  // Connections close themselves when there is no memory for one of their events. This is for what
  // is not about one of them: it is done the next time.
  void guard(const auto& work) {
    if (!with_memory(work)) neighbours_.memory.note_out_of_memory();
  }

  // If all loops hold too much together, at least one holds more than its share. That one sheds,
  // now or when it is woken.
  void shed() {
    neighbours_.memory.shed_largest();
    if (neighbours_.memory.is_exceeded()) [[unlikely]]
      shared_.wake_large_loops();
  }

  void wait(milliseconds longest) {
    bool found = false;
    if (has_worked_ && options_.gather.count() > 0 && neighbours_.line.empty()) {
      std::this_thread::sleep_for(options_.gather);
    }
    if (has_worked_ && options_.spin.count() > 0 && neighbours_.line.empty()) {
      const auto until = Clock::now() + options_.spin;
      while (!found && Clock::now() < until) found = neighbours_.poller.wait(milliseconds{0});
    }
    has_worked_ = found || neighbours_.poller.wait(longest);
  }

  // Who had to stop goes on, behind all for whom something has come. Those behind them in the line
  // have the next turn, so that nobody who comes waits for all of them.
  void serve_line() {
    auto& line = neighbours_.line;
    if (line.empty()) return;
    const auto until = Clock::now() + Protocol::kLongest;
    do {
      Connection* const first = line.front();
      line.pop_front();
      first->go_on();
    } while (!line.empty() && Clock::now() < until);
  }

  // Whoever was woken speaks; what that asks for goes out together. Some of it may be answered at
  // once.
  void end_turn() {
    do {
      std::swap(neighbours_.woken, awake_);
      for (Connection* connection : awake_) connection->resume();
      awake_.clear();
      if (escort_) guard([this] { escort_->end_turn(); });
    } while (!neighbours_.woken.empty());
  }

  void admit(Descriptor socket, const Peer& peer, const Door& door, Resident* resident) {
    if (shared_.open.load(std::memory_order_relaxed) >= shared_.most_connections) {
      return turn_away(socket, door);
    }
    if (resident != nullptr) {
      shared_.accepted.fetch_add(1, std::memory_order_relaxed);
      shared_.open.fetch_add(1, std::memory_order_relaxed);
      return admit_resident(*resident, std::move(socket), peer);
    }
    reserve_for(connections_, connections_.size() + 1);
    for (auto* list : {&neighbours_.closed, &neighbours_.woken, &awake_}) {
      reserve_for(*list, connections_.size() + 1);
    }
    auto connection = std::make_unique<Connection>(std::move(socket), door, peer, neighbours_);
    if (!connection->open()) {  // the system watches no more of them
      shared_.turned_away.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    connection->place = connections_.size();
    connections_.push_back(std::move(connection));
    shared_.accepted.fetch_add(1, std::memory_order_relaxed);
    shared_.open.fetch_add(1, std::memory_order_relaxed);
  }

  void admit_resident(Resident& resident, Descriptor socket, const Peer& peer) {
    try {
      resident.admit(std::move(socket), peer);
    } catch (const std::bad_alloc&) {
      shared_.open.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }

  void turn_away(const Descriptor& socket, const Door& door) {
    shared_.turned_away.fetch_add(1, std::memory_order_relaxed);
    (void)!::send(socket.fd(), door.too_many.data(), door.too_many.size(), MSG_NOSIGNAL);
  }

  void close_doors() {
    shutting_down_ = true;
    for (Listener& listener : listeners_) listener.close();
    for (const auto& connection : connections_) connection->shut_down();
    for (const Listener& listener : listeners_) {
      if (listener.resident() != nullptr) listener.resident()->shut_down();
    }
  }

  // Several times a second: who has been waited for too long, and whether there is room again.
  void look_around(Clock::time_point now) {
    neighbours_.second = second_of(now);
    came_around_.store(true, std::memory_order_relaxed);
    for (Listener& listener : listeners_) listener.resume();
    for (const auto& connection : connections_) connection->check_patience();
    neighbours_.round.shrink();
    for (const Listener& listener : listeners_) {
      if (listener.resident() != nullptr) listener.resident()->look_around();
    }
  }

  bool is_empty() const {
    return connections_.empty() && std::ranges::all_of(listeners_, [](const Listener& listener) {
             return listener.resident() == nullptr || listener.resident()->is_alone();
           });
  }

  // Those that were closed are gone when nobody can be in the middle of them.
  void bury() {
    for (const Connection* gone : neighbours_.closed) {
      const std::size_t place = gone->place;
      std::swap(connections_[place], connections_.back());
      connections_[place]->place = place;
      connections_.pop_back();
      shared_.open.fetch_sub(1, std::memory_order_relaxed);
    }
    neighbours_.closed.clear();
    if (ground_.left > 0) {
      shared_.open.fetch_sub(std::exchange(ground_.left, 0), std::memory_order_relaxed);
    }
    ground_.destroy_dead();
    if (shutting_down_ && is_empty()) done_.store(true);
  }

  Shared& shared_;
  const LoopOptions& options_;
  Neighbours neighbours_{.memory = LoopMemory(shared_.memory)};
  Ground ground_{.poller = neighbours_.poller, .memory = neighbours_.memory};
  const std::shared_ptr<LoopMailbox> mailbox_ =
      std::make_shared<LoopMailbox>(neighbours_.poller, neighbours_.memory);
  std::unique_ptr<Escort> escort_;  // none: there is no companion
  std::vector<Connection*> awake_;
  std::deque<Listener> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
  bool has_worked_ = false;
  bool shutting_down_ = false;
  std::atomic<bool> asked_to_shut_down_{false};
  std::atomic<bool> asked_to_end_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> came_around_{false};
};

}  // namespace

std::shared_ptr<Mailbox> mailbox_of_this_thread() { return own_mailbox; }

struct Loops::Impl {
  explicit Impl(const LoopOptions& the_options) : options(the_options), shared(options) {}

  void wake_large_loops() {
    for (Loop& loop : loops) {
      if (loop.holds_too_much()) loop.wake();
    }
  }

  const LoopOptions options;
  Shared shared;
  std::deque<Door> doors;
  std::vector<Address> bound;
  std::deque<Loop> loops;
  bool started = false;
};

namespace {

std::string what_to_do(int error, std::uint16_t port) {
  switch (error) {
    case EADDRINUSE:
      return ": another program listens there (ss -ltnp 'sport = :" + std::to_string(port) +
             "' tells which); end it, or choose another port";
    case EACCES:
      return ": ports below 1024 need root or CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL:
      return ": no interface of this machine has that address (0.0.0.0 stands for all)";
    default:
      return {};
  }
}

Error cannot_listen(const std::string& host, std::uint16_t port, const std::string& why) {
  const bool v6 = host.find(':') != std::string::npos;
  return Error{"cannot listen on " + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) +
               ": " + why};
}

Error cannot_listen(const std::string& host, std::uint16_t port, int error) {
  return cannot_listen(host, port,
                       std::generic_category().message(error) + what_to_do(error, port));
}

}  // namespace

Loops::Loops(const LoopOptions& options) : impl_(std::make_unique<Impl>(options)) {
  impl_->shared.wake_large_loops = [impl = impl_.get()] { impl->wake_large_loops(); };
  for (int i = 0; i < options.threads; ++i) {
    impl_->loops.emplace_back(impl_->shared, impl_->options);
  }
}

Loops::~Loops() { stop(milliseconds{0}); }

std::optional<Error> Loops::cannot_bind(const std::string& host, std::uint16_t port) {
  const auto address = resolve(host, port);
  if (!address) return cannot_listen(host, port, "there is no such address");
  const int error = port != 0 ? taken(*address) : 0;
  if (error != 0) return cannot_listen(host, port, error);
  return std::nullopt;
}

Result<std::uint16_t, Error> Loops::bind(const std::string& host, std::uint16_t port, Door door) {
  // (What is bound and does not listen yet is in nobody's way.)
  if (auto wrong = cannot_bind(host, port)) return *std::move(wrong);
  auto address = resolve(host, port);
  const bool ours = std::ranges::find(impl_->bound, *address) != impl_->bound.end();
  int error = ours ? EADDRINUSE : 0;
  impl_->doors.push_back(std::move(door));
  for (Loop& loop : impl_->loops) {
    if (error == 0) error = loop.bind(*address, impl_->doors.back());
  }
  if (error != 0) return cannot_listen(host, port, error);
  impl_->bound.push_back(*address);
  return address->port();
}

void Loops::start() {
  impl_->started = true;
  for (Loop& loop : impl_->loops) loop.start();
}

void Loops::stop(milliseconds grace) {
  if (!impl_->started) return;
  impl_->started = false;
  for (Loop& loop : impl_->loops) loop.shut_down();
  const auto until = Clock::now() + grace;
  const auto all_done = [&] { return std::ranges::all_of(impl_->loops, &Loop::done); };
  while (!all_done() && Clock::now() < until) std::this_thread::sleep_for(milliseconds{5});
  for (Loop& loop : impl_->loops) loop.end();
}

LoopCounts Loops::counts() const {
  const Shared& shared = impl_->shared;
  return {.accepted = shared.accepted.load(std::memory_order_relaxed),
          .turned_away = shared.turned_away.load(std::memory_order_relaxed),
          .open = shared.open.load(std::memory_order_relaxed)};
}

MemoryCounts Loops::memory() const { return impl_->shared.memory.counts(); }

std::size_t Loops::freed_since_peak() { return impl_->shared.memory.freed_since_peak(); }

bool Loops::all_came_around() {
  if (!std::ranges::all_of(impl_->loops, &Loop::came_around)) return false;
  for (Loop& loop : impl_->loops) loop.forget_coming_around();
  return true;
}

}  // namespace weir::net
