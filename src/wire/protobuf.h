#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The encoding of Protocol Buffers, for the few messages that are worth reading and writing by
// hand: the library's way of one small call and its answer costs more than deciding it. (What a
// fuzzer and a test see to: both understand the same bytes in the same way.)

namespace weir::wire {

// How a field is encoded: the lower bits of its tag.
enum class ProtoType : std::uint8_t { number = 0, fixed64 = 1, text = 2, fixed32 = 5 };

constexpr std::uint32_t proto_tag(std::uint32_t field, ProtoType type) {
  return field << 3 | static_cast<std::uint32_t>(type);
}

// Goes through the fields of a message, which it borrows. Fields of other encodings than numbers
// and texts are passed over, as nothing here has any.
//
//   ProtoReader reader(message);
//   while (reader.next()) { switch (reader.tag()) { case proto_tag(1, ProtoType::text): … } }
//   if (reader.failed()) …
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message)
      : at_(message.data()), end_(message.data() + message.size()) {}
  // Of a message inside the one that `outer` reads.
  ProtoReader(std::string_view message, const ProtoReader& outer) : ProtoReader(message) {
    depth_ = outer.depth_ - 1;
  }

  // Whether there is another field.
  bool next() { return next_short_text() || next_of_any(); }
  std::uint32_t tag() const { return tag_; }
  // The field's content, as its encoding has it.
  std::uint64_t number() const { return number_; }
  std::string_view text() const { return text_; }

  // Whether it was no message.
  bool failed() const { return failed_; }

 private:
  // What nearly all are: a text whose tag and length have a byte each.
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
  bool read_varint(int most_bytes, std::uint64_t& value);
  bool skip(std::size_t bytes);
  bool skip_group(std::uint32_t field, int depth);

  const char* at_;
  const char* end_;
  std::uint32_t tag_ = 0;
  int depth_ = 100;  // how deep what is inside may be
  bool failed_ = false;
  std::uint64_t number_ = 0;
  std::string_view text_;
};

// Appends the fields of a message to a text, in the order in which they are given. As everywhere
// since version 3, zeros and empty texts are left out. The text is whole when the writer is gone.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string& out) : out_(out), used_(out.size()) {}
  ~ProtoWriter() { out_.resize(used_); }
  ProtoWriter(const ProtoWriter&) = delete;
  ProtoWriter& operator=(const ProtoWriter&) = delete;

  void number(std::uint32_t field, std::uint64_t value) {
    if (value == 0) return;
    make_room(2 * kLongest);
    varint(proto_tag(field, ProtoType::number));
    varint(value);
  }
  void text(std::uint32_t field, std::string_view value) {
    if (value.empty()) return;
    make_room(2 * kLongest);
    varint(proto_tag(field, ProtoType::text));
    varint(value.size());
    raw(value);
  }
  // Fields that have been encoded before.
  void raw(std::string_view fields) {
    make_room(fields.size());
    used_ += fields.copy(out_.data() + used_, fields.size());
  }
  // A message inside this one, whose fields `write` appends.
  template <typename Write>
  void message(std::uint32_t field, const Write& write) {
    make_room(2 * kLongest);
    varint(proto_tag(field, ProtoType::text));
    const std::size_t start = ++used_;  // most are short: one byte tells their length
    write();
    end_message(start);
  }

 private:
  static constexpr std::size_t kLongest = 10;  // of a number

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
  std::size_t used_;  // of it
};

}  // namespace weir::wire
