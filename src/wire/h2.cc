#include "wire/h2.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "wire/h2_memory.h"
#include "wire/http1_target.h"

namespace weir::wire {

namespace {

// ---- Streams, to be used again

// Who sends more than it may must be able to: it would wait for a window otherwise, and not hear
// what is wrong.
constexpr std::size_t kTooMuch = 64 << 10;

constexpr std::size_t kMostSpare = 512;
constexpr std::size_t kMuch = 4 << 10;  // memory that is not kept to be used again

std::vector<std::unique_ptr<H2Stream>>& spare_streams() {
  thread_local std::vector<std::unique_ptr<H2Stream>> of_this_thread;
  return of_this_thread;
}

H2Stream* new_stream() {
  auto& spare = spare_streams();
  if (spare.empty()) return new H2Stream;
  H2Stream* const stream = spare.back().release();
  spare.pop_back();
  return stream;
}

void clear(std::string& text) { text.capacity() > kMuch ? std::string().swap(text) : text.clear(); }

const char* chars(const std::uint8_t* bytes) { return reinterpret_cast<const char*>(bytes); }
std::uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

// How the end of a drain is known from other pings.
constexpr std::array<std::uint8_t, 8> kDrainPing{'w', 'e', 'i', 'r', 'd', 'o', 'n', 'e'};

// As HTTP/2 counts: what a table would need to remember it.
std::size_t size_of(std::string_view name, std::string_view value) {
  return name.size() + value.size() + 32;
}

void append_number(std::string& out, std::uint32_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(number >> shift & 0xff);
  }
}

}  // namespace

void H2Stream::clear() {
  wire::clear(answer);
  guest.reset();
  request_ = {};
  flaw_ = 0;
  reason_ = {};
  wire::clear(text_);
  places_.clear();
  noted_ = {};
  header_size_ = 0;
  length_.reset();
  wire::clear(request_trailers_);
  wire::clear(body_);
  held_ = dropped_ = 0;
  in_parts_ = whole_ = told_ = waits_ = taken_back_ = false;
  started_ = finished_ = resting_ = false;
  sent_ = counted_ = 0;
  wire::clear(trailer_text_);
  trailers_.clear();
}

// ---- What the library calls

struct H2Callbacks {
  static H2Machine& machine(void* data) { return *static_cast<H2Machine*>(data); }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    H2Machine& self = machine(data);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      self.begin_trailers(frame->hd.stream_id);
      return 0;
    }
    if (self.begin_request(frame->hd.stream_id)) return 0;
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                              NGHTTP2_REFUSED_STREAM);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* data) {
    const bool bearable =
        machine(data).add_field({chars(name), name_size}, {chars(value), value_size});
    return bearable ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  // What no field can be, and would be something else where lines are read. (The library would
  // leave it out.)
  static int on_invalid_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t*,
                               std::size_t, const std::uint8_t*, std::size_t, std::uint8_t, void*) {
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int on_chunk(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                      std::size_t size, void* data) {
    H2Machine& self = machine(data);
    if (H2Stream* const stream = self.find(id)) self.add_body(*stream, {chars(bytes), size});
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    H2Machine& self = machine(data);
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS: {
        H2Stream* const stream = self.find(frame->hd.stream_id);
        if (stream == nullptr) break;
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
          self.end_header(*stream, ends);
        } else if (ends) {
          self.end_request(*stream);
        }
        break;
      }
      case NGHTTP2_DATA:
        if (H2Stream* const stream = ends ? self.find(frame->hd.stream_id) : nullptr) {
          self.end_request(*stream);
        }
        break;
      case NGHTTP2_RST_STREAM:
        if (H2Stream* const stream = self.find(frame->hd.stream_id)) stream->taken_back_ = true;
        break;
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 &&
            std::ranges::equal(frame->ping.opaque_data, kDrainPing)) {
          self.drain_now();
        }
        break;
      default:
        break;
    }
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* data) {
    H2Machine& self = machine(data);
    if (H2Stream* const stream = self.find(id)) {
      self.end_stream(*stream, error == NGHTTP2_NO_ERROR);
    } else if (error != NGHTTP2_NO_ERROR) {
      self.frames_.note_reset();
    }
    return 0;
  }

  static ssize_t read_answer(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t most,
                             std::uint32_t* flags, nghttp2_data_source* source, void* data) {
    return machine(data).read_answer(*static_cast<H2Stream*>(source->ptr), to, most, *flags);
  }

  static nghttp2_session_callbacks* all() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    return callbacks;
  }
};

