#include "server/http_answer.h"

#include <time.h>

#include <array>

#include "wire/json_write.h"

namespace weir::server {

namespace {

// How answers start at this moment. Each is written once a second, since it has the date.
class Starts {
 public:
  // `content_type` is a constant.
  std::string_view of(int status, std::string_view content_type) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    Start& start = starts_[static_cast<std::size_t>(status) % starts_.size()];
    const bool fresh = start.second == now.tv_sec && start.status == status &&
                       start.content_type.data() == content_type.data();
    if (!fresh) start.write(status, content_type, now.tv_sec);
    return start.text;
  }

 private:
  struct Start {
    time_t second = -1;
    int status = 0;
    std::string_view content_type{};
    std::string date{};
    std::string text{};

    void write(int its_status, std::string_view its_type, time_t its_second) {
      second = its_second;
      status = its_status;
      content_type = its_type;
      text.clear();
      date.clear();
      wire::append_http_date(date, Instant{std::chrono::seconds{second}});
      wire::append_start(text, {.status = status, .content_type = content_type, .date = date});
    }
  };

  // 200, 404, 429 and 503 have a place each.
  std::array<Start, 16> starts_{};
};

}  // namespace

void HttpAnswer::respond(int status, std::string_view content_type, std::string_view body,
                         std::string_view fields) {
  if (sink_ != nullptr) [[unlikely]] {
    return sink_->respond({.status = status,
                           .content_type = content_type,
                           .body = body,
                           .fields = fields,
                           .head = head_});
  }
  thread_local Starts starts;
  wire::append_response(*out_, {.status = status,
                                .start = starts.of(status, content_type),
                                .body = body,
                                .fields = fields,
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
