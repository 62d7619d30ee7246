#include "wire/http1_chunks.h"

#include <algorithm>

#include "wire/http1_text.h"

namespace weir::wire {

namespace {

// A size and its extensions. Nobody uses extensions; somebody may send them.
constexpr std::size_t kLongestSizeLine = 4096;
// What may be sent in sizes and extensions beyond a fair share: a stranger who sends a byte at a
// time with an extension of 4000 to each makes work, not requests.
constexpr std::size_t kMostOverhead = 16 * 1024;
constexpr std::size_t kFairOverhead = 16;  // a chunk

// Above this many digits a size needs more than 64 bits.
constexpr std::size_t kMostDigits = 16;

std::size_t count_hex_digits(std::string_view text) {
  const auto end = std::ranges::find_if(text, [](char c) { return hex_value(c) < 0; });
  return static_cast<std::size_t>(end - text.begin());
}

std::uint64_t hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) value = value << 4 | static_cast<std::uint64_t>(hex_value(c));
  return value;
}

// Others may look for the end of a quote in the lines behind it.
bool quotes_end(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\\' && quoted) ++i;
  }
  return !quoted;
}

bool is_extension(std::string_view text) {
  if (text.empty()) return true;
  const std::size_t first = text.find_first_not_of(" \t");
  return first != std::string_view::npos && text[first] == ';' && quotes_end(text);
}

bool is_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  return std::ranges::all_of(line.substr(0, colon), is_token_char);
}

}  // namespace

bool ChunkDecoder::fail(int status, std::string_view reason) {
  error_status_ = status;
  reason_ = reason;
  return false;
}

ChunkDecoder::Step ChunkDecoder::decode(std::string_view input, std::string& body) {
  const std::size_t given = input.size();
  while (state_ != State::complete && take(input, body)) {
  }
  const std::size_t consumed = given - input.size();
  if (error_status_ != 0) return {Status::error, consumed, error_status_, reason_};
  return {state_ == State::complete ? Status::complete : Status::need_more, consumed};
}

bool ChunkDecoder::take(std::string_view& input, std::string& body) {
  switch (state_) {
    case State::size:
      return take_size(input, body.size());
    case State::data:
      return take_data(input, body);
    case State::data_end:
      return take_data_end(input);
    case State::trailers:
      return take_trailer(input);
    case State::complete:
      break;
  }
  return false;
}

// A line without its end. Waits with an empty reason if there is none within `most` bytes.
bool ChunkDecoder::take_line(std::string_view& input, std::size_t most, std::string_view& line) {
  const std::size_t end = input.substr(0, most).find('\n');
  if (end == std::string_view::npos) return false;
  line = input.substr(0, end);
  if (line.empty() || line.back() != '\r') return fail(400, "a line ends without CR");
  line.remove_suffix(1);
  if (std::ranges::any_of(line, is_control)) {
    return fail(400, "there is a control character between chunks");
  }
  input.remove_prefix(end + 1);
  return true;
}

bool ChunkDecoder::take_size(std::string_view& input, std::size_t body_size) {
  std::string_view line;
  if (take_line(input, kLongestSizeLine, line)) return start_chunk(line, body_size);
  if (error_status_ == 0 && input.size() >= kLongestSizeLine) {
    return fail(400, "the extension of a chunk is too long");
  }
  return false;
}

bool ChunkDecoder::start_chunk(std::string_view line, std::size_t body_size) {
  const std::size_t digits = count_hex_digits(line);
  if (digits == 0 || digits > kMostDigits || !is_extension(line.substr(digits))) {
    return fail(400, "the size of a chunk is no hexadecimal number, or its extension is malformed");
  }
  left_ = hex(line.substr(0, digits));
  if (left_ > limits_.body - std::min(limits_.body, body_size)) {
    return fail(413, "the body is too large");
  }
  const std::size_t fair = kFairOverhead + 2 * static_cast<std::size_t>(left_);
  overhead_ += line.size() + 2;
  overhead_ -= std::min(overhead_, fair);
  if (overhead_ > kMostOverhead) return fail(400, "the chunks hold more extensions than data");
  state_ = left_ == 0 ? State::trailers : State::data;
  return true;
}

bool ChunkDecoder::take_data(std::string_view& input, std::string& body) {
  if (input.empty()) return false;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
  body.append(input.substr(0, size));
  input.remove_prefix(size);
  left_ -= size;
  if (left_ == 0) state_ = State::data_end;
  return true;
}

bool ChunkDecoder::take_data_end(std::string_view& input) {
  constexpr std::string_view end = "\r\n";
  const std::string_view found = input.substr(0, end.size());
  if (!end.starts_with(found)) return fail(400, "a chunk is longer than its size");
  if (found.size() < end.size()) return false;
  input.remove_prefix(end.size());
  state_ = State::size;
  return true;
}

bool ChunkDecoder::take_trailer(std::string_view& input) {
  const std::size_t before = input.size();
  std::string_view line;
  if (!take_line(input, limits_.trailers - trailers_, line)) {
    if (error_status_ == 0 && input.size() >= limits_.trailers - trailers_) {
      return fail(431, "the trailers are too large");
    }
    return false;
  }
  if (line.empty()) {
    state_ = State::complete;
    return true;
  }
  if (!is_field(line)) return fail(400, "a trailer is no field");
  if (++fields_ > limits_.fields) return fail(431, "there are too many trailers");
  trailers_ += before - input.size();
  if (limits_.keeps) kept_.append(line).append("\r\n");
  return true;
}

}  // namespace weir::wire
