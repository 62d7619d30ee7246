#include "wire/h2.h"

#include <algorithm>
#include <utility>

#include "base/scratch_buffer.h"
#include "wire/http1_target.h"

// Streams and the requests on them. What comes is in h2_in.cc, what goes in h2_out.cc.

namespace weir::wire {

namespace {

// Window beyond the body limit: a client that sends too much must be able to, or it would wait for
// the window and never read the refusal.
constexpr std::size_t kTooMuch = 64 << 10;

constexpr std::size_t kMostSpare = 256;
constexpr std::size_t kMostSpareAtEnd = 16;        // of a connection
constexpr std::size_t kMostSpareMemory = 2 << 10;  // of one: larger ones are not kept

// The initial window (RFC 9113, 6.9.2).
constexpr std::int64_t kFirstWindow = 65'535;

// Streams, to be used again.
std::vector<std::unique_ptr<H2Stream>>& spare_streams() {
  thread_local std::vector<std::unique_ptr<H2Stream>> of_this_thread;
  return of_this_thread;
}

std::unique_ptr<H2Stream> new_stream() {
  auto& spare = spare_streams();
  if (spare.empty()) return std::make_unique<H2Stream>();
  std::unique_ptr<H2Stream> stream = std::move(spare.back());
  spare.pop_back();
  return stream;
}

std::size_t window_of(const H2Limits& limits) {
  return limits.window > 0 ? limits.window : limits.body + kTooMuch;
}

}  // namespace

void H2Stream::clear() {
  clear_scratch_buffer(answer);
  guest.reset();
  request_ = {};
  flaw_ = 0;
  reason_ = {};
  clear_scratch_buffer(text_);
  header_ = 0;
  places_.clear();
  noted_ = {};
  length_.reset();
  come_ = 0;
  clear_scratch_buffer(request_trailers_);
  clear_scratch_buffer(body_);
  held_ = dropped_ = 0;
  used_up_ = 0;
  in_parts_ = whole_ = told_ = waits_ = false;
  late_since_ = 0;
  said_ = Said::nothing;
  closed_ = false;
  well_ = true;
  sent_ = counted_ = 0;
  clear_scratch_buffer(trailer_text_);
  trailers_.clear();
}

std::size_t H2Stream::memory() const {
  return text_.capacity() + places_.capacity() * sizeof(HttpFields::FieldSlices) +
         body_.capacity() + answer.capacity() + request_trailers_.capacity() +
         trailer_text_.capacity() + trailers_.capacity() * sizeof(H2Field);
}

// ---- Lists of streams

void H2StreamList::add(H2Stream& stream) {
  stream.list_ = this;
  stream.before_ = last_;
  stream.behind_ = nullptr;
  (last_ != nullptr ? last_->behind_ : first_) = &stream;
  last_ = &stream;
}

void H2StreamList::remove(H2Stream& stream) {
  H2StreamList* const list = std::exchange(stream.list_, nullptr);
  if (list == nullptr) return;
  (stream.before_ != nullptr ? stream.before_->behind_ : list->first_) = stream.behind_;
  (stream.behind_ != nullptr ? stream.behind_->before_ : list->last_) = stream.before_;
}

// ---- The connection

Http2Server::Http2Server(H2Handler& handler, const H2Limits& limits)
    : handler_(handler),
      limits_(limits),
      window_{.size = std::max(static_cast<std::int64_t>(limits.bodies), kFirstWindow)},
      own_window_(kFirstWindow),
      peer_window_(kFirstWindow),
      peer_new_window_(kFirstWindow) {
  std::string settings;
  const auto set = [&](H2Setting setting, std::size_t value) {
    settings += '\0';
    settings += static_cast<char>(setting);
    append_h2_number(settings, static_cast<std::uint32_t>(value));
  };
  set(H2Setting::streams, limits.streams);
  set(H2Setting::window, window_of(limits));
  set(H2Setting::header, limits.header);
  set(H2Setting::no_priorities, 1);
  say(H2Type::settings, 0, 0, settings);
  if (window_.left > kFirstWindow) {
    say_number(H2Type::window_update, 0, static_cast<std::uint32_t>(window_.left - kFirstWindow));
  }
}

Http2Server::~Http2Server() {
  for (H2Stream* const stream : streams_) delete stream;
  // (Spare ones lie scattered among what was freed, and keep it from going back to the system.)
  auto& spare = spare_streams();
  if (spare.size() > kMostSpareAtEnd) spare.resize(kMostSpareAtEnd);
}

void Http2Server::say(H2Type type, std::uint8_t flags, std::int32_t stream,
                      std::string_view payload) {
  if (!gave_up_) append_h2_frame(queue_, type, flags, stream, payload);
}

void Http2Server::say_number(H2Type type, std::int32_t stream, std::uint32_t number) {
  if (gave_up_) return;
  append_h2_head(queue_, {.size = 4, .type = type, .stream = stream});
  append_h2_number(queue_, number);
}

void Http2Server::say_reset(std::int32_t stream, H2Error error) {
  say_number(H2Type::rst_stream, stream, static_cast<std::uint32_t>(error));
  reset_history_.add(stream);
}

void Http2Server::say_goodbye(std::int32_t last, H2Error error) {
  if (gave_up_) return;
  append_h2_head(queue_, {.size = 8, .type = H2Type::goaway});
  append_h2_number(queue_, static_cast<std::uint32_t>(last));
  append_h2_number(queue_, static_cast<std::uint32_t>(error));
}

// ---- Streams

H2Stream*& Http2Server::place_of(std::int32_t id) const {
  return places_[static_cast<std::size_t>(id >> 1) % places_.size()];
}

// Also one that is closed.
H2Stream* Http2Server::find_any(std::int32_t id) const {
  H2Stream* stream = place_of(id);
  while (stream != nullptr && stream->id_ != id) stream = stream->next_found_;
  return stream;
}

H2Stream* Http2Server::find(std::int32_t id) const {
  H2Stream* const stream = find_any(id);
  return stream != nullptr && !stream->closed_ ? stream : nullptr;
}

// Whether nobody has begun it.
bool Http2Server::is_idle(std::int32_t id) const { return id > last_come_ || id % 2 == 0; }

// Whether the peer need not know that it has ended. (After the last word about new ones none is
// begun.)
bool Http2Server::may_go_on(std::int32_t id) const {
  return drain_ == Drain::last || reset_history_.may_go_on(id);
}

bool Http2Server::is_full() const {
  return streams_.size() + orphans_ >= limits_.streams || headers_ > limits_.headers ||
         unsent_ > limits_.unsent;
}

// If there is room for it. (Those that are closed are in nobody's way.)
void Http2Server::begin_request(std::int32_t id) {
  if (is_full()) end_streams();
  if (is_full()) {
    say_reset(id, H2Error::refused_stream);
    // Before the client has acknowledged our SETTINGS it cannot know the limit.
    return knows_settings_ ? abuse_budget_.note_reset() : abuse_budget_.note_useless();
  }
  streams_.push_back(nullptr);
  streams_.pop_back();  // (there is room for it now)
  H2Stream* const stream = new_stream().release();
  stream->id_ = id;
  stream->at_ = streams_.size();
  stream->next_found_ = std::exchange(place_of(id), stream);
  stream->window_ = own_window_;
  stream->peer_window_ = peer_new_window_;
  stream->waits_ = true;
  ++unfinished_;
  streams_.push_back(stream);
  last_begun_ = id;
  block_.of = Block::Of::request;
  block_.stream = stream;
}

// Nothing more comes or goes of it. (Somebody may be in the middle of it: it stays for the moment.)
void Http2Server::close(H2Stream& stream) {
  if (std::exchange(stream.closed_, true)) return;
  H2StreamList::remove(stream);
  ending_.push_back(&stream);
}

void Http2Server::end_stream(H2Stream& stream) {
  stream.closed_ = true;
  stream.well_ ? abuse_budget_.note_answered() : abuse_budget_.note_reset();
  if (stream.told_ || stream.in_parts_) handler_.on_gone(stream);
  no_longer_waits(stream);
  forget_body(stream);
  headers_ -= stream.header_;
  unsent_ -= stream.unsent();
  memory_ -= std::exchange(stream.memory_, 0);
  if (block_.stream == &stream) {
    block_.of = Block::Of::nothing;
    block_.stream = nullptr;
  }
  H2StreamList::remove(stream);
  H2Stream** place = &place_of(stream.id_);
  while (*place != &stream) place = &(*place)->next_found_;
  *place = stream.next_found_;
  streams_[stream.at_] = streams_.back();
  streams_[stream.at_]->at_ = stream.at_;
  streams_.pop_back();
  stream.clear();
  std::unique_ptr<H2Stream> owner(&stream);
  auto& spare = spare_streams();
  const bool small = owner->memory() <= kMostSpareMemory;
  if (small && spare.size() < kMostSpare) spare.push_back(std::move(owner));
}

void Http2Server::count_memory(H2Stream& stream) {
  const std::size_t now = stream.memory();
  memory_ += now - std::exchange(stream.memory_, now);
}

void Http2Server::end_streams() {
  while (!ending_.empty()) {
    H2Stream& stream = *ending_.back();
    ending_.pop_back();
    end_stream(stream);
  }
}

void Http2Server::reset(H2Stream& stream, H2Error error) {
  if (stream.closed_) return;
  stream.well_ = error == H2Error::none;
  say_reset(stream.id_, error);
  close(stream);
}

// Ends streams whose peer keeps us waiting too long: open requests hold memory. Runs at most once a
// second.
void Http2Server::look_who_is_late(std::int64_t now) {
  if (limits_.seconds == 0 || std::exchange(second_, now) == now) return;
  for (H2Stream* const stream : streams_) {
    const bool in_header = block_.open && block_.stream == stream;  // nothing else can come before
    if (in_header || !stream->keeps_waiting()) {
      stream->late_since_ = 0;
    } else if (stream->late_since_ == 0) {
      stream->late_since_ = now;
    } else if (now - stream->late_since_ >= limits_.seconds) {
      stream->late_since_ = 0;
      if (stream->told_) {
        reset(*stream, stream->unsent() > 0 ? H2Error::cancel : H2Error::none);
      } else {
        find_flaw(*stream, 408, "the request takes too long");
        tell(*stream);
      }
    }
  }
}

// ---- Requests

void Http2Server::find_flaw(H2Stream& stream, int status, std::string_view reason) {
  stream.flaw_ = status;
  stream.reason_ = reason;
}

// Cookies may come one by one, to be remembered better; elsewhere they are one field (RFC 9113,
// 8.2.3).
void Http2Server::join_cookies(H2Stream& stream) {
  std::string& text = stream.text_;
  const auto is_cookie = [&](const HttpFields::FieldSlices& places) {
    return places.name.in(text.data()) == "cookie";
  };
  const auto first = std::ranges::find_if(stream.places_, is_cookie);
  const std::size_t start = text.size();
  text.reserve(2 * start + 2 * stream.places_.size());  // what is read from stays where it is
  for (auto each = first; each != stream.places_.end(); ++each) {
    if (!is_cookie(*each)) continue;
    if (each != first) text.append("; ");
    text.append(each->value.in(text.data()));
  }
  first->value = {static_cast<std::uint32_t>(start),
                  static_cast<std::uint32_t>(text.size() - start)};
  stream.places_.erase(std::remove_if(std::next(first), stream.places_.end(), is_cookie),
                       stream.places_.end());
}

// (The rules have seen to it that the fields make a request.)
void Http2Server::make_request(H2Stream& stream) {
  if (stream.noted_.cookies > 1) join_cookies(stream);
  const char* const text = stream.text_.data();
  const H2Stream::Noted& noted = stream.noted_;
  HttpRequest& request = stream.request_;
  request.method = noted.method.in(text);
  request.target = noted.path.in(text);
  request.host = (noted.has_authority ? noted.authority : noted.host).in(text);
  request.content_type = noted.content_type.in(text);
  request.authorization = noted.authorization.in(text);
  request.fields = HttpFields(stream.places_, text);
  request.version = 20;
  request.head = request.method == "HEAD";
  request.declares_length = !stream.whole_ || stream.length_;
  if (stream.flaw_ != 0) return;
  // Servers differ in which of them they read (request smuggling).
  if (noted.has_authority && noted.has_host && noted.host.in(text) != request.host) {
    return find_flaw(stream, 400, "there are two different hosts");
  }
  const auto target = split_target(request.method, request.target);
  if (!target || !target->authority.empty()) {
    return find_flaw(stream, 400, "the path makes no sense");
  }
  request.path = target->path;
  request.query = target->query;
  if (stream.length_.value_or(0) > limits_.body) {
    return find_flaw(stream, 413, "the body is too long");
  }
}

void Http2Server::end_header(H2Stream& stream, bool ends) {
  stream.whole_ = ends;
  make_request(stream);
  headers_ += stream.header_ = stream.text_.size();
  count_memory(stream);
  if (ends || stream.flaw_ != 0) return tell(stream);
  stream.most_body_ = std::min(handler_.most_body(stream), limits_.body);
  if (stream.most_body_ == 0) return tell(stream);
  stream.in_parts_ = handler_.takes_parts(stream);
  if (stream.in_parts_) {
    no_longer_waits(stream);
    return tell(stream);
  }
  constexpr H2Field go_on{":status", "100"};
  if (stream.noted_.expects_continue) hint(stream, {&go_on, 1});
}

// The body is dropped once the response has begun.
void Http2Server::add_body(H2Stream& stream, std::string_view bytes) {
  stream.come_ += bytes.size();
  if (stream.length_ && stream.come_ > *stream.length_) {
    credit_connection(bytes.size());
    return reset(stream, H2Error::protocol);
  }
  const bool wanted = !stream.is_finished() && (stream.in_parts_ || !stream.told_);
  if (!wanted) return drop(stream, bytes.size());
  if (bytes.size() > stream.most_body_ - std::min(stream.body_.size(), stream.most_body_)) {
    drop(stream, bytes.size());
    if (!stream.in_parts_) forget_body(stream);
    find_flaw(stream, 413, "the body is too long");
    return tell(stream);
  }
  stream.body_.append(bytes);
  stream.held_ += bytes.size();
  count_memory(stream);
  if (stream.in_parts_) tell(stream);
}

void Http2Server::end_request(H2Stream& stream) {
  if (stream.length_ && stream.come_ != *stream.length_) return reset(stream, H2Error::protocol);
  stream.whole_ = true;
  if (stream.said_ == H2Stream::Said::sent) return close(stream);
  if (stream.in_parts_ ? !stream.is_finished() : !stream.told_) tell(stream);
}

void Http2Server::tell(H2Stream& stream) {
  stream.told_ = true;
  if (!stream.in_parts_) stream.request_.body = stream.body_;
  handler_.on_request(stream);
  stream.in_parts_ ? took(stream) : forget_body(stream);
}

void Http2Server::forget_body(H2Stream& stream) {
  const std::size_t held = std::exchange(stream.held_, 0);
  credit_connection(held);
  credit_stream(stream, held);
  stream.request_.body = {};
  clear_scratch_buffer(stream.body_);
  count_memory(stream);
}

void Http2Server::no_longer_waits(H2Stream& stream) {
  if (stream.waits_) --unfinished_;
  stream.waits_ = false;
}

// ---- Windows for what comes

// Windows that what was taken came through are open for as much again.
void Http2Server::took(H2Stream& stream) {
  const std::size_t taken = stream.held_ - stream.body_.size();
  stream.held_ -= taken;
  if (stream.body_.empty()) clear_scratch_buffer(stream.body_);
  count_memory(stream);
  credit_connection(taken);
  credit_stream(stream, taken);
}

// A client that keeps sending after the response is reset, but not at once: some clients do not
// read a response that arrives with a reset.
void Http2Server::drop(H2Stream& stream, std::size_t bytes) {
  credit_connection(bytes);
  credit_stream(stream, bytes);
  stream.dropped_ += bytes;
  if (stream.dropped_ > limits_.dropped) reset(stream, H2Error::none);
}

// So much has come that needs no memory any longer.
void Http2Server::credit_connection(std::size_t bytes) {
  window_.used_up += static_cast<std::int64_t>(bytes);
  tell_of_credit();
}

void Http2Server::credit_stream(H2Stream& stream, std::size_t bytes) {
  stream.used_up_ += static_cast<std::int64_t>(bytes);
  tell_of_credit(stream);
}

// The peer is told once it could send less than it will be told of. That is half a window at a
// time, or half of what others, who are stuck, leave of it.
void Http2Server::tell_of_credit() {
  if (window_.used_up == 0 || window_.used_up < window_.left) return;
  const std::int64_t more = std::exchange(window_.used_up, 0);
  window_.left += more;
  say_number(H2Type::window_update, 0, static_cast<std::uint32_t>(more));
}

void Http2Server::tell_of_credit(H2Stream& stream) {
  if (stream.whole_ || stream.closed_) return;
  if (stream.used_up_ == 0 || stream.used_up_ < stream.window_) return;
  const std::int64_t more = std::exchange(stream.used_up_, 0);
  stream.window_ += more;
  say_number(H2Type::window_update, stream.id_, static_cast<std::uint32_t>(more));
}

// Once the peer has said that it knows our settings.
void Http2Server::use_own_window() {
  knows_settings_ = true;
  const std::int64_t before =
      std::exchange(own_window_, static_cast<std::int64_t>(window_of(limits_)));
  for (H2Stream* const stream : streams_) stream->window_ += own_window_ - before;
}

// ---- The end

void Http2Server::drain() {
  if (drain_ != Drain::no) return;
  drain_ = Drain::told;
  say_goodbye(INT32_MAX, H2Error::none);
  say(H2Type::ping, 0, 0, kDrainPing);
}

void Http2Server::drain_now() {
  if (drain_ == Drain::last) return;
  drain_ = Drain::last;
  say_goodbye(last_begun_, H2Error::none);
}

void Http2Server::give_up(H2Error error) {
  say_goodbye(last_begun_, error);
  gave_up_ = true;
}

bool Http2Server::has_more() const { return !queue_.empty() || (!gave_up_ && !ready_.empty()); }

bool Http2Server::is_over() const {
  if (no_http2_) return true;
  const bool leaves = streams_.empty() && (peer_leaves_ || drain_ == Drain::last);
  return (gave_up_ || leaves) && queue_.empty();
}

std::string Http2Server::refusal(H2Error error, std::string_view why) {
  std::string frames;
  append_h2_head(frames, {.type = H2Type::settings});
  append_h2_head(frames, {.size = 8 + why.size(), .type = H2Type::goaway});
  append_h2_number(frames, 0);
  append_h2_number(frames, static_cast<std::uint32_t>(error));
  return frames.append(why);
}

}  // namespace weir::wire
