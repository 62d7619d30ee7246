#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/file_descriptor.h"
#include "net/tls_context.h"

namespace weir::net {

// A connected non-blocking socket, with TLS or without. For one thread.
class SocketStream {
 public:
  explicit SocketStream(FileDescriptor socket) : socket_(std::move(socket)) {}
  // The server's side of TLS. `alpn` as for new_session.
  SocketStream(FileDescriptor socket, const TlsContext& context, const std::string& alpn);
  // The client's side of TLS, with a server whose certificate must be for `host`.
  static SocketStream to_server(FileDescriptor socket, const TlsContext& context,
                                const std::string& host);
  SocketStream(SocketStream&&) noexcept = default;
  SocketStream& operator=(SocketStream&&) noexcept = default;
  ~SocketStream() = default;

  enum class Status {
    moved,
    later,   // would block
    ended,   // the peer has shut down its write side
    broken,  // no input and no output any more; `why` has the reason
  };
  struct IoResult {
    Status status = Status::later;
    std::size_t count = 0;
  };
  // Continues the TLS handshake: `moved` when it is complete, or there is no TLS.
  IoResult shake_hands();
  IoResult read(char* to, std::size_t most);
  IoResult write(std::string_view bytes);
  // Shuts down the write side.
  void say_end();
  // True if TLS may have buffered input although the socket is not readable.
  bool has_more() const;
  // True if reading waits for the socket to become writable (TLS).
  bool reading_needs_writing() const { return reading_needs_writing_; }
  // True if writing, or the handshake, waits for the socket to become readable (TLS).
  bool writing_needs_reading() const { return writing_needs_reading_; }

  // Bytes that a session of TLS holds.
  std::size_t memory() const;

  int fd() const { return socket_.fd(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_tls() const { return ssl_ != nullptr; }
  // The peer sent plain HTTP to a TLS listener, and would understand a plain response.
  bool spoke_plainly() const { return spoke_plainly_; }
  void close();
  const std::string& why() const { return why_; }

 private:
  using Ssl = std::unique_ptr<ssl_st, void (*)(ssl_st*)>;
  static Ssl no_ssl();
  void take_over();
  IoResult stop(int result);
  IoResult broken(std::string why);

  FileDescriptor socket_;
  Ssl ssl_ = no_ssl();
  bool reading_needs_writing_ = false;
  bool writing_needs_reading_ = false;
  bool spoke_plainly_ = false;
  bool is_broken_ = false;
  bool is_deaf_ = false;  // the peer reads no more
  std::string why_;
};

}  // namespace weir::net
