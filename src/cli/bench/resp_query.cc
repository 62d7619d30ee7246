#include "cli/bench/resp_query.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/bench/message.h"
#include "net/file_descriptor.h"
#include "net/sockets.h"
#include "wire/resp_reply.h"

namespace weir::cli::bench {

namespace {

using wire::RespReplyParser;
using wire::RespValue;

// A blocking connection to the RESP listener.
class BlockingRespClient {
 public:
  explicit BlockingRespClient(const BenchPlan& plan) : plan_(plan) {}

  std::optional<Error> connect(const net::SocketAddress& address) {
    socket_ = net::FileDescriptor(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::int64_t us = std::max<std::int64_t>(plan_.timeout.count() / 1000, 1);
    const timeval timeout{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(socket_.fd(), SOL_SOCKET, option, &timeout, sizeof timeout);
    }
    const auto* where = reinterpret_cast<const sockaddr*>(&address.bytes);
    if (::connect(socket_.fd(), where, address.size) != 0) return failed(errno);
    return std::nullopt;
  }

  Result<std::vector<std::string>, Error> call(const std::string& command) {
    if (send(socket_.fd(), command.data(), command.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(command.size())) {
      return failed(errno);
    }
    std::string in;
    for (;;) {
      const RespReplyParser::Status status = parser_.parse(in);
      if (status == RespReplyParser::Status::reply) return texts();
      if (status == RespReplyParser::Status::error) {
        return Error{
            fmt::format("{} does not answer in RESP ({}): if it is the HTTP listener, write "
                        "http://{}",
                        plan_.target.text(), parser_.error(), plan_.target.text())};
      }
      std::array<char, 4096> piece;
      const ssize_t got = recv(socket_.fd(), piece.data(), piece.size(), 0);
      if (got == 0) return Error{fmt::format("{} closed the connection", plan_.target.text())};
      if (got < 0) return failed(errno);
      in.append(piece.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  Result<std::vector<std::string>, Error> texts() const {
    std::vector<std::string> texts;
    for (const RespValue& value : parser_.values()) {
      if (value.kind == RespValue::Kind::error) {
        return Error{fmt::format("{} says: {}", plan_.target.text(), value.text)};
      }
      if (value.kind == RespValue::Kind::bulk || value.kind == RespValue::Kind::simple) {
        texts.emplace_back(value.text);
      }
    }
    return texts;
  }

  Error failed(int error) const {
    const bool timed_out = error == EAGAIN || error == EINPROGRESS;
    return Error{fmt::format("cannot reach {}: {}: does `weir serve` run there?",
                             plan_.target.text(),
                             timed_out ? "no answer in time" : std::strerror(error))};
  }

  const BenchPlan& plan_;
  net::FileDescriptor socket_;
  RespReplyParser parser_;
};

}  // namespace

Result<std::vector<std::string>, Error> query_resp(const BenchPlan& plan,
                                                   std::initializer_list<std::string_view> words) {
  const auto address = net::resolve(plan.target.host, plan.target.port);
  if (!address) {
    return Error{fmt::format("cannot resolve the address {}: {}", plan.target.text(),
                             address.error().message)};
  }
  BlockingRespClient client(plan);
  if (auto error = client.connect(*address)) return *std::move(error);
  if (!plan.password.empty()) {
    if (auto answer = client.call(resp_command({"AUTH", plan.password})); !answer) return answer;
  }
  return client.call(resp_command(words));
}

}  // namespace weir::cli::bench
