#include "support/redis_connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <stdexcept>

namespace weir::test_support {

RedisConnection::RedisConnection(const std::string& socket)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  close(fd_);
  throw std::runtime_error("no connection to " + socket);
}

RedisConnection::~RedisConnection() { close(fd_); }

std::span<const wire::RespValue> RedisConnection::ask(std::string_view command) {
  while (!command.empty()) {
    const ssize_t sent = send(fd_, command.data(), command.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the connection to Redis was cut off");
    command.remove_prefix(static_cast<std::size_t>(sent));
  }
  input_.clear();
  while (true) {
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) throw std::runtime_error("the connection to Redis was cut off");
    input_.append(bytes, static_cast<std::size_t>(got));
    const auto status = parser_.parse(input_);
    if (status == wire::RespReplyParser::Status::reply) return parser_.values();
    if (status == wire::RespReplyParser::Status::error) {
      throw std::runtime_error(std::string(parser_.error()));
    }
  }
}

std::string RedisConnection::say(std::initializer_list<std::string_view> words) {
  store::redis::CommandArguments arguments;
  for (const std::string_view word : words) arguments.text(word);
  const auto values =
      ask("*" + std::to_string(words.size()) + "\r\n" + std::string(arguments.bytes()));
  const auto& value = values[0];
  return value.kind == wire::RespValue::Kind::integer ? std::to_string(value.number)
                                                      : std::string(value.text);
}

void BlockingStore::ask(const store::StoreRequest& question, store::StoreCallback& asker) {
  asker.on_response(ask(question));
}

store::StoreResponse& BlockingStore::ask(const store::StoreRequest& question) {
  using ReplyResult = store::redis::LimitScript::ReplyResult;
  conversation_.start(question, {.now = known_});
  talk([&](bool with_source) { conversation_.append_command(command_, with_source); },
       [&](auto reply) { return conversation_.on_reply(reply, answer_) == ReplyResult::again; });
  known_ = answer_.now;
  return answer_;
}

void BlockingStore::request_lease(const store::LeaseRequest& question,
                                  store::LeaseCallback& borrower) {
  borrower.on_lease(request_lease(question));
}

store::LeaseResponse& BlockingStore::request_lease(const store::LeaseRequest& question) {
  using ReplyResult = store::redis::RedisCall::ReplyResult;
  loan_ = {};
  if (!loan_talk_.start(question, {.now = known_}, loan_)) return loan_;
  talk([&](bool with_source) { loan_talk_.append_command(command_, with_source); },
       [&](auto reply) { return loan_talk_.on_reply(reply, loan_) == ReplyResult::again; });
  known_ = loan_.now;
  return loan_;
}

template <typename Say, typename Hear>
void BlockingStore::talk(Say say, Hear hear) {
  bool with_source = false;
  while (true) {
    command_.clear();
    say(with_source);
    ++commands_;
    const auto reply = connection_.ask(command_);
    if (!with_source && reply[0].text.starts_with("NOSCRIPT")) {
      with_source = true;
      continue;
    }
    with_source = false;
    if (!hear(reply)) return;
  }
}

}  // namespace weir::test_support
