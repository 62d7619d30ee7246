// bare_h2_server PORT: the ceiling of a gRPC listener. One epoll loop around nghttp2 that finds the
// path and collects the message of a request, checks nothing, and gives every request the same
// answer.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grpc_answer.h"

namespace {

nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

// Results are written here, so that the compiler cannot remove the search.
volatile std::size_t seen = 0;

struct Request {
  std::string path;
  std::string message;
};

Request* request_of(nghttp2_session* session, std::int32_t stream) {
  return static_cast<Request*>(nghttp2_session_get_stream_user_data(session, stream));
}

int on_begin(nghttp2_session* session, const nghttp2_frame* frame, void*) {
  nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, new Request);
  return 0;
}

int on_header(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
              std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
              std::uint8_t, void*) {
  if (std::string_view(reinterpret_cast<const char*>(name), name_size) == ":path") {
    request_of(session, frame->hd.stream_id)
        ->path.assign(reinterpret_cast<const char*>(value), value_size);
  }
  return 0;
}

int on_chunk(nghttp2_session* session, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes,
             std::size_t size, void*) {
  request_of(session, stream)->message.append(reinterpret_cast<const char*>(bytes), size);
  return 0;
}

int on_close(nghttp2_session* session, std::int32_t stream, std::uint32_t, void*) {
  delete request_of(session, stream);
  return 0;
}

ssize_t read_answer(nghttp2_session* session, std::int32_t stream, std::uint8_t* buffer,
                    std::size_t, std::uint32_t* flags, nghttp2_data_source*, void*) {
  std::memcpy(buffer, kFramedAnswer.data(), kFramedAnswer.size());
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  const nghttp2_nv trailer = field("grpc-status", "0");
  nghttp2_submit_trailer(session, stream, &trailer, 1);
  return static_cast<ssize_t>(kFramedAnswer.size());
}

int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void*) {
  const bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (!ended || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)) return 0;
  const Request& request = *request_of(session, frame->hd.stream_id);
  seen = request.path.size() + request.message.size();
  const nghttp2_nv head[] = {field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider body{};
  body.read_callback = read_answer;
  return nghttp2_submit_response(session, frame->hd.stream_id, head, 2, &body);
}

nghttp2_session* new_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session* session = nullptr;
  nghttp2_session_server_new(&session, callbacks, nullptr);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1);
  return session;
}

// All pending output, in one piece.
bool flush(nghttp2_session* session, int fd, std::string& out) {
  out.clear();
  const std::uint8_t* piece = nullptr;
  for (ssize_t size = 0; (size = nghttp2_session_mem_send(session, &piece)) > 0;) {
    out.append(reinterpret_cast<const char*>(piece), static_cast<std::size_t>(size));
  }
  return out.empty() || send(fd, out.data(), out.size(), MSG_NOSIGNAL) >= 0;
}

int listen_on(const char* port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::exit(1);
  listen(listener, 1024);
  return listener;
}

void watch(int loop, int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int listener = listen_on(argv[1]);
  const int loop = epoll_create1(0);
  watch(loop, listener);
  std::unordered_map<int, nghttp2_session*> sessions;
  std::vector<std::uint8_t> buffer(65536);
  std::string out;
  epoll_event events[64];
  for (;;) {
    const int count = epoll_wait(loop, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        const int peer = accept(listener, nullptr, nullptr);
        const int on = 1;
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(loop, peer);
        sessions[peer] = new_session();
        continue;
      }
      nghttp2_session* const session = sessions[fd];
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
      if (got > 0 &&
          nghttp2_session_mem_recv(session, buffer.data(), static_cast<std::size_t>(got)) == got &&
          flush(session, fd, out) && nghttp2_session_want_read(session) != 0) {
        continue;
      }
      nghttp2_session_del(session);
      sessions.erase(fd);
      close(fd);
    }
  }
}
