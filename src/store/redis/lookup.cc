#include "store/redis/lookup.h"

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

namespace weir::store::redis {

namespace {

Addresses look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (failed != 0) return Error{"cannot find " + host + ": " + gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<net::Address> addresses;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    net::Address address;
    address.size = next->ai_addrlen;
    std::memcpy(&address.bytes, next->ai_addr, next->ai_addrlen);
    address.set_port(port);
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

std::vector<net::Address> numeric_address(const std::string& host, std::uint16_t port) {
  const Addresses found = look_up(host, port, AI_NUMERICHOST);
  return found ? *found : std::vector<net::Address>{};
}

// Where a thread leaves what it has found. Lives until both have no use for it.
struct Lookup::Mailbox {
  Mailbox() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event.is_open()) throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  // Whether somebody has to begin: nobody is at it.
  bool begins() {
    const std::lock_guard lock(mutex);
    wanted = true;
    return !std::exchange(running, true);
  }
  // There was no memory for it. (Whoever waits for a result has a timeout.)
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
    (void)!write(event.fd(), &one, sizeof one);  // it can only fail when there is one already
  }

  net::Descriptor event;
  std::mutex mutex;
  bool wanted = false;
  bool running = false;
  std::unique_ptr<Addresses> result;
};

Lookup::Lookup() : mailbox_(std::make_shared<Mailbox>()) {}

Lookup::~Lookup() { forget(); }

int Lookup::descriptor() const { return mailbox_->event.fd(); }

void Lookup::start(const std::string& host, std::uint16_t port) {
  forget();
  if (!mailbox_->begins()) return;
  try {
    std::thread([mailbox = mailbox_, host, port] {
      if (!with_memory([&] { mailbox->put(look_up(host, port, 0)); })) mailbox->abandon();
    }).detach();
  } catch (const std::bad_alloc&) {
    mailbox_->abandon();
    throw;
  } catch (const std::system_error& error) {
    mailbox_->put(Error{"cannot look up " + host + ": " + error.what()});
  }
}

void Lookup::forget() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->wanted = false;
  mailbox_->result.reset();
}

std::unique_ptr<Addresses> Lookup::result() {
  std::uint64_t count = 0;
  (void)!read(mailbox_->event.fd(), &count, sizeof count);  // none if it was forgotten
  const std::lock_guard lock(mailbox_->mutex);
  return std::move(mailbox_->result);
}

}  // namespace weir::store::redis
