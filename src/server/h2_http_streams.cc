#include "server/h2_http_streams.h"

#include <time.h>

#include <array>
#include <vector>

#include "server/http_routes.h"
#include "wire/h2_fields.h"
#include "wire/http1_response.h"

namespace weir::server {

using wire::H2Field;

namespace {

// The date as it is now, written once a second.
std::string_view date_now() {
  thread_local time_t second = -1;
  thread_local std::string text;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != second) {
    second = now.tv_sec;
    text.clear();
    wire::append_http_date(text, Instant{std::chrono::seconds{second}});
  }
  return text;
}

// Lasts forever for those that are frequent.
H2Field status_field(int status, std::string& digits) {
  switch (status) {
    case 200:
      return {":status", "200"};
    case 429:
      return {":status", "429"};
    default:
      digits = std::to_string(status);
      return {":status", digits, false};
  }
}

void write(wire::H2Machine& machine, wire::H2Stream& stream, const HttpParts& answer) {
  std::string digits;
  const std::string length = std::to_string(answer.body.size());
  std::vector<H2Field> fields{status_field(answer.status, digits), {"date", date_now(), false}};
  const bool has_body = answer.status != 204 && answer.status != 304;
  if (has_body) fields.push_back({"content-length", length, false});
  if (!answer.content_type.empty()) fields.push_back({"content-type", answer.content_type});
  std::string lines(answer.fields);
  wire::append_fields(fields, lines);
  if (answer.head || answer.body.empty()) return machine.respond(stream, fields);
  stream.answer = answer.body;
  machine.start(stream, fields);
  machine.finish(stream);
}

}  // namespace

// Where the answer to one request goes.
class HttpStreams::Sink final : public HttpSink {
 public:
  explicit Sink(const Later& later) : later_(later) {}

  void respond(const HttpParts& answer) override {
    later_.answer(
        [&](wire::H2Stream& stream, wire::H2Machine& machine) { write(machine, stream, answer); });
  }

 private:
  const Later later_;
};

HttpStreams::HttpStreams(Service& service, const net::Peer& peer)
    : H2Session(service, DoorName::http), peer_(peer), takes_(HttpTakes::of_this_thread()) {}

std::size_t HttpStreams::most_body(const wire::H2Stream& stream) {
  return needs_body(service_, stream.request(), peer_) ? SIZE_MAX : 0;
}

void HttpStreams::on_request(wire::H2Stream& stream) {
  count_request();
  const auto sink = std::make_shared<Sink>(Later(*this, stream));
  if (stream.flaw() != 0) {
    return HttpAnswer(*sink, stream.request().head).problem(stream.flaw(), stream.reason());
  }
  thread_local std::string nothing;
  HttpCall call(service_, stream.request(), peer_, takes_, sink, nothing);
  route(call);
}

}  // namespace weir::server