namespace {

// Windows are opened by us, when what came through them needs no memory any longer. Resets are
// counted by us as well: the library counts those that the peer sends, and not those that it
// provokes. (Its own limits stay for CONTINUATION frames, settings in one frame, and answers to
// pings.)
nghttp2_option* options() {
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  constexpr std::uint64_t any = std::uint64_t{1} << 32;
  nghttp2_option_set_stream_reset_rate_limit(option, any, any);
  return option;
}

}  // namespace

H2Machine::H2Machine(H2Handler& handler, const H2Limits& limits)
    : handler_(handler), limits_(limits) {
  static const nghttp2_session_callbacks* const callbacks = H2Callbacks::all();
  static const nghttp2_option* const option = options();
  if (nghttp2_session_server_new3(&session_, callbacks, this, option, h2_memory()) != 0) {
    session_ = nullptr;  // there is no memory
    over_ = true;
    return;
  }
  const auto number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  const std::size_t window = limits.window > 0 ? limits.window : limits.body + kTooMuch;
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, number(window)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, number(limits.header)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(limits.bodies));
}

H2Machine::~H2Machine() {
  nghttp2_session_del(session_);
  for (H2Stream* const stream : streams_) delete stream;
}

// ---- In

void H2Machine::receive(std::string_view input, std::int64_t now) {
  if (over_ || input.empty()) return;
  if (!frames_.look(input, now)) return give_up(kCalm);
  const ssize_t used = nghttp2_session_mem_recv(session_, bytes(input), input.size());
  if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
    no_http2_ = over_ = true;
  } else if (used == NGHTTP2_ERR_NOMEM) {
    over_ = true;
  } else if (used < 0 || !frames_.is_bearable()) {
    give_up(kCalm);  // what the library does not bear are floods, too
  }
}

