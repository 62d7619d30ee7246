#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../wire/h2_peer.h"
#include "feed.h"
#include "net/protocol.h"

namespace weir::server {

// The response on one stream.
struct H2Reply {
  std::map<std::string, std::string> fields{};  // of the header
  std::map<std::string, std::string> trailers{};
  std::string body{};
  bool ended = false;

  std::string status() const { return at(fields, ":status"); }
  // In the trailers, or in the header of a response without a body.
  std::string grpc_status() const {
    return trailers.contains("grpc-status") ? at(trailers, "grpc-status")
                                            : at(fields, "grpc-status");
  }
  std::string grpc_message() const {
    return trailers.contains("grpc-message") ? at(trailers, "grpc-message")
                                             : at(fields, "grpc-message");
  }

 private:
  static std::string at(const std::map<std::string, std::string>& all, const std::string& name) {
    const auto found = all.find(name);
    return found != all.end() ? found->second : "";
  }
};

// A client of HTTP/2 that is connected to a protocol without sockets.
class H2TestClient final : public net::Waker {
 public:
  explicit H2TestClient(net::Protocol& protocol) : protocol_(protocol) {
    protocol_.use_waker(*this);
    send(wire::H2Peer::preface());
    send(wire::H2Peer::frame(wire::Frame::settings, wire::H2Peer::kEnd, 0, ""));
  }
  void wake() override { ++woken; }

  void send(std::string_view bytes) {
    input_ += bytes;
    std::string out;
    input_.erase(0, feed(protocol_, input_, out));
    for (const wire::Frame& frame : wire::H2Peer::frames(out)) receive(frame);
    ++turns;
  }

  // Sends a request, and returns the id of its stream.
  std::int32_t ask(const wire::TestFields& fields, std::string_view body, bool ends = true) {
    const std::int32_t stream = next_;
    next_ += 2;
    send(peer.headers(stream, fields, body.empty() && ends) +
         (body.empty() ? "" : wire::H2Peer::data(stream, body, ends)));
    return stream;
  }

  wire::H2Peer peer;
  std::map<std::int32_t, H2Reply> replies;
  std::vector<wire::Frame> others;  // frames other than HEADERS and DATA
  int woken = 0;
  int turns = 0;

 private:
  void receive(const wire::Frame& frame) {
    H2Reply& reply = replies[frame.stream];
    if (frame.type == wire::Frame::headers) {
      auto& to = reply.fields.empty() ? reply.fields : reply.trailers;
      for (const std::string& line : peer.fields(frame)) {
        const std::size_t colon = line.find(": ", 1);
        to[line.substr(0, colon)] = line.substr(colon + 2);
      }
    } else if (frame.type == wire::Frame::data) {
      reply.body += frame.payload;
    } else {
      others.push_back(frame);
      return;
    }
    reply.ended = reply.ended || frame.ends();
  }

  net::Protocol& protocol_;
  std::string input_;
  std::int32_t next_ = 1;
};

}  // namespace weir::server
