#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// (The library's header stays in the source.)
struct nghttp2_hd_inflater;
struct nghttp2_hd_deflater;

// Fields of HTTP/2 as bytes (HPACK, RFC 7541), by nghttp2. Both sides remember fields from block to
// block, so every block has to be gone through, in order.

namespace weir::wire {

// A field of an answer; the name in lower case.
struct H2Field {
  std::string_view name;
  std::string_view value;
  bool lasting = true;  // the texts outlive the stream: they need not be copied
};

class HpackDecoder {
 public:
  HpackDecoder();

  struct DecodedField {
    std::string_view name;  // until the next one
    std::string_view value;
    // It is one that was given before, or that everybody knows.
    bool again = false;
  };
  enum class DecodeStatus { field, done, error };

  // The next field of a block, of which `piece` is what has come, or, if it is the last, the rest.
  // Takes what it has used from its front.
  DecodeStatus next(std::string_view& piece, bool last, DecodedField& field);

 private:
  struct Delete {
    void operator()(nghttp2_hd_inflater* inflater) const;
  };
  DecodeStatus look_up(char byte, DecodedField& field) const;
  DecodeStatus unpack(std::string_view& piece, bool last, DecodedField& field);
  DecodeStatus end(bool last);

  std::unique_ptr<nghttp2_hd_inflater, Delete> inflater_;
  bool between_fields_ = true;
  bool begun_ = false;  // there was a field in this block
  bool used_ = false;   // the library has seen some of it
};

class HpackEncoder {
 public:
  HpackEncoder();

  // The size of the peer's table, in bytes.
  void use_table(std::uint32_t size);

  // Appends a block.
  void append(std::string& out, std::span<const H2Field> fields);

 private:
  struct Delete {
    void operator()(nghttp2_hd_deflater* deflater) const;
  };

  // A field that both sides know, and its number as it stands in a block.
  struct Known {
    std::string name;
    std::string value;
    char number;
  };
  char number_of(const H2Field& field) const;
  bool append_numbers(std::string& out, std::span<const H2Field> fields) const;
  void learn(std::span<const H2Field> fields, std::string_view block);

  std::unique_ptr<nghttp2_hd_deflater, Delete> deflater_;
  std::vector<Known> known_;  // the last ones that were sent, while what is remembered is the same
};

}  // namespace weir::wire
