// Any bytes as calls of Envoy: each is answered, with a status for each descriptor, and the
// admitted calls never exceed a limit.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "envoy/read_rules.h"
#include "envoy/service.h"
#include "store/shared_store.h"
#include "weir/clock.h"

namespace {

using namespace weir;

constexpr const char* kRules = R"(
domain: d
descriptors:
  - key: a
    rate_limit: { unit: hour, requests_per_unit: 3 }
    descriptors:
      - { key: b, rate_limit: { unit: hour, requests_per_unit: 5, burst: 2 } }
      - { key: b, value: x*, share_threshold: true, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: a, value: x, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: b, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 4, name: n } }
  - { key: c, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1, replaces: [ { name: n } ] } }
  - { key: d, rate_limit: { unlimited: true } }
  - { key: e, value: "*", value_to_metric: true, rate_limit: { per: 10s, requests_per_unit: 7, algorithm: sliding_window } }
)";

class NoLink final : public Link {
 public:
  int descriptor() const noexcept override { return -1; }
  void run_ready() override {}
  void flush() override {}
  void wait(Nanos) override {}

 private:
  store::SharedStore& store() noexcept override { std::abort(); }
};

// Reads bytes as choices.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool more() const { return at_ < size_; }
  std::uint8_t byte() { return more() ? data_[at_++] : 0; }
  std::string text() {
    std::string text;
    for (std::size_t left = byte() % 8; left > 0; --left) text += static_cast<char>(byte());
    return text;
  }
  std::string key() {
    const std::uint8_t choice = byte();
    return choice < 200 ? std::string(1, static_cast<char>('a' + choice % 6)) : text();
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

envoy::RateLimitDescriptor descriptor_of(Choices& choices, std::vector<std::string>& texts) {
  envoy::RateLimitDescriptor descriptor;
  for (std::size_t left = choices.byte() % 4; left > 0; --left) {
    texts.push_back(choices.key());
    const std::string_view key = texts.back();
    texts.push_back(choices.byte() % 2 == 0 ? "x" : choices.text());
    descriptor.entries.push_back({key, texts.back()});
  }
  const std::uint8_t flags = choices.byte();
  if ((flags & 3) == 3) {
    descriptor.limit = {.requests_per_unit = choices.byte() % 4U,
                        .unit = static_cast<envoy::Unit>(choices.byte() % 8)};
  }
  if ((flags & 12) == 12) descriptor.hits = choices.byte() < 250 ? choices.byte() % 5U : ~0ULL;
  descriptor.gives_back = (flags & 48) == 48;
  return descriptor;
}

const envoy::ServiceOptions kUsual{.response_headers = true, .dynamic_metadata = true};

void play(Choices choices, envoy::ServiceOptions options) {
  static const auto rules = envoy::read_rules({{"rules.yaml", kRules}}).rules;
  const ManualClock clock;
  Engine engine(PolicySet{}, {.memory = {.bytes = std::size_t{1} << 20}, .clock = &clock});
  options.response_headers = options.dynamic_metadata = true;
  envoy::RateLimitService service(engine);
  service.use(rules, options);
  NoLink link;
  std::uint64_t passed = 0;  // of a=y, under the first rule
  std::uint64_t returned = 0;
  while (choices.more()) {
    std::vector<std::string> texts;
    texts.reserve(1024);
    envoy::RateLimitRequest call{.domain = choices.byte() % 16 == 0 ? "other" : "d",
                                 .descriptors = {},
                                 .hits = choices.byte() % 4U};
    for (std::size_t left = choices.byte() % 24; left > 0; --left) {
      call.descriptors.push_back(descriptor_of(choices, texts));
    }
    bool answered = false;
    service.should_rate_limit(
        call, link, [&](Result<envoy::RateLimitResponse, envoy::ServiceError> answer) {
          if (answered) std::abort();
          answered = true;
          if (!answer) {
            if (answer.error().text.empty() || answer.error().store) std::abort();
            return;
          }
          if (answer->statuses.size() != call.descriptors.size()) std::abort();
          if (answer->overall == envoy::Code::unknown) std::abort();
          if (options.shadow_mode && answer->overall != envoy::Code::ok) std::abort();
          if (call.domain != "d" || options != kUsual) return;
          for (const envoy::RateLimitDescriptor& each : call.descriptors) {
            const bool is_first = each.entries.size() == 1 && each.entries[0].key == "a" &&
                                  each.entries[0].value == "y" && !each.limit;
            const std::uint64_t hits = each.hits.value_or(std::max(call.hits, 1U));
            if (!is_first || answer->overall != envoy::Code::ok) continue;
            (each.gives_back ? returned : passed) += hits;
          }
        });
    if (!answered) std::abort();
  }
  if (passed > 3 + returned) std::abort();
  (void)service.counts();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  play({data, size}, kUsual);
  play({data, size}, {.as_envoyproxy = true});
  play({data, size}, {.shadow_mode = true});
  play({data, size}, {.quota_mode = true});
  return 0;
}
