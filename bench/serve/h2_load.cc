// h2_load PORT CONNECTIONS IN_FLIGHT SECONDS FILE: sends gRPC calls as prepared bytes, and counts
// the answers.
//
// FILE has messages, each after its length in four bytes. Each becomes a call of ShouldRateLimit;
// only the stream identifiers are written during the run. A connection has IN_FLIGHT calls open and
// starts as many as have been answered. An answer counts when it has one message and trailers with
// grpc-status 0; anything else ends the program. A header block that does not change the HPACK
// table and equals a checked one is not decoded again: this program must cost less than the fastest
// server. It never sleeps, see load.cc. Prints: answers a second, the number of refusals among
// them, and the seconds it took.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
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
#include <string_view>
#include <vector>

#include "grpc_answer.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHead = 9;  // of a frame
enum Type : std::uint8_t { data = 0, headers = 1, settings = 4, ping = 6, goaway = 7, window = 8 };
enum Flag : std::uint8_t { ack = 1, end_stream = 1, end_headers = 4 };

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "h2_load: %s\n", why);
  std::exit(1);
}

std::string number(std::uint32_t value) {
  const std::uint32_t bytes = htonl(value);
  return {reinterpret_cast<const char*>(&bytes), 4};
}

std::string frame(Type type, int flags, std::uint32_t stream, std::string_view payload) {
  std::string text = number(static_cast<std::uint32_t>(payload.size())).substr(1);
  text += static_cast<char>(type);
  text += static_cast<char>(flags);
  return text.append(number(stream)).append(payload);
}

std::uint32_t number_at(const char* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, 4);
  return ntohl(value);
}

// The HPACK header of a call: in full for the first, which the server adds to its dynamic table,
// and one byte for each field from then on.
struct Head {
  std::string first{"\x83\x86", 2};  // :method POST, :scheme http
  std::string later = first;

  Head() {
    remember("\x44", {}, kMethod);  // :path
    remember("\x41", {}, "127.0.0.1");
    remember("\x5f", {}, "application/grpc");
    remember("\x40", "te", "trailers");
    remember("\x7a", {}, "h2_load");  // user-agent
    remember("\x40", "grpc-timeout", "20S");
    // The last indexed field has number 62.
    for (int index = 61 + remembered_; index > 61; --index) {
      later += static_cast<char>(0x80 | index);
    }
  }

 private:
  void remember(std::string_view start, std::string_view name, std::string_view value) {
    first += start;
    if (!name.empty()) text(name);
    text(value);
    ++remembered_;
  }
  void text(std::string_view content) {
    first += static_cast<char>(content.size());
    first += content;
  }
  int remembered_ = 0;
};

struct Calls {
  std::string bytes;
  std::vector<std::size_t> starts;  // and the end
  std::size_t head_size;

  Calls(const char* path, const Head& head) : head_size(kHead + head.later.size()) {
    std::ifstream file(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; at + 4 <= all.size();) {
      std::uint32_t length = 0;
      std::memcpy(&length, all.data() + at, 4);
      starts.push_back(bytes.size());
      bytes += frame(headers, end_headers, 0, head.later);
      bytes += frame(data, end_stream, 0, '\0' + number(length) + all.substr(at + 4, length));
      at += 4 + length;
    }
    starts.push_back(bytes.size());
    if (count() == 0) fail("no messages");
  }
  std::size_t count() const { return starts.size() - 1; }
};

// The checked header blocks of one connection.
class Fields {
 public:
  Fields() { nghttp2_hd_inflate_new(&inflater_); }

  // True if the block has the expected fields.
  bool good(std::string_view block, bool trailers) {
    std::string& known = trailers ? trailers_ : head_;
    if (block == known) return true;
    const bool fine = inflate(block, trailers);
    // A block of indexed fields only leaves the dynamic table unchanged. Any other block may change
    // it, and with it the meaning of the cached blocks.
    const bool changes_nothing = std::all_of(block.begin(), block.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0x80) != 0;
    });
    if (!changes_nothing) {
      head_.clear();
      trailers_.clear();
    } else if (fine) {
      known = block;
    }
    return fine;
  }

 private:
  bool inflate(std::string_view block, bool trailers) {
    const std::string_view name = trailers ? "grpc-status" : ":status";
    const std::string_view value = trailers ? "0" : "200";
    bool found = false;
    auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    const auto* const end = at + block.size();
    for (;;) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at,
                                                  static_cast<std::size_t>(end - at), 1);
      if (used < 0) fail("a header block that cannot be read");
      at += used;
      const auto text = [](const std::uint8_t* bytes, std::size_t size) {
        return std::string_view(reinterpret_cast<const char*>(bytes), size);
      };
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && text(field.name, field.namelen) == name) {
        found = text(field.value, field.valuelen) == value;
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return found;
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string head_, trailers_;
};

