#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// An HTTP/2 client, frame by frame: it can send frames that no real client would.

namespace weir::wire {

using TestFields = std::vector<std::pair<std::string, std::string>>;

struct Frame {
  enum Type : int {
    data,
    headers,
    priority,
    rst_stream,
    settings,
    push_promise,
    ping,
    goaway,
    window_update,
    continuation
  };
  int type = 0;
  int flags = 0;
  std::int32_t stream = 0;
  std::string payload{};

  std::uint32_t number(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      value = value << 8 | static_cast<unsigned char>(payload.at(i));
    }
    return value;
  }
  bool ends() const { return (flags & 1) != 0; }
};

class H2Peer {
 public:
  H2Peer() {
    nghttp2_hd_deflate_new(&deflater_, 4096);
    nghttp2_hd_inflate_new(&inflater_);
  }
  ~H2Peer() {
    nghttp2_hd_deflate_del(deflater_);
    nghttp2_hd_inflate_del(inflater_);
  }
  H2Peer(const H2Peer&) = delete;
  H2Peer& operator=(const H2Peer&) = delete;

  static constexpr int kEnd = 1;         // END_STREAM, and ACK
  static constexpr int kEndHeaders = 4;  // END_HEADERS

  static std::string number(std::uint32_t value, int bytes = 4) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  }
  static std::string frame(int type, int flags, std::int32_t stream, std::string_view payload) {
    std::string text = number(static_cast<std::uint32_t>(payload.size()), 3);
    text += static_cast<char>(type);
    text += static_cast<char>(flags);
    return text.append(number(static_cast<std::uint32_t>(stream))).append(payload);
  }

  static std::string preface() {
    return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(Frame::settings, 0, 0, "");
  }
  static std::string settings(std::initializer_list<std::pair<int, std::uint32_t>> all) {
    std::string payload;
    for (const auto& [id, value] : all) {
      payload += number(static_cast<std::uint32_t>(id), 2) + number(value);
    }
    return frame(Frame::settings, 0, 0, payload);
  }
  static std::string ping(std::string_view eight = "12345678", bool ack = false) {
    return frame(Frame::ping, ack ? kEnd : 0, 0, eight);
  }
  static std::string data(std::int32_t stream, std::string_view bytes, bool ends) {
    return frame(Frame::data, ends ? kEnd : 0, stream, bytes);
  }
  static std::string reset(std::int32_t stream, std::uint32_t error = NGHTTP2_CANCEL) {
    return frame(Frame::rst_stream, 0, stream, number(error));
  }
  static std::string window(std::int32_t stream, std::uint32_t more) {
    return frame(Frame::window_update, 0, stream, number(more));
  }

  // Encodes without indexing, so that frames can be sent in another order than they are made.
  std::string block(const TestFields& fields) {
    std::vector<nghttp2_nv> all;
    for (const auto& [name, value] : fields) {
      all.push_back(
          {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NO_INDEX});
    }
    std::string text(nghttp2_hd_deflate_bound(deflater_, all.data(), all.size()), '\0');
    const auto size =
        nghttp2_hd_deflate_hd(deflater_, bytes(text), text.size(), all.data(), all.size());
    text.resize(static_cast<std::size_t>(size));
    return text;
  }
  std::string headers(std::int32_t stream, const TestFields& fields, bool ends) {
    return frame(Frame::headers, kEndHeaders | (ends ? kEnd : 0), stream, block(fields));
  }
  static TestFields get(const std::string& path) {
    return {{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"}};
  }
  static TestFields post(const std::string& path) {
    TestFields fields = get(path);
    fields[0].second = "POST";
    return fields;
  }
  std::string request(std::int32_t stream, const std::string& path = "/") {
    return headers(stream, get(path), true);
  }

  static std::vector<Frame> frames(std::string_view bytes) {
    std::vector<Frame> all;
    while (bytes.size() >= 9) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
      Frame frame;
      const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
      frame.type = byte(3);
      frame.flags = byte(4);
      frame.stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      frame.payload = bytes.substr(9, size);
      bytes.remove_prefix(9 + size);
      all.push_back(std::move(frame));
    }
    return all;
  }

  // Decodes the fields of a frame to lines "name: value".
  std::vector<std::string> fields(const Frame& frame) {
    std::vector<std::string> lines;
    std::string_view rest = frame.payload;
    for (;;) {
      nghttp2_nv field;
      int flags = 0;
      const auto used =
          nghttp2_hd_inflate_hd2(inflater_, &field, &flags, bytes(rest), rest.size(), 1);
      if (used < 0) return {"cannot be read"};
      rest.remove_prefix(static_cast<std::size_t>(used));
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        lines.push_back(text(field.name, field.namelen) + ": " + text(field.value, field.valuelen));
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return lines;
  }

 private:
  static std::uint8_t* bytes(std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  }
  static std::string text(const std::uint8_t* from, std::size_t size) {
    return {reinterpret_cast<const char*>(from), size};
  }

  nghttp2_hd_deflater* deflater_ = nullptr;
  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace weir::wire