// Whether there is room for it. (The library sees to it that there are not too many streams; but
// those that it no longer knows may still be worked on.)
bool H2Machine::begin_request(std::int32_t id) {
  if (streams_.size() + orphans_ >= limits_.streams || unsent_ > limits_.unsent) return false;
  H2Stream* const stream = new_stream();
  stream->id_ = id;
  stream->at_ = streams_.size();
  stream->waits_ = true;
  ++unfinished_;
  streams_.push_back(stream);
  nghttp2_session_set_stream_user_data(session_, id, stream);
  // Answers share the way, unless the peer says otherwise: a long one does not stop the others.
  const nghttp2_extpri shared{.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
  nghttp2_session_change_extpri_stream_priority(session_, id, &shared, 0);
  reading_ = latest_ = stream;
  return true;
}

void H2Machine::begin_trailers(std::int32_t id) {
  reading_ = nullptr;
  trailer_size_ = 0;
  H2Stream* const stream = find(id);
  trailing_ = stream != nullptr && stream->in_parts_ ? stream : nullptr;
}

// (Mostly what comes next is of the same one.)
H2Stream* H2Machine::find(std::int32_t id) const {
  if (over_) return nullptr;
  if (latest_ != nullptr && latest_->id_ == id) return latest_;
  return latest_ = static_cast<H2Stream*>(nghttp2_session_get_stream_user_data(session_, id));
}

// Whether it can go on.
bool H2Machine::add_trailer(std::string_view name, std::string_view value) {
  trailer_size_ += size_of(name, value);
  if (trailer_size_ > limits_.header) return false;
  if (trailing_ == nullptr) return true;
  trailing_->request_trailers_.append(name).append(": ").append(value).append("\r\n");
  return true;
}

// Of a header or of trailers. A header that is too long is answered when it has ended. Whether it
// can go on.
bool H2Machine::add_field(std::string_view name, std::string_view value) {
  if (reading_ == nullptr) return add_trailer(name, value);
  H2Stream& stream = *reading_;
  stream.header_size_ += size_of(name, value);
  if (stream.flaw_ != 0) return stream.header_size_ <= 4 * limits_.header;
  if (stream.header_size_ > limits_.header || stream.places_.size() == limits_.fields) {
    find_flaw(stream, 431, "the header is too long");
    return true;
  }
  std::string& text = stream.text_;
  const HttpFields::Place name_place{static_cast<std::uint32_t>(text.size()),
                                     static_cast<std::uint32_t>(name.size())};
  text.append(name);
  const HttpFields::Place place{static_cast<std::uint32_t>(text.size()),
                                static_cast<std::uint32_t>(value.size())};
  text.append(value);
  H2Stream::Noted& noted = stream.noted_;
  if (name.front() == ':') {
    if (name == ":method") noted.method = place;
    if (name == ":path") noted.path = place;
    if (name == ":authority") {
      noted.authority = place;
      noted.has_authority = true;
    }
    return true;
  }
  stream.places_.push_back({name_place, place});
  // Told apart by their lengths first: most are none of these.
  const auto is_first = [&](std::string_view wanted, const HttpFields::Place& noted_place) {
    return name == wanted && noted_place.size == 0;
  };
  switch (name.size()) {
    case 4:
      if (is_first("host", noted.host)) {
        noted.host = place;
        noted.has_host = true;
      }
      break;
    case 6:
      if (name == "expect" && value == "100-continue") noted.expects_continue = true;
      if (name == "cookie") ++noted.cookies;
      break;
    case 12:
      if (is_first("content-type", noted.content_type)) noted.content_type = place;
      break;
    case 13:
      if (is_first("authorization", noted.authorization)) noted.authorization = place;
      break;
    case 14:
      if (is_first("content-length", noted.length)) noted.length = place;
      break;
    default:
      break;
  }
  return true;
}

void H2Machine::find_flaw(H2Stream& stream, int status, std::string_view reason) {
  stream.flaw_ = status;
  stream.reason_ = reason;
}

// Cookies may come one by one, to be remembered better; elsewhere they are one field (RFC 9113,
// 8.2.3).
void H2Machine::join_cookies(H2Stream& stream) {
  std::string& text = stream.text_;
  const auto is_cookie = [&](const HttpFields::Places& places) {
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

// (The library has seen to it that the fields make a request.)
void H2Machine::make_request(H2Stream& stream) {
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
  request.says_length = !stream.whole_ || noted.length.size > 0;
  if (stream.flaw_ != 0) return;
  // Who reads the one would disagree with who reads the other.
  if (noted.has_authority && noted.has_host && noted.host.in(text) != request.host) {
    return find_flaw(stream, 400, "there are two different hosts");
  }
  const auto target = split_target(request.method, request.target);
  if (!target || !target->authority.empty()) {
    return find_flaw(stream, 400, "the path makes no sense");
  }
  request.path = target->path;
  request.query = target->query;
  const std::string_view digits = noted.length.in(text);
  if (digits.empty()) return;
  std::uint64_t length = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), length);
  stream.length_ = length;
  if (length > limits_.body) return find_flaw(stream, 413, "the body is too long");
}

void H2Machine::end_header(H2Stream& stream, bool ends) {
  reading_ = nullptr;
  stream.whole_ = ends;
  make_request(stream);
  if (ends || stream.flaw_ != 0) return tell(stream);
  stream.in_parts_ = handler_.takes_parts(stream);
  if (stream.in_parts_) {
    no_longer_waits(stream);
    return tell(stream);
  }
  constexpr H2Field go_on{":status", "100"};
  if (stream.noted_.expects_continue) hint(stream, {&go_on, 1});
}

// What comes after the answer is not looked at.
void H2Machine::add_body(H2Stream& stream, std::string_view bytes) {
  const bool wanted = !stream.finished_ && (stream.in_parts_ || !stream.told_);
  if (!wanted) return drop(stream, bytes.size());
  if (bytes.size() > limits_.body - std::min(stream.body_.size(), limits_.body)) {
    drop(stream, bytes.size());
    find_flaw(stream, 413, "the body is too long");
    return tell(stream);
  }
  stream.body_.append(bytes);
  stream.held_ += bytes.size();
  if (stream.in_parts_) tell(stream);
}

// Windows that what was taken came through are open for as much again.
void H2Machine::took(H2Stream& stream) {
  const std::size_t taken = stream.held_ - stream.body_.size();
  stream.held_ -= taken;
  if (taken > 0) nghttp2_session_consume(session_, stream.id_, taken);
}

// Whoever goes on sending after the answer is told to stop, but not at once: some clients do not
// read an answer that comes with that.
void H2Machine::drop(H2Stream& stream, std::size_t bytes) {
  nghttp2_session_consume(session_, stream.id_, bytes);
  const std::size_t before = std::exchange(stream.dropped_, stream.dropped_ + bytes);
  if (before > limits_.dropped || stream.dropped_ <= limits_.dropped) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id_, NGHTTP2_NO_ERROR);
}

