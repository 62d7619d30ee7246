#include "server/resp_arguments.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::server {
namespace {

using std::chrono::milliseconds;
using Words = std::vector<std::string_view>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Read {
  Request request{};
  Asked asked{};
  std::string error{};
};

Read read(KeyCommand command, const Words& words) {
  // Something is left from the command before.
  Read read{.request = {.policy = "old",
                        .key = "old",
                        .parts = {{"old", "old"}},
                        .permits = 99,
                        .max_wait = milliseconds{9}}};
  read.error = read_arguments(command, words, read.request, read.asked);
  return read;
}

Pairs parts(const Read& read) {
  Pairs all;
  for (const Part& part : read.request.parts.all()) all.emplace_back(part.name, part.value);
  return all;
}

TEST(RespArguments, ReadAKey) {
  const Read take = read(KeyCommand::take, {"WEIR.TAKE", "p", "k"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.policy, "p");
  EXPECT_EQ(take.request.key, "k");
  EXPECT_TRUE(take.request.parts.empty());
  EXPECT_EQ(take.request.permits, 1);
  EXPECT_FALSE(take.request.max_wait);
  EXPECT_FALSE(take.asked.wants_receipt);
}

TEST(RespArguments, ReadWhatFollowsAKey) {
  const Read take = read(KeyCommand::take, {"t", "p", "k", "5", "wait", "200", "RECEIPT"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.permits, 5);
  EXPECT_EQ(take.request.max_wait, milliseconds{200});
  EXPECT_TRUE(take.asked.wants_receipt);
  const Read settle = read(KeyCommand::settle, {"s", "p", "k", "-5", "RECEIPT", "r"});
  EXPECT_EQ(settle.request.permits, -5);
  EXPECT_EQ(settle.asked.receipt, "r");
  const Read enter = read(KeyCommand::enter, {"e", "p", "k", "me", "2"});
  EXPECT_EQ(enter.asked.holder, "me");
  EXPECT_EQ(enter.request.permits, 2);
  EXPECT_EQ(read(KeyCommand::leave, {"l", "p", "k", "me"}).asked.holder, "me");
}

TEST(RespArguments, ReadParts) {
  const Read take = read(KeyCommand::take, {"t", "p", "PARTS", "user", "ann", "sku", "9"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.key, "");
  EXPECT_EQ(parts(take), (Pairs{{"user", "ann"}, {"sku", "9"}}));
  const Read more =
      read(KeyCommand::take, {"t", "p", "permits", "3", "WAIT", "1", "receipt", "parts", "a", "b"});
  EXPECT_EQ(more.error, "");
  EXPECT_EQ(more.request.permits, 3);
  EXPECT_EQ(more.request.max_wait, milliseconds{1});
  EXPECT_TRUE(more.asked.wants_receipt);
  // Names of parts may look like options.
  EXPECT_EQ(parts(read(KeyCommand::peek, {"t", "p", "PARTS", "PARTS", "PERMITS"})).size(), 1u);
  const Read leave = read(KeyCommand::leave, {"l", "p", "HOLDER", "h", "PARTS", "a", "b"});
  EXPECT_EQ(leave.asked.holder, "h");
  const Read settle =
      read(KeyCommand::settle, {"s", "p", "PERMITS", "-2", "RECEIPT", "r", "PARTS", "a", "b"});
  EXPECT_EQ(settle.request.permits, -2);
  EXPECT_EQ(settle.asked.receipt, "r");
}

// Any option may be the first, where PARTS follow: as a key's, the command would be wrong.
TEST(RespArguments, ReadOptionsBeforePartsInAnyOrder) {
  const Read receipt = read(KeyCommand::take, {"t", "p", "RECEIPT", "PARTS", "a", "b"});
  EXPECT_EQ(receipt.error, "");
  EXPECT_TRUE(receipt.asked.wants_receipt);
  EXPECT_EQ(parts(receipt), (Pairs{{"a", "b"}}));
  const Read wait = read(KeyCommand::take, {"t", "p", "WAIT", "5", "RECEIPT", "PARTS", "a", "b"});
  EXPECT_EQ(wait.error, "");
  EXPECT_EQ(wait.request.max_wait, milliseconds{5});
  EXPECT_TRUE(wait.asked.wants_receipt);
  const Read settle =
      read(KeyCommand::settle, {"s", "p", "RECEIPT", "r", "PERMITS", "2", "PARTS", "a", "b"});
  EXPECT_EQ(settle.error, "");
  EXPECT_EQ(settle.asked.receipt, "r");
  const Read enter =
      read(KeyCommand::enter, {"e", "p", "HOLDER", "h", "PERMITS", "2", "PARTS", "a", "b"});
  EXPECT_EQ(enter.error, "");
  EXPECT_EQ(enter.asked.holder, "h");
  EXPECT_EQ(enter.request.permits, 2);
}

// The third argument starts the other form only if two more follow.
TEST(RespArguments, TakeAnOptionForAKeyWhereItIsOne) {
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "PARTS"}).request.key, "PARTS");
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "PERMITS", "5"}).request.key, "PERMITS");
  EXPECT_EQ(read(KeyCommand::enter, {"e", "p", "HOLDER", "h", "2"}).request.key, "HOLDER");
  const Read wait = read(KeyCommand::take, {"t", "p", "WAIT", "5", "WAIT", "200"});
  EXPECT_EQ(wait.request.key, "WAIT");
  EXPECT_EQ(wait.request.max_wait, milliseconds{200});
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "RECEIPT", "5", "RECEIPT"}).request.key, "RECEIPT");
}

