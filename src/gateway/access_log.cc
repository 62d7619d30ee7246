#include "gateway/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace weir::gateway {

namespace {

// Written together: a call of the system for each would cost more than the request.
constexpr std::size_t kTogether = 32 << 10;
// What is kept while it cannot be written (the disk is full). More is lost.
constexpr std::size_t kMostKept = 1 << 20;

// Bytes that could end a text or a line, or that no text has.
void append_escaped(std::string& out, std::string_view text, bool json) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f || (json && byte >= 0x80)) {
      out += json ? fmt::format("\\u{:04x}", byte) : fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
}

void append_text(std::string& out, std::string_view before, std::string_view text) {
  out += before;
  append_escaped(out, text.empty() ? "-" : text, false);
  out += '"';
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::time_t whole_seconds(Instant time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

std::string combined(const Logged& l) {
  std::string line = fmt::format("{} - - [{:%d/%b/%Y:%H:%M:%S} +0000] \"", l.client,
                                 fmt::gmtime(whole_seconds(l.time)));
  append_escaped(line, l.method, false);
  line += ' ';
  append_escaped(line, l.target, false);
  fmt::format_to(std::back_inserter(line), " HTTP/{}.{}\" {} {}", l.version / 10, l.version % 10,
                 l.status, l.sent);
  append_text(line, " \"", l.referer);
  append_text(line, " \"", l.agent);
  append_text(line, " host=\"", l.host);
  append_text(line, " route=\"", l.route);
  append_text(line, " decision=\"", l.ruling);
  append_text(line, " upstream=\"", l.server);
  append_text(line, " id=\"", l.id);
  fmt::format_to(std::back_inserter(line), " received={} time={:.6f} wait={:.6f}\n", l.received,
                 seconds(l.took), seconds(l.waited));
  return line;
}

std::string as_json(const Logged& l) {
  std::string line =
      fmt::format("{{\"time\":\"{:%Y-%m-%dT%H:%M:%SZ}\"", fmt::gmtime(whole_seconds(l.time)));
  const auto text = [&](std::string_view name, std::string_view value) {
    line.append(",\"").append(name).append("\":\"");
    append_escaped(line, value, true);
    line += '"';
  };
  text("client", l.client);
  text("method", l.method);
  text("target", l.target);
  text("host", l.host);
  fmt::format_to(std::back_inserter(line), ",\"status\":{},\"received\":{},\"sent\":{}", l.status,
                 l.received, l.sent);
  text("referer", l.referer);
  text("agent", l.agent);
  text("route", l.route);
  text("decision", l.ruling);
  text("upstream", l.server);
  text("id", l.id);
  fmt::format_to(std::back_inserter(line), ",\"seconds\":{:.6f},\"waited\":{:.6f}}}\n",
                 seconds(l.took), seconds(l.waited));
  return line;
}

}  // namespace

std::string access_line(bool json, const Logged& logged) {
  return json ? as_json(logged) : combined(logged);
}

Result<std::shared_ptr<AccessLogFile>, Error> AccessLogFile::open(const AccessLog& log) {
  std::shared_ptr<AccessLogFile> file(new AccessLogFile(log));
  if (file->reopen()) return file;
  return Error{
      fmt::format("gateway: access_log {}: {}", log.path, std::generic_category().message(errno))};
}

AccessLogFile::~AccessLogFile() {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

bool AccessLogFile::reopen() {
  net::Descriptor file(
      log_.path == "stdout"
          ? dup(STDOUT_FILENO)
          : ::open(log_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  struct stat status {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0) return false;
  inode_ = status.st_ino;
  file_ = std::move(file);
  return true;
}

void AccessLogFile::write(const Logged& logged) {
  const std::string line = access_line(log_.json, logged);
  const std::lock_guard lock(mutex_);
  if (lines_.size() + line.size() <= kMostKept) lines_ += line;
  if (lines_.size() >= kTogether) flush_locked();
}

void AccessLogFile::flush_locked() {
  std::size_t written = 0;
  while (written < lines_.size()) {
    const ssize_t count = ::write(file_.fd(), lines_.data() + written, lines_.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  lines_.erase(0, written);
}

void AccessLogFile::look() {
  const std::lock_guard lock(mutex_);
  flush_locked();
  if (log_.path == "stdout") return;
  struct stat status {};
  if (stat(log_.path.c_str(), &status) != 0 || status.st_ino != inode_) reopen();
}

}  // namespace weir::gateway
