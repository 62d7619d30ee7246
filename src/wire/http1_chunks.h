#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::wire {

// Decodes the chunked transfer coding. Sizes and extensions are dropped; trailers are validated,
// and dropped unless keep_trailers is set. Not thread-safe. Hand-written although Boost.Beast has a
// decoder: that accepts line ends inside quoted extensions, counts a chunk twice when its data
// arrives in two reads, and does not limit the bytes that are not data.
class ChunkDecoder {
 public:
  struct ChunkLimits {
    std::size_t body;      // bytes of data
    std::size_t trailers;  // bytes of trailers
    std::size_t fields;    // number of trailers
    bool keep_trailers = false;
  };
  enum class Status { need_more, complete, error };
  struct DecodeResult {
    Status status = Status::need_more;
    std::size_t consumed = 0;
    int error_status = 0;
    std::string_view reason{};
  };

  explicit ChunkDecoder(const ChunkLimits& limits) : limits_(limits) {}

  // Appends the data in `input` to `body`. Bytes that are not consumed must be passed again, with
  // more.
  DecodeResult decode(std::string_view input, std::string& body);

  // Trailer lines, each with its CRLF, if keep_trailers is set.
  const std::string& trailers() const { return kept_trailers_; }

  std::size_t memory() const { return kept_trailers_.capacity(); }

  void reset() { *this = ChunkDecoder(limits_); }

 private:
  enum class DecodeState { size, data, data_end, trailers, complete };

  // Each consumes a part from the front of `input`; false if it needs more input or has failed.
  bool consume(std::string_view& input, std::string& body);
  bool consume_size(std::string_view& input, std::size_t body_size);
  bool consume_data(std::string_view& input, std::string& body);
  bool consume_data_end(std::string_view& input);
  bool consume_trailer(std::string_view& input);
  bool consume_line(std::string_view& input, std::size_t max_size, std::string_view& line);
  bool start_chunk(std::string_view line, std::size_t body_size);
  bool fail(int status, std::string_view reason);

  ChunkLimits limits_;
  DecodeState state_ = DecodeState::size;
  std::uint64_t chunk_left_ = 0;  // bytes of the current chunk that have not arrived
  std::size_t overhead_ = 0;      // bytes of sizes and extensions beyond the free ones
  std::size_t trailers_ = 0;      // bytes of trailers
  std::size_t fields_ = 0;        // number of trailers
  int error_status_ = 0;
  std::string_view reason_{};
  std::string kept_trailers_{};
};

}  // namespace weir::wire
