#include "cli/bench/load_worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weir::cli::bench {

namespace {

// Maximum sleep of the loop: it has to notice `stop`, and to check for timeouts.
constexpr Nanos kMaxSleep{100'000'000};

timespec to_timespec(Nanos time) {
  const std::int64_t ns = std::max<std::int64_t>(time.count(), 0);
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

// Blocks until the connect is complete. Returns an errno, or 0.
int wait_until_connected(int fd, Nanos timeout) {
  pollfd one{.fd = fd, .events = POLLOUT, .revents = 0};
  const timespec time = to_timespec(timeout);
  const int ready = ppoll(&one, 1, &time, nullptr);
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

LoadWorker::LoadWorker(const BenchPlan& plan, const Messages& messages,
                       const net::SocketAddress& address, std::size_t thread,
                       TakesPerKey* takes_per_key)
    : plan_(plan),
      address_(address),
      load_(plan, thread, takes_per_key),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  const std::size_t share =
      plan.connections / plan.threads + (thread < plan.connections % plan.threads);
  for (std::size_t i = 0; i < share; ++i) {
    slots_.push_back(std::make_unique<ConnectionSlot>(
        ConnectionSlot{.connection = BenchConnection(plan, messages, load_)}));
  }
}

Nanos LoadWorker::now() const { return std::chrono::steady_clock::now() - start_; }

Tally LoadWorker::tally() const {
  const std::lock_guard lock(mutex_);
  return load_.tally();
}

// ---- Connections

void LoadWorker::watch(std::size_t index, bool is_new) {
  ConnectionSlot& slot = *slots_[index];
  const bool wants = slot.connection.wants_to_write();
  if (!is_new && wants == slot.watches_write) return;
  slot.watches_write = wants;
  epoll_event event{.events = EPOLLIN | (wants ? std::uint32_t{EPOLLOUT} : 0),
                    .data = {.u64 = index}};
  epoll_ctl(epoll_.fd(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, slot.connection.fd(), &event);
}

std::optional<Error> LoadWorker::connect() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    BenchConnection& connection = slots_[i]->connection;
    int error = connection.open(address_, Nanos{0});
    if (error == 0) error = wait_until_connected(connection.fd(), plan_.timeout);
    if (error != 0) {
      return Error{fmt::format("cannot connect to {}: {}: does `weir serve` run there?",
                               plan_.target.text(), std::strerror(error))};
    }
    watch(i, true);
    offer(i);
  }
  return std::nullopt;
}

// Opens a connection again during a run. If that fails at once, it stays closed.
void LoadWorker::open(std::size_t index, Nanos now) {
  BenchConnection& connection = slots_[index]->connection;
  if (const int error = connection.open(address_, now)) {
    load_.tally().errors.add("connect", std::strerror(error));
    return;
  }
  watch(index, true);
  offer(index);
}

// Closes a failed connection, counts its requests in flight, and opens it again. A connection that
// failed without any reply is not opened again: the next attempt would fail as well, endlessly.
void LoadWorker::drop(std::size_t index, const BenchConnection::ConnectionError& problem,
                      Nanos now) {
  BenchConnection& connection = slots_[index]->connection;
  const bool reopen = connection.was_answered() && !load_.over(now);
  if (connection.idle()) load_.tally().errors.add(problem.kind, problem.text);
  for (const BenchRequest& request : connection.in_flight()) {
    if (problem.kind == "timeout") {
      load_.timed_out(request, now);
    } else {
      load_.failed(request, problem.kind, problem.text);
    }
  }
  connection.close();
  if (reopen) open(index, now);
}

void LoadWorker::offer(std::size_t index) {
  ConnectionSlot& slot = *slots_[index];
  if (slot.queued || !slot.connection.has_room()) return;
  slot.queued = true;
  ready_.push_back(index);
}

// ---- Sending and receiving

void LoadWorker::send_due(Nanos now) {
  while (!ready_.empty()) {
    const std::size_t index = ready_.front();
    ConnectionSlot& slot = *slots_[index];
    if (slot.connection.has_room()) {
      const auto request = load_.next(now);
      if (!request) return;
      slot.connection.add(*request);
      if (!slot.has_unsent) unsent_.push_back(index);
      slot.has_unsent = true;
    }
    ready_.pop_front();
    slot.queued = false;
    offer(index);
  }
}

void LoadWorker::flush(Nanos now) {
  for (const std::size_t index : unsent_) {
    ConnectionSlot& slot = *slots_[index];
    slot.has_unsent = false;
    if (!slot.connection.is_open()) continue;
    if (const auto problem = slot.connection.write()) {
      drop(index, problem, now);
    } else {
      watch(index, false);
    }
  }
  unsent_.clear();
}

void LoadWorker::on_ready(std::size_t index, std::uint32_t events, Nanos now) {
  BenchConnection& connection = slots_[index]->connection;
  if (!connection.is_open()) return;
  if (events & EPOLLOUT) {
    if (const auto problem = connection.write()) return drop(index, problem, now);
    watch(index, false);
  }
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
    if (const auto problem = connection.read(now)) return drop(index, problem, now);
    if (connection.ended()) {
      connection.close();
      if (!load_.over(now)) open(index, now);
      return;
    }
  }
  offer(index);
}

