#include "server/http_answer.h"

#include <time.h>

#include "wire/json_write.h"

namespace weir::server {

namespace {

// The date, written once a second.
std::string_view date_now() {
  thread_local time_t written_at = 0;
  thread_local std::string written;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != written_at) {
    written_at = now.tv_sec;
    written.clear();
    wire::append_http_date(written, Instant{std::chrono::seconds{now.tv_sec}});
  }
  return written;
}

}  // namespace

void HttpAnswer::respond(int status, std::string_view content_type, std::string_view body,
                         std::string_view fields) {
  wire::append_response(out_, {.status = status,
                               .content_type = content_type,
                               .body = body,
                               .fields = fields,
                               .date = date_now(),
                               .connection = connection_,
                               .head = head_});
}

void HttpAnswer::json(int status, std::string_view body, std::string_view fields) {
  respond(status, wire::kJson, body, fields);
}

void HttpAnswer::problem(int status, std::string_view detail, std::string_view field,
                         std::string_view fields) {
  std::string body;
  wire::append_problem(body, {.status = status, .detail = detail, .field = field});
  respond(status, wire::kProblemJson, body, fields);
}

}  // namespace weir::server
