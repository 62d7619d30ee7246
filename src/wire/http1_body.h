#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/http1_chunks.h"
#include "wire/http1_head.h"

namespace weir::wire {

// Finds the end of a body that is passed on as it comes, and takes it out of its chunks. Keeps
// nothing of it but trailers. Not thread-safe.
class HttpBody {
 public:
  // `most`: bytes that it may have.
  void start(const HttpFraming& framing, std::uint64_t most = UINT64_MAX);

  struct Piece {
    std::size_t consumed = 0;  // bytes of the input that need not be given again
    std::string_view data{};   // in the input, or in `scratch`
    int error_status = 0;
    std::string_view reason{};
  };
  // What there is in `input`, whose memory and that of `scratch` the piece borrows.
  Piece read(std::string_view input, std::string& scratch);
  // The connection has ended. Whether that is the end of the body, too.
  bool end();

  bool is_done() const { return done_; }
  // Data so far.
  std::uint64_t size() const { return size_; }
  // Lines with their CRLF; empty for most.
  const std::string& trailers() const { return chunks_.trailers(); }

 private:
  HttpFraming framing_{};
  std::uint64_t most_ = UINT64_MAX;
  std::uint64_t size_ = 0;
  bool done_ = true;
  ChunkDecoder chunks_{
      ChunkDecoder::Limits{.body = SIZE_MAX, .trailers = 16 << 10, .fields = 100, .keeps = true}};
};

// A piece of a body as a chunk; nothing for an empty one, which would be the end.
void append_chunk(std::string& out, std::string_view data);
// Of lines with their CRLF, those without a say in how messages are read.
std::string passable_trailers(std::string_view trailers);
// The end of all chunks, with those.
void append_last_chunk(std::string& out, std::string_view trailers);

}  // namespace weir::wire
