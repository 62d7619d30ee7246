#include "wire/http1_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

#include "wire/text_writer.h"

namespace weir::wire {

namespace {

struct Status {
  int code;
  std::string_view text;
};

// In order: they are looked up.
constexpr auto kStatuses = std::to_array<Status>({
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
});

// These have no body, and a length would be that of another answer.
bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

std::string_view connection_line(HttpConnection connection) {
  switch (connection) {
    case HttpConnection::close:
      return "Connection: close\r\n";
    case HttpConnection::keep_alive:
      return "Connection: keep-alive\r\n";
    case HttpConnection::unsaid:
      break;
  }
  return {};
}

std::string_view class_text(int status) {
  if (status < 200) return "Informational";
  if (status < 300) return "OK";
  if (status < 400) return "Redirection";
  return status < 500 ? "Client Error" : "Server Error";
}

}  // namespace

std::string_view status_text(int status) {
  const auto found = std::ranges::lower_bound(kStatuses, status, {}, &Status::code);
  return found != kStatuses.end() && found->code == status ? found->text : class_text(status);
}

void append_start(std::string& out, const HttpStart& start) {
  TextWriter writer(out);
  writer.text("HTTP/1.1 ").number(start.status).text(" ").text(status_text(start.status));
  if (!start.date.empty()) writer.text("\r\nDate: ").text(start.date);
  if (!start.content_type.empty()) writer.text("\r\nContent-Type: ").text(start.content_type);
  writer.text("\r\n");
}

void append_response(std::string& out, const HttpResponse& response) {
  TextWriter writer(out);
  writer.text(response.start);
  const bool has_body = !has_no_body(response.status);
  if (has_body) {
    const auto length = static_cast<std::int64_t>(response.body.size());
    writer.text("Content-Length: ").number(length).text("\r\n");
  }
  if (response.connection != HttpConnection::unsaid) {
    writer.text(connection_line(response.connection));
  }
  writer.text(response.fields).text("\r\n");
  if (has_body && !response.head) writer.text(response.body);
}

void append_http_date(std::string& out, Instant time) {
  using std::chrono::floor;
  constexpr std::array<const char*, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{floor<std::chrono::seconds>(time) - day};
  fmt::format_to(std::back_inserter(out), "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                 days[std::chrono::weekday{day}.c_encoding()], unsigned{date.day()},
                 months[unsigned{date.month()} - 1], int{date.year()}, clock.hours().count(),
                 clock.minutes().count(), clock.seconds().count());
}

}  // namespace weir::wire
