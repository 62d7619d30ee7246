#include "cli/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "net/socket_stream.h"
#include "net/sockets.h"
#include "wire/http1_answer.h"
#include "wire/http1_body.h"

namespace weir::cli {

namespace {

using std::chrono::steady_clock;

// Larger than any response of the daemon.
constexpr std::uint64_t kMaxBodyBytes = 64 << 20;

// ---- Addresses

struct Origin {
  std::string authority{};  // host and port as they were written
  std::string host{};       // without brackets
  std::uint16_t port = 0;
  bool with_tls = false;
};

bool read_port(std::string_view text, std::uint16_t& port) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  return error == std::errc{} && stop == end && port != 0;
}

Result<Origin, Error> origin_of(const std::string& url) {
  const Error wrong{"cannot parse the address " + url + ": write it as http://127.0.0.1:7380"};
  Origin origin;
  origin.with_tls = url.starts_with("https://");
  if (!origin.with_tls && !url.starts_with("http://")) return wrong;
  std::string rest = url.substr(url.find("//") + 2);
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.find('/') != std::string::npos) return wrong;
  origin.authority = rest;
  const std::size_t bracket = rest.find(']');
  const std::size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  origin.host = rest.substr(0, colon);
  origin.port = origin.with_tls ? 443 : 80;
  if (colon != std::string::npos && !read_port(rest.substr(colon + 1), origin.port)) return wrong;
  if (origin.host.starts_with('[')) origin.host = origin.host.substr(1, bracket - 1);
  if (origin.host.empty()) return wrong;
  return origin;
}

// ---- One request and its response

std::string request_text(const HttpClient& client, const Origin& origin, std::string_view method,
                         std::string_view path, std::string_view body) {
  std::string text;
  text.append(method).append(" ").append(path).append(" HTTP/1.1\r\n");
  text.append("Host: ").append(origin.authority).append("\r\nConnection: close\r\n");
  if (!client.token.empty()) {
    text.append("Authorization: Bearer ").append(client.token).append("\r\n");
  }
  if (!body.empty()) text.append("Content-Type: application/json\r\n");
  if (!body.empty() || method != "GET") {
    text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  return text.append("\r\n").append(body);
}

// Parses a response incrementally.
class ResponseReader {
 public:
  bool is_done() const { return has_head_ && body_.is_done(); }
  ApiResponse take() { return std::move(answer_); }

  // Returns the error if the bytes are not a response; empty if they are so far.
  std::string_view read(std::string_view bytes) {
    unread_.append(bytes);
    while (!has_head_) {
      const auto step = parser_.parse(unread_, false);
      if (step.status == wire::HttpAnswerParser::Status::error) return step.reason;
      unread_.erase(0, step.consumed);
      if (step.status == wire::HttpAnswerParser::Status::need_more) return {};
      use_head();
    }
    return read_body();
  }

  // Call it when the peer has closed the connection. Returns whether the response is complete.
  bool end() { return has_head_ && (body_.is_done() || body_.end()); }

 private:
  void use_head() {
    const bool interim = parser_.status() < 200;
    if (!interim) {
      answer_.status = parser_.status();
      body_.start(parser_.framing(), kMaxBodyBytes);
      has_head_ = true;
    }
    parser_.next();
  }

  std::string_view read_body() {
    std::string scratch;
    while (!body_.is_done()) {
      const auto piece = body_.read(unread_, scratch);
      if (piece.error_status != 0) return piece.reason;
      answer_.body.append(piece.data);
      unread_.erase(0, piece.consumed);
      if (piece.consumed == 0) break;
    }
    return {};
  }

  wire::HttpAnswerParser parser_{wire::HttpLimits{}};
  wire::HttpBody body_;
  bool has_head_ = false;
  std::string unread_;
  ApiResponse answer_;
};

// A blocking connection with one deadline for all steps together. Each step returns an error text;
// empty on success.
class BlockingConnection {
 public:
  explicit BlockingConnection(std::chrono::milliseconds timeout)
      : timeout_(timeout), deadline_(steady_clock::now() + timeout) {}

  // Tries the addresses in order. `tls` is null for a connection without TLS.
  std::string open(const std::vector<net::SocketAddress>& addresses, const net::TlsContext& tls,
                   const std::string& host) {
    std::string why;
    for (const net::SocketAddress& address : addresses) {
      net::FileDescriptor socket;
      why = connect(address, socket);
      if (!why.empty()) continue;
      stream_ = tls ? net::SocketStream::to_server(std::move(socket), tls, host)
                    : net::SocketStream(std::move(socket));
      return handshake();
    }
    return why;
  }

  std::string send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto moved = stream_.write(bytes);
      bytes.remove_prefix(moved.count);
      if (moved.status == Status::broken) return stream_.why();
      if (moved.status != Status::later) continue;
      if (std::string why = wait_to_write(); !why.empty()) return why;
    }
    return {};
  }

  std::string receive(ResponseReader& reader) {
    std::array<char, 16 << 10> buffer;
    while (!reader.is_done()) {
      const auto moved = stream_.read(buffer.data(), buffer.size());
      if (moved.status == Status::broken) return stream_.why();
      if (moved.status == Status::ended) {
        return reader.end() ? "" : "the connection was closed before the response was complete";
      }
      if (moved.status == Status::later) {
        const short event = stream_.reading_needs_writing() ? POLLOUT : POLLIN;
        if (std::string why = wait(stream_.fd(), event); !why.empty()) return why;
        continue;
      }
      const std::string_view error = reader.read({buffer.data(), moved.count});
      if (!error.empty()) return "the response is not HTTP: " + std::string{error};
    }
    return {};
  }

 private:
  using Status = net::SocketStream::Status;

  std::string connect(const net::SocketAddress& address, net::FileDescriptor& socket) {
    int error = 0;
    socket = net::start_connecting(address, error);
    if (error == 0) {
      if (std::string why = wait(socket.fd(), POLLOUT); !why.empty()) return why;
      socklen_t size = sizeof error;
      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    return error == 0 ? std::string{} : std::generic_category().message(error);
  }

  std::string handshake() {
    for (;;) {
      const auto moved = stream_.shake_hands();
      if (moved.status == Status::moved) return {};
      if (moved.status != Status::later) return stream_.why();
      if (std::string why = wait_to_write(); !why.empty()) return why;
    }
  }

  std::string wait_to_write() {
    return wait(stream_.fd(), stream_.writing_needs_reading() ? POLLIN : POLLOUT);
  }

  std::string wait(int fd, short event) const {
    pollfd watched{.fd = fd, .events = event, .revents = 0};
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline_ - steady_clock::now());
      const int ready = poll(&watched, 1, static_cast<int>(std::max(left.count(), 0L)));
      if (ready > 0) return {};
      if (ready == 0) return "no answer within " + std::to_string(timeout_.count()) + " ms";
      if (errno != EINTR) return std::generic_category().message(errno);
    }
  }

  const std::chrono::milliseconds timeout_;
  const steady_clock::time_point deadline_;
  net::SocketStream stream_{net::FileDescriptor{}};
};

