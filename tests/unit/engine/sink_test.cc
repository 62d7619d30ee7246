// DecisionSink: gets every decision once.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weir/parse_limit.h"
#include "world.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records the events.
class RecordingSink final : public DecisionSink {
 public:
  void on_decision(const DecisionEvent& event) noexcept override {
    notes.push_back(fmt::format("{} {} of {} limits: {} by {} refusing {:b}", event.policy,
                                event.permits, event.limits.size(),
                                event.verdict ? "passed" : "refused", event.verdict.limited_by,
                                event.verdict.refusing));
  }
  std::vector<std::string> notes;
};

struct WorldWithSink {
  explicit WorldWithSink(std::string_view text)
      : engine(policies(text), {.memory = {.bytes = 1 << 20}, .clock = &clock, .sink = &sink}) {}
  ManualClock clock;
  RecordingSink sink;
  Engine engine;
};

TEST(DecisionSink, GetsEveryTakeAndEnterOnce) {
  WorldWithSink world{
      "api: { limits: [ 9/s, { limit: 2/h, name: hour } ] }, "
      "try: { limits: [ { limit: 1/h, shadow: true } ] }, report: { limits: [ 1 concurrent ] }"};
  Receipt receipt;
  EXPECT_TRUE(world.engine.take({.policy = "api", .key = "k"}));
  EXPECT_TRUE(world.engine.take({.policy = "api", .key = "k", .permits = 1}, receipt));
  EXPECT_FALSE(world.engine.take({.policy = "api", .key = "k"}, receipt));
  EXPECT_FALSE(world.engine.take({.policy = "api", .key = "k", .permits = 10}));
  EXPECT_TRUE(world.engine.take({.policy = "try", .key = "k", .permits = 3}));
  EXPECT_TRUE(world.engine.enter({.policy = "report", .key = "k"}, "a"));
  EXPECT_TRUE(world.engine.enter({.policy = "report", .key = "k"}, "a"));
  EXPECT_FALSE(world.engine.enter({.policy = "report", .key = "k"}, "b"));
  EXPECT_THAT(world.sink.notes, ElementsAre("api 1 of 2 limits: passed by hour refusing 0",
                                            "api 1 of 2 limits: passed by hour refusing 0",
                                            "api 1 of 2 limits: refused by hour refusing 10",
                                            "api 10 of 2 limits: refused by 0 refusing 11",
                                            "try 3 of 1 limits: passed by 0 refusing 1",
                                            "report 1 of 1 limits: passed by 0 refusing 0",
                                            "report 1 of 1 limits: passed by 0 refusing 0",
                                            "report 1 of 1 limits: refused by 0 refusing 1"));
}

TEST(DecisionSink, GetsABatchInOrder) {
  WorldWithSink world{"api: { limits: [ 2/h ] }"};
  const std::vector<Request> requests{{.policy = "api", .key = "a", .permits = 1},
                                      {.policy = "nope", .key = "a"},
                                      {.policy = "api", .key = "a", .permits = 2},
                                      {.policy = "api", .key = "b", .permits = 2}};
  std::vector<Verdict> verdicts(requests.size());
  world.engine.take_all(requests, verdicts);
  EXPECT_THAT(world.sink.notes, ElementsAre("api 1 of 1 limits: passed by 0 refusing 0",
                                            "api 2 of 1 limits: refused by 0 refusing 1",
                                            "api 2 of 1 limits: passed by 0 refusing 0"));
}

// A peek is no decision, and an invalid request is not decided.
TEST(DecisionSink, GetsNoPeeksAndNoErrors) {
  WorldWithSink world{"api: { limits: [ 2/h ] }, report: { limits: [ 1 concurrent ] }"};
  const Request request{.policy = "api", .key = "k"};
  EXPECT_TRUE(world.engine.peek(request));
  EXPECT_TRUE(world.engine.settle(request));
  EXPECT_TRUE(world.engine.explain(request));
  EXPECT_FALSE(world.engine.reset(request));
  EXPECT_FALSE(world.engine.leave(request, "a"));
  EXPECT_FALSE(world.engine.take({.policy = "nope", .key = "k"}));
  EXPECT_FALSE(world.engine.take({.policy = "api", .key = ""}));
  EXPECT_FALSE(world.engine.take({.policy = "report", .key = "k"}));
  EXPECT_FALSE(world.engine.enter({.policy = "report", .key = "k"}, ""));
  world.engine.replace(policies("api: { limits: [ 3/h ] }"));
  EXPECT_THAT(world.sink.notes, IsEmpty());
}

