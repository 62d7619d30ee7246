#include "wire/http1_chunks.h"

#include <algorithm>

#include "wire/http1_text.h"

namespace weir::wire {

namespace {

// Bytes of a size line with its extensions. Extensions are unused in practice, but allowed.
constexpr std::size_t kMaxSizeLine = 4096;
// Bytes of sizes and extensions in a body beyond the free ones. Limits an attack: one byte of data
// per chunk, each with an extension of 4,000 bytes.
constexpr std::size_t kMaxOverhead = 16 * 1024;
constexpr std::size_t kFreeOverhead = 16;  // bytes per chunk; twice its data are free, too

// A size with more digits needs more than 64 bits.
constexpr std::size_t kMaxDigits = 16;

std::size_t count_hex_digits(std::string_view text) {
  const auto end = std::ranges::find_if(text, [](char c) { return hex_value(c) < 0; });
  return static_cast<std::size_t>(end - text.begin());
}

std::uint64_t hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) value = value << 4 | static_cast<std::uint64_t>(hex_value(c));
  return value;
}

// False if a quoted string in an extension does not end on its line. Other parsers may continue to
// look for its end in the lines after it.
bool quotes_are_closed(std::string_view text) {
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
  return first != std::string_view::npos && text[first] == ';' && quotes_are_closed(text);
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

ChunkDecoder::DecodeResult ChunkDecoder::decode(std::string_view input, std::string& body) {
  const std::size_t given = input.size();
  while (state_ != DecodeState::complete && consume(input, body)) {
  }
  const std::size_t consumed = given - input.size();
  if (error_status_ != 0) return {Status::error, consumed, error_status_, reason_};
  return {state_ == DecodeState::complete ? Status::complete : Status::need_more, consumed};
}

bool ChunkDecoder::consume(std::string_view& input, std::string& body) {
  switch (state_) {
    case DecodeState::size:
      return consume_size(input, body.size());
    case DecodeState::data:
      return consume_data(input, body);
    case DecodeState::data_end:
      return consume_data_end(input);
    case DecodeState::trailers:
      return consume_trailer(input);
    case DecodeState::complete:
      break;
  }
  return false;
}

// Consumes a line and returns it without its CRLF. False without an error if there is no line end
// within `max_size` bytes.
bool ChunkDecoder::consume_line(std::string_view& input, std::size_t max_size,
                                std::string_view& line) {
  const std::size_t end = input.substr(0, max_size).find('\n');
  if (end == std::string_view::npos) return false;
  line = input.substr(0, end);
  if (line.empty() || line.back() != '\r') return fail(400, "a chunk line ends without CR");
  line.remove_suffix(1);
  if (std::ranges::any_of(line, is_control)) {
    return fail(400, "a chunk line holds a control character");
  }
  input.remove_prefix(end + 1);
  return true;
}

bool ChunkDecoder::consume_size(std::string_view& input, std::size_t body_size) {
  std::string_view line;
  if (consume_line(input, kMaxSizeLine, line)) return start_chunk(line, body_size);
  if (error_status_ == 0 && input.size() >= kMaxSizeLine) {
    return fail(400, "the extension of a chunk is too long");
  }
  return false;
}

bool ChunkDecoder::start_chunk(std::string_view line, std::size_t body_size) {
  const std::size_t digits = count_hex_digits(line);
  if (digits == 0 || digits > kMaxDigits || !is_extension(line.substr(digits))) {
    return fail(400,
                "the size of a chunk is not a hexadecimal number, or its extension is malformed");
  }
  chunk_left_ = hex(line.substr(0, digits));
  if (chunk_left_ > limits_.body - std::min(limits_.body, body_size)) {
    return fail(413, "the body is too large");
  }
  const std::size_t free = kFreeOverhead + 2 * static_cast<std::size_t>(chunk_left_);
  overhead_ += line.size() + 2;
  overhead_ -= std::min(overhead_, free);
  if (overhead_ > kMaxOverhead) return fail(400, "the chunks hold more extensions than data");
  state_ = chunk_left_ == 0 ? DecodeState::trailers : DecodeState::data;
  return true;
}

bool ChunkDecoder::consume_data(std::string_view& input, std::string& body) {
  if (input.empty()) return false;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_left_, input.size()));
  body.append(input.substr(0, size));
  input.remove_prefix(size);
  chunk_left_ -= size;
  if (chunk_left_ == 0) state_ = DecodeState::data_end;
  return true;
}

bool ChunkDecoder::consume_data_end(std::string_view& input) {
  constexpr std::string_view end = "\r\n";
  const std::string_view found = input.substr(0, end.size());
  if (!end.starts_with(found)) return fail(400, "a chunk is longer than its size");
  if (found.size() < end.size()) return false;
  input.remove_prefix(end.size());
  state_ = DecodeState::size;
  return true;
}

bool ChunkDecoder::consume_trailer(std::string_view& input) {
  const std::size_t before = input.size();
  std::string_view line;
  if (!consume_line(input, limits_.trailers - trailers_, line)) {
    if (error_status_ == 0 && input.size() >= limits_.trailers - trailers_) {
      return fail(431, "the trailers are too large");
    }
    return false;
  }
  if (line.empty()) {
    state_ = DecodeState::complete;
    return true;
  }
  if (!is_field(line)) return fail(400, "a trailer is not a header field");
  if (++fields_ > limits_.fields) return fail(431, "there are too many trailers");
  trailers_ += before - input.size();
  if (limits_.keep_trailers) kept_trailers_.append(line).append("\r\n");
  return true;
}

}  // namespace weir::wire