TEST(RespArguments, SayWhatIsWrong) {
  const auto error = [](KeyCommand command, const Words& words) {
    return read(command, words).error;
  };
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "x"}),
            "ERR value is not an integer or out of range");
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "1", "WAIT", "-1"}),
            "ERR value is not an integer or out of range");
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "1", "WAIT"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "1", "PERMITS", "2"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::peek, {"t", "p", "k", "1", "RECEIPT"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::reset, {"t", "p", "k", "1"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::settle, {"t", "p", "k"}), "ERR how much to settle by is missing");
  EXPECT_EQ(error(KeyCommand::leave, {"t", "p", "k"}), "ERR the holder is missing");
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "PARTS", "a", "b", "c"}),
            "ERR PARTS are pairs of a name and a value");
}

// What a command needs behind a key it needs before parts, and it has no more options there.
TEST(RespArguments, DemandTheSameBeforeParts) {
  const auto error = [](KeyCommand command, Words words) {
    words.insert(words.begin(), {"x", "p"});
    words.insert(words.end(), {"PARTS", "a", "b"});
    return read(command, words).error;
  };
  EXPECT_EQ(error(KeyCommand::settle, {}), "ERR how much to settle by is missing");
  EXPECT_EQ(error(KeyCommand::settle, {"RECEIPT", "r"}), "ERR how much to settle by is missing");
  EXPECT_EQ(error(KeyCommand::leave, {}), "ERR the holder is missing");
  EXPECT_EQ(error(KeyCommand::leave, {"PERMITS", "1"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::reset, {"PERMITS", "5"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::peek, {"PERMITS", "5", "WAIT", "1"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::take, {"HOLDER", "h"}), "ERR syntax error");
}

TEST(RespArguments, TakeAnOptionOnce) {
  const auto error = [](KeyCommand command, const Words& words) {
    return read(command, words).error;
  };
  constexpr std::string_view twice = "ERR an option is given twice";
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "PERMITS", "1", "PERMITS", "2", "PARTS", "a", "b"}),
            twice);
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "1", "WAIT", "1", "WAIT", "2"}), twice);
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "k", "1", "RECEIPT", "RECEIPT"}), twice);
  EXPECT_EQ(error(KeyCommand::settle, {"t", "p", "k", "1", "RECEIPT", "r", "RECEIPT", "s"}), twice);
}

TEST(RespArguments, TakeNoPermitsBelowZero) {
  constexpr std::string_view below = "ERR permits are not below zero";
  for (const KeyCommand command : {KeyCommand::take, KeyCommand::peek, KeyCommand::explain}) {
    EXPECT_EQ(read(command, {"t", "p", "k", "-1"}).error, below);
    EXPECT_EQ(read(command, {"t", "p", "PERMITS", "-1", "PARTS", "a", "b"}).error, below);
    EXPECT_EQ(read(command, {"t", "p", "k", "0"}).error, "");
  }
  EXPECT_EQ(read(KeyCommand::enter, {"t", "p", "k", "h", "-1"}).error, below);
  EXPECT_EQ(read(KeyCommand::settle, {"t", "p", "k", "-1"}).request.permits, -1);
}

}  // namespace
}  // namespace weir::server
