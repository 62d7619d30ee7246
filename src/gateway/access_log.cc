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
#include "net/file_descriptor.h"

namespace weir::gateway {

namespace {

// Buffered lines that trigger a write: one system call for each line would cost more than the
// request.
constexpr std::size_t kFlushSize = 32 << 10;
// Limit of the buffer while writing is impossible (disk full, pipe not read). Further lines are
// dropped.
constexpr std::size_t kMaxBuffered = 1 << 20;
// For the last lines, at the end.
constexpr std::chrono::seconds kFinalWait{1};

// Escapes quotes, backslashes and bytes that are not printable ASCII text.
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

std::string combined(const AccessLogEntry& l) {
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
  append_text(line, " decision=\"", l.decision);
  append_text(line, " limit=\"", l.limit);
  if (l.key) append_text(line, " key=\"", *l.key);
  append_text(line, " upstream=\"", l.server);
  append_text(line, " id=\"", l.id);
  fmt::format_to(std::back_inserter(line), " received={} time={:.6f} wait={:.6f} degraded={:d}\n",
                 l.received, seconds(l.duration), seconds(l.queue_time), l.degraded);
  return line;
}

std::string as_json(const AccessLogEntry& l) {
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
  text("decision", l.decision);
  text("limit", l.limit);
  if (l.key) text("key", *l.key);
  fmt::format_to(std::back_inserter(line), ",\"degraded\":{}", l.degraded);
  text("upstream", l.server);
  text("id", l.id);
  fmt::format_to(std::back_inserter(line), ",\"seconds\":{:.6f},\"waited\":{:.6f}}}\n",
                 seconds(l.duration), seconds(l.queue_time));
  return line;
}

}  // namespace

std::string access_log_line(bool json, const AccessLogEntry& logged) {
  return json ? as_json(logged) : combined(logged);
}

// The buffer and the thread that writes it out. The thread may block in write() for ever: it is
// detached, and shares ownership of this object.
class AccessLogFile::LogWriter {
 public:
  explicit LogWriter(std::string path) : path_(std::move(path)) {}

  bool open();
  static void start(const std::shared_ptr<LogWriter>& writer);

  // False if the buffer is full.
  bool add(std::string_view line);
  void flush_and_reopen();
  void finish(std::chrono::nanoseconds max_wait);

 private:
  void run();
  bool write_out();
  void reopen_if_rotated();

  const std::string path_;
  // Used by the thread only.
  net::FileDescriptor file_;
  std::uint64_t inode_ = 0;
  std::string writing_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::string lines_;              // to be written
  std::size_t writing_bytes_ = 0;  // bytes that the thread is writing
  bool flush_due_ = false;
  bool reopen_due_ = false;
  bool ending_ = false;
  bool thread_ended_ = false;  // the thread has ended
};

bool AccessLogFile::LogWriter::open() {
  net::FileDescriptor file(
      path_ == "stdout" ? dup(STDOUT_FILENO)
                        : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  struct stat status {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0) return false;
  inode_ = status.st_ino;
  file_ = std::move(file);
  return true;
}

void AccessLogFile::LogWriter::start(const std::shared_ptr<LogWriter>& writer) {
  std::thread([writer] { writer->run(); }).detach();
}

bool AccessLogFile::LogWriter::add(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (writing_bytes_ + lines_.size() + line.size() > kMaxBuffered) return false;
  lines_ += line;
  if (lines_.size() < kFlushSize || flush_due_) return true;
  flush_due_ = true;
  wake_.notify_one();
  return true;
}

void AccessLogFile::LogWriter::flush_and_reopen() {
  const std::lock_guard lock(mutex_);
  flush_due_ = reopen_due_ = true;
  wake_.notify_one();
}

void AccessLogFile::LogWriter::finish(std::chrono::nanoseconds max_wait) {
  std::unique_lock lock(mutex_);
  flush_due_ = ending_ = true;
  wake_.notify_one();
  ended_.wait_for(lock, max_wait, [this] { return thread_ended_; });
}

void AccessLogFile::LogWriter::run() {
  std::unique_lock lock(mutex_);
  bool all = true;
  do {
    wake_.wait(lock, [this] { return flush_due_; });
    flush_due_ = ending_;
    const bool reopen = std::exchange(reopen_due_, false);
    writing_.swap(lines_);
    writing_bytes_ = writing_.size();
    lock.unlock();
    all = write_out();
    if (reopen) reopen_if_rotated();
    lock.lock();
    // The unwritten rest stays in front of newer lines, if there is memory for both.
    writing_bytes_ = 0;
    const auto put_first = [this] {
      writing_ += lines_;
      lines_.swap(writing_);
    };
    if (!writing_.empty()) catch_bad_alloc(put_first);
    writing_.clear();
  } while (!ending_ || (all && !lines_.empty()));
  thread_ended_ = true;
  ended_.notify_all();
}

bool AccessLogFile::LogWriter::write_out() {
  std::size_t written = 0;
  while (written < writing_.size()) {
    const ssize_t count = ::write(file_.fd(), writing_.data() + written, writing_.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  writing_.erase(0, written);
  return writing_.empty();
}

void AccessLogFile::LogWriter::reopen_if_rotated() {
  if (path_ == "stdout") return;
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0 || status.st_ino != inode_) open();
}

AccessLogFile::AccessLogFile(const AccessLogConfig& log, std::atomic<std::uint64_t>& dropped)
    : json_(log.json), dropped_(dropped), writer_(std::make_shared<LogWriter>(log.path)) {}

Result<std::shared_ptr<AccessLogFile>, Error> AccessLogFile::open(
    const AccessLogConfig& log, std::atomic<std::uint64_t>& dropped) {
  std::shared_ptr<AccessLogFile> file(new AccessLogFile(log, dropped));
  if (!file->writer_->open()) {
    file->retire();
    return Error{fmt::format("gateway: access_log {}: {}", log.path,
                             std::generic_category().message(errno))};
  }
  LogWriter::start(file->writer_);
  return file;
}

AccessLogFile::~AccessLogFile() {
  writer_->finish(waits_at_end_ ? kFinalWait : std::chrono::nanoseconds{0});
}

void AccessLogFile::write(const AccessLogEntry& logged) {
  if (!writer_->add(access_log_line(json_, logged)))
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

void AccessLogFile::flush_and_reopen() { writer_->flush_and_reopen(); }

}  // namespace weir::gateway
