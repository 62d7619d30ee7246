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
#include "net/loop_context.h"
#include "net/protocol_connection.h"
#include "net/sockets.h"

namespace weir::net {

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Counters and limits that all loops share. Written when connections open and close, not for every
// message.
struct SharedState {
  explicit SharedState(const LoopOptions& options)
      : max_connections(options.max_connections),
        memory(options.connection_memory, static_cast<std::size_t>(options.threads)) {}

  const std::size_t max_connections;
  MemoryBudget memory;
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> rejected{0};
  std::atomic<std::uint64_t> open{0};
  // Wakes the loops that hold more than their limit of buffer memory, so that they shed.
  std::function<void()> wake_large_loops{};
};

// Reserves capacity for `count` entries, so that adding one cannot fail. Grows geometrically.
void reserve_for(auto& list, std::size_t count) {
  if (list.capacity() < count) list.reserve(2 * count);
}

int to_seconds(SteadyClock::time_point time) {
  return static_cast<int>(
      std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count());
}

// Functions that other threads post to a loop's thread.
class LoopMailbox final : public Mailbox {
 public:
  LoopMailbox(Poller& poller, LoopMemory& memory) : memory_(memory), poller_(&poller) {}

  void post(std::function<void()> function) override {
    const std::lock_guard lock(mutex_);
    if (poller_ == nullptr) return;
    functions_.push_back(std::move(function));
    has_posted_.store(true, std::memory_order_release);
    poller_->wake();
  }

  // run() and close() are for the loop's thread.