void H2Machine::end_request(H2Stream& stream) {
  stream.whole_ = true;
  if (stream.in_parts_ ? !stream.finished_ : !stream.told_) tell(stream);
}

void H2Machine::tell(H2Stream& stream) {
  stream.told_ = true;
  if (!stream.in_parts_) stream.request_.body = stream.body_;
  handler_.on_request(stream);
  stream.in_parts_ ? took(stream) : forget_body(stream);
}

void H2Machine::forget_body(H2Stream& stream) {
  if (stream.held_ > 0) nghttp2_session_consume_connection(session_, stream.held_);
  stream.held_ = 0;
  stream.request_.body = {};
  clear(stream.body_);
}

void H2Machine::no_longer_waits(H2Stream& stream) {
  if (stream.waits_) --unfinished_;
  stream.waits_ = false;
}

// ---- Out

namespace {

// As the library wants them. Valid until the next call on this thread; it copies what does not
// last.
std::span<const nghttp2_nv> listed(std::span<const H2Field> fields) {
  thread_local std::vector<nghttp2_nv> all;
  all.clear();
  for (const H2Field& field : fields) {
    // What is different every time is not worth being remembered by the peer.
    constexpr int lasts = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    all.push_back({bytes(field.name), bytes(field.value), field.name.size(), field.value.size(),
                   static_cast<std::uint8_t>(field.lasting ? lasts : NGHTTP2_NV_FLAG_NO_INDEX)});
  }
  return all;
}

}  // namespace

void H2Machine::hint(H2Stream& stream, std::span<const H2Field> fields) {
  const auto all = listed(fields);
  nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id_, nullptr, all.data(), all.size(),
                         nullptr);
}

void H2Machine::submit(H2Stream& stream, std::span<const H2Field> fields, bool has_body) {
  stream.started_ = true;
  no_longer_waits(stream);
  const auto all = listed(fields);
  nghttp2_data_provider provider{{.ptr = &stream}, H2Callbacks::read_answer};
  nghttp2_submit_response(session_, stream.id_, all.data(), all.size(),
                          has_body ? &provider : nullptr);
}

void H2Machine::respond(H2Stream& stream, std::span<const H2Field> fields) {
  stream.finished_ = true;
  submit(stream, fields, false);
}

void H2Machine::start(H2Stream& stream, std::span<const H2Field> fields) {
  count_unsent(stream);
  submit(stream, fields, true);
}

void H2Machine::count_unsent(H2Stream& stream) {
  unsent_ += stream.answer.size() - stream.counted_;
  stream.counted_ = stream.answer.size();
}

void H2Machine::go_on(H2Stream& stream) {
  count_unsent(stream);
  // (What is added to faster than it is sent is never all sent.)
  if (stream.sent_ > kMuch && stream.sent_ > stream.answer.size() / 2) {
    stream.answer.erase(0, stream.sent_);
    stream.counted_ -= std::exchange(stream.sent_, 0);
  }
  if (!stream.resting_) return;
  stream.resting_ = false;
  nghttp2_session_resume_data(session_, stream.id_);
}

