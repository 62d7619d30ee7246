#include <algorithm>
#include <utility>

#include "base/scratch_buffer.h"
#include "wire/h2.h"

// Input: frames, and the fields in them.

namespace weir::wire {

namespace {

// More than anybody needs, who may send 16 KiB in each.
constexpr int kMostContinuations = 32;
constexpr std::size_t kMostSettings = 32;

constexpr std::int64_t kMostWindow = INT32_MAX;

// Data that is only padding hides how much there is; less than that hides nothing.
constexpr std::size_t kSomePadding = 100;

// How many bytes of a frame must have come before it can be looked at: all, but for a body's.
std::size_t needed(std::string_view have) {
  if (have.size() < H2FrameHead::kSize) return H2FrameHead::kSize;
  const H2FrameHead head = H2FrameHead::read(have.data());
  if (head.size > kH2FrameSize) return H2FrameHead::kSize;  // to be refused
  if (head.type != H2Type::data) return H2FrameHead::kSize + head.size;
  return H2FrameHead::kSize + (head.has(H2Flags::kPadded) && head.size > 0 ? 1 : 0);
}

// Takes padding away, at the front and at the end. Whether there is as much as is said.
bool take_padding_away(const H2FrameHead& head, std::string_view& payload) {
  if (!head.has(H2Flags::kPadded)) return true;
  if (payload.empty()) return false;
  const std::size_t padding = static_cast<unsigned char>(payload.front());
  payload.remove_prefix(1);
  if (padding > payload.size()) return false;
  payload.remove_suffix(padding);
  return true;
}

// Dependencies are ignored, but a dependency on itself is a protocol error.
bool depends_on_itself(const H2FrameHead& head, std::string_view priority) {
  return (read_h2_number(priority.data()) & INT32_MAX) == static_cast<std::uint32_t>(head.stream);
}

HttpFields::Slice append_place(std::string& text, std::string_view more) {
  const HttpFields::Slice place{static_cast<std::uint32_t>(text.size()),
                                static_cast<std::uint32_t>(more.size())};
  text.append(more);
  return place;
}

}  // namespace

// ---- Bytes

void Http2Server::receive(std::string_view input, std::int64_t now) {
  if (no_http2_) return;
  abuse_budget_.pass(now);
  look_who_is_late(now);
  if (preface_ < kPreface.size() && !read_preface(input)) return;
  while (!gave_up_ && !input.empty()) {
    data_.left > 0 ? go_on_with_data(input) : read_frame(input);
  }
  if (!abuse_budget_.is_left()) give_up(H2Error::calm);
  end_streams();
}

// Whether it is as it must be, so far.
bool Http2Server::read_preface(std::string_view& input) {
  const std::string_view some = input.substr(0, kPreface.size() - preface_);
  if (kPreface.substr(preface_, some.size()) != some) {
    no_http2_ = true;
    return false;
  }
  preface_ += some.size();
  input.remove_prefix(some.size());
  return true;
}

// Reads a frame, or buffers the part of it that has arrived.
void Http2Server::read_frame(std::string_view& input) {
  if (kept_.empty() && input.size() >= needed(input)) {
    return input.remove_prefix(look_at_frame(input));
  }
  const std::string_view some = input.substr(0, needed(kept_) - kept_.size());
  kept_.append(some);
  input.remove_prefix(some.size());
  if (kept_.size() < needed(kept_)) return;
  look_at_frame(kept_);
  clear_scratch_buffer(kept_);
}

// How much of the input it was.
std::size_t Http2Server::look_at_frame(std::string_view input) {
  const H2FrameHead head = H2FrameHead::read(input.data());
  abuse_budget_.note_frame(head);
  const bool first = !std::exchange(had_settings_, true);
  const bool is_settings = head.type == H2Type::settings && !head.has(H2Flags::kAck);
  const bool goes_on = head.type == H2Type::continuation && head.stream == block_.id;
  if (!abuse_budget_.is_left()) {
    give_up(H2Error::calm);
  } else if (head.size > kH2FrameSize) {
    give_up(H2Error::frame_size);
  } else if ((first && !is_settings) || (block_.open && !goes_on)) {
    give_up(H2Error::protocol);
  } else if (head.type == H2Type::data) {
    input.remove_prefix(H2FrameHead::kSize);
    return H2FrameHead::kSize + begin_data(head, input);
  } else {
    on_frame(head, input.substr(H2FrameHead::kSize, head.size));
    return H2FrameHead::kSize + head.size;
  }
  return input.size();
}

// ---- Frames

void Http2Server::on_frame(const H2FrameHead& head, std::string_view payload) {
  switch (head.type) {
    case H2Type::headers:
      return on_headers(head, payload);
    case H2Type::continuation:
      return on_continuation(head, payload);
    case H2Type::rst_stream:
      return on_reset(head);
    case H2Type::settings:
      return on_settings(head, payload);
    case H2Type::ping:
      return on_ping(head, payload);
    case H2Type::goaway:
      return on_goaway(head);
    case H2Type::window_update:
      return on_window(head, payload);
    case H2Type::push_promise:
      return give_up(H2Error::protocol);
    case H2Type::priority:  // we have said that we do not look at them
      if (head.stream == 0) return give_up(H2Error::protocol);
      if (head.size != 5) return give_up(H2Error::frame_size);
      return depends_on_itself(head, payload) ? give_up(H2Error::protocol) : void();
    case H2Type::data:  // is looked at before it is whole
      return;
  }
}

void Http2Server::on_reset(const H2FrameHead& head) {
  if (head.stream == 0 || is_idle(head.stream)) return give_up(H2Error::protocol);
  if (head.size != 4) return give_up(H2Error::frame_size);
  H2Stream* const stream = find_any(head.stream);
  if (stream == nullptr) return;
  stream->well_ = false;
  if (stream->closed_) std::erase(ending_, stream);
  end_stream(*stream);
}

void Http2Server::on_settings(const H2FrameHead& head, std::string_view payload) {
  constexpr std::size_t each = 6;
  if (head.stream != 0) return give_up(H2Error::protocol);
  if (head.has(H2Flags::kAck)) {
    return head.size == 0 ? use_own_window() : give_up(H2Error::frame_size);
  }
  if (head.size % each != 0) return give_up(H2Error::frame_size);
  if (head.size / each > kMostSettings) return give_up(H2Error::calm);
  for (; !payload.empty() && !gave_up_; payload.remove_prefix(each)) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(payload[i]); };
    use_setting(static_cast<H2Setting>(byte(0) << 8 | byte(1)), read_h2_number(payload.data() + 2));
  }
  say(H2Type::settings, H2Flags::kAck, 0, {});
}

