#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "h2_peer.h"
#include "wire/h2.h"

namespace weir::wire {

inline constexpr std::array kFields{H2Field{":status", "200"},
                                    H2Field{"content-type", "text/plain"}};

// A server whose requests are recorded, and answered as the test wants.
class H2Test : public testing::Test, public H2Handler {
 protected:
  // The record of a request.
  struct Seen {
    std::string line{};
    std::string body{};
    int flaw = 0;
  };

  bool takes_parts(const H2Stream& stream) override { return stream.request().path == "/parts"; }
  std::size_t most_body(const H2Stream& stream) override {
    return stream.request().path == "/early" ? 0 : SIZE_MAX;
  }
  void on_request(H2Stream& stream) override {
    const HttpRequest& request = stream.request();
    seen.push_back({std::string(request.method) + ' ' + std::string(request.target),
                    std::string(request.body), stream.flaw()});
    last = &request;
    if (on_each) on_each(stream);
  }
  void on_gone(H2Stream& stream) override { gone.push_back(stream.id()); }

  void answer(H2Stream& stream, std::string_view body = "hello") {
    stream.answer = body;
    machine->start(stream, kFields);
    machine->finish(stream);
  }
  void answer_all() {
    on_each = [this](H2Stream& stream) { answer(stream); };
  }

  // Sends bytes and returns the frames of the response.
  std::vector<Frame> say(std::string_view bytes) {
    machine->receive(bytes, now);
    return hear();
  }
  std::vector<Frame> hear() {
    std::string out;
    machine->send(out, 1 << 30);
    return H2Peer::frames(out);
  }
  void connect(const H2Limits& limits = {}) {
    machine = std::make_unique<Http2Server>(*this, limits);
    say(H2Peer::preface());
    say(H2Peer::frame(Frame::settings, H2Peer::kEnd, 0, ""));
  }

  static std::vector<Frame> of_type(const std::vector<Frame>& frames, int type) {
    std::vector<Frame> all;
    std::ranges::copy_if(frames, std::back_inserter(all),
                         [&](const Frame& frame) { return frame.type == type; });
    return all;
  }
  static std::string body_of(const std::vector<Frame>& frames, std::int32_t stream) {
    std::string body;
    for (const Frame& frame : frames) {
      if (frame.type == Frame::data && frame.stream == stream) body += frame.payload;
    }
    return body;
  }
  // The error code of GOAWAY; -1 without one.
  static int goodbye(const std::vector<Frame>& frames) {
    const auto all = of_type(frames, Frame::goaway);
    return all.empty() ? -1 : static_cast<int>(all.back().number(4));
  }
  // The error code of a stream's RST_STREAM; -1 without one.
  static int reset_of(const std::vector<Frame>& frames, std::int32_t stream) {
    for (const Frame& frame : of_type(frames, Frame::rst_stream)) {
      if (frame.stream == stream) return static_cast<int>(frame.number(0));
    }
    return -1;
  }

  H2Peer peer;
  std::unique_ptr<Http2Server> machine;
  std::vector<Seen> seen;
  std::vector<std::int32_t> gone;
  const HttpRequest* last = nullptr;
  std::function<void(H2Stream&)> on_each;
  std::int64_t now = 100;
};

}  // namespace weir::wire
