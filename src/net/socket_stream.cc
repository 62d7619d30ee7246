#include "net/socket_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace weir::net {

namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

SocketStream::Ssl SocketStream::no_ssl() { return {nullptr, &SSL_free}; }

SocketStream::SocketStream(FileDescriptor socket, const TlsContext& context,
                           const std::string& alpn)
    : socket_(std::move(socket)), ssl_(new_session(context, alpn), &SSL_free) {
  take_over();
}

SocketStream SocketStream::to_server(FileDescriptor socket, const TlsContext& context,
                                     const std::string& host) {
  SocketStream stream(std::move(socket));
  stream.ssl_ = {new_client_session(context, host), &SSL_free};
  stream.take_over();
  return stream;
}

void SocketStream::take_over() {
  is_broken_ = !ssl_ || SSL_set_fd(ssl_.get(), fd()) != 1;
  if (is_broken_) return;
  // As `send` is: a part may be written, and the rest be somewhere else when its time comes.
  SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

SocketStream::IoResult SocketStream::broken(std::string why) {
  is_broken_ = true;
  why_ = std::move(why);
  return {Status::broken};
}

SocketStream::IoResult SocketStream::shake_hands() {
  if (is_broken_) return {Status::broken};
  if (!ssl_) return {Status::moved};
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  writing_needs_reading_ = result != 1 && SSL_want(ssl_.get()) == SSL_READING;
  if (result == 1) return {Status::moved};
  const IoResult moved = stop(result);
  return moved.status == Status::ended ? broken("it ended the connection") : moved;
}

SocketStream::IoResult SocketStream::read(char* to, std::size_t most) {
  if (is_broken_) return {Status::broken};
  if (ssl_) {
    ERR_clear_error();
    reading_needs_writing_ = false;
    const int count = SSL_read(ssl_.get(), to, static_cast<int>(most));
    if (count > 0) return {Status::moved, static_cast<std::size_t>(count)};
    const IoResult moved = stop(count);
    reading_needs_writing_ = moved.status == Status::later && SSL_want(ssl_.get()) == SSL_WRITING;
    return moved;
  }
  const ssize_t count = recv(fd(), to, most, 0);
  if (count > 0) return {Status::moved, static_cast<std::size_t>(count)};
  if (count == 0) return {Status::ended};
  if (would_block()) return {Status::later};
  return broken(std::generic_category().message(errno));
}

SocketStream::IoResult SocketStream::write(std::string_view bytes) {
  if (is_broken_ || is_deaf_) return {Status::broken};
  if (ssl_) {
    ERR_clear_error();
    const int count = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    writing_needs_reading_ = count <= 0 && SSL_want(ssl_.get()) == SSL_READING;
    return count > 0 ? IoResult{Status::moved, static_cast<std::size_t>(count)} : stop(count);
  }
  const ssize_t count = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return {Status::moved, static_cast<std::size_t>(count)};
  if (would_block()) return {Status::later};
  // Input that arrived before the peer stopped reading can still be read.
  is_deaf_ = true;
  why_ = std::generic_category().message(errno);
  return {Status::broken};
}

SocketStream::IoResult SocketStream::stop(int result) {
  const int cause = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {Status::later};
    case SSL_ERROR_ZERO_RETURN:
      return {Status::ended};
    case SSL_ERROR_SYSCALL:
      return broken(cause != 0 ? std::generic_category().message(cause)
                               : "the connection ended without a good-bye");
    default:
      // Many clients leave without a good-bye. (A server that does may not have said all.)
      if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING &&
          SSL_is_server(ssl_.get()) == 1 && SSL_is_init_finished(ssl_.get()) == 1) {
        return {Status::ended};
      }
      spoke_plainly_ = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST;
      return broken(tls_failure(ssl_.get(), "the connection was lost"));
  }
}

void SocketStream::say_end() {
  if (ssl_ && !is_broken_ && SSL_is_init_finished(ssl_.get()) == 1) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
  }
  shutdown(fd(), SHUT_WR);
}

// (Only what is decrypted: for the rest of a record the socket has to be waited for.)
bool SocketStream::has_more() const { return ssl_ && SSL_pending(ssl_.get()) > 0; }

std::size_t SocketStream::memory() const { return ssl_ ? session_memory(ssl_.get()) : 0; }

void SocketStream::close() {
  ssl_ = no_ssl();
  socket_.close();
}

}  // namespace weir::net