  void run() {
    if (!has_posted_.load(std::memory_order_acquire)) return;
    std::vector<std::function<void()>> functions;
    {
      const std::lock_guard lock(mutex_);
      functions.swap(functions_);
      has_posted_.store(false, std::memory_order_relaxed);
    }
    for (const auto& function : functions) {
      if (!catch_bad_alloc(function)) memory_.note_out_of_memory();
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
  std::atomic<bool> has_posted_{false};
  Poller* poller_;  // null once the loop has ended
  std::vector<std::function<void()>> functions_;
};

thread_local std::shared_ptr<LoopMailbox> this_thread_mailbox;

// One thread with its event loop, listening sockets and connections.
class Loop {
 public:
  Loop(SharedState& shared, const LoopOptions& options) : shared_(shared), options_(options) {
    state_.now_seconds = to_seconds(SteadyClock::now());
  }

  int bind(SocketAddress& address, const ListenerOptions& options) {
    int error = 0;
    FileDescriptor socket = bind_reuseport(address, error);
    if (error == 0) listeners_.emplace_back(*this, std::move(socket), options);
    return error;
  }

  void start() {
    for (ListeningSocket& listener : listeners_) listener.open();
    thread_ = std::thread([this] { run(); });
  }

  // These are called by other threads.
  void shut_down() {
    shutdown_requested_.store(true);
    state_.poller.wake();
  }
  void stop() {
    stop_requested_.store(true);
    state_.poller.wake();
    if (thread_.joinable()) thread_.join();
  }
  // True once a graceful shutdown has closed all connections.
  bool done() const { return is_done_.load(); }
  bool holds_too_much() const { return state_.memory.holds_too_much(); }
  void wake() { state_.poller.wake(); }
  // True once the loop has completed an iteration with a tick since the last reset.
  bool has_iterated() const { return iterated_.load(std::memory_order_relaxed); }
  void reset_iterated() { iterated_.store(false, std::memory_order_relaxed); }

 private:
  class ListeningSocket final : public EventHandler {
   public:
    ListeningSocket(Loop& loop, FileDescriptor socket, const ListenerOptions& options)
        : loop_(loop), socket_(std::move(socket)), options_(options) {}

    void open() {
      constexpr int backlog = 4096;
      if (listen(socket_.fd(), backlog) != 0) {
        throw std::system_error(errno, std::generic_category(), "cannot listen");
      }
      loop_.state_.poller.add(socket_.fd(), Interest::read, *this);
    }

    // Stops accepting until the next tick: memory may be free again by then.
    void on_out_of_memory() noexcept override {
      loop_.state_.memory.note_out_of_memory();
      pause();
    }

    // Accepts pending connections, at most a batch of them: connections that are open wait
    // meanwhile.
    void on_ready() override {
      constexpr int batch_size = 64;
      for (int i = 0; i < batch_size && accept_one(); ++i) {
      }
    }

    void make_handler_here() {
      if (options_.make_handler) handler_ = options_.make_handler(loop_.context_);
    }
    ConnectionHandler* handler() const { return handler_.get(); }
    void destroy_handler() { handler_ = nullptr; }

    void resume() {
      if (!paused_) return;
      paused_ = false;
      loop_.state_.poller.change(socket_.fd(), Interest::read, *this);
    }

    // Accepts the connections that the kernel has queued already, then closes the socket.
    void close() {
      while (accept_one()) {
      }
      socket_.close();
      paused_ = false;
    }

   private:
    bool accept_one() {
      if (handler_ && !handler_->can_accept()) {
        pause();
        return false;
      }
      Peer peer;
      int error = 0;
      FileDescriptor socket = accept_next(socket_, peer, error);
      if (error == ECONNABORTED || error == EINTR) return true;  // the peer is gone already
      if (error == 0) loop_.add_connection(std::move(socket), peer, options_, handler_.get());
      // Most likely EMFILE: a connection has to close first.
      if (error != 0 && error != EAGAIN && error != EWOULDBLOCK) pause();
      return error == 0;
    }

    void pause() {
      if (paused_) return;
      paused_ = true;
      loop_.state_.poller.change(socket_.fd(), Interest::none, *this);
    }

    Loop& loop_;
    FileDescriptor socket_;
    const ListenerOptions& options_;
    std::unique_ptr<ConnectionHandler>
        handler_;  // null: the loop makes a ProtocolConnection of each socket
    bool paused_ = false;
  };

  // Registers the loop's service with its poller.
  class ServiceHandler final : public EventHandler {
   public:
    explicit ServiceHandler(std::unique_ptr<LoopService> service) : service_(std::move(service)) {}

    void on_ready() override { service_->run_ready(); }
    void on_out_of_memory() noexcept override {}  // the service's calls time out
    void end_iteration() { service_->end_iteration(); }
    int descriptor() const { return service_->descriptor(); }

   private:
    const std::unique_ptr<LoopService> service_;
  };

  void run() {
    // Nanoseconds by which the kernel may wake this thread late; its default is 50,000.
    if (options_.gather.count() > 0) prctl(PR_SET_TIMERSLACK, 1'000);
    if (options_.make_service) {
      service_ = std::make_unique<ServiceHandler>(options_.make_service());
      state_.poller.add(service_->descriptor(), Interest::read, *service_);
    }
    this_thread_mailbox = mailbox_;
    for (ListeningSocket& listener : listeners_) listener.make_handler_here();
    auto next_tick = SteadyClock::now();
    while (!stop_requested_.load(std::memory_order_relaxed)) {
      const auto next = std::min(next_tick, context_.timers.next());
      const auto left = std::chrono::ceil<milliseconds>(next - SteadyClock::now());
      wait(state_.run_queue.empty() ? std::max(left, milliseconds{0}) : milliseconds{0});
      mailbox_->run();
      state_.batch.serve();
      serve_run_queue();
      if (shutdown_requested_.load(std::memory_order_relaxed) && !shutting_down_) {
        guard([this] { begin_shutdown(); });
      }
      const auto now = SteadyClock::now();
      guard([&] { context_.timers.run(now); });
      if (now >= next_tick) {
        next_tick = now + (shutting_down_ ? milliseconds{10} : milliseconds{250});
        guard([&] { tick(now); });
      }
      end_iteration();
      shed();
      destroy_closed();
    }
    mailbox_->close();
    this_thread_mailbox = nullptr;
    connections_.clear();
    for (ListeningSocket& listener : listeners_) listener.destroy_handler();
    destroy_closed();
    service_ = nullptr;
  }

  // Runs work that belongs to no connection. If an allocation fails in it, the rest of it is done
  // in a later iteration. (Connections handle failures in their own events themselves.)
  void guard(const auto& work) {
    if (!catch_bad_alloc(work)) state_.memory.note_out_of_memory();
  }

  // If all loops together exceed the limit, at least one loop exceeds its own. That one sheds, now
  // or when it is woken.
  void shed() {
    state_.memory.shed_largest();
    if (state_.memory.is_exceeded()) [[unlikely]]
      shared_.wake_large_loops();
  }

  void wait(milliseconds timeout) {
    bool found = false;
    if (had_work_ && options_.gather.count() > 0 && state_.run_queue.empty()) {
      std::this_thread::sleep_for(options_.gather);
    }
    if (had_work_ && options_.spin.count() > 0 && state_.run_queue.empty()) {
      const auto until = SteadyClock::now() + options_.spin;
      while (!found && SteadyClock::now() < until) found = state_.poller.wait(milliseconds{0});
    }
    had_work_ = found || state_.poller.wait(timeout);
  }

  // Continues connections that used up their turn, after all that have new input. Stops after a
  // time slice, so that new input does not wait for the whole queue.
  void serve_run_queue() {
    auto& run_queue = state_.run_queue;
    if (run_queue.empty()) return;
    const auto until = SteadyClock::now() + Protocol::kTimeSlice;
    do {
      ProtocolConnection* const first = run_queue.front();
      run_queue.pop_front();
      first->resume_queued();
    } while (!run_queue.empty() && SteadyClock::now() < until);
  }

  // Resumes woken connections, then lets the service send the requests that they made, together.
  // The service may answer some of those at once, which wakes connections again.
  void end_iteration() {
    do {
      std::swap(state_.woken, resuming_);
      for (ProtocolConnection* connection : resuming_) connection->resume();
      resuming_.clear();
      if (service_) guard([this] { service_->end_iteration(); });
    } while (!state_.woken.empty());
  }

  void add_connection(FileDescriptor socket, const Peer& peer, const ListenerOptions& options,
                      ConnectionHandler* handler) {
    if (shared_.open.load(std::memory_order_relaxed) >= shared_.max_connections) {
      return reject(socket, options);
    }
    if (handler != nullptr) {
      shared_.accepted.fetch_add(1, std::memory_order_relaxed);
      shared_.open.fetch_add(1, std::memory_order_relaxed);
      return hand_over(*handler, std::move(socket), peer);
    }
    reserve_for(connections_, connections_.size() + 1);
    for (auto* list : {&state_.closed, &state_.woken, &resuming_}) {
      reserve_for(*list, connections_.size() + 1);
    }
    auto connection =
        std::make_unique<ProtocolConnection>(std::move(socket), options, peer, state_);
    if (!connection->open()) {  // epoll refuses more descriptors
      shared_.rejected.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    connection->index = connections_.size();
    connections_.push_back(std::move(connection));
    shared_.accepted.fetch_add(1, std::memory_order_relaxed);
    shared_.open.fetch_add(1, std::memory_order_relaxed);
  }

  void hand_over(ConnectionHandler& handler, FileDescriptor socket, const Peer& peer) {
    try {
      handler.on_accept(std::move(socket), peer);
    } catch (const std::bad_alloc&) {
      shared_.open.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }

  void reject(const FileDescriptor& socket, const ListenerOptions& options) {
    shared_.rejected.fetch_add(1, std::memory_order_relaxed);
    (void)!::send(socket.fd(), options.over_limit_reply.data(), options.over_limit_reply.size(),
                  MSG_NOSIGNAL);
  }

  void begin_shutdown() {
    shutting_down_ = true;
    for (ListeningSocket& listener : listeners_) listener.close();
    for (const auto& connection : connections_) connection->shut_down();
    for (const ListeningSocket& listener : listeners_) {
      if (listener.handler() != nullptr) listener.handler()->shut_down();
    }
  }

  // Runs several times a second: checks timeouts, and accepts again where that was paused.
  void tick(SteadyClock::time_point now) {
    state_.now_seconds = to_seconds(now);
    iterated_.store(true, std::memory_order_relaxed);
    for (ListeningSocket& listener : listeners_) listener.resume();
    for (const auto& connection : connections_) connection->check_timeouts();
    state_.batch.shrink();
    for (const ListeningSocket& listener : listeners_) {
      if (listener.handler() != nullptr) listener.handler()->on_tick();
    }
  }

  bool is_empty() const {
    return connections_.empty() &&
           std::ranges::all_of(listeners_, [](const ListeningSocket& listener) {
             return listener.handler() == nullptr || listener.handler()->is_empty();
           });
  }

  // Destroys closed connections at the end of an iteration, when no function of theirs is on the
  // stack.
  void destroy_closed() {
    for (const ProtocolConnection* gone : state_.closed) {
      const std::size_t index = gone->index;
      std::swap(connections_[index], connections_.back());
      connections_[index]->index = index;
      connections_.pop_back();
      shared_.open.fetch_sub(1, std::memory_order_relaxed);
    }
    state_.closed.clear();
    if (context_.closed_count > 0) {
      shared_.open.fetch_sub(std::exchange(context_.closed_count, 0), std::memory_order_relaxed);
    }
    context_.delete_deferred();
    if (shutting_down_ && is_empty()) is_done_.store(true);
  }

  SharedState& shared_;
  const LoopOptions& options_;
  LoopState state_{.memory = LoopMemory(shared_.memory)};
  LoopContext context_{.poller = state_.poller, .memory = state_.memory};
  const std::shared_ptr<LoopMailbox> mailbox_ =
      std::make_shared<LoopMailbox>(state_.poller, state_.memory);
  std::unique_ptr<ServiceHandler> service_;  // null: there is none
  std::vector<ProtocolConnection*> resuming_;
  std::deque<ListeningSocket> listeners_;
  std::vector<std::unique_ptr<ProtocolConnection>> connections_;
  std::thread thread_;
  bool had_work_ = false;
  bool shutting_down_ = false;
  std::atomic<bool> shutdown_requested_{false};
  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> is_done_{false};
  std::atomic<bool> iterated_{false};
};

}  // namespace

std::shared_ptr<Mailbox> mailbox_of_this_thread() { return this_thread_mailbox; }

struct Loops::Impl {
  explicit Impl(const LoopOptions& the_options) : options(the_options), shared(options) {}

  void wake_large_loops() {
    for (Loop& loop : loops) {
      if (loop.holds_too_much()) loop.wake();
    }
  }

  const LoopOptions options;
  SharedState shared;
  std::deque<ListenerOptions> listener_options;
  std::vector<SocketAddress> bound;
  std::deque<Loop> loops;
  bool started = false;
};

namespace {

std::string advice_for(int error, std::uint16_t port) {
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
                       std::generic_category().message(error) + advice_for(error, port));
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
  const int error = port != 0 ? bind_error(*address) : 0;
  if (error != 0) return cannot_listen(host, port, error);
  return std::nullopt;
}

Result<std::uint16_t, Error> Loops::bind(const std::string& host, std::uint16_t port,
                                         ListenerOptions options) {
  // bind_error() does not see ports that this object has bound and does not listen on yet.
  if (auto failure = cannot_bind(host, port)) return *std::move(failure);
  auto address = resolve(host, port);
  const bool bound_here = std::ranges::find(impl_->bound, *address) != impl_->bound.end();
  int error = bound_here ? EADDRINUSE : 0;
  impl_->listener_options.push_back(std::move(options));
  for (Loop& loop : impl_->loops) {
    if (error == 0) error = loop.bind(*address, impl_->listener_options.back());
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
  const auto until = SteadyClock::now() + grace;
  const auto all_done = [&] { return std::ranges::all_of(impl_->loops, &Loop::done); };
  while (!all_done() && SteadyClock::now() < until) std::this_thread::sleep_for(milliseconds{5});
  for (Loop& loop : impl_->loops) loop.stop();
}

LoopCounts Loops::counts() const {
  const SharedState& shared = impl_->shared;
  return {.accepted = shared.accepted.load(std::memory_order_relaxed),
          .rejected = shared.rejected.load(std::memory_order_relaxed),
          .open = shared.open.load(std::memory_order_relaxed)};
}

MemoryCounts Loops::memory() const { return impl_->shared.memory.counts(); }

std::size_t Loops::freed_since_peak() { return impl_->shared.memory.freed_since_peak(); }

bool Loops::all_loops_progressed() {
  if (!std::ranges::all_of(impl_->loops, &Loop::has_iterated)) return false;
  for (Loop& loop : impl_->loops) loop.reset_iterated();
  return true;
}

}  // namespace weir::net
