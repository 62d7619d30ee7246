#include "wire/protobuf.h"

namespace weir::wire {

namespace {

constexpr int kMaxVarint64Bytes = 10;  // bytes
// Tags and lengths are 32-bit numbers.
constexpr int kMaxVarint32Bytes = 5;

// Wire types of deprecated groups, beside ProtoType.
constexpr std::uint32_t kGroup = 3;
constexpr std::uint32_t kGroupEnd = 4;

}  // namespace

bool ProtoReader::next_of_any() {
  if (at_ == end_ || failed_) return false;
  failed_ = depth_ < 0 || !read_field(depth_) || (tag_ & 7) == kGroupEnd;
  return !failed_;
}

// Also reads an end-group tag, which is valid only inside a group.
bool ProtoReader::read_field(int depth) {
  std::uint64_t tag = 0;
  if (!read_varint(kMaxVarint32Bytes, tag)) return false;
  tag_ = static_cast<std::uint32_t>(tag);
  const std::uint32_t field = tag_ >> 3;
  if (field == 0) return false;
  switch (tag_ & 7) {
    case static_cast<std::uint32_t>(ProtoType::number):
      return read_varint(kMaxVarint64Bytes, number_);
    case static_cast<std::uint32_t>(ProtoType::text): {
      std::uint64_t size = 0;
      if (!read_varint(kMaxVarint32Bytes, size)) return false;
      const char* const start = at_;
      if (!skip(size)) return false;
      text_ = {start, static_cast<std::size_t>(size)};
      return true;
    }
    case static_cast<std::uint32_t>(ProtoType::fixed64):
      return skip(8);
    case static_cast<std::uint32_t>(ProtoType::fixed32):
      return skip(4);
    case kGroup:
      return skip_group(field, depth - 1);
    case kGroupEnd:
      return true;
    default:
      return false;
  }
}

bool ProtoReader::read_varint(int max_bytes, std::uint64_t& value) {
  std::uint64_t read = 0;
  for (int i = 0; i < max_bytes && at_ != end_; ++i) {
    const auto byte = static_cast<unsigned char>(*at_++);
    read |= std::uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      value = read;
      return true;
    }
  }
  return false;
}

bool ProtoReader::skip(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(end_ - at_)) return false;
  at_ += bytes;
  return true;
}

// A group is a deprecated form of a nested message. It ends with an end-group tag of the same
// field.
bool ProtoReader::skip_group(std::uint32_t field, int depth) {
  if (depth < 0) return false;
  const std::uint32_t group = tag_;
  while (at_ != end_) {
    if (!read_field(depth)) return false;
    if ((tag_ & 7) != kGroupEnd) continue;
    if (tag_ >> 3 != field) return false;
    tag_ = group;
    return true;
  }
  return false;
}

// Moves the message, to make room for a longer length.
void ProtoWriter::end_long_message(std::size_t start) {
  const std::string message = out_.substr(start, used_ - start);
  used_ = start - 1;
  make_room(kMaxVarintSize + message.size());
  varint(message.size());
  raw(message);
}

}  // namespace weir::wire
