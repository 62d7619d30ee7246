// Any bytes as input on an HTTP/2 connection to a gateway: the service behind it parses the
// forwarded header as the same single request (no request smuggling).

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/path.h"
#include "gateway/request_head.h"
#include "wire/h2.h"
#include "wire/http1.h"
#include "wire/http1_body.h"
#include "wire/http1_text.h"

namespace {

using namespace weir;
using namespace weir::gateway;

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr wire::H2Limits kLimits{.streams = 8,
                                 .header = 4000,
                                 .fields = 30,
                                 .body = SIZE_MAX,
                                 .window = 20'000,
                                 .bodies = 160'000,
                                 .unsent = SIZE_MAX};

std::vector<wire::HttpField> listed(const wire::HttpFields& fields) {
  std::vector<wire::HttpField> all;
  for (std::size_t i = 0; i < fields.size(); ++i) all.push_back(fields[i]);
  return all;
}

// The service behind the gateway must parse the forwarded head as the request `asked`.
void check_head(const std::string& head, const wire::HttpRequest& asked,
                const wire::HttpFraming& framing, std::string_view path) {
  wire::HttpParser parser({.target = 1 << 20, .header = 1 << 20, .body = SIZE_MAX, .fields = 1000},
                          wire::HttpParser::BodyMode::streamed);
  const auto step = parser.parse(head);
  require(step.status == wire::HttpParser::Status::complete && step.consumed == head.size());
  const wire::HttpRequest& read = parser.request();
  require(read.method == asked.method && read.path == path && read.query == asked.query);
  require(read.host == (asked.host.empty() ? "upstream" : asked.host));
  require(read.keep_alive && parser.upgrade().empty());
  require(parser.framing().chunked == framing.until_end);
  require(framing.until_end || parser.framing().length == framing.length);
  require(!parser.framing().wants_continue);
  // No more lines than fields, plus those about the client and the body.
  require(read.fields.size() <= asked.fields.size() + 8);
  for (const std::string_view of_one_hop : {"te", "upgrade", "connection", "keep-alive"}) {
    require(read.field(of_one_hop).empty());
  }
}

// Bytes after a body stay after it.
void check_trailers(const std::string& trailers) {
  std::string chunks;
  wire::append_chunk(chunks, "body");
  wire::append_last_chunk(chunks, trailers);
  wire::HttpBody body;
  body.start({.chunked = true});
  std::string scratch;
  const wire::HttpBody::Fragment piece = body.read(chunks, scratch);
  require(piece.error_status == 0 && body.is_done() && piece.consumed == chunks.size());
  require(piece.data == "body");
}

class RequestHandler final : public wire::H2Handler {
 public:
  void hear(std::string_view input) { machine_.receive(input, 1); }

 private:
  bool takes_parts(const wire::H2Stream&) override { return true; }
  std::size_t most_body(const wire::H2Stream&) override { return SIZE_MAX; }

  void on_request(wire::H2Stream& stream) override {
    if (stream.flaw() != 0) return;
    check_trailers(stream.request_trailers());
    const wire::HttpRequest& request = stream.request();
    if (request.method == "CONNECT" || request.method == "TRACE") return;
    std::string host;
    Path path;
    if (!read_host(request.host, host) || !read_path(request.path, path)) return;
    for (const std::string_view each : {std::string_view(path.forwarded), request.path}) {
      pass(stream, each);
    }
  }

  void pass(wire::H2Stream& stream, std::string_view path) {
    const wire::HttpRequest& request = stream.request();
    const wire::HttpFraming framing = framing_of(stream);
    const std::vector<wire::HttpField> fields = listed(request.fields);
    const Hop hop{.peer = peer_, .trusted = stream.id() % 4 == 1, .host = request.host};
    std::string head;
    append_request_head(head, {.request = request,
                               .framing = framing,
                               .path = path,
                               .host = request.host.empty() ? "upstream" : request.host,
                               .id = "42",
                               .upgrade = {},
                               .hop = hop,
                               .fields = fields});
    check_head(head, request, framing, path);
  }

  void on_gone(wire::H2Stream&) override {}

  const IpAddress peer_ = *parse_address("10.0.0.1");
  wire::Http2Server machine_{*this, kLimits};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string input(reinterpret_cast<const char*>(data), size);
  if (!input.starts_with("PRI")) input.insert(0, wire::Http2Server::kPreface);
  RequestHandler().hear(input);
  return 0;
}
