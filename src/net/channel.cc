#include "net/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "base/reuse.h"

namespace weir::net {

namespace {

// Memory that is not kept for a connection to use again.
constexpr std::size_t kMuch = 16 << 10;

// One read for each time that others had their turn, or so.
constexpr int kReadsInARow = 4;

Stream open_stream(const Address& to, const TlsContext& context, const std::string& host,
                   int& error) {
  Descriptor socket = start_connecting(to, error);
  if (!socket.is_open() || context == nullptr) return Stream(std::move(socket));
  return Stream::to_server(std::move(socket), context, host);
}

}  // namespace

Channel::Channel(Ground& ground, Stream stream, ChannelOwner& owner)
    : ground_(ground), stream_(std::move(stream)), owner_(&owner) {
  if (!ground_.poller.try_add(stream_.fd(), interest_, *this)) close();
  count_memory();
}

Channel::Channel(Ground& ground, const Address& to, const TlsContext& context,
                 const std::string& host, ChannelOwner& owner)
    : ground_(ground), stream_(Descriptor()), owner_(&owner), connecting_(true) {
  int error = 0;
  stream_ = open_stream(to, context, host, error);
  if (!stream_.is_open()) return;
  interest_ = Interest::write;
  if (!ground_.poller.try_add(stream_.fd(), interest_, *this)) close();
  count_memory();
}

Channel::~Channel() { close(); }

void Channel::close() noexcept {
  ground_.memory.forget(*this);
  if (stream_.is_open()) stream_.close();
}

void Channel::on_out_of_memory() noexcept {
  ground_.memory.note_out_of_memory();
  if (is_open()) owner_->on_out_of_memory();
}

void Channel::count_memory() {
  if (!is_open()) return;
  ground_.memory.count(*this, unsent_.capacity() + owner_memory_ + stream_.memory());
}

void Channel::abort() noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (is_open()) setsockopt(stream_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

Interest Channel::wanted() const {
  // (Who waits for a word of the peer would be told again and again that there is room for its
  // own.)
  const bool listens = stream_.writing_needs_reading();
  if (connecting_) return listens ? Interest::read : Interest::write;
  // What TLS has in its own memory is not announced by the system: but it always has room.
  const bool writes = (unsent() > 0 && !listens) || failed_ || stream_.reading_needs_writing() ||
                      (wants_input_ && stream_.has_more());
  const bool reads = (wants_input_ && !told_end_) || (unsent() > 0 && listens);
  if (reads) return writes ? Interest::both : Interest::read;
  if (writes) return Interest::write;
  return told_end_ ? Interest::none : Interest::gone;
}

// (Who wants no input for a moment is not worth a word to the system: mostly nothing comes before
// it does again. `look` is for those to whom something comes.)
void Channel::watch() {
  if (!is_open()) return;
  const Interest wants = wanted();
  if (unwatched_) {
    if (wants == Interest::gone) return;
    unwatched_ = false;
    interest_ = wants;
    return ground_.poller.add(stream_.fd(), interest_, *this);
  }
  if (wants == interest_ || (wants == Interest::gone && interest_ == Interest::read)) return;
  interest_ = wants;
  ground_.poller.change(stream_.fd(), interest_, *this);
}

void Channel::on_ready() {
  if (!is_open()) return;
  serve();
  count_memory();
}

void Channel::serve() {
  if (connecting_) return connect();
  if (unsent() > 0 && !failed_) send_on();
  if (!is_open()) return;
  if (failed_) return hear_last_words();
  if (wants_input_ && !told_end_) {
    read();
  } else if (unsent() == 0) {
    look();
  }
  watch();
}

// It stands when both have shaken hands: before that nothing of a message has been sent.
void Channel::connect() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(stream_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  const auto status = error == 0 ? stream_.shake_hands().status : Stream::Status::broken;
  if (status == Stream::Status::later) return watch();
  connecting_ = false;
  if (error != 0) return fail(std::generic_category().message(error));
  if (status != Stream::Status::moved) return fail(stream_.why());
  watch();
  owner_->on_connected();
}

void Channel::want_input(bool wanted) {
  if (wants_input_ == wanted) return;
  wants_input_ = wanted;
  watch();
}

void Channel::read() {
  for (int i = 0; i < kReadsInARow && is_open() && wants_input_; ++i) {
    const Stream::Moved moved = stream_.read(ground_.input.data(), ground_.input.size());
    if (moved.status == Stream::Status::later) break;
    if (moved.status == Stream::Status::moved) {
      owner_->on_input({ground_.input.data(), moved.count});
      // Less than there was room for is all that there is.
      if (!stream_.has_tls() && moved.count < ground_.input.size()) break;
      continue;
    }
    told_end_ = true;
    if (moved.status == Stream::Status::ended) return owner_->on_end();
    return fail(stream_.why());
  }
}

// The peer takes nothing any more. It may have said why: a server that refuses a body does not wait
// for the rest of it.
void Channel::hear_last_words() {
  if (!hears_out_ || told_end_) return fail(stream_.why());
  if (wants_input_) read();
  if (is_open() && !wants_input_ && !unwatched_) stop_watching();
}

// (The system would tell again and again that the peer has gone.)
void Channel::stop_watching() {
  unwatched_ = true;
  ground_.poller.remove(stream_.fd());
}

// Something has come that nobody wants: the end, or input that stays where it is.
void Channel::look() {
  char byte = 0;
  const ssize_t count = recv(stream_.fd(), &byte, 1, MSG_PEEK);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (count > 0 && interest_ != Interest::gone) {
    interest_ = Interest::gone;
    return ground_.poller.change(stream_.fd(), interest_, *this);
  }
  if (count > 0 && hears_out_) return stop_watching();
  if (count < 0) return fail(std::generic_category().message(errno));
  if (told_end_) return;
  // With input in front of it, too: whoever has gone does not wait for answers.
  told_end_ = true;
  owner_->on_end();
}

void Channel::send(std::string_view bytes) {
  if (!is_open() || finishes_ || failed_) return;
  while (unsent() == 0 && !connecting_ && !bytes.empty()) {
    const Stream::Moved moved = stream_.write(bytes);
    if (moved.status == Stream::Status::later) break;
    if (moved.status != Stream::Status::moved) {
      failed_ = true;
      return watch();
    }
    bytes.remove_prefix(moved.count);
  }
  if (bytes.empty()) return;
  unsent_.append(bytes);
  count_memory();
  watch();
}

void Channel::send_on() {
  while (unsent() > 0) {
    const Stream::Moved moved = stream_.write(std::string_view(unsent_).substr(sent_));
    if (moved.status == Stream::Status::later) {
      if (sent_ > kMuch) unsent_.erase(0, std::exchange(sent_, 0));
      return;
    }
    if (moved.status != Stream::Status::moved) {
      failed_ = true;
      break;
    }
    sent_ += moved.count;
  }
  sent_ = 0;
  clear_for_reuse(unsent_, kMuch);
  count_memory();
  if (failed_) return;
  if (finishes_ && !finished_) {
    finished_ = true;
    stream_.say_end();
  }
  owner_->on_sent();
}

void Channel::finish() {
  if (!is_open() || finishes_) return;
  finishes_ = true;
  if (unsent() > 0 || connecting_ || failed_) return;
  finished_ = true;
  stream_.say_end();
}

void Channel::fail(std::string_view why) {
  const std::string reason(why);
  owner_->on_broken(reason);
}

}  // namespace weir::net
