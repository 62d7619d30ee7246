#include "wire/http1_body.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "wire/http1_text.h"

namespace weir::wire {

namespace {

// Compares names, ignoring case and the difference between hyphen and underscore, as CGI variables
// do.
bool same_with_underscores(std::string_view a, std::string_view b) {
  constexpr auto folded = [](char c) { return c == '_' ? '-' : lower(c); };
  return std::ranges::equal(a, b, {}, folded, folded);
}

// False for fields that must not be in trailers (RFC 9110, 6.5.1), as far as they could do harm.
bool is_allowed_in_trailers(std::string_view name) {
  constexpr auto never = std::to_array<std::string_view>({"transfer-encoding",
                                                          "content-length",
                                                          "host",
                                                          "connection",
                                                          "keep-alive",
                                                          "proxy-connection",
                                                          "proxy-authenticate",
                                                          "proxy-authorization",
                                                          "http2-settings",
                                                          "te",
                                                          "trailer",
                                                          "upgrade",
                                                          "content-encoding",
                                                          "content-type",
                                                          "content-range",
                                                          "authorization",
                                                          "cookie",
                                                          "set-cookie",
                                                          "cache-control",
                                                          "expect",
                                                          "max-forwards",
                                                          "range"});
  return std::ranges::none_of(
      never, [&](std::string_view each) { return same_with_underscores(each, name); });
}

}  // namespace

void HttpBody::start(const HttpFraming& framing, std::uint64_t max_size) {
  framing_ = framing;
  max_size_ = max_size;
  size_ = 0;
  done_ = !framing.has_body();
  chunks_.reset();
}

HttpBody::Fragment HttpBody::read(std::string_view input, std::string& scratch) {
  if (done_) return {};
  Fragment fragment;
  if (framing_.chunked) {
    scratch.clear();
    const ChunkDecoder::DecodeResult step = chunks_.decode(input, scratch);
    fragment = {step.consumed, scratch, step.error_status, step.reason};
    done_ = step.status == ChunkDecoder::Status::complete;
  } else if (framing_.until_end) {
    fragment = {input.size(), input};
  } else {
    const auto size = std::min<std::uint64_t>(framing_.length - size_, input.size());
    fragment = {static_cast<std::size_t>(size), input.substr(0, static_cast<std::size_t>(size))};
    done_ = size_ + size == framing_.length;
  }
  size_ += fragment.data.size();
  if (size_ > max_size_) return {0, {}, 413, "the body is too large"};
  return fragment;
}

bool HttpBody::end() {
  if (framing_.until_end) done_ = true;
  return done_;
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  std::array<char, 16> size;
  const auto end = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16).ptr;
  out.append(size.data(), end).append("\r\n").append(data).append("\r\n");
}

std::string forwardable_trailers(std::string_view trailers) {
  std::string passed;
  while (!trailers.empty()) {
    const std::string_view line = trailers.substr(0, trailers.find('\n') + 1);
    trailers.remove_prefix(line.size());
    if (is_allowed_in_trailers(line.substr(0, line.find(':')))) passed += line;
  }
  return passed;
}

void append_last_chunk(std::string& out, std::string_view trailers) {
  out.append("0\r\n").append(forwardable_trailers(trailers)).append("\r\n");
}

}  // namespace weir::wire
