#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

// recv and send of sockets that do not block, without what the C library does around them in a
// program with threads so that a thread can be cancelled meanwhile: about as much as a decision
// costs, and nobody is ever cancelled here.

namespace weir::net {

// (The thread sanitizer has to see them.)
#if defined(__SANITIZE_THREAD__)
inline ssize_t receive(int fd, void* to, std::size_t most) { return ::recv(fd, to, most, 0); }
inline ssize_t transmit(int fd, const void* from, std::size_t size) {
  return ::send(fd, from, size, MSG_NOSIGNAL);
}
#else
inline ssize_t receive(int fd, void* to, std::size_t most) {
  return ::syscall(SYS_recvfrom, fd, to, most, 0, nullptr, nullptr);
}
inline ssize_t transmit(int fd, const void* from, std::size_t size) {
  return ::syscall(SYS_sendto, fd, from, size, MSG_NOSIGNAL, nullptr, 0);
}
#endif

}  // namespace weir::net
