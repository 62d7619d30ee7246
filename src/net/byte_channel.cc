#include "net/byte_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "base/scratch_buffer.h"

namespace weir::net {

namespace {

// Buffers with a larger capacity than this are freed, not kept for the next output.
constexpr std::size_t kMaxKeptBuffer = 16 << 10;

// Reads per event, before other connections have their turn.
constexpr int kMaxReadsPerEvent = 4;

SocketStream open_stream(const SocketAddress& to, const TlsContext& context,
                         const std::string& host, int& error) {
  FileDescriptor socket = start_connecting(to, error);
  if (!socket.is_open() || context == nullptr) return SocketStream(std::move(socket));
  return SocketStream::to_server(std::move(socket), context, host);
}

}  // namespace

ByteChannel::ByteChannel(LoopContext& ground, SocketStream stream, ChannelOwner& owner)
    : ground_(ground), stream_(std::move(stream)), owner_(&owner) {
  if (!ground_.poller.try_add(stream_.fd(), interest_, *this)) close();
  count_memory();
}

ByteChannel::ByteChannel(LoopContext& ground, const SocketAddress& to, const TlsContext& context,
                         const std::string& host, ChannelOwner& owner)
    : ground_(ground), stream_(FileDescriptor()), owner_(&owner), connecting_(true) {
  int error = 0;
  stream_ = open_stream(to, context, host, error);
  if (!stream_.is_open()) return;
  interest_ = Interest::write;
  if (!ground_.poller.try_add(stream_.fd(), interest_, *this)) close();
  count_memory();
}

ByteChannel::~ByteChannel() { close(); }

void ByteChannel::close() noexcept {
  ground_.memory.forget(*this);
  if (stream_.is_open()) stream_.close();
}

void ByteChannel::on_out_of_memory() noexcept {
  ground_.memory.note_out_of_memory();
  if (is_open()) owner_->on_out_of_memory();
}

void ByteChannel::count_memory() {
  if (!is_open()) return;
  ground_.memory.count(*this, unsent_.capacity() + owner_memory_ + stream_.memory());
}

void ByteChannel::abort() noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (is_open()) setsockopt(stream_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

Interest ByteChannel::wanted() const {
  // While TLS waits for bytes of the peer, EPOLLOUT would be reported again and again.
  const bool listens = stream_.writing_needs_reading();
  if (connecting_) return listens ? Interest::read : Interest::write;
  // Bytes that OpenSSL has buffered cause no EPOLLIN. EPOLLOUT stands in: a socket is almost always
  // writable.
  const bool writes = (unsent() > 0 && !listens) || failed_ || stream_.reading_needs_writing() ||
                      (wants_input_ && stream_.has_more());
  const bool reads = (wants_input_ && !told_end_) || (unsent() > 0 && listens);
  if (reads) return writes ? Interest::both : Interest::read;
  if (writes) return Interest::write;
  return told_end_ ? Interest::none : Interest::hangup;
}

// A pause in reading alone does not change the epoll registration: mostly nothing arrives before
// reading resumes. `look` handles input that does.
void ByteChannel::watch() {
  if (!is_open()) return;
  const Interest wants = wanted();
  if (unwatched_) {
    if (wants == Interest::hangup) return;
    unwatched_ = false;
    interest_ = wants;
    return ground_.poller.add(stream_.fd(), interest_, *this);
  }
  if (wants == interest_ || (wants == Interest::hangup && interest_ == Interest::read)) return;
  interest_ = wants;
  ground_.poller.change(stream_.fd(), interest_, *this);
}

void ByteChannel::on_ready() {
  if (!is_open()) return;
  serve();
  count_memory();
}

void ByteChannel::serve() {
  if (connecting_) return connect();
  if (unsent() > 0 && !failed_) send_on();
  if (!is_open()) return;
  if (failed_) return read_after_failed_send();
  if (wants_input_ && !told_end_) {
    read();
  } else if (unsent() == 0) {
    look();
  }
  watch();
}

// The connection is established after the TLS handshake: no byte of a message is sent before.
void ByteChannel::connect() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(stream_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  const auto status = error == 0 ? stream_.shake_hands().status : SocketStream::Status::broken;
  if (status == SocketStream::Status::later) return watch();
  connecting_ = false;
  if (error != 0) return fail(std::generic_category().message(error));
  if (status != SocketStream::Status::moved) return fail(stream_.why());
  watch();
  owner_->on_connected();
}

void ByteChannel::want_input(bool wanted) {
  if (wants_input_ == wanted) return;
  wants_input_ = wanted;
  watch();
}

void ByteChannel::read() {
  for (int i = 0; i < kMaxReadsPerEvent && is_open() && wants_input_; ++i) {
    const SocketStream::IoResult result = stream_.read(ground_.input.data(), ground_.input.size());
    if (result.status == SocketStream::Status::later) break;
    if (result.status == SocketStream::Status::moved) {
      owner_->on_input({ground_.input.data(), result.count});
      // A short read has emptied the socket.
      if (!stream_.has_tls() && result.count < ground_.input.size()) break;
      continue;
    }
    told_end_ = true;
    if (result.status == SocketStream::Status::ended) return owner_->on_eof();
    return fail(stream_.why());
  }
}

// Sending has failed. The peer may have sent the reason before: a server that refuses a request
// body responds and closes without reading the rest.
void ByteChannel::read_after_failed_send() {
  if (!delivers_all_input_ || told_end_) return fail(stream_.why());
  if (wants_input_) read();
  if (is_open() && !wants_input_ && !unwatched_) stop_watching();
}

// EPOLLHUP cannot be masked: it would be reported again and again.
void ByteChannel::stop_watching() {
  unwatched_ = true;
  ground_.poller.remove(stream_.fd());
}

// An event while reading is paused: the end of input, or input that stays in the socket.
void ByteChannel::look() {
  char byte = 0;
  const ssize_t count = recv(stream_.fd(), &byte, 1, MSG_PEEK);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (count > 0 && interest_ != Interest::hangup) {
    interest_ = Interest::hangup;
    return ground_.poller.change(stream_.fd(), interest_, *this);
  }
  if (count > 0 && delivers_all_input_) return stop_watching();
  if (count < 0) return fail(std::generic_category().message(errno));
  if (told_end_) return;
  // Also with unread input before it: a peer that has hung up does not wait for responses.
  told_end_ = true;
  owner_->on_eof();
}

void ByteChannel::send(std::string_view bytes) {
  if (!is_open() || finishes_ || failed_) return;
  while (unsent() == 0 && !connecting_ && !bytes.empty()) {
    const SocketStream::IoResult result = stream_.write(bytes);
    if (result.status == SocketStream::Status::later) break;
    if (result.status != SocketStream::Status::moved) {
      failed_ = true;
      return watch();
    }
    bytes.remove_prefix(result.count);
  }
  if (bytes.empty()) return;
  unsent_.append(bytes);
  count_memory();
  watch();
}

void ByteChannel::send_on() {
  while (unsent() > 0) {
    const SocketStream::IoResult result = stream_.write(std::string_view(unsent_).substr(sent_));
    if (result.status == SocketStream::Status::later) {
      if (sent_ > kMaxKeptBuffer) unsent_.erase(0, std::exchange(sent_, 0));
      return;
    }
    if (result.status != SocketStream::Status::moved) {
      failed_ = true;
      break;
    }
    sent_ += result.count;
  }
  sent_ = 0;
  clear_scratch_buffer(unsent_, kMaxKeptBuffer);
  count_memory();
  if (failed_) return;
  if (finishes_ && !finished_) {
    finished_ = true;
    stream_.say_end();
  }
  owner_->on_sent();
}

void ByteChannel::finish() {
  if (!is_open() || finishes_) return;
  finishes_ = true;
  if (unsent() > 0 || connecting_ || failed_) return;
  finished_ = true;
  stream_.say_end();
}

void ByteChannel::fail(std::string_view why) {
  const std::string reason(why);
  owner_->on_error(reason);
}

}  // namespace weir::net
