#include "server/resp_arguments.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::server {
namespace {

using std::chrono::milliseconds;
using Words = std::vector<std::string_view>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Parsed {
  Request request{};
  CommandOptions options{};
  std::string error{};
};

Parsed read(KeyCommand command, const Words& words) {
  // Values of an earlier command, which must be overwritten.
  Parsed parsed{.request = {.policy = "old",
                            .key = "old",
                            .parts = {{"old", "old"}},
                            .permits = 99,
                            .max_wait = milliseconds{9}}};
  parsed.error = read_arguments(command, words, parsed.request, parsed.options);
  return parsed;
}

Pairs parts(const Parsed& parsed) {
  Pairs all;
  for (const Part& part : parsed.request.parts.all()) all.emplace_back(part.name, part.value);
  return all;
}

TEST(ArgumentReader, ReadsAPolicyAndAKey) {
  const Parsed take = read(KeyCommand::take, {"WEIR.TAKE", "p", "k"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.policy, "p");
  EXPECT_EQ(take.request.key, "k");
  EXPECT_TRUE(take.request.parts.empty());
  EXPECT_EQ(take.request.permits, 1);
  EXPECT_FALSE(take.request.max_wait);
  EXPECT_FALSE(take.options.wants_receipt);
}

TEST(ArgumentReader, ReadsOptionsBehindTheKey) {
  const Parsed take = read(KeyCommand::take, {"t", "p", "k", "5", "wait", "200", "RECEIPT"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.permits, 5);
  EXPECT_EQ(take.request.max_wait, milliseconds{200});
  EXPECT_TRUE(take.options.wants_receipt);
  const Parsed settle = read(KeyCommand::settle, {"s", "p", "k", "-5", "RECEIPT", "r"});
  EXPECT_EQ(settle.request.permits, -5);
  EXPECT_EQ(settle.options.receipt, "r");
  const Parsed enter = read(KeyCommand::enter, {"e", "p", "k", "me", "2"});
  EXPECT_EQ(enter.options.holder, "me");
  EXPECT_EQ(enter.request.permits, 2);
  EXPECT_EQ(read(KeyCommand::leave, {"l", "p", "k", "me"}).options.holder, "me");
}

TEST(ArgumentReader, ReadsPartsInPlaceOfAKey) {
  const Parsed take = read(KeyCommand::take, {"t", "p", "PARTS", "user", "ann", "sku", "9"});
  EXPECT_EQ(take.error, "");
  EXPECT_EQ(take.request.key, "");
  EXPECT_EQ(parts(take), (Pairs{{"user", "ann"}, {"sku", "9"}}));
  const Parsed more =
      read(KeyCommand::take, {"t", "p", "permits", "3", "WAIT", "1", "receipt", "parts", "a", "b"});
  EXPECT_EQ(more.error, "");
  EXPECT_EQ(more.request.permits, 3);
  EXPECT_EQ(more.request.max_wait, milliseconds{1});
  EXPECT_TRUE(more.options.wants_receipt);
  // Names of parts may look like options.
  EXPECT_EQ(parts(read(KeyCommand::peek, {"t", "p", "PARTS", "PARTS", "PERMITS"})).size(), 1u);
  const Parsed leave = read(KeyCommand::leave, {"l", "p", "HOLDER", "h", "PARTS", "a", "b"});
  EXPECT_EQ(leave.options.holder, "h");
  const Parsed settle =
      read(KeyCommand::settle, {"s", "p", "PERMITS", "-2", "RECEIPT", "r", "PARTS", "a", "b"});
  EXPECT_EQ(settle.request.permits, -2);
  EXPECT_EQ(settle.options.receipt, "r");
}

// With PARTS behind them, options cannot be a key: the command would be a syntax error.
TEST(ArgumentReader, ReadsOptionsBeforePartsInAnyOrder) {
  const Parsed receipt = read(KeyCommand::take, {"t", "p", "RECEIPT", "PARTS", "a", "b"});
  EXPECT_EQ(receipt.error, "");
  EXPECT_TRUE(receipt.options.wants_receipt);
  EXPECT_EQ(parts(receipt), (Pairs{{"a", "b"}}));
  const Parsed wait = read(KeyCommand::take, {"t", "p", "WAIT", "5", "RECEIPT", "PARTS", "a", "b"});
  EXPECT_EQ(wait.error, "");
  EXPECT_EQ(wait.request.max_wait, milliseconds{5});
  EXPECT_TRUE(wait.options.wants_receipt);
  const Parsed settle =
      read(KeyCommand::settle, {"s", "p", "RECEIPT", "r", "PERMITS", "2", "PARTS", "a", "b"});
  EXPECT_EQ(settle.error, "");
  EXPECT_EQ(settle.options.receipt, "r");
  const Parsed enter =
      read(KeyCommand::enter, {"e", "p", "HOLDER", "h", "PERMITS", "2", "PARTS", "a", "b"});
  EXPECT_EQ(enter.error, "");
  EXPECT_EQ(enter.options.holder, "h");
  EXPECT_EQ(enter.request.permits, 2);
}

// The third argument starts the other form only if two more follow.
TEST(ArgumentReader, ReadsTheNameOfAnOptionAsAKey) {
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "PARTS"}).request.key, "PARTS");
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "PERMITS", "5"}).request.key, "PERMITS");
  EXPECT_EQ(read(KeyCommand::enter, {"e", "p", "HOLDER", "h", "2"}).request.key, "HOLDER");
  const Parsed wait = read(KeyCommand::take, {"t", "p", "WAIT", "5", "WAIT", "200"});
  EXPECT_EQ(wait.request.key, "WAIT");
  EXPECT_EQ(wait.request.max_wait, milliseconds{200});
  EXPECT_EQ(read(KeyCommand::take, {"t", "p", "RECEIPT", "5", "RECEIPT"}).request.key, "RECEIPT");
}

TEST(ArgumentReader, RefusesInvalidArgumentsWithAReason) {
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
  EXPECT_EQ(error(KeyCommand::settle, {"t", "p", "k"}),
            "ERR the number of permits to settle is missing");
  EXPECT_EQ(error(KeyCommand::leave, {"t", "p", "k"}), "ERR the holder is missing");
  EXPECT_EQ(error(KeyCommand::take, {"t", "p", "PARTS", "a", "b", "c"}),
            "ERR PARTS needs pairs of a name and a value");
}

// The required options and the unknown ones are the same in both forms.
TEST(ArgumentReader, RequiresTheSameBeforePartsAsBehindAKey) {
  const auto error = [](KeyCommand command, Words words) {
    words.insert(words.begin(), {"x", "p"});
    words.insert(words.end(), {"PARTS", "a", "b"});
    return read(command, words).error;
  };
  EXPECT_EQ(error(KeyCommand::settle, {}), "ERR the number of permits to settle is missing");
  EXPECT_EQ(error(KeyCommand::settle, {"RECEIPT", "r"}),
            "ERR the number of permits to settle is missing");
  EXPECT_EQ(error(KeyCommand::leave, {}), "ERR the holder is missing");
  EXPECT_EQ(error(KeyCommand::leave, {"PERMITS", "1"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::reset, {"PERMITS", "5"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::peek, {"PERMITS", "5", "WAIT", "1"}), "ERR syntax error");
  EXPECT_EQ(error(KeyCommand::take, {"HOLDER", "h"}), "ERR syntax error");
}

TEST(ArgumentReader, RefusesARepeatedOption) {
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

TEST(ArgumentReader, RefusesNegativePermits) {
  constexpr std::string_view below = "ERR permits must not be negative";
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
