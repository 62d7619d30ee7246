#include <algorithm>
#include <utility>

#include "base/scratch_buffer.h"
#include "wire/h2.h"

// Output: responses, as far as flow control allows.

namespace weir::wire {

namespace {

constexpr std::size_t kMuch = 4 << 10;  // of a body that is sent, and so could be erased

}  // namespace

// ---- Fields

void Http2Server::append_block(std::string& out, std::int32_t id, std::span<const H2Field> fields,
                               bool ends) {
  thread_local std::string block;
  block.clear();
  packer_.append(block, fields);
  std::string_view rest = block;
  auto type = H2Type::headers;
  do {
    const std::string_view some = rest.substr(0, kH2FrameSize);
    rest.remove_prefix(some.size());
    const int flags = (ends && type == H2Type::headers ? H2Flags::kEndStream : 0) |
                      (rest.empty() ? H2Flags::kEndHeaders : 0);
    append_h2_frame(out, type, static_cast<std::uint8_t>(flags), id, some);
    type = H2Type::continuation;
  } while (!rest.empty());
}

void Http2Server::hint(H2Stream& stream, std::span<const H2Field> fields) {
  if (!stream.closed_ && !gave_up_) append_block(queue_, stream.id_, fields, false);
}

void Http2Server::submit(H2Stream& stream, std::span<const H2Field> fields, bool has_body) {
  no_longer_waits(stream);
  if (!stream.closed_ && !gave_up_) append_block(queue_, stream.id_, fields, !has_body);
}

// ---- Answers

void Http2Server::respond(H2Stream& stream, std::span<const H2Field> fields) {
  submit(stream, fields, false);
  stream.said_ = H2Stream::Said::sent;
  if (stream.whole_) close(stream);
}

void Http2Server::start(H2Stream& stream, std::span<const H2Field> fields) {
  count_unsent(stream);
  submit(stream, fields, true);
  stream.said_ = H2Stream::Said::some;
  make_ready(stream);
}

void Http2Server::count_unsent(H2Stream& stream) {
  unsent_ += stream.answer.size() - stream.counted_;
  stream.counted_ = stream.answer.size();
  count_memory(stream);
}

void Http2Server::go_on(H2Stream& stream) {
  count_unsent(stream);
  // A response that grows as fast as it is sent is never sent completely.
  if (stream.sent_ > kMuch && stream.sent_ > stream.answer.size() / 2) {
    stream.answer.erase(0, stream.sent_);
    stream.counted_ -= std::exchange(stream.sent_, 0);
  }
  make_ready(stream);
}

void Http2Server::finish(H2Stream& stream, std::span<const H2Field> trailers) {
  if (stream.is_finished()) return;
  stream.said_ = H2Stream::Said::all;
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

// If there is something to send of it, and its window is open.
void Http2Server::make_ready(H2Stream& stream) {
  using Said = H2Stream::Said;
  if (stream.list_ != nullptr || stream.closed_) return;
  if (stream.said_ == Said::nothing || stream.said_ == Said::sent) return;
  if (stream.unsent() > 0 ? stream.peer_window_ > 0 : stream.is_finished()) ready_.add(stream);
}

// ---- Sending

void Http2Server::send(std::string& out, std::size_t enough) {
  if (no_http2_) return;
  do {
    end_streams();
    out.append(queue_);
    clear_scratch_buffer(queue_);
    // Frames that are queued meanwhile must be sent first: HPACK encodes fields in that order.
    while (queue_.empty() && out.size() < enough && !ready_.empty() && !gave_up_) {
      send_some(ready_.first(), out);
    }
  } while (!queue_.empty() && out.size() < enough);
}

// A frame of its body, and what comes behind the last. Then it is the others' turn.
void Http2Server::send_some(H2Stream& stream, std::string& out) {
  H2StreamList::remove(stream);
  const std::size_t left = stream.unsent();
  if (left > 0 && peer_window_ <= 0) return blocked_.add(stream);
  const auto open = static_cast<std::size_t>(
      std::max<std::int64_t>(std::min(peer_window_, stream.peer_window_), 0));
  const std::size_t some = std::min({left, open, kH2FrameSize});
  const bool last = some == left && stream.is_finished();
  const bool has_trailers = !stream.trailers_.empty();
  if (some > 0 || (last && !has_trailers)) {
    const std::uint8_t flags = last && !has_trailers ? H2Flags::kEndStream : 0;
    append_h2_frame(out, H2Type::data, flags, stream.id_,
                    std::string_view(stream.answer).substr(stream.sent_, some));
  }
  stream.sent_ += some;
  stream.peer_window_ -= static_cast<std::int64_t>(some);
  peer_window_ -= static_cast<std::int64_t>(some);
  unsent_ -= some;
  abuse_budget_.note_sent(some, some == left);
  stream.late_since_ = 0;
  if (!last) {
    if (stream.sent_ == stream.counted_) {
      clear_scratch_buffer(stream.answer);
      stream.sent_ = stream.counted_ = 0;
      count_memory(stream);
    }
    return make_ready(stream);
  }
  if (has_trailers) append_block(out, stream.id_, stream.trailers_, true);
  stream.said_ = H2Stream::Said::sent;
  if (stream.whole_) end_stream(stream);
}

}  // namespace weir::wire