// The error with advice for the user.
std::string with_advice(std::string why) {
  constexpr std::string_view untrusted = "certificate verify failed";
  if (!why.starts_with(untrusted)) return why + ": does `weir serve` run there?";
  return "its certificate is not trusted" + why.substr(untrusted.size()) +
         ": give the certificate of its issuer as --ca FILE";
}

}  // namespace

std::optional<Error> HttpClient::check(const std::string& url) {
  const auto origin = origin_of(url);
  return origin ? std::nullopt : std::optional{origin.error()};
}

Result<ApiResponse, Error> HttpClient::call(std::string_view method, std::string_view path,
                                            std::string_view body) const {
  const auto origin = origin_of(url);
  if (!origin) return origin.error();
  const auto failed = [&](std::string why) {
    return Error{"cannot reach " + url + ": " + with_advice(std::move(why))};
  };
  net::TlsContext tls;
  if (origin->with_tls) {
    auto loaded = net::load_client_tls({.cert = cert, .key = key, .ca = ca});
    if (!loaded) return loaded.error();
    tls = *std::move(loaded);
  }
  const auto addresses = net::resolve_all(origin->host, origin->port);
  if (!addresses) return failed(addresses.error().message);

  BlockingConnection connection(timeout);
  ResponseReader reader;
  std::string why = connection.open(*addresses, tls, origin->host);
  if (why.empty()) why = connection.send(request_text(*this, *origin, method, path, body));
  if (why.empty()) why = connection.receive(reader);
  if (!why.empty()) return failed(std::move(why));
  return reader.take();
}

}  // namespace weir::cli
