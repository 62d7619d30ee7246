#include "server/http_responder.h"

#include <time.h>

#include <array>

#include "wire/json_write.h"

namespace weir::server {

namespace {

// The status line and the common fields of responses. Each is formatted once a second, as it has
// the date.
class HeadCache {
 public:
  // `content_type` is a constant.
  std::string_view of(int status, std::string_view content_type) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    CachedHead& head = heads_[static_cast<std::size_t>(status) % heads_.size()];
    const bool is_current = head.second == now.tv_sec && head.status == status &&
                            head.content_type.data() == content_type.data();
    if (!is_current) head.write(status, content_type, now.tv_sec);
    return head.text;
  }

 private:
  struct CachedHead {
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

  // 200, 404, 429 and 503 do not collide.
  std::array<CachedHead, 16> heads_{};
};

}  // namespace

void HttpResponder::respond(int status, std::string_view content_type, std::string_view body,
                            std::string_view fields) {
  if (sink_ != nullptr) [[unlikely]] {
    return sink_->respond({.status = status,
                           .content_type = content_type,
                           .body = body,
                           .fields = fields,
                           .head = head_});
  }
  thread_local HeadCache heads;
  wire::append_response(*out_, {.status = status,
                                .start = heads.of(status, content_type),
                                .body = body,
                                .fields = fields,
                                .connection = connection_,
                                .head = head_});
}

void HttpResponder::json(int status, std::string_view body, std::string_view fields) {
  respond(status, wire::kJson, body, fields);
}

void HttpResponder::problem(int status, std::string_view detail, std::string_view field,
                            std::string_view fields) {
  std::string body;
  wire::append_problem(body, {.status = status, .detail = detail, .field = field});
  respond(status, wire::kProblemJson, body, fields);
}

}  // namespace weir::server
