// load PORT CONNECTIONS IN_FLIGHT SECONDS MARK FILE [RATE] [sleeps]: sends prepared messages and
// counts answers.
//
// FILE has messages, one after the other, each after its length in four bytes. A connection sends
// IN_FLIGHT of them in one piece and waits for as many answers; MARK is a byte that each answer has
// once. With a RATE (open loop) that many messages are sent a second, independent of the answers,
// and latency counts from the time at which a message was due. By default it never sleeps: waking
// it would cost the server's core, and more the faster the server is. With `sleeps` it does,
// because it shares its core with a busy process. It ends after SECONDS, but not before the first
// answer: a busy machine may need longer, and no answers cannot be compared. If none comes for ten
// seconds more, it fails.
//
// Prints: answers a second, microseconds at the 50th, 99th and 99.9th percentile, and the seconds
// from the first message to the end.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};

struct Messages {
  std::string bytes;
  std::vector<std::size_t> starts;  // and the end

  explicit Messages(const char* path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; at + 4 <= all.size();) {
      std::uint32_t length = 0;
      std::memcpy(&length, all.data() + at, 4);
      starts.push_back(bytes.size());
      bytes.append(all, at + 4, length);
      at += 4 + length;
    }
    starts.push_back(bytes.size());
  }
  std::size_t count() const { return starts.size() - 1; }
};

struct Connection {
  int fd = -1;
  std::size_t next = 0;
  std::size_t waiting_for = 0;
  Clock::time_point due{};
};

int connect_to(const char* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::perror("load: connect");
    std::exit(1);
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

class Load {
 public:
  Load(const Messages& messages, std::size_t in_flight, char mark)
      : messages_(messages), in_flight_(in_flight), mark_(mark) {}

  void send_next(Connection& connection, Clock::time_point due) {
    const std::size_t first = connection.next;
    const std::size_t last = std::min(first + in_flight_, messages_.count());
    const std::size_t start = messages_.starts[first];
    std::size_t left = messages_.starts[last] - start;
    const char* at = messages_.bytes.data() + start;
    while (left > 0) {
      const ssize_t sent = send(connection.fd, at, left, MSG_NOSIGNAL);
      if (sent <= 0) std::exit(1);
      at += sent;
      left -= static_cast<std::size_t>(sent);
    }
    connection.waiting_for += last - first;
    connection.next = last + in_flight_ > messages_.count() ? 0 : last;
    connection.due = due;
  }

  // True if everything that was sent has been answered.
  bool receive(Connection& connection) {
    const ssize_t got = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) {
      std::fprintf(stderr, "load: the connection ended\n");
      std::exit(1);
    }
    const auto answers =
        static_cast<std::size_t>(std::count(buffer_.data(), buffer_.data() + got, mark_));
    answered += answers;
    connection.waiting_for -= std::min(answers, connection.waiting_for);
    return connection.waiting_for == 0;
  }

  void note(const Connection& connection) {
    const auto waited = Clock::now() - connection.due;
    micros.push_back(static_cast<float>(std::chrono::duration<double, std::micro>(waited).count()));
  }

  // True if there is an answer to count, or no hope of one.
  bool may_end(Clock::time_point end) const {
    const auto now = Clock::now();
    if (now < end) return false;
    if (answered == 0 && now >= end + kPatience) {
      std::fprintf(stderr, "load: nobody answers\n");
      std::exit(1);
    }
    return answered > 0;
  }

  std::uint64_t answered = 0;
  std::vector<float> micros;

 private:
  const Messages& messages_;
  const std::size_t in_flight_;
  const char mark_;
  std::vector<char> buffer_ = std::vector<char>(1 << 18);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const auto connection_count = static_cast<std::size_t>(std::atoll(argv[2]));
  const auto in_flight = static_cast<std::size_t>(std::atoll(argv[3]));
  const double seconds = std::atof(argv[4]);
  const bool sleeps = argc > 7 && std::strcmp(argv[argc - 1], "sleeps") == 0;
  const double rate = argc > (sleeps ? 8 : 7) ? std::atof(argv[7]) : 0;
  const Messages messages(argv[6]);
  Load load(messages, in_flight, argv[5][0]);
  const int loop = epoll_create1(0);
  std::vector<Connection> connections(connection_count);
  for (std::size_t i = 0; i < connections.size(); ++i) {
    connections[i].fd = connect_to(argv[1]);
    connections[i].next = messages.count() / connection_count * i;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(loop, EPOLL_CTL_ADD, connections[i].fd, &event);
  }
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::size_t> idle;
  if (rate == 0) {
    for (Connection& connection : connections) load.send_next(connection, start);
  } else {
    for (std::size_t i = 0; i < connections.size(); ++i) idle.push_back(i);
  }
  std::uint64_t sent = 0;
  // The time at which the next message is due.
  const auto next_due = [&] {
    return start + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(static_cast<double>(sent) / rate));
  };
  // The time until there is work to do.
  const auto pause = [&] {
    constexpr Clock::duration longest = std::chrono::milliseconds{10};
    if (!sleeps) return Clock::duration{0};
    if (rate == 0 || idle.empty()) return longest;
    return std::clamp<Clock::duration>(next_due() - Clock::now(), Clock::duration{0}, longest);
  };
  epoll_event events[256];
  while (!load.may_end(end)) {
    if (rate > 0) {
      for (; !idle.empty() && next_due() <= Clock::now(); sent += in_flight) {
        load.send_next(connections[idle.back()], next_due());
        idle.pop_back();
      }
    }
    const timespec longest{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(pause()).count()};
    const int count = epoll_pwait2(loop, events, 256, &longest, nullptr);
    for (int i = 0; i < count; ++i) {
      const std::size_t index = events[i].data.u64;
      Connection& connection = connections[index];
      if (!load.receive(connection)) continue;
      load.note(connection);
      if (rate > 0) {
        idle.push_back(index);
      } else {
        load.send_next(connection, Clock::now());
      }
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::sort(load.micros.begin(), load.micros.end());
  const auto percentile = [&](double share) {
    if (load.micros.empty()) return 0.0F;
    const auto last = static_cast<double>(load.micros.size() - 1);
    return load.micros[static_cast<std::size_t>(share * last)];
  };
  std::printf("%.1f %.1f %.1f %.1f %.6f\n", static_cast<double>(load.answered) / took,
              percentile(0.5), percentile(0.99), percentile(0.999), took);
}
