#include "cli/bench/bench_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::cli::bench {

namespace {

// Larger than any reply of the daemon: a reply that does not fit is a protocol error.
constexpr std::size_t kInputBytes = 64 << 10;
static_assert(kInputBytes > wire::RespReplyLimits::kBytes);
static_assert(kInputBytes > wire::HttpReplyLimits::kHeadBytes + wire::HttpReplyLimits::kBodyBytes);

}  // namespace

BenchConnection::BenchConnection(const BenchPlan& plan, const Messages& messages,
                                 LoadGenerator& load)
    : pipeline_(plan.pipeline), messages_(messages), load_(load), reader_(plan), in_(kInputBytes) {}

int BenchConnection::open(const net::SocketAddress& address, Nanos now) {
  close();
  socket_ = net::FileDescriptor(
      socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) return errno;
  const int on = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.bytes);
  if (connect(fd(), where, address.size) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    close();
    return error;
  }
  if (!messages_.login().empty()) {
    in_flight_.push_back(
        {.start = now, .sent = now, .verb = RequestVerb::login, .measured = false});
    out_ += messages_.login();
  }
  return 0;
}

void BenchConnection::close() {
  socket_.close();
  out_.clear();
  written_ = 0;
  in_size_ = 0;
  in_flight_.clear();
  closing_ = false;
  answered_ = false;
}

void BenchConnection::add(const BenchRequest& request) {
  in_flight_.push_back(request);
  messages_.append(out_, request.verb, request.key);
}

BenchConnection::ConnectionError BenchConnection::failure(int error) const {
  const bool never =
      error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return {.kind = never ? "connect" : "closed", .text = std::strerror(error)};
}

BenchConnection::ConnectionError BenchConnection::write() {
  while (wants_to_write()) {
    const ssize_t sent = send(fd(), out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // ENOTCONN: the connect is not complete yet.
      if (errno == EAGAIN || errno == ENOTCONN) return {};
      return failure(errno);
    }
    load_.tally().bytes_sent += static_cast<std::uint64_t>(sent);
    written_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  written_ = 0;
  return {};
}

BenchConnection::ConnectionError BenchConnection::read(Nanos now) {
  const ssize_t got = recv(fd(), in_.data() + in_size_, in_.size() - in_size_, 0);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return failure(errno);
  }
  if (got == 0) {
    if (closing_ && idle()) return {};
    return {.kind = "closed", .text = "the daemon closed the connection"};
  }
  load_.tally().bytes_received += static_cast<std::uint64_t>(got);
  in_size_ += static_cast<std::size_t>(got);
  return read_answers(now);
}

BenchConnection::ConnectionError BenchConnection::read_answers(Nanos now) {
  using ReadStatus = BenchReplyReader::ReadStatus;
  std::size_t used = 0;
  ConnectionError problem;
  while (used < in_size_ && !problem) {
    if (idle()) {
      problem = {.kind = "protocol", .text = "a reply without a request"};
      break;
    }
    const BenchRequest& request = in_flight_.front();
    const std::string_view rest(in_.data() + used, in_size_ - used);
    const ReadStatus status = reader_.read(rest, request.verb);
    if (status == ReadStatus::broken) {
      problem = {.kind = "protocol", .text = std::string{reader_.error()}};
    }
    if (status != ReadStatus::reply) break;
    used += reader_.consumed();
    answered_ = true;
    closing_ = closing_ || reader_.closes();
    load_.answered(request, reader_.answer(), now);
    in_flight_.pop_front();
  }
  std::copy(in_.begin() + static_cast<std::ptrdiff_t>(used),
            in_.begin() + static_cast<std::ptrdiff_t>(in_size_), in_.begin());
  in_size_ -= used;
  return problem;
}

}  // namespace weir::cli::bench