void LoadWorker::check_timeouts(Nanos now) {
  if (now - last_timeout_check_ < kMaxSleep) return;
  last_timeout_check_ = now;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const BenchConnection& connection = slots_[i]->connection;
    if (connection.idle() || now - connection.oldest_sent() < plan_.timeout) continue;
    drop(i, {.kind = "timeout", .text = {}}, now);
  }
}

// ---- The loop

bool LoadWorker::finished(Nanos now, StopMode stop) const {
  if (stop == StopMode::at_once) return true;
  const auto any = [&](auto has) { return std::any_of(slots_.begin(), slots_.end(), has); };
  if (load_.over(now)) return !any([](const auto& slot) { return !slot->connection.idle(); });
  return !any([](const auto& slot) { return slot->connection.is_open(); });
}

void LoadWorker::finish(Nanos now) {
  for (const auto& slot : slots_) {
    for (const BenchRequest& request : slot->connection.in_flight()) load_.abandoned(request, now);
    slot->connection.close();
  }
  load_.count_unsent(now);
}

void LoadWorker::wait_for_events(Nanos now) {
  const bool waits_for_room = ready_.empty();
  Nanos sleep = kMaxSleep;
  if (!waits_for_room) sleep = std::clamp(load_.next_due() - now, Nanos{0}, kMaxSleep);
  if (plan_.spin) sleep = Nanos{0};
  // epoll_wait has a resolution of milliseconds, ppoll of nanoseconds.
  if (sleep > Nanos{0} && sleep < kMaxSleep) {
    pollfd one{.fd = epoll_.fd(), .events = POLLIN, .revents = 0};
    const timespec time = to_timespec(sleep);
    ppoll(&one, 1, &time, nullptr);
    sleep = Nanos{0};
  }
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(sleep.count() / 1'000'000));
  if (count <= 0) return;
  const std::lock_guard lock(mutex_);
  const Nanos later = this->now();
  for (int i = 0; i < count; ++i) on_ready(events[i].data.u64, events[i].events, later);
}

void LoadWorker::run(std::chrono::steady_clock::time_point start,
                     const std::atomic<StopMode>& stop) {
  start_ = start;
  // The default timer slack of 50 µs would delay each request of an open loop.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  for (;;) {
    const Nanos now = this->now();
    {
      const std::lock_guard lock(mutex_);
      const StopMode wanted = stop.load(std::memory_order_relaxed);
      if (wanted != StopMode::no) load_.stop(now);
      send_due(now);
      flush(now);
      check_timeouts(now);
      if (finished(now, wanted)) return finish(this->now());
    }
    wait_for_events(now);
  }
}

}  // namespace weir::cli::bench
