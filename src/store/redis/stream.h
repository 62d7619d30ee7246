#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/file_descriptor.h"
#include "net/tls_context.h"

// (OpenSSL's headers stay in the sources.)
struct ssl_st;

namespace weir::store::redis {

// A connected socket that does not block, with TLS inside if wanted. Says nothing to the process: a
// peer that is gone is an error, not a signal.
class Stream {
 public:
  enum class Status { done, would_block, failed };
  struct Moved {
    Status status = Status::would_block;
    std::size_t bytes = 0;
  };

  Stream() = default;
  explicit Stream(net::FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_tls() const { return ssl_ != nullptr; }

  // From now on all is encrypted, once hands are shaken.
  bool begin_tls(const net::TlsContext& context, const std::string& host);
  Status shake_hands();

  Moved read(std::span<char> room);
  Moved write(std::string_view bytes);

  // Whether it is the other side's turn, or the socket's to take more: after would_block.
  bool waits_to_write() const { return waits_to_write_; }
  // When failed.
  const std::string& why() const { return why_; }
  // Whether somebody has to put something right: a certificate that is not trusted.
  bool is_mistake() const;

 private:
  Moved fail(std::string why);
  Moved fail_with(int error);
  Moved after_tls(int result);

  net::FileDescriptor socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_{nullptr, nullptr};
  std::string why_;
  bool waits_to_write_ = false;
};

}  // namespace weir::store::redis
