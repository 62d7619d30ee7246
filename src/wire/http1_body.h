#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/http1_chunks.h"
#include "wire/http1_head.h"

namespace weir::wire {

// Delimits a body that is forwarded while it arrives, and removes the chunked coding. Buffers
// nothing except trailers. Not thread-safe.
class HttpBody {
 public:
  // `max_size`: limit of the body's data, in bytes.
  void start(const HttpFraming& framing, std::uint64_t max_size = UINT64_MAX);

  struct Fragment {
    std::size_t consumed = 0;  // bytes of the input that must not be passed again
    std::string_view data{};   // points into the input or `scratch`
    int error_status = 0;
    std::string_view reason{};
  };
  // Reads the data in `input`. Reuses `scratch` as a buffer for chunked bodies.
  Fragment read(std::string_view input, std::string& scratch);
  // The connection has ended: true if the body is complete then.
  bool end();

  bool is_done() const { return done_; }
  // Bytes of data so far.
  std::uint64_t size() const { return size_; }
  // Trailer lines, each with its CRLF; mostly empty.
  const std::string& trailers() const { return chunks_.trailers(); }

 private:
  HttpFraming framing_{};
  std::uint64_t max_size_ = UINT64_MAX;
  std::uint64_t size_ = 0;
  bool done_ = true;
  ChunkDecoder chunks_{ChunkDecoder::ChunkLimits{
      .body = SIZE_MAX, .trailers = 16 << 10, .fields = 100, .keep_trailers = true}};
};

// Appends data as one chunk. Appends nothing for empty data: an empty chunk would end the body.
void append_chunk(std::string& out, std::string_view data);
// The trailer lines that may be forwarded: fields for framing, routing, authentication and the like
// are dropped (RFC 9110, 6.5.1).
std::string forwardable_trailers(std::string_view trailers);
// Appends the last chunk, with the trailers that may be forwarded.
void append_last_chunk(std::string& out, std::string_view trailers);

}  // namespace weir::wire
