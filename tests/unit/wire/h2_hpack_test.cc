// HPACK encoding and decoding, against nghttp2.

#include "wire/h2_hpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "h2_peer.h"

namespace weir::wire {
namespace {

using testing::ElementsAre;

using Lines = std::vector<std::string>;

std::string line(std::string_view name, std::string_view value) {
  return std::string(name).append(": ").append(value);
}

// ---- Encoding

class HpackEncoderTest : public testing::Test {
 protected:
  std::string pack(const std::vector<H2Field>& fields) {
    std::string block;
    packer.append(block, fields);
    return block;
  }
  Lines unpacked(const std::string& block) {
    return peer.fields({.type = Frame::headers, .payload = block});
  }

  HpackEncoder packer;
  H2Peer peer;
};

TEST_F(HpackEncoderTest, EncodesAnIndexedFieldInOneByte) {
  const std::vector<H2Field> head{{":status", "200"}, {"content-type", "application/grpc"}};
  EXPECT_GT(pack(head).size(), 2u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pack(head).size(), 2u);
}

TEST_F(HpackEncoderTest, EncodesTheSameFieldsInEveryTableState) {
  std::mt19937 random(7);
  const auto any = [&](std::size_t below) { return random() % below; };
  const std::string names[] = {":status", "content-type", "grpc-status", "a", "b", "server"};
  const std::string values[] = {"200", "0", "application/grpc", "x", std::string(1500, 'l'), ""};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<H2Field> fields;
    Lines expected;
    for (std::size_t left = 1 + any(3); left > 0; --left) {
      // Mostly the same few, as in real responses.
      const bool usual = any(20) != 0;
      const std::string& name = names[usual ? any(2) : any(std::size(names))];
      const std::string& value = values[usual ? any(2) : any(std::size(values))];
      fields.push_back({name, value, any(8) != 0});
      expected.push_back(line(name, value));
    }
    ASSERT_EQ(unpacked(pack(fields)), expected) << i;
    if (any(500) == 0) {
      // SETTINGS_HEADER_TABLE_SIZE of the peer, whose decoder takes any size up to 4096.
      packer.use_table(static_cast<std::uint32_t>(any(5000)));
    }
  }
}

// ---- Decoding

class HpackDecoderTest : public testing::Test {
 protected:
  // Decodes a block in the given pieces; the last line is "error" if that fails.
  Lines unpack(const std::vector<std::string_view>& pieces) {
    Lines lines;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string_view piece = pieces[i];
      const bool last = i + 1 == pieces.size();
      for (;;) {
        HpackDecoder::DecodedField field;
        const HpackDecoder::DecodeStatus step = unpacker.next(piece, last, field);
        if (step == HpackDecoder::DecodeStatus::error) lines.push_back("error");
        if (step == HpackDecoder::DecodeStatus::error) return lines;
        if (step == HpackDecoder::DecodeStatus::done) break;
        lines.push_back(line(field.name, field.value));
        again.push_back(field.again);
      }
      EXPECT_TRUE(piece.empty());
    }
    return lines;
  }
  Lines unpack(std::string_view block) { return unpack(std::vector{block}); }

  HpackDecoder unpacker;
  std::vector<bool> again;
};

TEST_F(HpackDecoderTest, DecodesIndexedFields) {
  EXPECT_THAT(unpack("\x82\x40\x01"
                     "a"
                     "\x01"
                     "b"),
              ElementsAre(":method: GET", "a: b"));
  EXPECT_THAT(again, ElementsAre(true, false));
  EXPECT_THAT(unpack("\xbe\x82"), ElementsAre("a: b", ":method: GET"));
  EXPECT_THAT(again, ElementsAre(true, false, true, true));
  EXPECT_THAT(unpack(""), ElementsAre());
}

// A byte that looks like an index may be part of a string, or of a longer integer.
TEST_F(HpackDecoderTest, DecodesABlockInPieces) {
  const std::string text =
      "\x40\x01"
      "a"
      "\x02\x82\x82";
  EXPECT_THAT(unpack({std::string_view(text).substr(0, 4), std::string_view(text).substr(4, 1),
                      std::string_view(text).substr(5)}),
              ElementsAre("a: \x82\x82"));
  EXPECT_THAT(again, ElementsAre(false));
}

TEST_F(HpackDecoderTest, RefusesIndexesWithoutAField) {
  EXPECT_THAT(unpack("\x80"), ElementsAre("error"));
  EXPECT_THAT(unpack("\xbe"), ElementsAre("error"));
  EXPECT_THAT(unpack("\x82\xfe"), ElementsAre(":method: GET", "error"));
}

TEST_F(HpackDecoderTest, AllowsTableSizeUpdatesOnlyAtTheStart) {
  EXPECT_THAT(unpack("\x20\x82"), ElementsAre(":method: GET"));
  EXPECT_THAT(unpack("\x3f\xe1\x1f\x82"), ElementsAre(":method: GET"));
  EXPECT_THAT(unpack("\x82\x20"), ElementsAre(":method: GET", "error"));
}

TEST_F(HpackDecoderTest, RefusesATableSizeAboveTheLimit) {
  EXPECT_THAT(unpack("\x3f\xe2\x1f\x82"), ElementsAre("error"));
}

TEST_F(HpackDecoderTest, RefusesAnIncompleteField) {
  EXPECT_THAT(unpack("\x82\x40\x01"
                     "a"
                     "\x05"
                     "b"),
              ElementsAre(":method: GET", "error"));
}

TEST_F(HpackDecoderTest, DecodesDynamicTableEntriesHoweverTheBlockIsCut) {
  std::mt19937 random(7);
  const auto any = [&](std::size_t below) { return random() % below; };
  nghttp2_hd_deflater* deflater = nullptr;
  ASSERT_EQ(nghttp2_hd_deflate_new(&deflater, 4096), 0);
  const auto bytes = [](std::string& text) { return reinterpret_cast<std::uint8_t*>(text.data()); };
  for (int i = 0; i < 5'000; ++i) {
    std::vector<std::pair<std::string, std::string>> fields;
    for (std::size_t left = any(6); left > 0; --left) {
      fields.emplace_back(any(2) ? ":path" : "name-" + std::to_string(any(30)),
                          std::string(any(40), static_cast<char>('a' + any(3))));
    }
    std::vector<nghttp2_nv> all;
    Lines expected;
    for (auto& [name, value] : fields) {
      all.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
      expected.push_back(line(name, value));
    }
    if (any(100) == 0) nghttp2_hd_deflate_change_table_size(deflater, any(4097));
    std::string block(nghttp2_hd_deflate_bound(deflater, all.data(), all.size()), '\0');
    block.resize(static_cast<std::size_t>(
        nghttp2_hd_deflate_hd(deflater, bytes(block), block.size(), all.data(), all.size())));
    std::vector<std::string_view> pieces;
    std::string_view rest = block;
    while (any(3) != 0) {
      pieces.push_back(rest.substr(0, any(rest.size() + 1)));
      rest.remove_prefix(pieces.back().size());
    }
    pieces.push_back(rest);
    ASSERT_EQ(unpack(pieces), expected) << i;
  }
  nghttp2_hd_deflate_del(deflater);
}

}  // namespace
}  // namespace weir::wire