void Http2Server::use_setting(H2Setting setting, std::uint32_t value) {
  constexpr std::uint32_t largest_frame = (1 << 24) - 1;
  switch (setting) {
    case H2Setting::table:
      return packer_.use_table(value);
    case H2Setting::push:
    case H2Setting::no_priorities:
      return value <= 1 ? void() : give_up(H2Error::protocol);
    case H2Setting::window:
      return value <= kMostWindow ? use_peer_window(value) : give_up(H2Error::flow_control);
    case H2Setting::frame:  // (frames of ours are as short as anybody takes them)
      return value >= kH2FrameSize && value <= largest_frame ? void() : give_up(H2Error::protocol);
    default:
      return;
  }
}

// Of each stream.
void Http2Server::use_peer_window(std::uint32_t size) {
  const std::int64_t more = size - std::exchange(peer_new_window_, size);
  for (H2Stream* const stream : streams_) {
    stream->peer_window_ += more;
    if (stream->peer_window_ > kMostWindow) return give_up(H2Error::flow_control);
    make_ready(*stream);
  }
}

void Http2Server::on_ping(const H2FrameHead& head, std::string_view payload) {
  if (head.stream != 0) return give_up(H2Error::protocol);
  if (head.size != kDrainPing.size()) return give_up(H2Error::frame_size);
  if (!head.has(H2Flags::kAck)) return say(H2Type::ping, H2Flags::kAck, 0, payload);
  if (drain_ == Drain::told && payload == kDrainPing) drain_now();
}

void Http2Server::on_goaway(const H2FrameHead& head) {
  if (head.stream != 0) return give_up(H2Error::protocol);
  if (head.size < 8) return give_up(H2Error::frame_size);
  peer_leaves_ = true;
}

void Http2Server::on_window(const H2FrameHead& head, std::string_view payload) {
  if (head.size != 4) return give_up(H2Error::frame_size);
  const std::int64_t more = read_h2_number(payload.data()) & kMostWindow;
  if (head.stream == 0) {
    if (more == 0) return give_up(H2Error::protocol);
    peer_window_ += more;
    if (peer_window_ > kMostWindow) return give_up(H2Error::flow_control);
    while (!blocked_.empty() && peer_window_ > 0) {
      H2Stream& stream = blocked_.first();
      H2StreamList::remove(stream);
      ready_.add(stream);
    }
    return;
  }
  if (is_idle(head.stream)) return give_up(H2Error::protocol);
  H2Stream* const stream = find(head.stream);
  if (stream == nullptr) return;
  if (more == 0) return reset(*stream, H2Error::protocol);
  stream->peer_window_ += more;
  if (stream->peer_window_ > kMostWindow) return reset(*stream, H2Error::flow_control);
  make_ready(*stream);
}

