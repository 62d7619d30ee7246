#include "server/h2_session.h"

namespace weir::server {

namespace {

// How long somebody who is sent away has to say that it has heard.
constexpr std::chrono::seconds kFarewell{1};

// Of input that is looked at before its answers are written: what a few requests take, so that the
// next ones find the memory of these still warm.
constexpr std::size_t kPiece = 1 << 10;

// Longer than all that comes together takes to be answered, if nobody has to be waited for.
constexpr std::chrono::seconds kLongestTurn{1};

}  // namespace

H2Session::H2Session(Service& service, DoorName door, const wire::H2Limits& limits)
    : service_(service), machine_(*this, limits), door_(door), tie_(std::make_shared<Tie>(this)) {}

std::size_t H2Session::on_input(std::string_view input, std::string& out) {
  std::size_t used = 0;
  if (!input.empty()) {
    Timed timed(service_.metrics, door_);
    timed_ = &timed;
    received_ = Clock::now();
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(received_.time_since_epoch());
    do {
      const std::string_view piece = input.substr(used, kPiece);
      machine_.receive(piece, seconds.count());
      machine_.send(out, kEnough);
      used += piece.size();
    } while (used < input.size() && out.size() < kEnough && !timed.is_long());
    timed_ = nullptr;
  }
  if (machine_.is_no_http2() && !ends_) {
    ends_ = true;
    refuse_stranger(out);
  }
  machine_.send(out, kEnough);
  return used;
}

void H2Session::refuse_stranger(std::string& out) {
  out +=
      "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain\r\n"
      "Content-Length: 30\r\nConnection: close\r\n\r\nThis port speaks HTTP/2 only.\n";
}

// Who is sent away has to hear of it.
bool H2Session::in_message() const { return machine_.in_message() || machine_.is_draining(); }

// (Who is still being asked something can be told from who was answered.)
void H2Session::on_gone(wire::H2Stream& stream) {
  if (!stream.is_answered() && stream.is_whole()) machine_.note_orphan();
}

// While input is looked at, all that is answered goes out behind it.
void H2Session::wake_if_late() {
  if (timed_ == nullptr && waker_ != nullptr) waker_->wake();
}

// (Most deadlines are far away, and a look at the clock costs as much as a decision.)
bool H2Session::is_past(Clock::time_point time) const {
  const bool at_once = timed_ != nullptr;
  return !(at_once && time > received_ + kLongestTurn) && Clock::now() >= time;
}

bool H2Session::look_around() {
  if (!machine_.is_draining() || Clock::now() < draining_since_ + kFarewell) return false;
  machine_.drain_now();
  return machine_.has_more();
}

void H2Session::on_timeout(std::string& out) {
  machine_.give_up(wire::H2Error::none);
  machine_.send(out, kEnough);
}

void H2Session::on_shutdown() {
  if (machine_.is_draining()) return;
  draining_since_ = Clock::now();
  on_drain();
  machine_.drain();
}

void H2Session::on_shed(std::string& out) {
  machine_.give_up(wire::H2Error::calm);
  machine_.send(out, kEnough);
}

// So that what the peer sends meanwhile is not lost: it knows that nobody has seen it.
void H2Session::on_end(std::string& out) {
  machine_.give_up(wire::H2Error::none);
  machine_.send(out, kEnough);
}

}  // namespace weir::server