class Connection {
 public:
  Connection(const char* port, const Calls& calls, const Head& head, std::size_t first)
      : calls_(calls), head_(head), next_(first) {
    fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      fail("cannot connect");
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, 0, 0, "") +
        frame(window, 0, 0, number(kPlenty)));
  }

  // Sends as many calls as allowed. Bytes beyond the server's window wait for it.
  void start(std::size_t count) {
    due_ += count;
    out_.clear();
    for (; due_ > 0; --due_) {
      const std::size_t begin = calls_.starts[next_];
      const std::size_t size = calls_.starts[next_ + 1] - begin;
      const auto body = static_cast<std::int64_t>(size - calls_.head_size - kHead);
      if (body > send_window_) break;
      send_window_ -= body;
      if (stream_ == 1) out_ += frame(headers, end_headers, 1, head_.first);
      const std::size_t skipped = stream_ == 1 ? calls_.head_size : 0;
      out_.append(calls_.bytes, begin + skipped, size - skipped);
      const std::uint32_t id = htonl(stream_);
      const std::size_t data_at = out_.size() - (size - calls_.head_size);
      std::memcpy(out_.data() + data_at + 5, &id, 4);
      if (skipped == 0) std::memcpy(out_.data() + data_at - calls_.head_size + 5, &id, 4);
      stream_ += 2;
      if (stream_ > 0x7fffffff) fail("no numbers left for streams");
      next_ = next_ + 1 == calls_.count() ? 0 : next_ + 1;
    }
    if (!out_.empty()) say(out_);
  }

  // The number of answered calls.
  std::size_t receive() {
    const std::size_t kept = in_.size();
    in_.resize(kept + kBuffer);
    const ssize_t got = recv(fd, in_.data() + kept, kBuffer, 0);
    if (got <= 0) fail("the connection ended");
    in_.resize(kept + static_cast<std::size_t>(got));
    std::size_t answers = 0;
    std::size_t at = 0;
    for (;;) {
      if (in_.size() - at < kHead) break;
      const std::size_t size = number_at(in_.data() + at) >> 8;
      if (in_.size() - at < kHead + size) break;
      answers += hear(in_.data() + at, std::string_view(in_).substr(at + kHead, size));
      at += kHead + size;
    }
    in_.erase(0, at);
    return answers;
  }

  int fd = -1;
  std::uint64_t refused = 0;

 private:
  static constexpr std::uint32_t kPlenty = 0x7fff0000 - 65535;
  static constexpr std::size_t kBuffer = 1 << 16;

  void say(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) fail("cannot send");
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // 1 if this frame ends an answer.
  std::size_t hear(const char* head, std::string_view payload) {
    const auto flags = static_cast<std::uint8_t>(head[4]);
    switch (static_cast<std::uint8_t>(head[3])) {
      case data:
        if (payload.size() < 7 || (flags & end_stream) != 0) fail("data that are no message");
        ++messages_;
        refused += payload[6] == 2;  // overall_code OVER_LIMIT
        heard_ += payload.size();
        if (heard_ > kPlenty / 2) {
          say(frame(window, 0, 0, number(static_cast<std::uint32_t>(heard_))));
          heard_ = 0;
        }
        return 0;
      case headers: {
        if ((flags & end_headers) == 0) fail("headers in pieces");
        const bool trailers = (flags & end_stream) != 0;
        if (!fields_.good(payload, trailers)) fail("an answer that is none, or no status 0");
        if (trailers && ++answers_ > messages_) fail("an answer without a message");
        return trailers ? 1 : 0;
      }
      case settings:
        if ((flags & ack) == 0) say(frame(settings, ack, 0, ""));
        return 0;
      case ping:
        if ((flags & ack) == 0) say(frame(ping, ack, 0, payload));
        return 0;
      case window:
        if (number_at(head + 5) == 0) send_window_ += number_at(payload.data());
        if (due_ > 0) start(0);
        return 0;
      default:
        fail("a frame of another type: the server has given up");
    }
  }

  const Calls& calls_;
  const Head& head_;
  Fields fields_;
  std::size_t next_;
  std::size_t due_ = 0;
  std::uint32_t stream_ = 1;
  std::int64_t send_window_ = 65535;
  std::uint64_t heard_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t answers_ = 0;
  std::string in_, out_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto connection_count = static_cast<std::size_t>(std::atoll(argv[2]));
  const auto in_flight = static_cast<std::size_t>(std::atoll(argv[3]));
  const double seconds = std::atof(argv[4]);
  const Head head;
  const Calls calls(argv[5], head);
  const int loop = epoll_create1(0);
  std::vector<Connection> connections;
  for (std::size_t i = 0; i < connection_count; ++i) {
    connections.emplace_back(argv[1], calls, head, calls.count() / connection_count * i);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(loop, EPOLL_CTL_ADD, connections.back().fd, &event);
  }
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (Connection& connection : connections) connection.start(in_flight);
  std::uint64_t answered = 0;
  epoll_event events[64];
  while (Clock::now() < end || answered == 0) {  // (a busy machine may need longer)
    const int count = epoll_wait(loop, events, 64, 0);
    for (int i = 0; i < count; ++i) {
      Connection& connection = connections[events[i].data.u64];
      const std::size_t answers = connection.receive();
      answered += answers;
      if (answers > 0) connection.start(answers);
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::uint64_t refused = 0;
  for (const Connection& connection : connections) refused += connection.refused;
  std::printf("%.0f %llu %.6f\n", static_cast<double>(answered) / took,
              static_cast<unsigned long long>(refused), took);
}