// ---- Bodies

// How much of the frame it was. What follows is seen as it comes.
std::size_t Http2Server::begin_data(const H2FrameHead& head, std::string_view input) {
  const bool padded = head.has(H2Flags::kPadded);
  if (is_idle(head.stream)) return give_up(H2Error::protocol), 0;
  if (padded && head.size == 0) return give_up(H2Error::frame_size), 0;
  const std::size_t padding = padded ? static_cast<unsigned char>(input.front()) : 0;
  if (padded && padding >= head.size) return give_up(H2Error::protocol), 0;
  const auto size = static_cast<std::int64_t>(head.size);
  window_.left -= size;
  if (window_.left < 0) return give_up(H2Error::flow_control), 0;
  tell_of_credit();
  if (H2Stream* const stream = find(head.stream)) {
    stream->window_ -= size;
    if (stream->whole_) reset(*stream, H2Error::stream_closed);
    if (stream->window_ < 0) reset(*stream, H2Error::flow_control);
    tell_of_credit(*stream);
    const bool ends = head.has(H2Flags::kEndStream);
    if (padded && padding + 1 == head.size && head.size < kSomePadding && !ends) {
      abuse_budget_.note_useless();
    }
  } else {
    abuse_budget_.note_useless();
    if (!may_go_on(head.stream)) say_reset(head.stream, H2Error::stream_closed);
  }
  data_ = {.id = head.stream,
           .left = head.size - (padded ? 1 : 0),
           .padding = padding,
           .ends = head.has(H2Flags::kEndStream)};
  if (padded) pass_over(1);
  if (data_.left == 0) end_data();
  return padded ? 1 : 0;
}

void Http2Server::go_on_with_data(std::string_view& input) {
  const bool in_padding = data_.left <= data_.padding;
  const std::string_view some =
      input.substr(0, in_padding ? data_.left : data_.left - data_.padding);
  input.remove_prefix(some.size());
  data_.left -= some.size();
  H2Stream* const stream = in_padding ? nullptr : find(data_.id);
  stream != nullptr ? add_body(*stream, some) : pass_over(some.size());
  if (data_.left == 0) end_data();
}

// Bytes of the frame that nobody is told of.
void Http2Server::pass_over(std::size_t bytes) {
  credit_connection(bytes);
  if (H2Stream* const stream = find(data_.id)) credit_stream(*stream, bytes);
}

void Http2Server::end_data() {
  if (!data_.ends) return;
  if (H2Stream* const stream = find(data_.id)) end_request(*stream);
}

// ---- Fields

void Http2Server::on_headers(const H2FrameHead& head, std::string_view payload) {
  constexpr std::size_t priority = 5;
  if (head.stream % 2 == 0) return give_up(H2Error::protocol);
  if (!take_padding_away(head, payload)) return give_up(H2Error::protocol);
  if (head.has(H2Flags::kPriority)) {
    if (payload.size() < priority) return give_up(H2Error::frame_size);
    if (depends_on_itself(head, payload)) return give_up(H2Error::protocol);
    payload.remove_prefix(priority);
  }
  block_ = {.id = head.stream, .ends = head.has(H2Flags::kEndStream)};
  begin_block();
  unpack(payload, head.has(H2Flags::kEndHeaders));
}

void Http2Server::on_continuation(const H2FrameHead& head, std::string_view payload) {
  if (!block_.open) return give_up(H2Error::protocol);
  if (++block_.continuations > kMostContinuations) return give_up(H2Error::calm);
  unpack(payload, head.has(H2Flags::kEndHeaders));
}

// Finds the stream of the fields. Fields without a stream must be decoded, too: HPACK has state.
void Http2Server::begin_block() {
  if (H2Stream* const stream = find(block_.id)) {
    if (stream->whole_) return reset(*stream, H2Error::stream_closed);
    block_.of = Block::Of::trailers;
    block_.stream = stream;
    block_.good = block_.ends;
    block_.rules = H2Rules::of_trailers();
    return;
  }
  if (block_.id <= last_come_) {
    return may_go_on(block_.id) ? abuse_budget_.note_useless() : give_up(H2Error::stream_closed);
  }
  last_come_ = block_.id;
  if (drain_ != Drain::last) begin_request(block_.id);
}

