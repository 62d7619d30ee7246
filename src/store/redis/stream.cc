#include "store/redis/stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace weir::store::redis {

namespace {

constexpr const char* kClosed = "the server has closed the connection";

// ---- OpenSSL's own way to a socket would raise SIGPIPE, which is the program's and not ours to
// ---- ignore.

int fd_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int read_socket(BIO* bio, char* to, int most) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = recv(fd_of(bio), to, static_cast<std::size_t>(most), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

int write_socket(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = send(fd_of(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir client");
  BIO_meth_set_read(method, read_socket);
  BIO_meth_set_write(method, write_socket);
  BIO_meth_set_ctrl(method, control_socket);
  return method;
}

BIO* make_bio(int fd) {
  static BIO_METHOD* const method = make_method();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  return bio;
}

std::string tls_reason(const SSL* ssl) {
  if (const long result = SSL_get_verify_result(ssl); result != X509_V_OK) {
    return std::string{"its certificate is not trusted: "} + X509_verify_cert_error_string(result);
  }
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return std::string{"TLS fails: "} + (reason != nullptr ? reason : "it makes no sense");
}

}  // namespace

Stream::Moved Stream::fail(std::string why) {
  why_ = std::move(why);
  return {.status = Status::failed};
}

Stream::Moved Stream::fail_with(int error) {
  if (error == EAGAIN || error == EINTR) return {};
  return fail(std::generic_category().message(error));
}

bool Stream::begin_tls(const net::TlsContext& context, const std::string& host) {
  ssl_ = {net::new_client_session(context, host), &SSL_free};
  BIO* bio = ssl_ ? make_bio(fd()) : nullptr;
  if (bio == nullptr) {
    fail("there is no memory for TLS");
    return false;
  }
  SSL_set_bio(ssl_.get(), bio, bio);
  return true;
}

Stream::Status Stream::shake_hands() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  return result == 1 ? Status::done : after_tls(result).status;
}

Stream::Moved Stream::after_tls(int result) {
  const int system = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  waits_to_write_ = error == SSL_ERROR_WANT_WRITE;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
  const bool verified = SSL_get_verify_result(ssl_.get()) == X509_V_OK;
  if (error == SSL_ERROR_ZERO_RETURN || (ERR_peek_error() == 0 && result == 0))
    return fail(kClosed);
  if (error == SSL_ERROR_SYSCALL && verified) {
    return system != 0 ? fail_with(system) : fail(kClosed);
  }
  return fail(tls_reason(ssl_.get()));
}

bool Stream::is_mistake() const {
  return ssl_ != nullptr && SSL_get_verify_result(ssl_.get()) != X509_V_OK;
}

Stream::Moved Stream::read(std::span<char> room) {
  waits_to_write_ = false;
  if (has_tls()) {
    ERR_clear_error();
    errno = 0;
    const int got = SSL_read(ssl_.get(), room.data(), static_cast<int>(room.size()));
    if (got <= 0) return after_tls(got);
    return {.status = Status::done, .bytes = static_cast<std::size_t>(got)};
  }
  const ssize_t got = recv(fd(), room.data(), room.size(), 0);
  if (got < 0) return fail_with(errno);
  if (got == 0) return fail(kClosed);
  return {.status = Status::done, .bytes = static_cast<std::size_t>(got)};
}

Stream::Moved Stream::write(std::string_view bytes) {
  waits_to_write_ = true;
  if (has_tls()) {
    ERR_clear_error();
    errno = 0;
    std::size_t sent = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
    if (result != 1) return after_tls(result);
    return {.status = Status::done, .bytes = sent};
  }
  const ssize_t sent = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0) return fail_with(errno);
  return {.status = Status::done, .bytes = static_cast<std::size_t>(sent)};
}

}  // namespace weir::store::redis
