// Feeds arbitrary bytes to an HTTP/2 server. Its requests must not depend on how the bytes are
// segmented. Each is reported once and ended at most once, respects the limits, and equals what
// nghttp2 reads. The output must consist of valid frames.

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "wire/grpc.h"
#include "wire/h2.h"

namespace {

using namespace weir::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr H2Limits kLimits{.streams = 8,
                           .header = 2000,
                           .fields = 20,
                           .body = 4000,
                           .dropped = 5000,
                           .bodies = 70'000,
                           .unsent = 20'000};
constexpr std::array kFields{H2Field{":status", "200"}, H2Field{"content-type", "x"}};
constexpr std::array kTrailers{H2Field{"grpc-status", "0"}};

// Answers depending on the path: at once, later, in pieces, never.
class Peer final : public H2Handler {
 public:
  explicit Peer(std::size_t first) : first_(first) {}

  void hear(std::string_view input) {
    std::size_t piece = std::max<std::size_t>(first_, 1);
    while (!input.empty()) {
      piece = std::min(piece, input.size());
      // Memory of exactly that size, so that a sanitizer sees reads beyond it.
      const std::vector<char> shown(input.begin(), input.begin() + static_cast<long>(piece));
      input.remove_prefix(piece);
      machine_.receive({shown.data(), shown.size()}, 1);
      require(machine_.streams().size() <= kLimits.streams);
      if (first_ == 0) continue;
      piece = 1 + piece * 7 % 23;
    }
    answer_late();
    for (int i = 0; i < 3; ++i) {
      drain(i);
      send();
    }
  }

  // The request and the outcome of each stream.
  std::map<std::int32_t, std::string> asked;
  // Requests that were complete and valid, in the form of the library.
  std::map<std::int32_t, std::string> good;

 private:
  std::size_t most_body(const H2Stream&) override { return SIZE_MAX; }
  bool takes_parts(const H2Stream& stream) override {
    return stream.request().path.starts_with("/parts");
  }

  void on_request(H2Stream& stream) override {
    const HttpRequest& request = stream.request();
    require(machine_.find(stream.id()) == &stream);
    std::string& text = asked[stream.id()];
    if (takes_parts(stream)) return take_parts(stream);
    require(text.empty());
    text.append(request.method).append(" ").append(request.target);
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      text.append(request.fields[i].name).append(":").append(request.fields[i].value);
    }
    text.append(request.body);
    if (stream.flaw() == 0) good[stream.id()] = text;
    text.append(std::to_string(stream.flaw()));
    require(request.body.size() <= kLimits.body && request.fields.size() <= kLimits.fields);
    (void)read_grpc_message(request.body, 100);
    (void)parse_grpc_timeout(request.field("grpc-timeout"));
    if (request.path.starts_with("/later")) return late_.push_back(stream.id());
    if (request.path.starts_with("/never")) return;
    if (request.head || request.path.starts_with("/refused")) {
      return machine_.respond(stream, kFields);
    }
    stream.answer.assign(request.path.starts_with("/long") ? 30'000 : 10, 'x');
    machine_.start(stream, kFields);
    machine_.finish(stream, kTrailers);
  }

  void take_parts(H2Stream& stream) {
    if (!stream.is_answered()) machine_.start(stream, kFields);
    stream.answer += stream.parts();
    stream.parts().clear();
    machine_.go_on(stream);
    if (stream.is_whole() || stream.flaw() != 0) machine_.finish(stream, kTrailers);
  }

  void on_gone(H2Stream& stream) override {
    ++gone_[stream.id()];
    require(gone_[stream.id()] == 1);
  }

  void answer_late() {
    for (const std::int32_t id : late_) {
      H2Stream* const stream = machine_.find(id);
      if (stream == nullptr || stream->is_answered()) continue;
      stream->answer = "late";
      machine_.start(*stream, kFields);
      machine_.finish(*stream);
    }
  }

  void drain(int step) {
    if (step == 1) machine_.drain();
    if (step == 2) machine_.drain_now();
  }

  void send() {
    std::string out;
    while (machine_.has_more()) {
      const std::size_t before = out.size();
      machine_.send(out, out.size() + 1);
      if (out.size() == before) break;
    }
    // Complete frames, each of a valid size.
    std::string_view rest = out;
    while (!rest.empty()) {
      require(rest.size() >= 9);
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
      const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
      require(size <= 16'777'215 && rest.size() >= 9 + size && byte(3) <= 9);
      rest.remove_prefix(9 + size);
    }
  }

  const std::size_t first_;
  Http2Server machine_{*this, kLimits};
  std::vector<std::int32_t> late_;
  std::map<std::int32_t, int> gone_;
};

// True if it has a GOAWAY: a peer without open streams has then left, and the rest of the same
// piece may still be processed.
bool says_goodbye(std::string_view input) {
  input.remove_prefix(std::min(Http2Server::kPreface.size(), input.size()));
  while (input.size() >= 9) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    if (byte(3) == 7) return true;
    const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
    input.remove_prefix(std::min(9 + size, input.size()));
  }
  return false;
}

// The library's own parser, to compare with.
class Library {
 public:
  explicit Library(std::string_view input) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(input.data());
    has_ended_ = nghttp2_session_mem_recv(session_, bytes, input.size()) < 0;
    const std::uint8_t* frame = nullptr;
    while (nghttp2_session_mem_send(session_, &frame) > 0) {
      has_ended_ = has_ended_ || frame[3] == NGHTTP2_GOAWAY;
    }
  }
  ~Library() { nghttp2_session_del(session_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // True if the library accepts the same request; or cannot tell, having closed the connection
  // before.
  bool agrees(std::int32_t id, const std::string& text) const {
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second.whole) return has_ended_;
    const Request& request = found->second;
    const bool same = request.method + " " + request.target + request.fields + request.body == text;
    return same || request.cookies > 1;  // the library joins those
  }

 private:
  struct Request {
    std::string method, target, fields, body;
    int cookies = 0;
    bool whole = false;
  };

  static Library& self(void* data) { return *static_cast<Library*>(data); }
  static std::string text(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* data) {
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    Request& request = self(data).requests_[frame->hd.stream_id];
    const std::string its_name = text(name, name_size);
    if (its_name == ":method") request.method = text(value, value_size);
    if (its_name == ":path") request.target = text(value, value_size);
    if (its_name == "cookie") ++request.cookies;
    if (!its_name.starts_with(':')) request.fields += its_name + ":" + text(value, value_size);
    return 0;
  }
  static int on_invalid_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t*,
                               std::size_t, const std::uint8_t*, std::size_t, std::uint8_t, void*) {
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  static int on_chunk(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                      std::size_t size, void* data) {
    self(data).requests_[id].body += text(bytes, size);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    const bool is_part = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (is_part && ends) self(data).requests_[frame->hd.stream_id].whole = true;
    return 0;
  }

  nghttp2_session* session_ = nullptr;
  bool has_ended_ = false;
  std::map<std::int32_t, Request> requests_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A peer without a valid preface is closed soon.
  std::string input(reinterpret_cast<const char*>(data), size);
  if (!input.starts_with("PRI")) input.insert(0, Http2Server::kPreface);
  Peer whole(input.size());
  whole.hear(input);
  Peer cut(1 + size % 7);
  cut.hear(input);
  require(whole.asked == cut.asked || says_goodbye(input));
  const Library library(input);
  for (const auto& [id, text] : whole.good) require(library.agrees(id, text));
  return 0;
}
