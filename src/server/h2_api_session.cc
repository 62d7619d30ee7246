#include "server/h2_api_session.h"

#include <time.h>

#include <array>
#include <vector>

#include "server/http_routes.h"
#include "wire/h2_fields.h"
#include "wire/http1_response.h"

namespace weir::server {

using wire::H2Field;

namespace {

// The value of the field Date, formatted once a second.
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

// The field :status. Borrows `digits`, except for the frequent statuses, which are constants.
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

void send(wire::Http2Server& machine, wire::H2Stream& stream, const ResponseParts& response) {
  std::string digits;
  const std::string length = std::to_string(response.body.size());
  std::vector<H2Field> fields{status_field(response.status, digits), {"date", date_now(), false}};
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) fields.push_back({"content-length", length, false});
  if (!response.content_type.empty()) fields.push_back({"content-type", response.content_type});
  std::string lines(response.fields);
  wire::append_fields(fields, lines);
  if (response.head || response.body.empty()) return machine.respond(stream, fields);
  stream.answer = response.body;
  machine.start(stream, fields);
  machine.finish(stream);
}

}  // namespace

// Sends the response to the request of one stream.
class H2ApiSession::Sink final : public ResponseSink {
 public:
  explicit Sink(const StreamHandle& stream) : stream_(stream) {}

  void respond(const ResponseParts& response) override {
    stream_.respond([&](wire::H2Stream& stream, wire::Http2Server& machine) {
      send(machine, stream, response);
    });
  }

 private:
  const StreamHandle stream_;
};

H2ApiSession::H2ApiSession(ServerContext& context, const net::Peer& peer)
    : H2Session(context, ListenerKind::http), peer_(peer), takes_(TakeBatch::of_this_thread()) {}

std::size_t H2ApiSession::most_body(const wire::H2Stream& stream) {
  return needs_body(context_, stream.request(), peer_) ? SIZE_MAX : 0;
}

void H2ApiSession::on_request(wire::H2Stream& stream) {
  count_request();
  const auto sink = std::make_shared<Sink>(StreamHandle(*this, stream));
  if (stream.flaw() != 0) {
    return HttpResponder(*sink, stream.request().head).problem(stream.flaw(), stream.reason());
  }
  thread_local std::string unused;
  HttpCall call(context_, stream.request(), peer_, takes_, sink, unused);
  route(call);
}

}  // namespace weir::server
