#include "gateway/h2_client.h"

#include <string>
#include <vector>

#include "gateway/h2_session.h"
#include "gateway/house.h"
#include "gateway/refusal.h"
#include "gateway/request_head.h"
#include "wire/h2_fields.h"
#include "wire/http1_body.h"

namespace weir::gateway {

namespace {

// The head of an answer as HTTP/2 has it: names are small, and nothing is about the connection.
class Head {
 public:
  explicit Head(const AnswerHead& head)
      : status_(std::to_string(head.status)), lines_(head.fields) {
    fields.push_back({":status", status_, false});
    wire::append_fields(fields, lines_);
    if (!head.length.empty()) fields.push_back({"content-length", head.length, false});
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  std::vector<wire::H2Field> fields;

 private:
  std::string status_;
  std::string lines_;
};

}  // namespace

H2Client::H2Client(H2Session& session)
    : session_(session),
      timer_(session.house().ground().timers, [this] { on_time(); }),
      exchange_(session.house(), *this) {}

const Address& H2Client::peer() const { return session_.peer(); }

bool H2Client::has_tls() const { return session_.has_tls(); }

// ---- The request

void H2Client::begin(wire::H2Stream& stream) {
  stream_ = &stream;
  over_ = has_body_ = waits_ = false;
  wait_ = Wait::nothing;
  said_ = 0;
  if (stream.flaw() != 0) return refuse();
  exchange_.begin(stream.request(), framing_of(stream), {});
  feed();
}

void H2Client::refuse() {
  session_.house().common().counts.malformed.fetch_add(1, std::memory_order_relaxed);
  const Answer answer = problem(stream_->flaw(), stream_->reason());
  const bool has_body = !stream_->request().head;
  const std::string length = std::to_string(answer.body.size());
  start({.status = answer.status, .fields = answer.fields, .length = length, .has_body = has_body});
  if (has_body) send(answer.body);
  finish({});
  over(true);
}

void H2Client::on_more() { feed(); }

// What has come is passed on as it is wanted; the client may send as much more.
void H2Client::feed() {
  over_ ? stream_->parts().clear() : pass_body();
  session_.machine().took(*stream_);
  arrange();
}

// (What is passed on is forgotten only behind it: nobody else may look at it meanwhile.)
void H2Client::pass_body() {
  if (passing_) return;
  std::string& parts = stream_->parts();
  while (!parts.empty() && exchange_.wants_body()) {
    passing_ = true;
    const std::size_t used = exchange_.on_body(parts);
    passing_ = false;
    if (over_ || used == 0) return;
    parts.erase(0, used);
  }
  const bool ends = parts.empty() && stream_->is_whole();
  if (ends && exchange_.wants_body()) exchange_.on_body_end(stream_->request_trailers());
}

// ---- The answer

void H2Client::welcome() {
  constexpr wire::H2Field status{":status", "100"};
  session_.machine().hint(*stream_, {&status, 1});
}

void H2Client::hint(const AnswerHead& head) {
  session_.machine().hint(*stream_, Head(head).fields);
}

void H2Client::start(const AnswerHead& head) {
  has_body_ = head.has_body;
  const Head own(head);
  if (has_body_) return session_.machine().start(*stream_, own.fields);
  session_.machine().respond(*stream_, own.fields);
}

void H2Client::send(std::string_view body) {
  said_ += body.size();
  stream_->answer.append(body);
  session_.machine().go_on(*stream_);
}

void H2Client::finish(std::string_view trailers) {
  if (!has_body_) return;
  std::string lines = wire::passable_trailers(trailers);
  std::vector<wire::H2Field> fields;
  wire::append_fields(fields, lines);
  session_.machine().finish(*stream_, fields);
}

bool H2Client::has_room() {
  waits_ = !session_.has_room(*stream_);
  return !waits_;
}

void H2Client::on_room() {
  if (waits_ && !over_ && has_room()) exchange_.on_client_sent();
}

// ---- What becomes of it

void H2Client::go_on() {
  if (stream_ == nullptr) return;
  const H2Session::Turn turn(session_);
  feed();
}

// (The connection goes on in any case: where a request ends is known.)
void H2Client::over(bool /*keeps*/) {
  const H2Session::Turn turn(session_);
  over_ = true;
  feed();
}

void H2Client::abort() {
  const H2Session::Turn turn(session_);
  over_ = true;
  session_.machine().reset(*stream_, wire::H2Error::internal);
  feed();
}

void H2Client::drop() noexcept { session_.drop(); }

void H2Client::on_gone() {
  timer_.cancel();
  if (!over_ && stream_ != nullptr) exchange_.on_client_gone();
  stream_ = nullptr;
  waits_ = false;
}

// ---- Patience

void H2Client::arrange() {
  const bool wants = over_ || exchange_.wants_body();
  if (stream_->unsent() > 0) {
    wait_for(Wait::sending);
  } else {
    wait_for(wants && !stream_->is_whole() ? Wait::body : Wait::nothing);
  }
}

// (Who takes nothing has no more time for it by saying something.)
void H2Client::wait_for(Wait what) {
  if (what == Wait::sending && wait_ == what) return;
  wait_ = what;
  taken_then_ = taken();
  const ClientLimits& limits = session_.house().common().client;
  if (what == Wait::nothing) return timer_.cancel();
  timer_.set_in(what == Wait::sending ? limits.send : limits.body);
}

void H2Client::on_time() {
  const H2Session::Turn turn(session_);
  wait_ = Wait::nothing;
  // As long as some of the answer is taken, it is worth waiting.
  if (taken() > taken_then_) return arrange();
  if (over_) return session_.machine().reset(*stream_, wire::H2Error::none);
  exchange_.on_client_late();
  feed();
}

}  // namespace weir::gateway
