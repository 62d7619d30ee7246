#include "cli/bench/worker.h"

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

// How long a loop sleeps at most: it has to hear that it should end, and look for answers that do
// not come.
constexpr Nanos kLongestSleep{100'000'000};

timespec to_timespec(Nanos time) {
  const std::int64_t ns = std::max<std::int64_t>(time.count(), 0);
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

// Why the socket has no connection within the time, or 0.
int wait_until_connected(int fd, Nanos longest) {
  pollfd one{.fd = fd, .events = POLLOUT, .revents = 0};
  const timespec time = to_timespec(longest);
  const int ready = ppoll(&one, 1, &time, nullptr);
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Worker::Worker(const Plan& plan, const Messages& messages, const net::Address& address,
               std::size_t thread, Asked* asked)
    : plan_(plan),
      address_(address),
      load_(plan, thread, asked),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  const std::size_t share =
      plan.connections / plan.threads + (thread < plan.connections % plan.threads);
  for (std::size_t i = 0; i < share; ++i) {
    slots_.push_back(std::make_unique<Slot>(Slot{.connection = Connection(plan, messages, load_)}));
  }
}

Nanos Worker::now() const { return std::chrono::steady_clock::now() - start_; }

Tally Worker::tally() const {
  const std::lock_guard lock(mutex_);
  return load_.tally();
}

// ---- Connections

void Worker::watch(std::size_t index, bool is_new) {
  Slot& slot = *slots_[index];
  const bool wants = slot.connection.wants_to_write();
  if (!is_new && wants == slot.watches_write) return;
  slot.watches_write = wants;
  epoll_event event{.events = EPOLLIN | (wants ? std::uint32_t{EPOLLOUT} : 0),
                    .data = {.u64 = index}};
  epoll_ctl(epoll_.fd(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, slot.connection.fd(), &event);
}

std::optional<Error> Worker::connect() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Connection& connection = slots_[i]->connection;
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

// Anew, in the middle of a run. If it fails for certain, the connection stays closed.
void Worker::open(std::size_t index, Nanos now) {
  Connection& connection = slots_[index]->connection;
  if (const int error = connection.open(address_, now)) {
    load_.tally().errors.add("connect", std::strerror(error));
    return;
  }
  watch(index, true);
  offer(index);
}

// The connection is of no use any more. A new one takes its place, unless it brought no answer at
// all: then the next would not either.
void Worker::drop(std::size_t index, const Connection::Trouble& trouble, Nanos now) {
  Connection& connection = slots_[index]->connection;
  const bool again = connection.was_answered() && !load_.over(now);
  if (connection.idle()) load_.tally().errors.add(trouble.kind, trouble.text);
  for (const Request& request : connection.in_flight()) {
    if (trouble.kind == "timeout") {
      load_.timed_out(request, now);
    } else {
      load_.failed(request, trouble.kind, trouble.text);
    }
  }
  connection.close();
  if (again) open(index, now);
}

void Worker::offer(std::size_t index) {
  Slot& slot = *slots_[index];
  if (slot.queued || !slot.connection.has_room()) return;
  slot.queued = true;
  ready_.push_back(index);
}

// ---- Sending and receiving

void Worker::send_due(Nanos now) {
  while (!ready_.empty()) {
    const std::size_t index = ready_.front();
    Slot& slot = *slots_[index];
    if (slot.connection.has_room()) {
      const auto request = load_.next(now);
      if (!request) return;
      slot.connection.add(*request);
      if (!slot.touched) touched_.push_back(index);
      slot.touched = true;
    }
    ready_.pop_front();
    slot.queued = false;
    offer(index);
  }
}

void Worker::flush(Nanos now) {
  for (const std::size_t index : touched_) {
    Slot& slot = *slots_[index];
    slot.touched = false;
    if (!slot.connection.is_open()) continue;
    if (const auto trouble = slot.connection.write()) {
      drop(index, trouble, now);
    } else {
      watch(index, false);
    }
  }
  touched_.clear();
}

void Worker::on_ready(std::size_t index, std::uint32_t events, Nanos now) {
  Connection& connection = slots_[index]->connection;
  if (!connection.is_open()) return;
  if (events & EPOLLOUT) {
    if (const auto trouble = connection.write()) return drop(index, trouble, now);
    watch(index, false);
  }
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
    if (const auto trouble = connection.read(now)) return drop(index, trouble, now);
    if (connection.ended()) {
      connection.close();
      if (!load_.over(now)) open(index, now);
      return;
    }
  }
  offer(index);
}

void Worker::end_the_patience(Nanos now) {
  if (now - looked_at_patience_ < kLongestSleep) return;
  looked_at_patience_ = now;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Connection& connection = slots_[i]->connection;
    if (connection.idle() || now - connection.oldest_sent() < plan_.timeout) continue;
    drop(i, {.kind = "timeout", .text = {}}, now);
  }
}

// ---- The loop

bool Worker::finished(Nanos now, Stop stop) const {
  if (stop == Stop::at_once) return true;
  const auto has = [&](auto what) { return std::any_of(slots_.begin(), slots_.end(), what); };
  if (load_.over(now)) return !has([](const auto& slot) { return !slot->connection.idle(); });
  return !has([](const auto& slot) { return slot->connection.is_open(); });
}

void Worker::finish(Nanos now) {
  for (const auto& slot : slots_) {
    for (const Request& request : slot->connection.in_flight()) load_.abandoned(request, now);
    slot->connection.close();
  }
  load_.count_unsent(now);
}

void Worker::wait_for_events(Nanos now) {
  const bool waits_for_room = ready_.empty();
  Nanos sleep = kLongestSleep;
  if (!waits_for_room) sleep = std::clamp(load_.next_due() - now, Nanos{0}, kLongestSleep);
  if (plan_.spin) sleep = Nanos{0};
  // (epoll alone counts in milliseconds.)
  if (sleep > Nanos{0} && sleep < kLongestSleep) {
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

void Worker::run(std::chrono::steady_clock::time_point start, const std::atomic<Stop>& stop) {
  start_ = start;
  // Who is to be woken at a time is not to be woken some time later.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  for (;;) {
    const Nanos now = this->now();
    {
      const std::lock_guard lock(mutex_);
      const Stop wanted = stop.load(std::memory_order_relaxed);
      if (wanted != Stop::no) load_.stop(now);
      send_due(now);
      flush(now);
      end_the_patience(now);
      if (finished(now, wanted)) return finish(this->now());
    }
    wait_for_events(now);
  }
}

}  // namespace weir::cli::bench
