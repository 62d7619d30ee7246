// bare_server resp|http PORT: the ceiling. One epoll loop that parses commands, checks nothing, and
// answers a constant.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kRespAnswer =
    "*8\r\n:1\r\n:1000\r\n:999\r\n:0\r\n:1000\r\n:0\r\n$1\r\n0\r\n:0\r\n";
constexpr std::string_view kHttpAnswer =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 132\r\n\r\n"
    "{\"allowed\":true,\"limit\":1000,\"remaining\":999,\"retry_after_ms\":0,\"reset_after_ms\":"
    "1000,"
    "\"wait_ms\":0,\"limited_by\":\"0\",\"degraded\":false}";
// (A proxy closes a connection that received more than was announced.)
static_assert(kHttpAnswer.size() - kHttpAnswer.find('{') == 132);

// The length of the first message; 0 if it is not complete.
std::size_t resp_message(std::string_view input) {
  const auto number = [&](std::size_t& at) {
    std::size_t value = 0;
    const char* const start = input.data() + at;
    const auto [end, error] = std::from_chars(start, input.data() + input.size(), value);
    at += static_cast<std::size_t>(end - start) + 2;
    return at <= input.size() && error == std::errc{} ? value : std::size_t(-1);
  };
  std::size_t at = 1;
  const std::size_t count = input.empty() ? std::size_t(-1) : number(at);
  if (count == std::size_t(-1)) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (++at >= input.size()) return 0;
    const std::size_t length = number(at);
    if (length == std::size_t(-1)) return 0;
    at += length + 2;
    if (at > input.size()) return 0;
  }
  return at;
}

// Results are written here, so that the compiler cannot remove the search.
struct Found {
  std::string_view path, policy, key;
};
volatile std::size_t seen = 0;

std::string_view text_of(std::string_view body, std::string_view name) {
  const std::size_t at = body.find(name);
  if (at == std::string_view::npos) return {};
  const std::size_t start = at + name.size();
  return body.substr(start, body.find('"', start) - start);
}

// Line by line, name by value, and the two texts of the body.
std::size_t http_message(std::string_view input) {
  Found found;
  std::size_t length = 0;
  std::size_t at = 0;
  for (bool first = true;; first = false) {
    const std::size_t end = input.find('\n', at);
    if (end == std::string_view::npos) return 0;
    const std::string_view line = input.substr(at, end - at);
    at = end + 1;
    if (line.size() <= 1) break;
    if (first) {
      const std::size_t space = line.find(' ') + 1;
      found.path = line.substr(space, line.find(' ', space) - space);
      continue;
    }
    const std::size_t colon = line.find(':');
    if (line.substr(0, colon) == "Content-Length") {
      std::from_chars(line.data() + colon + 2, line.data() + line.size(), length);
    }
  }
  if (at + length > input.size()) return 0;
  const std::string_view body = input.substr(at, length);
  found.policy = text_of(body, "\"policy\":\"");
  found.key = text_of(body, "\"key\":\"");
  seen = found.path.size() + found.policy.size() + found.key.size();
  return at + length;
}

struct Connection {
  std::string input;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool resp = std::string_view(argv[1]) == "resp";
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[2])));
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
  listen(listener, 1024);
  const int loop = epoll_create1(0);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener}};
  epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
  std::vector<Connection> connections(4096);
  std::vector<char> buffer(65536);
  std::string out;
  epoll_event events[64];
  for (;;) {
    const int count = epoll_wait(loop, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        const int peer = accept(listener, nullptr, nullptr);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_event fresh{.events = EPOLLIN, .data = {.fd = peer}};
        epoll_ctl(loop, EPOLL_CTL_ADD, peer, &fresh);
        connections[static_cast<std::size_t>(peer)].input.clear();
        continue;
      }
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        close(fd);
        continue;
      }
      std::string& kept = connections[static_cast<std::size_t>(fd)].input;
      std::string_view input(buffer.data(), static_cast<std::size_t>(got));
      if (!kept.empty()) input = kept.append(input);
      std::size_t used = 0;
      out.clear();
      for (;;) {
        const std::string_view rest = input.substr(used);
        const std::size_t length = resp ? resp_message(rest) : http_message(rest);
        if (length == 0) break;
        used += length;
        out += resp ? kRespAnswer : kHttpAnswer;
      }
      kept = std::string(input.substr(used));
      if (!out.empty() && send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) close(fd);
    }
  }
}