void H2Machine::finish(H2Stream& stream, std::span<const H2Field> trailers) {
  stream.finished_ = true;
  std::size_t more = 0;
  for (const H2Field& field : trailers) {
    more += field.lasting ? 0 : field.name.size() + field.value.size();
  }
  stream.trailer_text_.reserve(more);  // what was written stays where it is
  const auto keep = [&stream](std::string_view text) {
    const std::size_t at = stream.trailer_text_.size();
    return std::string_view(stream.trailer_text_.append(text)).substr(at);
  };
  for (const H2Field& field : trailers) {
    H2Field& kept = stream.trailers_.emplace_back(field);
    if (field.lasting) continue;
    kept.name = keep(field.name);
    kept.value = keep(field.value);
  }
  go_on(stream);
}

void H2Machine::reset(H2Stream& stream, std::uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id_, error);
}

std::ptrdiff_t H2Machine::read_answer(H2Stream& stream, std::uint8_t* to, std::size_t most,
                                      std::uint32_t& flags) {
  const std::size_t some = std::min(most, stream.counted_ - stream.sent_);
  std::memcpy(to, stream.answer.data() + stream.sent_, some);
  stream.sent_ += some;
  unsent_ -= some;
  frames_.note_sent(some);
  if (stream.sent_ < stream.counted_) return static_cast<std::ptrdiff_t>(some);
  if (!stream.finished_) {
    stream.answer.clear();
    stream.sent_ = stream.counted_ = 0;
    if (some > 0) return static_cast<std::ptrdiff_t>(some);
    stream.resting_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  flags |= NGHTTP2_DATA_FLAG_EOF;
  if (stream.trailers_.empty()) return static_cast<std::ptrdiff_t>(some);
  flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  const auto trailers = listed(stream.trailers_);
  nghttp2_submit_trailer(session_, stream.id_, trailers.data(), trailers.size());
  return static_cast<std::ptrdiff_t>(some);
}

void H2Machine::end_stream(H2Stream& stream, bool well) {
  well && !stream.taken_back_ ? frames_.note_answered() : frames_.note_reset();
  if (stream.told_ || stream.in_parts_) handler_.on_gone(stream);
  no_longer_waits(stream);
  forget_body(stream);
  unsent_ -= stream.counted_ - stream.sent_;
  if (reading_ == &stream) reading_ = nullptr;
  if (trailing_ == &stream) trailing_ = nullptr;
  latest_ = nullptr;
  streams_[stream.at_] = streams_.back();
  streams_[stream.at_]->at_ = stream.at_;
  streams_.pop_back();
  nghttp2_session_set_stream_user_data(session_, stream.id_, nullptr);
  stream.clear();
  std::unique_ptr<H2Stream> owner(&stream);
  auto& spare = spare_streams();
  if (spare.size() < kMostSpare) spare.push_back(std::move(owner));
}

void H2Machine::send(std::string& out, std::size_t enough) {
  if (session_ == nullptr || no_http2_) return;
  while (out.size() < enough) {
    const std::uint8_t* frame = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &frame);
    if (size < 0) over_ = true;
    if (size <= 0) return;
    out.append(chars(frame), static_cast<std::size_t>(size));
  }
}

bool H2Machine::has_more() const { return !over_ && nghttp2_session_want_write(session_) != 0; }

bool H2Machine::is_over() const {
  return over_ || (nghttp2_session_want_read(session_) == 0 && !has_more());
}

// ---- The end

void H2Machine::drain() {
  if (over_ || drain_ != Drain::no) return;
  drain_ = Drain::told;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, kDrainPing.data());
}

void H2Machine::drain_now() {
  if (over_ || drain_ == Drain::last) return;
  drain_ = Drain::last;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void H2Machine::give_up(std::uint32_t error) {
  if (!over_) nghttp2_session_terminate_session(session_, error);
}

std::string H2Machine::refusal(std::uint32_t error, std::string_view why) {
  constexpr std::uint32_t settings = 4;
  constexpr std::uint32_t goaway = 7;
  std::string frames;
  const auto begin = [&](std::size_t size, std::uint32_t type) {
    append_number(frames, static_cast<std::uint32_t>(size), 3);
    append_number(frames, type, 1);
    append_number(frames, 0, 1);
    append_number(frames, 0, 4);
  };
  begin(0, settings);
  begin(8 + why.size(), goaway);
  append_number(frames, 0, 4);
  append_number(frames, error, 4);
  return frames.append(why);
}

}  // namespace weir::wire
