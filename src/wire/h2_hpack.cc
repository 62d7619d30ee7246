#include "wire/h2_hpack.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <new>

namespace weir::wire {

namespace {

constexpr std::size_t kTable = 4096;  // as large as it is unless somebody says otherwise

std::uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

std::string_view text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

// ---- Unpacking

HpackDecoder::HpackDecoder() {
  nghttp2_hd_inflater* made = nullptr;
  if (nghttp2_hd_inflate_new(&made) != 0) throw std::bad_alloc();
  inflater_.reset(made);
}

void HpackDecoder::Delete::operator()(nghttp2_hd_inflater* inflater) const {
  nghttp2_hd_inflate_del(inflater);
}

// One byte that is the number of a field in a table: most of what comes after the first request.
// To look it up takes a fraction of what the library takes to go through the block with it.
HpackDecoder::DecodeStatus HpackDecoder::look_up(char byte, DecodedField& field) const {
  const nghttp2_nv* const found =
      nghttp2_hd_inflate_get_table_entry(inflater_.get(), static_cast<unsigned char>(byte) & 0x7f);
  if (found == nullptr) return DecodeStatus::error;
  field.name = text(found->name, found->namelen);
  field.value = text(found->value, found->valuelen);
  field.again = true;
  return DecodeStatus::field;
}

HpackDecoder::DecodeStatus HpackDecoder::next(std::string_view& piece, bool last,
                                              DecodedField& field) {
  if (between_fields_) {
    if (piece.empty()) return end(last);
    const char first = piece.front();
    const auto bits = static_cast<unsigned char>(first);
    if (bits >= 0x80 && bits < 0xff) {
      piece.remove_prefix(1);
      begun_ = true;
      return look_up(first, field);
    }
    const bool resizes_table = (bits & 0xe0) == 0x20;  // only before all fields
    if (resizes_table && begun_) return DecodeStatus::error;
  }
  return unpack(piece, last, field);
}

// Nothing more has come of the block.
HpackDecoder::DecodeStatus HpackDecoder::end(bool last) {
  if (last) begun_ = false;
  if (last && used_) nghttp2_hd_inflate_end_headers(inflater_.get());
  if (last) used_ = false;
  return DecodeStatus::done;
}

HpackDecoder::DecodeStatus HpackDecoder::unpack(std::string_view& piece, bool last,
                                                DecodedField& field) {
  used_ = true;
  nghttp2_nv found;
  int flags = 0;
  const ssize_t used = nghttp2_hd_inflate_hd2(inflater_.get(), &found, &flags, bytes(piece),
                                              piece.size(), last ? 1 : 0);
  if (used < 0) return DecodeStatus::error;
  piece.remove_prefix(static_cast<std::size_t>(used));
  const bool emits = (flags & NGHTTP2_HD_INFLATE_EMIT) != 0;
  const bool ends = (flags & NGHTTP2_HD_INFLATE_FINAL) != 0;
  between_fields_ = emits || ends;
  if (ends) return end(last);
  if (!emits) return DecodeStatus::done;
  begun_ = true;
  field.name = text(found.name, found.namelen);
  field.value = text(found.value, found.valuelen);
  field.again = false;
  return DecodeStatus::field;
}

// ---- Packing

HpackEncoder::HpackEncoder() {
  nghttp2_hd_deflater* made = nullptr;
  if (nghttp2_hd_deflate_new(&made, kTable) != 0) throw std::bad_alloc();
  deflater_.reset(made);
}

void HpackEncoder::Delete::operator()(nghttp2_hd_deflater* deflater) const {
  nghttp2_hd_deflate_del(deflater);
}

void HpackEncoder::use_table(std::uint32_t size) {
  if (nghttp2_hd_deflate_change_table_size(deflater_.get(), size) != 0) throw std::bad_alloc();
  known_.clear();
}

// 0 if it is not known.
char HpackEncoder::number_of(const H2Field& field) const {
  for (const Known& known : known_) {
    if (known.name == field.name && known.value == field.value) return known.number;
  }
  return 0;
}

// Most answers start and end with the same few fields, each of which is one byte then: those need
// not be looked up again. Whether all of them were known.
bool HpackEncoder::append_numbers(std::string& out, std::span<const H2Field> fields) const {
  const std::size_t before = out.size();
  for (const H2Field& field : fields) {
    const char number = field.lasting ? number_of(field) : 0;
    if (number == 0) {
      out.resize(before);
      return false;
    }
    out += number;
  }
  return true;
}

// A block of one byte for each field has changed nothing on either side. After any other, fields
// may have other numbers.
void HpackEncoder::learn(std::span<const H2Field> fields, std::string_view block) {
  constexpr std::size_t few = 8;
  const auto is_number = [](char c) { return static_cast<unsigned char>(c) > 0x80 && c != '\xff'; };
  if (block.size() != fields.size() || !std::ranges::all_of(block, is_number)) {
    return known_.clear();
  }
  for (std::size_t i = 0; i < fields.size() && known_.size() < few; ++i) {
    if (number_of(fields[i]) != 0) continue;
    known_.push_back({std::string(fields[i].name), std::string(fields[i].value), block[i]});
  }
}

void HpackEncoder::append(std::string& out, std::span<const H2Field> fields) {
  if (append_numbers(out, fields)) return;
  thread_local std::vector<nghttp2_nv> all;
  all.clear();
  for (const H2Field& field : fields) {
    // Values that differ every time stay out of the peer's table.
    all.push_back({bytes(field.name), bytes(field.value), field.name.size(), field.value.size(),
                   static_cast<std::uint8_t>(field.lasting ? NGHTTP2_NV_FLAG_NONE
                                                           : NGHTTP2_NV_FLAG_NO_INDEX)});
  }
  const std::size_t before = out.size();
  const std::size_t most = nghttp2_hd_deflate_bound(deflater_.get(), all.data(), all.size());
  out.resize(before + most);
  const ssize_t size =
      nghttp2_hd_deflate_hd(deflater_.get(), bytes(out) + before, most, all.data(), all.size());
  if (size < 0) throw std::bad_alloc();  // there is room for it, so that is all it can be
  out.resize(before + static_cast<std::size_t>(size));
  learn(fields, std::string_view(out).substr(before));
}

}  // namespace weir::wire