// The request of every deciding operation.
TEST(DecisionSink, GetsTheRequest) {
  struct RequestRecorder final : DecisionSink {
    void on_decision(const DecisionEvent& event) noexcept override {
      std::string who{event.request.key};
      for (const Part& part : event.request.parts.all()) {
        who += fmt::format("{}={};", part.name, part.value);
      }
      callers.push_back(fmt::format("{} {}", event.policy, who));
    }
    std::vector<std::string> callers;
  } sink;
  Engine engine{policies("api: { limits: [ 5/h ] }, report: { limits: [ 1 concurrent ] }"),
                {.memory = {.bytes = 1 << 20}, .sink = &sink}};
  EXPECT_TRUE(engine.take({.policy = "api", .key = "ann"}));
  EXPECT_TRUE(engine.take({.policy = "api", .parts = {{"user", "42"}, {"sku", "7"}}}));
  EXPECT_TRUE(engine.enter({.policy = "report", .key = "bob"}, "holder"));
  EXPECT_TRUE(engine.throttle(*parse_limit("1/h"), "eve"));
  EXPECT_THAT(sink.callers, ElementsAre("api ann", "api user=42;sku=7;", "report bob", " eve"));
}

// The names live as long as the engine, even if the policies are replaced.
TEST(DecisionSink, MayKeepTheNames) {
  struct NameRecorder final : DecisionSink {
    void on_decision(const DecisionEvent& event) noexcept override {
      policy = event.policy;
      limited_by = event.verdict.limited_by;
    }
    std::string_view policy;
    std::string_view limited_by;
  } sink;
  ManualClock clock;
  Engine engine{policies("a policy with a long name: { limits: [ { limit: 2/h, name: and a limit "
                         "with a long name } ] }"),
                {.memory = {.bytes = 1 << 20}, .clock = &clock, .sink = &sink}};
  EXPECT_TRUE(engine.take({.policy = "a policy with a long name", .key = "k"}));
  for (int i = 0; i < 3; ++i) {
    engine.replace(policies("other: { limits: [ 2/h ] }"));
    EXPECT_TRUE(engine.peek({.policy = "other", .key = "k"}));
  }
  EXPECT_EQ(sink.policy, "a policy with a long name");
  EXPECT_EQ(sink.limited_by, "and a limit with a long name");
}

// A sink that limits its own log calls an engine during a decision, and replaces the policies.
TEST(DecisionSink, MayCallAnEngine) {
  struct CallingSink final : DecisionSink {
    void on_decision(const DecisionEvent&) noexcept override {
      if (engine == nullptr || ++depth > 1) return;
      engine->replace(policies("api: { limits: [ 5/h, 9/h ] }"));
      seen_remaining += engine->peek({.policy = "api", .key = "k"}).decision.remaining;
      (void)engine->take({.policy = "api", .key = "log"});
      depth = 0;
    }
    Engine* engine = nullptr;
    int depth = 0;
    Permits seen_remaining = 0;
  } sink;
  ManualClock clock;
  Engine engine{policies("api: { limits: [ 5/h, 9/h ] }"),
                {.memory = {.bytes = 1 << 20}, .clock = &clock, .sink = &sink}};
  sink.engine = &engine;
  Receipt receipt;
  EXPECT_TRUE(engine.take({.policy = "api", .key = "k"}, receipt));
  EXPECT_EQ(sink.seen_remaining, 4);
  EXPECT_TRUE(engine.settle({.policy = "api", .key = "k", .permits = -1}, receipt));
  EXPECT_EQ(engine.peek({.policy = "api", .key = "k"}).decision.remaining, 5);

  std::vector<Request> requests(40, Request{.policy = "api", .key = "many"});
  std::vector<Verdict> verdicts(requests.size());
  engine.take_all(requests, verdicts);
  EXPECT_EQ(std::ranges::count_if(verdicts, [](const Verdict& v) { return static_cast<bool>(v); }),
            5);
}

}  // namespace
}  // namespace weir
