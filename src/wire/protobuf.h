#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Encodes and decodes Protocol Buffers, for the few messages on the hot path: with Google's
// library, one small call and its response cost more than the decision. A fuzzer and a test check
// that both read the same bytes in the same way.

namespace weir::wire {

// Wire types: the lower bits of a field's tag.
enum class ProtoType : std::uint8_t { number = 0, fixed64 = 1, text = 2, fixed32 = 5 };

constexpr std::uint32_t proto_tag(std::uint32_t field, ProtoType type) {
  return field << 3 | static_cast<std::uint32_t>(type);
}

// Iterates over the fields of a message, without copying. Skips over the values of fixed32, fixed64
// and groups: no message here uses them.
//
//   ProtoReader reader(message);
//   while (reader.next()) { switch (reader.tag()) { case proto_tag(1, ProtoType::text): … } }
//   if (reader.failed()) …
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message)
      : at_(message.data()), end_(message.data() + message.size()) {}
  // Reads a message that is nested in the one that `outer` reads.
  ProtoReader(std::string_view message, const ProtoReader& outer) : ProtoReader(message) {
    depth_ = outer.depth_ - 1;
  }

  // Advances to the next field; false at the end, or if the message is malformed.
  bool next() { return next_short_text() || next_of_any(); }
  std::uint32_t tag() const { return tag_; }
  // The field's value, depending on its wire type.
  std::uint64_t number() const { return number_; }
  std::string_view text() const { return text_; }

  // True if the message is malformed.
  bool failed() const { return failed_; }

 private:
  // The fast path: a length-delimited field whose tag and length take one byte each.
  bool next_short_text() {
    if (end_ - at_ < 2) return false;
    const auto tag = static_cast<unsigned char>(at_[0]);
    const auto size = static_cast<unsigned char>(at_[1]);
    const bool is_text = (tag & 0x87) == static_cast<unsigned char>(ProtoType::text) && tag >= 8;
    if (!is_text || size >= 0x80 || size > end_ - at_ - 2 || depth_ < 0) return false;
    tag_ = tag;
    text_ = {at_ + 2, size};
    at_ += 2 + size;
    return true;
  }
  bool next_of_any();
  bool read_field(int depth);
  bool read_varint(int max_bytes, std::uint64_t& value);
  bool skip(std::size_t bytes);
  bool skip_group(std::uint32_t field, int depth);

  const char* at_;
  const char* end_;
  std::uint32_t tag_ = 0;
  int depth_ = 100;  // levels of nesting that are left
  bool failed_ = false;
  std::uint64_t number_ = 0;
  std::string_view text_;
};

// Appends the fields of a message to a string, in the order of the calls. Zeros and empty strings
// are left out, as in proto3. The string is complete only after the writer is destroyed.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string& out) : out_(out), used_(out.size()) {}
  ~ProtoWriter() { out_.resize(used_); }
  ProtoWriter(const ProtoWriter&) = delete;
  ProtoWriter& operator=(const ProtoWriter&) = delete;

  void number(std::uint32_t field, std::uint64_t value) {
    if (value == 0) return;
    make_room(2 * kMaxVarintSize);
    varint(proto_tag(field, ProtoType::number));
    varint(value);
  }
  void text(std::uint32_t field, std::string_view value) {
    if (value.empty()) return;
    make_room(2 * kMaxVarintSize);
    varint(proto_tag(field, ProtoType::text));
    varint(value.size());
    raw(value);
  }
  // Appends fields that are already encoded.
  void raw(std::string_view fields) {
    make_room(fields.size());
    used_ += fields.copy(out_.data() + used_, fields.size());
  }
  // Appends a nested message, whose fields `write` appends.
  template <typename Write>
  void message(std::uint32_t field, const Write& write) {
    make_room(2 * kMaxVarintSize);
    varint(proto_tag(field, ProtoType::text));
    const std::size_t start = ++used_;  // reserves one byte for the length: most are short
    write();
    end_message(start);
  }

 private:
  static constexpr std::size_t kMaxVarintSize = 10;  // bytes

  void make_room(std::size_t bytes) {
    if (out_.size() - used_ < bytes) [[unlikely]]
      out_.resize(out_.size() + bytes + 256);
  }
  void varint(std::uint64_t value) {
    char* at = out_.data() + used_;
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
    *at++ = static_cast<char>(value);
    used_ = static_cast<std::size_t>(at - out_.data());
  }
  void end_message(std::size_t start) {
    const std::size_t size = used_ - start;
    if (size >= 0x80) [[unlikely]]
      return end_long_message(start);
    out_[start - 1] = static_cast<char>(size);
  }
  void end_long_message(std::size_t start);

  std::string& out_;
  std::size_t used_;  // bytes of `out_` that are written
};

}  // namespace weir::wire
