#include "net/resolver.h"

#include <netdb.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"

namespace weir::net {

namespace {

Addresses look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (failed != 0) return Error{"cannot find " + host + ": " + gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    SocketAddress address;
    address.size = next->ai_addrlen;
    std::memcpy(&address.bytes, next->ai_addr, next->ai_addrlen);
    address.set_port(port);
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

std::vector<SocketAddress> numeric_address(const std::string& host, std::uint16_t port) {
  const Addresses found = look_up(host, port, AI_NUMERICHOST);
  return found ? *found : std::vector<SocketAddress>{};
}

// Shared by the resolver and its thread: the thread stores its result here.
struct Resolver::SharedResult {
  SharedResult() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event.is_open()) throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  // True if the caller has to start a thread: none is running.
  bool try_begin() {
    const std::lock_guard lock(mutex);
    wanted = true;
    return !std::exchange(running, true);
  }
  // The thread ran out of memory. The caller of `start` relies on its own timeout.
  void abandon() {
    const std::lock_guard lock(mutex);
    running = false;
  }
  void put(Addresses found) {
    const std::lock_guard lock(mutex);
    running = false;
    if (!std::exchange(wanted, false)) return;
    result = std::make_unique<Addresses>(std::move(found));
    const std::uint64_t one = 1;
    (void)!write(event.fd(), &one, sizeof one);  // fails only if the event is already pending
  }

  FileDescriptor event;
  std::mutex mutex;
  bool wanted = false;
  bool running = false;
  std::unique_ptr<Addresses> result;
};

Resolver::Resolver() : shared_(std::make_shared<SharedResult>()) {}

Resolver::~Resolver() { cancel(); }

int Resolver::descriptor() const { return shared_->event.fd(); }

void Resolver::start(const std::string& host, std::uint16_t port) {
  cancel();
  if (!shared_->try_begin()) return;
  try {
    std::thread([shared = shared_, host, port] {
      if (!catch_bad_alloc([&] { shared->put(look_up(host, port, 0)); })) shared->abandon();
    }).detach();
  } catch (const std::bad_alloc&) {
    shared_->abandon();
    throw;
  } catch (const std::system_error& error) {
    shared_->put(Error{"cannot look up " + host + ": " + error.what()});
  }
}

void Resolver::cancel() {
  const std::lock_guard lock(shared_->mutex);
  shared_->wanted = false;
  shared_->result.reset();
}

std::unique_ptr<Addresses> Resolver::result() {
  std::uint64_t count = 0;
  (void)!read(shared_->event.fd(), &count, sizeof count);  // fails if no event is pending
  const std::lock_guard lock(shared_->mutex);
  return std::move(shared_->result);
}

}  // namespace weir::net
