#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

// recv and send on non-blocking sockets as direct system calls. The C library's functions are
// cancellation points, which costs about as much as a decision in a program with threads. No thread
// is ever cancelled here.

namespace weir::net {

// The thread sanitizer intercepts the C library's functions.
#if defined(__SANITIZE_THREAD__)
inline ssize_t receive(int fd, void* to, std::size_t size) { return ::recv(fd, to, size, 0); }
inline ssize_t transmit(int fd, const void* from, std::size_t size) {
  return ::send(fd, from, size, MSG_NOSIGNAL);
}
#else
inline ssize_t receive(int fd, void* to, std::size_t size) {
  return ::syscall(SYS_recvfrom, fd, to, size, 0, nullptr, nullptr);
}
inline ssize_t transmit(int fd, const void* from, std::size_t size) {
  return ::syscall(SYS_sendto, fd, from, size, MSG_NOSIGNAL, nullptr, 0);
}
#endif

}  // namespace weir::net
