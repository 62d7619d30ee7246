#include "gateway/h2_session.h"

#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "gateway/house.h"

namespace weir::gateway {

namespace {

constexpr std::uint32_t kMostStreams = 100;
// Of a body that its server has not taken. All streams together may have as much: none has to wait
// because others are stuck.
constexpr std::size_t kWindow = 64 << 10;
// Of an answer that the client has not taken, and of all on a connection: above, only those go on
// of which the client has taken everything.
constexpr std::size_t kMuchOfOne = 64 << 10;
constexpr std::size_t kMuchOfAll = 1 << 20;
// To be sent at once.
constexpr std::size_t kEnough = 64 << 10;

constexpr std::size_t kMostSpare = 16;

// For a client to notice that the connection has ended.
constexpr Nanos kLinger = std::chrono::seconds{2};
// For one that is sent away to say that it has heard.
constexpr Nanos kFarewell = std::chrono::seconds{1};

wire::H2Limits limits_for(const ClientLimits& client) {
  return {.streams = kMostStreams,
          .header = client.max_header,
          .fields = client.max_header_count,
          .body = SIZE_MAX,
          .window = kWindow,
          .bodies = kMostStreams * kWindow,
          .unsent = SIZE_MAX,
          .seconds = 0};  // (each request has a timer: see H2Client)
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

H2Client& client_of(const wire::H2Stream& stream) { return static_cast<H2Client&>(*stream.guest); }

}  // namespace

H2Session::H2Session(House& house, std::unique_ptr<net::Channel>& channel, const net::Peer& peer)
    : house_(house),
      peer_(parse_address(peer.address).value_or(Address{})),
      timer_(house.ground().timers, [this] { on_time(); }),
      header_timer_(house.ground().timers,
                    [this] {
                      const Turn turn(*this);
                      machine_.give_up(wire::H2Error::none);
                    }),
      machine_(*this, limits_for(house.common().client)) {
  // (Last: the channel is in the middle of an event, and stays with its owner if this fails.)
  channel_ = std::move(channel);
  channel_->use_owner(*this);
}

void H2Session::begin(std::string_view input) {
  const Turn turn(*this);
  receive(input);
  if (house_.is_draining()) shut_down();
}

// (What others say when they hear of it is not to be sent any more.)
H2Session::~H2Session() {
  ++turns_;
  let_all_go();
}

// ---- In

void H2Session::on_input(std::string_view input) {
  if (wait_ == Wait::lingering) return;
  const Turn turn(*this);
  receive(input);
}

// Requests that come and are taken back together never begin.
void H2Session::receive(std::string_view input) {
  machine_.receive(input, seconds_now());
  for (std::size_t i = 0; i < heard_of_.size(); ++i) serve(heard_of_[i]);
  heard_of_.clear();
}

void H2Session::on_request(wire::H2Stream& stream) {
  if (heard_of_.empty() || heard_of_.back() != stream.id()) heard_of_.push_back(stream.id());
}

void H2Session::serve(std::int32_t id) {
  wire::H2Stream* const stream = machine_.find(id);
  if (stream == nullptr) return;
  if (stream->guest) return client_of(*stream).on_more();
  std::unique_ptr<H2Client> client;
  if (spare_.empty()) {
    client = std::make_unique<H2Client>(*this);
  } else {
    client = std::move(spare_.back());
    spare_.pop_back();
  }
  H2Client& its = *client;
  stream->guest = std::move(client);
  its.begin(*stream);
}

void H2Session::on_gone(wire::H2Stream& stream) {
  if (!stream.guest) return;
  std::unique_ptr<H2Client> client(static_cast<H2Client*>(stream.guest.release()));
  client->on_gone();
  if (spare_.size() < kMostSpare) {
    spare_.push_back(std::move(client));
  } else {
    house_.ground().bury(std::move(client));
  }
}

// ---- Out

bool H2Session::has_room(const wire::H2Stream& stream) {
  const bool room =
      stream.unsent() == 0 || (stream.unsent() < kMuchOfOne && machine_.unsent() < kMuchOfAll);
  some_wait_ |= !room;
  return room;
}

void H2Session::end_turn() {
  send();
  tell_who_waits();
  channel_->count_owner_memory(machine_.memory());
  arrange();
}

void H2Session::end_turn_or_drop() noexcept {
  if (!with_memory([this] { end_turn(); })) drop();
}

void H2Session::send() {
  thread_local std::string out;
  while (channel_->is_open() && channel_->unsent() < kEnough && machine_.has_more()) {
    out.clear();
    machine_.send(out, kEnough);
    if (out.empty()) return;
    said_ += out.size();
    channel_->send(out);
  }
}

void H2Session::tell_who_waits() {
  if (!std::exchange(some_wait_, false)) return;
  for (const wire::H2Stream* stream : machine_.streams()) {
    if (stream->guest) client_of(*stream).on_room();
  }
}

void H2Session::on_sent() {
  if (wait_ == Wait::lingering) return;
  wait_ = Wait::nothing;
  const Turn turn(*this);
}

// ---- Patience

// Reads on if the client does, and is as patient as it should be with what is waited for.
void H2Session::arrange() {
  if (!channel_->is_open() || wait_ == Wait::lingering) return;
  if (machine_.is_over()) return channel_->unsent() > 0 ? wait_for(Wait::sending) : linger();
  channel_->want_input(channel_->unsent() < kEnough);
  if (!machine_.in_header()) {
    header_timer_.cancel();
  } else if (!header_timer_.is_set()) {
    header_timer_.set_in(house_.common().client.header);
  }
  if (channel_->unsent() > 0) {
    wait_for(Wait::sending);
  } else if (machine_.is_draining() && !told_to_go_) {
    wait_for(Wait::farewell);
  } else {
    wait_for(machine_.streams().empty() ? Wait::idle : Wait::nothing);
  }
}

Nanos H2Session::patience(Wait what) const {
  const ClientLimits& client = house_.common().client;
  switch (what) {
    case Wait::idle:
      return client.idle;
    case Wait::sending:
      return client.send;
    case Wait::farewell:
      return kFarewell;
    case Wait::lingering:
      return kLinger;
    case Wait::nothing:
      break;
  }
  return kForever;
}

void H2Session::wait_for(Wait what) {
  if (wait_ == what) return;
  wait_ = what;
  taken_then_ = taken();
  what == Wait::nothing ? timer_.cancel() : timer_.set_in(patience(what));
}

void H2Session::on_time() {
  const Turn turn(*this);
  switch (std::exchange(wait_, Wait::nothing)) {
    case Wait::idle:
      return machine_.give_up(wire::H2Error::none);
    case Wait::sending:
      // As long as some of what is sent is taken, it is worth waiting.
      if (taken() > taken_then_) return;
      channel_->abort();
      return drop();
    case Wait::farewell:
      told_to_go_ = true;
      return machine_.drain_now();
    case Wait::lingering:
      return drop();
    case Wait::nothing:
      break;
  }
}

// ---- Endings

void H2Session::shut_down() {
  const Turn turn(*this);
  machine_.drain();
}

void H2Session::on_end() { drop(); }

void H2Session::on_broken(std::string_view) { drop(); }

// It has said all. (See Session::linger.)
void H2Session::linger() {
  let_all_go();
  header_timer_.cancel();
  channel_->finish();
  channel_->want_input(true);
  wait_for(Wait::lingering);
}

// (See ~Exchange for what is not done without memory.)
void H2Session::let_all_go() noexcept {
  for (const wire::H2Stream* stream : machine_.streams()) {
    if (stream->guest) with_memory([stream] { client_of(*stream).on_gone(); });
  }
}

// The turn never ends: what others say when they hear of it is not to be sent any more.
void H2Session::drop() noexcept {
  ++turns_;
  let_all_go();
  wait_ = Wait::lingering;
  timer_.cancel();
  header_timer_.cancel();
  channel_->close();
  house_.leave(*this);
}

void H2Session::on_shed() noexcept {
  with_memory([this] {
    machine_.give_up(wire::H2Error::calm);
    send();
  });
  drop();
}

}  // namespace weir::gateway
