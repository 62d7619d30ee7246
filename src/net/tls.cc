#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/scratch_buffer.h"

namespace weir::net {

namespace {

constexpr std::size_t kHeader = 5;
constexpr std::size_t kMostPlain = 16 << 10;  // of a record, as is the standard's
constexpr std::size_t kMostRecord = kHeader + kMostPlain + 2048;  // the same, encrypted
constexpr char kHandshake = 0x16;  // the first byte of everybody who speaks TLS

// ---- The BIO that OpenSSL reads from and writes to: our own buffers, so that idle connections
// keep
// ---- none.

int read_wire(BIO* bio, char* to, int most) {
  auto& input = static_cast<TlsProtocol::Wire*>(BIO_get_data(bio))->input;
  BIO_clear_retry_flags(bio);
  if (input.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const std::size_t count = std::min(input.size(), static_cast<std::size_t>(most));
  std::memcpy(to, input.data(), count);
  input.remove_prefix(count);
  return static_cast<int>(count);
}

int write_wire(BIO* bio, const char* from, int count) {
  std::string* out = static_cast<TlsProtocol::Wire*>(BIO_get_data(bio))->out;
  BIO_clear_retry_flags(bio);
  if (out != nullptr) out->append(from, static_cast<std::size_t>(count));
  return count;
}

long control_wire(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_wire_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");
  BIO_meth_set_read(method, read_wire);
  BIO_meth_set_write(method, write_wire);
  BIO_meth_set_ctrl(method, control_wire);
  return method;
}

BIO* make_bio(TlsProtocol::Wire& wire) {
  static BIO_METHOD* const method = make_wire_method();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, &wire);
  BIO_set_init(bio, 1);
  return bio;
}

// ----

std::size_t length_of(std::string_view record) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(record[i]));
  };
  return kHeader + (byte(3) << 8 | byte(4));
}

// How much of the input is whole records. The rest stays with the connection, which sees that
// something has begun; but one longer than any may be is left to OpenSSL to refuse.
std::size_t whole_records(std::string_view input) {
  std::size_t whole = 0;
  while (input.size() - whole >= kHeader) {
    const std::size_t length = length_of(input.substr(whole));
    if (length > kMostRecord) return input.size();
    if (input.size() - whole < length) break;
    whole += length;
  }
  return whole;
}

// Of one that has more to say than it says at once, how long it goes on. (Most have not, and pay
// for no look at the clock.)
class Stint {
 public:
  bool is_over() {
    const auto now = std::chrono::steady_clock::now();
    if (until_ == std::chrono::steady_clock::time_point{}) until_ = now + Protocol::kTimeSlice;
    return now >= until_;
  }

 private:
  std::chrono::steady_clock::time_point until_{};
};

// Where answers wait to be encrypted, for the one that is being served.
std::string& scratch_answers() {
  thread_local std::string answers;
  clear_scratch_buffer(answers, 4 * Protocol::kOutputHighWater);
  return answers;
}

}  // namespace

TlsProtocol::TlsProtocol(const TlsContext& context, const TlsOptions& options, const Peer& peer,
                         std::unique_ptr<Protocol> inner, std::size_t max_input)
    : options_(options),
      peer_(peer),
      inner_(std::move(inner)),
      max_input_(max_input),
      ssl_(new_session(context, options.alpn), &SSL_free) {
  BIO* bio = ssl_ ? make_bio(wire_) : nullptr;
  if (bio == nullptr) {  // there is no memory
    over_ = broken_ = true;
    return;
  }
  SSL_set_bio(ssl_.get(), bio, bio);
}

bool TlsProtocol::is_let_in() const { return ssl_ && SSL_is_init_finished(ssl_.get()) == 1; }

std::size_t TlsProtocol::on_input(std::string_view input, std::string& out) {
  if (over_ || !greets(input, out)) return input.size();
  const std::string_view fresh = input.substr(held_);
  const std::size_t whole = whole_records(fresh);
  wire_ = {.input = fresh.substr(0, whole), .out = &out};
  // It may have more to say though nothing new has come.
  const bool was_let_in = is_let_in();
  unanswered_ |= was_let_in;
  answered_ = false;
  for (Stint stint; !over_ && out.size() < kOutputHighWater;) {
    decrypt();
    if (over_ || !unanswered_) break;
    answer();
    if (unanswered_ && stint.is_over()) break;
  }
  answered_ |= !was_let_in && is_let_in();
  const std::size_t used = held_ + whole - wire_.input.size();
  wire_ = {};
  if (plain_.empty()) clear_scratch_buffer(plain_);
  // A protocol that has consumed all input is not called again once its output is sent. So the last
  // byte is consumed only when nothing is left to process.
  const bool has_more = !over_ && (unanswered_ || SSL_pending(ssl_.get()) > 0);
  held_ = has_more ? std::min<std::size_t>(used, 1) : 0;
  return used - held_;
}

