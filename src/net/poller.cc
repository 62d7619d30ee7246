#include "net/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/out_of_memory.h"

namespace weir::net {

namespace {

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

std::uint32_t events_of(Interest interest) {
  switch (interest) {
    case Interest::read:
      return EPOLLIN;
    case Interest::write:
      return EPOLLOUT;
    case Interest::both:
      return EPOLLIN | EPOLLOUT;
    case Interest::hangup:
      return EPOLLRDHUP;
    case Interest::read_edge:
      return EPOLLIN | EPOLLRDHUP | EPOLLET;
    case Interest::none:
      break;
  }
  return 0;
}

void control(int epoll, int operation, int fd, Interest interest, void* handler) {
  epoll_event event{.events = events_of(interest), .data = {.ptr = handler}};
  checked(epoll_ctl(epoll, operation, fd, &event), "epoll_ctl");
}

}  // namespace

Poller::Poller()
    : epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_event_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  control(epoll_.fd(), EPOLL_CTL_ADD, wake_event_.fd(), Interest::read, nullptr);
}

void Poller::add(int fd, Interest interest, EventHandler& handler) {
  control(epoll_.fd(), EPOLL_CTL_ADD, fd, interest, &handler);
}

bool Poller::try_add(int fd, Interest interest, EventHandler& handler) {
  epoll_event event{.events = events_of(interest), .data = {.ptr = &handler}};
  return epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::change(int fd, Interest interest, EventHandler& handler) {
  control(epoll_.fd(), EPOLL_CTL_MOD, fd, interest, &handler);
}

void Poller::remove(int fd) { control(epoll_.fd(), EPOLL_CTL_DEL, fd, Interest::none, nullptr); }

bool Poller::wait(std::chrono::milliseconds timeout) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(timeout.count()));
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    peer_hung_up_ = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (auto* handler = static_cast<EventHandler*>(event.data.ptr)) {
      // Dispatches the other events in any case: edge-triggered ones are reported only once.
      if (!catch_bad_alloc([handler] { handler->on_ready(); })) handler->on_out_of_memory();
    } else {
      std::uint64_t wakes = 0;
      (void)!read(wake_event_.fd(), &wakes, sizeof wakes);  // resets the eventfd
    }
  }
  return count > 0;
}

void Poller::wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_event_.fd(), &one, sizeof one);  // fails only if the counter is full
}

}  // namespace weir::net
