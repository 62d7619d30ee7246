#include "server/h2_session.h"

namespace weir::server {

namespace {

// How long the peer has to acknowledge the first GOAWAY at shutdown.
constexpr std::chrono::seconds kGoawayTimeout{1};

// Bytes of input that are handled before their responses are written: a few requests, so that the
// next ones find their memory in the caches.
constexpr std::size_t kInputChunk = 1 << 10;

// An upper bound of the time to answer one batch of input, without waiting for the store.
constexpr std::chrono::seconds kMaxTurn{1};

}  // namespace

H2Session::H2Session(ServerContext& context, ListenerKind listener, const wire::H2Limits& limits)
    : context_(context),
      machine_(*this, limits),
      listener_(listener),
      self_(std::make_shared<BackReference>(this)) {}

std::size_t H2Session::on_input(std::string_view input, std::string& out) {
  std::size_t used = 0;
  if (!input.empty()) {
    RequestTimer timer(context_.metrics, listener_);
    timer_ = &timer;
    received_ = Clock::now();
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(received_.time_since_epoch());
    do {
      const std::string_view chunk = input.substr(used, kInputChunk);
      machine_.receive(chunk, seconds.count());
      machine_.send(out, kOutputHighWater);
      used += chunk.size();
    } while (used < input.size() && out.size() < kOutputHighWater && !timer.has_expired());
    timer_ = nullptr;
  }
  if (machine_.is_no_http2() && !ends_) {
    ends_ = true;
    refuse_other_protocol(out);
  }
  machine_.send(out, kOutputHighWater);
  return used;
}

void H2Session::refuse_other_protocol(std::string& out) {
  out +=
      "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain\r\n"
      "Content-Length: 30\r\nConnection: close\r\n\r\nThis port speaks HTTP/2 only.\n";
}

// A draining connection counts as busy until the peer has acknowledged the GOAWAY.
bool H2Session::in_message() const { return machine_.in_message() || machine_.is_draining(); }

// A stream that ends while its call waits for the store: the call counts as an orphan until then.
void H2Session::on_gone(wire::H2Stream& stream) {
  if (!stream.is_answered() && stream.is_whole()) machine_.note_orphan();
}

// Responses that are made within on_input are sent at its end, without a wake-up.
void H2Session::wake_if_deferred() {
  if (timer_ == nullptr && waker_ != nullptr) waker_->wake();
}

// Avoids reading the clock for deadlines that are far away: that costs as much as a decision.
bool H2Session::is_past(Clock::time_point time) const {
  const bool in_turn = timer_ != nullptr;
  return !(in_turn && time > received_ + kMaxTurn) && Clock::now() >= time;
}

bool H2Session::on_tick() {
  if (!machine_.is_draining() || Clock::now() < draining_since_ + kGoawayTimeout) return false;
  machine_.drain_now();
  return machine_.has_more();
}

void H2Session::on_timeout(std::string& out) {
  machine_.give_up(wire::H2Error::none);
  machine_.send(out, kOutputHighWater);
}

void H2Session::on_shutdown() {
  if (machine_.is_draining()) return;
  draining_since_ = Clock::now();
  on_drain();
  machine_.drain();
}

void H2Session::on_shed(std::string& out) {
  machine_.give_up(wire::H2Error::calm);
  machine_.send(out, kOutputHighWater);
}

// Sends GOAWAY with the last stream seen: the peer may safely retry requests behind that one.
void H2Session::on_close(std::string& out) {
  machine_.give_up(wire::H2Error::none);
  machine_.send(out, kOutputHighWater);
}

}  // namespace weir::server