// Whether the first byte is that of TLS. Others are told in their own words: OpenSSL would wait for
// more, and then say it in its own.
bool TlsProtocol::greets(std::string_view input, std::string& out) {
  if (greeted_ || input.empty()) return true;
  greeted_ = input.front() == kHandshake;
  if (greeted_) return true;
  broken_ = true;
  out += options_.not_tls;
  refuse("it does not speak TLS");
  return false;
}

// ---- In

// All that there is room for: takes that come together are decided together, also if they come in
// records of their own.
void TlsProtocol::decrypt() {
  thread_local std::array<char, kMostPlain> room;
  while (!over_ && !peer_is_done_ && plain_.size() < max_input_) {
    const std::size_t most = std::min(room.size(), max_input_ - plain_.size());
    ERR_clear_error();
    const int count = SSL_read(ssl_.get(), room.data(), static_cast<int>(most));
    if (count <= 0) return stop_reading(count);
    plain_.append(room.data(), static_cast<std::size_t>(count));
    unanswered_ = true;
  }
}

void TlsProtocol::stop_reading(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return;
  if (error == SSL_ERROR_ZERO_RETURN) {
    peer_is_done_ = true;
    return;
  }
  broken_ = true;
  refuse(tls_failure(ssl_.get(), "it makes no sense"));
}

void TlsProtocol::refuse(std::string_view why) {
  over_ = true;
  if (options_.refused) options_.refused(peer_, why);
}

// ---- Out

void TlsProtocol::answer() {
  std::string& answers = scratch_answers();
  const std::size_t used = inner_->on_input(plain_, answers);
  const bool moved = used > 0 || !answers.empty();
  plain_.erase(0, used);
  encrypt(answers);
  answered_ |= !answers.empty() && inner_->wrote_response();
  unanswered_ = (moved && !plain_.empty()) || answers.size() >= kOutputHighWater;
  const bool too_long = !moved && !inner_->waits() && plain_.size() >= max_input_;
  over_ |= inner_->ends() || too_long;
}

void TlsProtocol::encrypt(std::string_view answers) {
  if (answers.empty() || broken_) return;
  ERR_clear_error();
  std::size_t written = 0;
  // (There always is room for all of it.)
  broken_ = SSL_write_ex(ssl_.get(), answers.data(), answers.size(), &written) != 1 ||
            written != answers.size();
  over_ |= broken_;
}

// ---- Timeouts and shutdown

// Before the handshake begins, a message is under way only so that its timeout runs; not at
// shutdown.
bool TlsProtocol::in_message() const {
  if (!is_let_in()) return greeted_ || !shutting_down_;
  return !plain_.empty() || inner_->in_message();
}

void TlsProtocol::on_timeout(std::string& out) {
  if (over_) return;
  if (!is_let_in()) {
    broken_ = true;
    return refuse("it did not finish the handshake in time");
  }
  std::string& answers = scratch_answers();
  inner_->on_timeout(answers);
  wire_.out = &out;
  encrypt(answers);
  wire_.out = nullptr;
}

void TlsProtocol::on_shutdown() {
  shutting_down_ = true;
  inner_->on_shutdown();
}

// That there is nothing more to come, so that nobody can pretend it.
void TlsProtocol::on_close(std::string& out) {
  if (broken_ || !is_let_in()) return;
  wire_.out = &out;
  std::string& words = scratch_answers();
  inner_->on_close(words);
  encrypt(words);
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  wire_.out = nullptr;
}

// ---- Memory

std::size_t TlsProtocol::memory() const {
  const std::size_t session = ssl_ ? session_memory(ssl_.get()) : 0;
  return session + plain_.capacity() + inner_->memory();
}

void TlsProtocol::on_shed(std::string& out) {
  if (broken_ || !is_let_in()) return;
  std::string& words = scratch_answers();
  inner_->on_shed(words);
  wire_.out = &out;
  encrypt(words);
  wire_.out = nullptr;
}

// ---- The listener

ListenerOptions with_tls(ListenerOptions listener, const CurrentTls& current, TlsOptions options) {
  const std::size_t most_plain = listener.max_input;
  auto make_protocol = std::move(listener.make_protocol);
  const auto shared = std::make_shared<const TlsOptions>(std::move(options));
  listener.make_protocol = [=, &current,
                            make_protocol = std::move(make_protocol)](const Peer& peer) {
    return std::make_unique<TlsProtocol>(current.get(), *shared, peer, make_protocol(peer),
                                         most_plain);
  };
  // A record must fit, and whoever there is no room for is told by an alert: fatal, internal error.
  listener.max_input = std::max(most_plain, kMostRecord);
  listener.over_limit_reply = std::string("\x15\x03\x03\x00\x02\x02\x50", 7);
  return listener;
}

}  // namespace weir::net
