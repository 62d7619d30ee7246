// The price note in the state file.

#include "engine/price_note.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/policy_set_access.h"
#include "world.h"

namespace weir {
namespace {

using engine::Rules;
using engine::StringPool;
using std::chrono::seconds;

constexpr std::size_t kRoomy = 1 << 20;

// Compiles policies one after the other, a second apart.
class PriceNote : public testing::Test {
 protected:
  void follow(std::string_view text) {
    const policy::PolicySet set = policies_of(policies(text));
    now_ += seconds{1};
    rules_ = engine::compile(set, rules_ ? *rules_ : engine::no_rules(7), {}, now_, names_);
  }

  std::string note(std::size_t most = kRoomy) const { return price_note(*rules_, most); }

  std::optional<Rules> read(std::string_view text) { return engine::read_price_note(text, names_); }

  StringPool names_;
  Instant now_ = Instant{} + seconds{1'000'000};
  std::shared_ptr<const Rules> rules_;
};

TEST_F(PriceNote, KeepsTheEpochsOfEveryPolicy) {
  follow("p: { limits: [ 10/s ] }, q: { limits: [ 1/h, 5/min window ] }");
  follow(
      "p: { limits: [ 20/s ], overrides: { a: { limits: [ 30/s ] }, \"b*\": { limits: [ 1/s ] } } "
      "}");
  const auto read_back = read(note());
  ASSERT_TRUE(read_back);
  EXPECT_EQ(read_back->edition, rules_->edition);
  EXPECT_EQ(read_back->generation, 0u);
  EXPECT_TRUE(read_back->policies.empty());
  ASSERT_EQ(read_back->removed.size(), 2u);
  const engine::PolicyEpochs& epochs = *read_back->removed.at("p");
  const engine::PolicyEpochs& original = *rules_->find("p")->epochs;
  ASSERT_EQ(epochs.size(), 2u);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i]->number, original[i]->number);
    EXPECT_EQ(epochs[i]->since, original[i]->since);
    EXPECT_TRUE(same_prices(epochs[i]->prices, original[i]->prices));
    EXPECT_EQ(epochs[i]->debt_bound.capacity, original[i]->debt_bound.capacity);
    EXPECT_EQ(epochs[i]->debt_bound.price, original[i]->debt_bound.price);
  }
  const policy::Subject starts_with_b{.key = "bcd", .parts = {}};
  EXPECT_EQ(epochs[1]->prices.limits_for(starts_with_b)[0].interval.price, 1'000'000'000);
  EXPECT_EQ(read_back->removed.at("q")->back()->prices.defaults.size(),
            1u);  // a window has no price
}

TEST_F(PriceNote, KeepsThePriceRises) {
  follow("p: { limits: [ 10/s ] }");
  follow("p: { limits: [ 1/s ] }");
  ASSERT_EQ(rules_->slower.prices().size(), 1u);
  const auto read_back = read(note());
  ASSERT_TRUE(read_back);
  ASSERT_EQ(read_back->slower.prices().size(), 1u);
  EXPECT_EQ(read_back->slower.prices()[0].stamp, rules_->slower.prices()[0].stamp);
  EXPECT_EQ(read_back->slower.prices()[0].until, rules_->slower.prices()[0].until);
  EXPECT_EQ(read_back->slower.prices()[0].ratio, rules_->slower.prices()[0].ratio);
}

// Removed policies are dropped first, then the oldest epochs. The edition stays.
TEST_F(PriceNote, FitsIntoAnySize) {
  follow("gone: { limits: [ 10/h ] }, p: { limits: [ 10/h ] }");
  for (int i = 2; i < 40; ++i) follow("p: { limits: [ " + std::to_string(10 * i) + "/h ] }");
  const std::size_t all = note().size();
  EXPECT_EQ(read(note())->removed.size(), 2u);
  EXPECT_EQ(read(note(all - 1))->removed.size(), 1u);
  std::size_t before = rules_->find("p")->epochs->size();
  ASSERT_EQ(before, 39u);
  constexpr std::size_t smallest = 28;  // the edition only
  for (std::size_t most = all; most >= smallest; most = most * 2 / 3) {
    const std::string text = note(most);
    ASSERT_LE(text.size(), most);
    const auto read_back = read(text);
    ASSERT_TRUE(read_back);
    EXPECT_EQ(read_back->edition, rules_->edition);
    const auto found = read_back->removed.find("p");
    const std::size_t epochs = found != read_back->removed.end() ? found->second->size() : 0;
    EXPECT_LE(epochs, before);
    if (epochs > 0) {
      EXPECT_EQ(found->second->back()->number, rules_->find("p")->epochs->back()->number);
    }
    before = epochs;
  }
  EXPECT_EQ(before, 0u);
}

TEST_F(PriceNote, IsRejectedWhenTruncated) {
  follow("p: { limits: [ 10/s ], overrides: { a: { limits: [ 30/s ] } } }");
  const std::string text = note();
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(read(std::string_view(text).substr(0, i))) << i;
  }
  EXPECT_FALSE(read(text + "x"));
}

// The state file's checksum makes damage unlikely, but a crash would prevent every start.
TEST_F(PriceNote, IsRejectedOrUsableWhenDamaged) {
  follow("p: { limits: [ 10/s ], overrides: { a: { limits: [ 30/s ] } } }, q: { limits: [ 1/h ] }");
  follow("p: { limits: [ 9/s ], overrides: { \"a*\": { limits: [ 31/s ] } } }");
  const std::string text = note();
  std::mt19937_64 random(1);
  int read_anyway = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = text;
    for (int bytes = 0; bytes < 1 + i % 3; ++bytes) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const auto read_back = read(damaged);
    if (!read_back) continue;
    ++read_anyway;
    const policy::PolicySet set = policies_of(policies("p: { limits: [ 8/s ] }"));
    const auto next = engine::compile(set, *read_back, {}, now_, names_);
    EXPECT_EQ(next->edition, read_back->edition + 1);
  }
  EXPECT_GT(read_anyway, 1000);
}

}  // namespace
}  // namespace weir
