#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::wire {

// Undoes the chunked transfer coding: sizes and extensions go, data stays, trailers are looked at
// and dropped, unless they are wanted. Not thread-safe.
// Written by hand although Beast has one: that accepts line ends inside quoted extensions, counts a
// chunk twice when it has to wait within one, and sets no bounds to what is not data.
class ChunkDecoder {
 public:
  struct Limits {
    std::size_t body;
    std::size_t trailers;  // bytes
    std::size_t fields;    // trailers
    bool keeps = false;    // trailers
  };
  enum class Status { need_more, complete, error };
  struct Step {
    Status status = Status::need_more;
    std::size_t consumed = 0;
    int error_status = 0;
    std::string_view reason{};
  };

  explicit ChunkDecoder(const Limits& limits) : limits_(limits) {}

  // Appends the data in `input` to `body`. What is not consumed must be given again, with more.
  Step decode(std::string_view input, std::string& body);

  // Those that were kept: lines with their CRLF.
  const std::string& trailers() const { return kept_; }

  std::size_t memory() const { return kept_.capacity(); }

  void reset() { *this = ChunkDecoder(limits_); }

 private:
  enum class State { size, data, data_end, trailers, complete };

  // Each takes what it can from the front of `input`; false when it has to wait or has failed.
  bool take(std::string_view& input, std::string& body);
  bool take_size(std::string_view& input, std::size_t body_size);
  bool take_data(std::string_view& input, std::string& body);
  bool take_data_end(std::string_view& input);
  bool take_trailer(std::string_view& input);
  bool take_line(std::string_view& input, std::size_t most, std::string_view& line);
  bool start_chunk(std::string_view line, std::size_t body_size);
  bool fail(int status, std::string_view reason);

  Limits limits_;
  State state_ = State::size;
  std::uint64_t left_ = 0;    // of the chunk
  std::size_t overhead_ = 0;  // what was sent beyond the data, less what is reasonable
  std::size_t trailers_ = 0;  // bytes
  std::size_t fields_ = 0;    // trailers
  int error_status_ = 0;
  std::string_view reason_{};
  std::string kept_{};
};

}  // namespace weir::wire