void Http2Server::unpack(std::string_view piece, bool last) {
  block_.open = !last;
  HpackDecoder::DecodedField field;
  for (;;) {
    switch (unpacker_.next(piece, last, field)) {
      case HpackDecoder::DecodeStatus::field:
        add_field(field);
        break;
      case HpackDecoder::DecodeStatus::done:
        return last ? end_block() : void();
      case HpackDecoder::DecodeStatus::error:
        return give_up(H2Error::compression);
    }
  }
}

// A field that is given by its number was looked at when it got that, unless there was one that
// nobody looked at, or that should not have been.
void Http2Server::add_field(const HpackDecoder::DecodedField& field) {
  const bool checked = field.again && all_checked_;
  const H2Name known = h2_name_of(field.name);
  const bool looked_at = block_.of != Block::Of::nothing && block_.good && block_.bearable;
  const bool allowed = looked_at && block_.rules.allow(known, field.name, field.value, checked);
  if (!allowed) {
    all_checked_ = all_checked_ && field.again;
    block_.good = false;
    return;
  }
  block_.size += field.name.size() + field.value.size() + 32;  // as HTTP/2 counts
  if (block_.of == Block::Of::request) {
    add_request_field(known, field.name, field.value);
  } else {
    add_trailer(field.name, field.value);
  }
}

void Http2Server::add_trailer(std::string_view name, std::string_view value) {
  if (block_.size > limits_.header) block_.bearable = false;
  if (!block_.bearable || !block_.stream->in_parts_) return;
  block_.stream->request_trailers_.append(name).append(": ").append(value).append("\r\n");
}

// A header that is too long is answered when it has ended.
void Http2Server::add_request_field(H2Name known, std::string_view name, std::string_view value) {
  H2Stream& stream = *block_.stream;
  if (block_.size > 4 * limits_.header) block_.bearable = false;
  if (stream.flaw_ != 0) return;
  if (block_.size > limits_.header || stream.places_.size() == limits_.fields) {
    return find_flaw(stream, 431, "the header is too long");
  }
  if (add_pseudo_field(stream, known, value)) return;
  const HttpFields::Slice name_place = append_place(stream.text_, name);
  const HttpFields::Slice place = append_place(stream.text_, value);
  stream.places_.push_back({name_place, place});
  note_field(stream.noted_, known, place, value);
}

// Whether it is one.
bool Http2Server::add_pseudo_field(H2Stream& stream, H2Name known, std::string_view value) {
  H2Stream::Noted& noted = stream.noted_;
  switch (known) {
    case H2Name::method:
      noted.method = append_place(stream.text_, value);
      return true;
    case H2Name::path:
      noted.path = append_place(stream.text_, value);
      return true;
    case H2Name::authority:
      noted.authority = append_place(stream.text_, value);
      noted.has_authority = true;
      return true;
    case H2Name::scheme:
      return true;
    default:
      return false;
  }
}

void Http2Server::note_field(H2Stream::Noted& noted, H2Name known, HttpFields::Slice place,
                             std::string_view value) {
  switch (known) {
    case H2Name::host:
      noted.host = place;
      noted.has_host = true;
      break;
    case H2Name::content_type:
      if (noted.content_type.size == 0) noted.content_type = place;
      break;
    case H2Name::authorization:
      if (noted.authorization.size == 0) noted.authorization = place;
      break;
    case H2Name::cookie:
      ++noted.cookies;
      break;
    case H2Name::expect:
      noted.expects_continue = noted.expects_continue || value == "100-continue";
      break;
    default:
      break;
  }
}

void Http2Server::end_block() {
  if (block_.of == Block::Of::nothing) return;
  H2Stream& stream = *block_.stream;
  if (stream.closed_) return;
  const bool is_request = block_.of == Block::Of::request;
  if (!block_.bearable) return reset(stream, H2Error::internal);
  if (!block_.good || (is_request && !block_.rules.make_request())) {
    return reset(stream, H2Error::protocol);
  }
  if (!is_request) return end_request(stream);
  stream.length_ = block_.rules.length();
  if (block_.ends && stream.length_.value_or(0) > 0) return reset(stream, H2Error::protocol);
  end_header(stream, block_.ends);
}

}  // namespace weir::wire
