#include "gateway/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/out_of_memory.h"
#include "net/descriptor.h"

namespace weir::gateway {

namespace {

// Written together: a call of the system for each would cost more than the request.
constexpr std::size_t kTogether = 32 << 10;
// What is kept while it cannot be written (the disk is full, a pipe is not read). More is lost.
constexpr std::size_t kMostKept = 1 << 20;
// For the last lines to be written.
constexpr std::chrono::seconds kPatience{1};

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
  append_text(line, " limit=\"", l.limit);
  if (l.key) append_text(line, " key=\"", *l.key);
  append_text(line, " upstream=\"", l.server);
  append_text(line, " id=\"", l.id);
  fmt::format_to(std::back_inserter(line), " received={} time={:.6f} wait={:.6f} degraded={:d}\n",
                 l.received, seconds(l.took), seconds(l.waited), l.degraded);
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
  text("limit", l.limit);
  if (l.key) text("key", *l.key);
  fmt::format_to(std::back_inserter(line), ",\"degraded\":{}", l.degraded);
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

// The lines that are to be written, and the thread that does. It may be in the middle of that for
// ever, so nobody joins it: it has a share of this.
class AccessLogFile::Writer {
 public:
  explicit Writer(std::string path) : path_(std::move(path)) {}

  bool open();
  static void start(const std::shared_ptr<Writer>& writer);

  // False if there is no room for it.
  bool add(std::string_view line);
  void look();
  void end(std::chrono::nanoseconds patience);

 private:
  void run();
  bool write_out();
  void follow();

  const std::string path_;
  // Of the thread.
  net::Descriptor file_;
  std::uint64_t inode_ = 0;
  std::string writing_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::string lines_;             // to be written
  std::size_t in_the_works_ = 0;  // bytes that the thread has
  bool due_ = false;
  bool looks_ = false;
  bool over_ = false;
  bool done_ = false;  // the thread has ended
};

bool AccessLogFile::Writer::open() {
  net::Descriptor file(
      path_ == "stdout" ? dup(STDOUT_FILENO)
                        : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  struct stat status {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0) return false;
  inode_ = status.st_ino;
  file_ = std::move(file);
  return true;
}

void AccessLogFile::Writer::start(const std::shared_ptr<Writer>& writer) {
  std::thread([writer] { writer->run(); }).detach();
}

bool AccessLogFile::Writer::add(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (in_the_works_ + lines_.size() + line.size() > kMostKept) return false;
  lines_ += line;
  if (lines_.size() < kTogether || due_) return true;
  due_ = true;
  wake_.notify_one();
  return true;
}

void AccessLogFile::Writer::look() {
  const std::lock_guard lock(mutex_);
  due_ = looks_ = true;
  wake_.notify_one();
}

void AccessLogFile::Writer::end(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  due_ = over_ = true;
  wake_.notify_one();
  ended_.wait_for(lock, patience, [this] { return done_; });
}

void AccessLogFile::Writer::run() {
  std::unique_lock lock(mutex_);
  bool all = true;
  do {
    wake_.wait(lock, [this] { return due_; });
    due_ = over_;
    const bool looks = std::exchange(looks_, false);
    writing_.swap(lines_);
    in_the_works_ = writing_.size();
    lock.unlock();
    all = write_out();
    if (looks) follow();
    lock.lock();
    // What could not be written comes first the next time, if there is memory for both.
    in_the_works_ = 0;
    const auto put_first = [this] {
      writing_ += lines_;
      lines_.swap(writing_);
    };
    if (!writing_.empty()) with_memory(put_first);
    writing_.clear();
  } while (!over_ || (all && !lines_.empty()));
  done_ = true;
  ended_.notify_all();
}

bool AccessLogFile::Writer::write_out() {
  std::size_t written = 0;
  while (written < writing_.size()) {
    const ssize_t count = ::write(file_.fd(), writing_.data() + written, writing_.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  writing_.erase(0, written);
  return writing_.empty();
}

void AccessLogFile::Writer::follow() {
  if (path_ == "stdout") return;
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0 || status.st_ino != inode_) open();
}

AccessLogFile::AccessLogFile(const AccessLog& log, std::atomic<std::uint64_t>& dropped)
    : json_(log.json), dropped_(dropped), writer_(std::make_shared<Writer>(log.path)) {}

Result<std::shared_ptr<AccessLogFile>, Error> AccessLogFile::open(
    const AccessLog& log, std::atomic<std::uint64_t>& dropped) {
  std::shared_ptr<AccessLogFile> file(new AccessLogFile(log, dropped));
  if (!file->writer_->open()) {
    file->retire();
    return Error{fmt::format("gateway: access_log {}: {}", log.path,
                             std::generic_category().message(errno))};
  }
  Writer::start(file->writer_);
  return file;
}

AccessLogFile::~AccessLogFile() { writer_->end(waits_ ? kPatience : std::chrono::nanoseconds{0}); }

void AccessLogFile::write(const Logged& logged) {
  if (!writer_->add(access_line(json_, logged))) dropped_.fetch_add(1, std::memory_order_relaxed);
}

void AccessLogFile::look() { writer_->look(); }

}  // namespace weir::gateway
