#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/descriptor.h"
#include "net/tls_context.h"

namespace weir::net {

// A connected socket that does not block, with TLS or without. For one thread.
class Stream {
 public:
  explicit Stream(Descriptor socket) : socket_(std::move(socket)) {}
  // The side of who listens. `alpn` as of new_session.
  Stream(Descriptor socket, const TlsContext& context, const std::string& alpn);
  // The side of who connects, to a server whose certificate must be for `host`.
  static Stream to_server(Descriptor socket, const TlsContext& context, const std::string& host);
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;
  ~Stream() = default;

  enum class Status {
    moved,
    later,   // nothing now
    ended,   // the peer will say nothing more
    broken,  // neither will come anything, nor can anything be said; `why` tells
  };
  struct Moved {
    Status status = Status::later;
    std::size_t count = 0;
  };
  // What TLS has to say before anything else is: `moved` when that is said, or nothing has to be.
  Moved shake_hands();
  Moved read(char* to, std::size_t most);
  Moved write(std::string_view bytes);
  // That nothing more will be said.
  void say_end();
  // Whether a socket that is not readable may have something to read.
  bool has_more() const;
  // Whether what could not be read has to wait until something can be written (of TLS).
  bool reading_needs_writing() const { return reading_needs_writing_; }
  // Whether what could not be written, or a handshake, has to wait until something can be read.
  bool writing_needs_reading() const { return writing_needs_reading_; }

  // Bytes that a session of TLS holds.
  std::size_t memory() const;

  int fd() const { return socket_.fd(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_tls() const { return ssl_ != nullptr; }
  // The peer speaks HTTP without TLS at a door with TLS, and would understand an answer without.
  bool spoke_plainly() const { return spoke_plainly_; }
  void close();
  const std::string& why() const { return why_; }

 private:
  using Ssl = std::unique_ptr<ssl_st, void (*)(ssl_st*)>;
  static Ssl no_ssl();
  void take_over();
  Moved stop(int result);
  Moved broken(std::string why);

  Descriptor socket_;
  Ssl ssl_ = no_ssl();
  bool reading_needs_writing_ = false;
  bool writing_needs_reading_ = false;
  bool spoke_plainly_ = false;
  bool is_broken_ = false;
  bool is_deaf_ = false;  // nothing can be written any more
  std::string why_;
};

}  // namespace weir::net
