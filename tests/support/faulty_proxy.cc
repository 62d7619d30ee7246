#include "support/faulty_proxy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <stdexcept>

#include "wire/resp_reply.h"

namespace weir::test_support {

namespace {

net::FileDescriptor listen_on(const std::string& path) {
  net::FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.fd(), 16) != 0) {
    throw std::runtime_error("no socket at " + path);
  }
  return listener;
}

bool runs_a_script(std::string_view command) {
  return command.find("EVAL") < command.find('\n', command.find('$') + 16);
}

}  // namespace

FaultyProxy::FaultyProxy(const std::string& server)
    : socket_(folder_ / "proxy"),
      server_(server),
      listener_(listen_on(socket_)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { run(); }) {}

FaultyProxy::~FaultyProxy() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

void FaultyProxy::plan(const std::vector<Fault>& faults) {
  const std::lock_guard lock(mutex_);
  planned_.assign(faults.begin(), faults.end());
}

void FaultyProxy::rewrite_held(Rewrite rewrite) {
  const std::lock_guard lock(mutex_);
  rewrite_ = std::move(rewrite);
}

void FaultyProxy::release() {
  std::unique_lock lock(mutex_);
  wants_release_ = true;
  eventfd_write(wake_.fd(), 1);
  released_.wait(lock, [this] { return !wants_release_; });
}

void FaultyProxy::run() {
  while (true) {
    std::array<pollfd, 3> ready{pollfd{wake_.fd(), POLLIN, 0}, pollfd{listener_.fd(), POLLIN, 0},
                                pollfd{client_.fd(), POLLIN, 0}};
    poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) {
      eventfd_t count = 0;
      eventfd_read(wake_.fd(), &count);
      const std::lock_guard lock(mutex_);
      if (ends_) return;
    }
    if (ready[2].revents != 0) read_client();
    if (ready[1].revents != 0) accept_client();
    finish_release();
  }
}

void FaultyProxy::accept_client() {
  drop_client();
  client_ = net::FileDescriptor(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

// Commands that were held run on release, as the remaining bytes of a connection might.
void FaultyProxy::drop_client() {
  client_.close();
  input_.clear();
  held_reply_.clear();
  if (!held_command_.empty()) orphaned_commands_.push_back(std::exchange(held_command_, {}));
  is_silent_ = false;
}

void FaultyProxy::read_client() {
  std::array<char, 1 << 16> bytes;
  const ssize_t got = recv(client_.fd(), bytes.data(), bytes.size(), 0);
  if (got <= 0) return drop_client();
  input_.append(bytes.data(), static_cast<std::size_t>(got));
  wire::RespReplyParser parser;
  while (client_.is_open() && parser.parse(input_) == wire::RespReplyParser::Status::reply) {
    const std::string command = input_.substr(0, parser.consumed());
    input_.erase(0, parser.consumed());
    if (!is_silent_) on_command(command);
  }
}

Fault FaultyProxy::next_fault(std::string_view command) {
  const std::lock_guard lock(mutex_);
  if (!runs_a_script(command) || planned_.empty()) return Fault::none;
  const Fault fault = planned_.front();
  planned_.pop_front();
  return fault;
}

void FaultyProxy::on_command(const std::string& command) {
  {
    const std::lock_guard lock(mutex_);
    let_go();
  }
  if (!client_.is_open()) return;
  switch (next_fault(command)) {
    case Fault::none:
      return answer(reply_to(command));
    case Fault::late_reply:
      held_reply_ = reply_to(command);
      return;
    case Fault::late_command:
      held_command_ = command;
      return;
    case Fault::cut_before:
      return drop_client();
    case Fault::cut_after:
      reply_to(command);
      return drop_client();
    case Fault::cut_and_late:
      orphaned_commands_.push_back(command);
      return drop_client();
    case Fault::twice:
      reply_to(command);
      return answer(reply_to(command));
    case Fault::silence_running:
      reply_to(command);
      [[fallthrough]];
    case Fault::silence:
      is_silent_ = true;
      return;
  }
}

std::string FaultyProxy::reply_to(const std::string& command) {
  server_.ask(command);
  return std::string(server_.input());
}

void FaultyProxy::answer(std::string_view reply) {
  while (!reply.empty()) {
    const ssize_t sent = send(client_.fd(), reply.data(), reply.size(), MSG_NOSIGNAL);
    if (sent <= 0) return drop_client();
    reply.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string FaultyProxy::reply_to_held(const std::string& command) {
  return reply_to(rewrite_ ? rewrite_(command) : command);
}

// For the current connection: its replies come in order. (Under the lock.)
void FaultyProxy::let_go() {
  if (!held_reply_.empty()) answer(std::exchange(held_reply_, {}));
  if (!held_command_.empty()) answer(reply_to_held(std::exchange(held_command_, {})));
}

void FaultyProxy::finish_release() {
  const std::lock_guard lock(mutex_);
  if (!wants_release_) return;
  let_go();
  for (const std::string& command : std::exchange(orphaned_commands_, {})) reply_to_held(command);
  wants_release_ = false;
  released_.notify_all();
}

}  // namespace weir::test_support
