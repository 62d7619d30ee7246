#include "gateway/http2_connection.h"

#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "gateway/gateway_worker.h"

namespace weir::gateway {

namespace {

constexpr std::uint32_t kMaxStreams = 100;
// Flow-control window of a request body that the upstream has not taken. The connection's window is
// the sum over all streams: a blocked stream does not block others.
constexpr std::size_t kWindow = 64 << 10;
// Unsent response bytes of one stream, and of the connection. Above either, a stream accepts more
// only when all of its own output is sent.
constexpr std::size_t kMaxUnsentOfStream = 64 << 10;
constexpr std::size_t kMaxUnsentOfStreams = 1 << 20;
// Unsent bytes in the channel, above which nothing more is framed or read.
constexpr std::size_t kMaxChannelUnsent = 64 << 10;

constexpr std::size_t kMaxSpare = 16;

// Time of a lingering close.
constexpr Nanos kLingerTime = std::chrono::seconds{2};
// Time for a client to acknowledge the first GOAWAY before the connection drains.
constexpr Nanos kGoAwayTime = std::chrono::seconds{1};

wire::H2Limits limits_for(const ClientLimits& client) {
  return {.streams = kMaxStreams,
          .header = client.max_header,
          .fields = client.max_header_count,
          .body = SIZE_MAX,
          .window = kWindow,
          .bodies = kMaxStreams * kWindow,
          .unsent = SIZE_MAX,
          .seconds = 0};  // (Http2Downstream has the timers)
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Http2Downstream& downstream_of(const wire::H2Stream& stream) {
  return static_cast<Http2Downstream&>(*stream.guest);
}

}  // namespace

Http2Connection::Http2Connection(GatewayWorker& worker, std::unique_ptr<net::ByteChannel>& channel,
                                 const net::Peer& peer)
    : worker_(worker),
      peer_(parse_address(peer.address).value_or(IpAddress{})),
      timer_(worker.loop().timers, [this] { on_timeout(); }),
      header_timer_(worker.loop().timers,
                    [this] {
                      const OutputBatch batch(*this);
                      machine_.give_up(wire::H2Error::none);
                    }),
      machine_(*this, limits_for(worker.state().client)) {
  // (Last: the channel is in the middle of an event, and stays with its owner if this fails.)
  channel_ = std::move(channel);
  channel_->use_owner(*this);
}

void Http2Connection::begin(std::string_view input) {
  const OutputBatch batch(*this);
  receive(input);
  if (worker_.is_draining()) shut_down();
}

// (The batch is never ended: output of exchanges that end here is not sent.)
Http2Connection::~Http2Connection() {
  ++batch_depth_;
  end_all_exchanges();
}

// ---- Input

void Http2Connection::on_input(std::string_view input) {
  if (timeout_ == Http2Timeout::lingering) return;
  const OutputBatch batch(*this);
  receive(input);
}

// Streams are served after the whole input is parsed: a request that is reset in the same input
// never begins (rapid reset).
void Http2Connection::receive(std::string_view input) {
  machine_.receive(input, seconds_now());
  for (std::size_t i = 0; i < ready_streams_.size(); ++i) serve(ready_streams_[i]);
  ready_streams_.clear();
}

void Http2Connection::on_request(wire::H2Stream& stream) {
  if (ready_streams_.empty() || ready_streams_.back() != stream.id())
    ready_streams_.push_back(stream.id());
}

void Http2Connection::serve(std::int32_t id) {
  wire::H2Stream* const stream = machine_.find(id);
  if (stream == nullptr) return;
  if (stream->guest) return downstream_of(*stream).on_input();
  std::unique_ptr<Http2Downstream> client;
  if (spare_.empty()) {
    client = std::make_unique<Http2Downstream>(*this);
  } else {
    client = std::move(spare_.back());
    spare_.pop_back();
  }
  Http2Downstream& downstream = *client;
  stream->guest = std::move(client);
  downstream.begin(*stream);
}

void Http2Connection::on_gone(wire::H2Stream& stream) {
  if (!stream.guest) return;
  std::unique_ptr<Http2Downstream> client(static_cast<Http2Downstream*>(stream.guest.release()));
  client->on_gone();
  if (spare_.size() < kMaxSpare) {
    spare_.push_back(std::move(client));
  } else {
    worker_.loop().defer_delete(std::move(client));
  }
}

// ---- Output

bool Http2Connection::has_room(const wire::H2Stream& stream) {
  const bool has_space = stream.unsent() == 0 || (stream.unsent() < kMaxUnsentOfStream &&
                                                  machine_.unsent() < kMaxUnsentOfStreams);
  streams_blocked_ |= !has_space;
  return has_space;
}

void Http2Connection::end_batch() {
  flush_output();
  resume_blocked_streams();
  channel_->count_owner_memory(machine_.memory());
  update_interest();
}

void Http2Connection::end_batch_or_drop() noexcept {
  if (!catch_bad_alloc([this] { end_batch(); })) drop();
}

void Http2Connection::flush_output() {
  thread_local std::string out;
  while (channel_->is_open() && channel_->unsent() < kMaxChannelUnsent && machine_.has_more()) {
    out.clear();
    machine_.send(out, kMaxChannelUnsent);
    if (out.empty()) return;
    queued_bytes_ += out.size();
    channel_->send(out);
  }
}

void Http2Connection::resume_blocked_streams() {
  if (!std::exchange(streams_blocked_, false)) return;
  for (const wire::H2Stream* stream : machine_.streams()) {
    if (stream->guest) downstream_of(*stream).on_buffer_space();
  }
}

void Http2Connection::on_sent() {
  if (timeout_ == Http2Timeout::lingering) return;
  timeout_ = Http2Timeout::none;
  const OutputBatch batch(*this);
}

// ---- Timeouts

// Updates read interest (backpressure) and the timers.
void Http2Connection::update_interest() {
  if (!channel_->is_open() || timeout_ == Http2Timeout::lingering) return;
  if (machine_.is_over())
    return channel_->unsent() > 0 ? set_timeout(Http2Timeout::sending) : linger();
  channel_->want_input(channel_->unsent() < kMaxChannelUnsent);
  if (!machine_.in_header()) {
    header_timer_.cancel();
  } else if (!header_timer_.is_set()) {
    header_timer_.set_in(worker_.state().client.header);
  }
  if (channel_->unsent() > 0) {
    set_timeout(Http2Timeout::sending);
  } else if (machine_.is_draining() && !drained_) {
    set_timeout(Http2Timeout::goaway);
  } else {
    set_timeout(machine_.streams().empty() ? Http2Timeout::idle : Http2Timeout::none);
  }
}

Nanos Http2Connection::timeout_of(Http2Timeout timeout) const {
  const ClientLimits& client = worker_.state().client;
  switch (timeout) {
    case Http2Timeout::idle:
      return client.idle;
    case Http2Timeout::sending:
      return client.send;
    case Http2Timeout::goaway:
      return kGoAwayTime;
    case Http2Timeout::lingering:
      return kLingerTime;
    case Http2Timeout::none:
      break;
  }
  return kForever;
}

void Http2Connection::set_timeout(Http2Timeout timeout) {
  if (timeout_ == timeout) return;
  timeout_ = timeout;
  sent_at_timer_ = sent_bytes();
  timeout == Http2Timeout::none ? timer_.cancel() : timer_.set_in(timeout_of(timeout));
}

void Http2Connection::on_timeout() {
  const OutputBatch batch(*this);
  switch (std::exchange(timeout_, Http2Timeout::none)) {
    case Http2Timeout::idle:
      return machine_.give_up(wire::H2Error::none);
    case Http2Timeout::sending:
      // The send timeout restarts as long as the client takes some of the output.
      if (sent_bytes() > sent_at_timer_) return;
      channel_->abort();
      return drop();
    case Http2Timeout::goaway:
      drained_ = true;
      return machine_.drain_now();
    case Http2Timeout::lingering:
      return drop();
    case Http2Timeout::none:
      break;
  }
}

// ---- Ending

void Http2Connection::shut_down() {
  const OutputBatch batch(*this);
  machine_.drain();
}

void Http2Connection::on_eof() { drop(); }

void Http2Connection::on_error(std::string_view) { drop(); }

// All output is sent. See Http1Connection::linger.
void Http2Connection::linger() {
  end_all_exchanges();
  header_timer_.cancel();
  channel_->finish();
  channel_->want_input(true);
  set_timeout(Http2Timeout::lingering);
}

// See ~Exchange for what is lost if memory is exhausted.
void Http2Connection::end_all_exchanges() noexcept {
  for (const wire::H2Stream* stream : machine_.streams()) {
    if (stream->guest) catch_bad_alloc([stream] { downstream_of(*stream).on_gone(); });
  }
}

// The batch is never ended: output of exchanges that end here is not sent.
void Http2Connection::drop() noexcept {
  ++batch_depth_;
  end_all_exchanges();
  timeout_ = Http2Timeout::lingering;
  timer_.cancel();
  header_timer_.cancel();
  channel_->close();
  worker_.remove(*this);
}

void Http2Connection::on_shed() noexcept {
  catch_bad_alloc([this] {
    machine_.give_up(wire::H2Error::calm);
    flush_output();
  });
  drop();
}

}  // namespace weir::gateway
