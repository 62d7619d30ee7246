#include "server/h2_http_streams.h"

#include <time.h>

#include <array>
#include <vector>

#include "server/http_routes.h"
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

// Of a line of HTTP/1, whose name may have capital letters, which are made small.
H2Field field_of(std::string& line) {
  const std::size_t colon = line.find(':');
  for (std::size_t i = 0; i < colon && i < line.size(); ++i) {
    if (line[i] >= 'A' && line[i] <= 'Z') line[i] = static_cast<char>(line[i] - 'A' + 'a');
  }
  const std::string_view all = line;
  if (colon == std::string::npos) return {};
  std::string_view value = all.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  return {all.substr(0, colon), value, false};
}

// Fields are few: the most that an answer has are those about limits, in both styles.
std::vector<std::string> lines_of(std::string_view fields) {
  std::vector<std::string> lines;
  while (!fields.empty()) {
    const std::size_t end = fields.find("\r\n");
    lines.emplace_back(fields.substr(0, end));
    fields.remove_prefix(end == std::string_view::npos ? fields.size() : end + 2);
  }
  return lines;
}

void write(wire::H2Machine& machine, wire::H2Stream& stream, const HttpParts& answer) {
  std::string digits;
  const std::string length = std::to_string(answer.body.size());
  std::vector<H2Field> fields{status_field(answer.status, digits), {"date", date_now(), false}};
  const bool has_body = answer.status != 204 && answer.status != 304;
  if (has_body) fields.push_back({"content-length", length, false});
  if (!answer.content_type.empty()) fields.push_back({"content-type", answer.content_type});
  std::vector<std::string> lines = lines_of(answer.fields);
  for (std::string& line : lines) {
    if (const H2Field field = field_of(line); !field.name.empty()) fields.push_back(field);
  }
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

void HttpStreams::on_request(wire::H2Stream& stream) {
  count_request();
  const auto sink = std::make_shared<Sink>(Later(*this, stream));
  if (stream.flaw() != 0) {
    return HttpAnswer(*sink, false).problem(stream.flaw(), stream.reason());
  }
  thread_local std::string nothing;
  HttpCall call(service_, stream.request(), peer_, takes_, sink, nothing);
  route(call);
}

}  // namespace weir::server
