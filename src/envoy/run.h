#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/given.h"
#include "envoy/service.h"
#include "envoy/statistics.h"
#include "envoy/walk.h"

namespace weir::envoy {

// Rules, how they are followed, and where is counted what they come to.
struct Edition {
  std::shared_ptr<const Rules> rules;
  ServiceOptions options;
  Statistics::OfRules statistics;
};

// One descriptor on its way.
struct Asked {
  // None: nothing is asked, since nothing is limited, or another rule stands in its place.
  const Rule* rule = nullptr;
  bool unlimited = false;
  bool replaced = false;
  std::unique_ptr<Rule> own{};  // a limit that has come with the call
  RuleStatistics* statistics = nullptr;
  std::string counted_as{};  // in statistics that only calls have a name for: these are the others
  Permits hits = 1;
  bool gives_back = false;
  std::size_t name_start = 0;  // of its counter, among all names
  std::size_t name_end = 0;
  // What came of it.
  core::Decision decision{};
  bool over = false;
  Nanos until_reset{0};
};

// What a run needs of the service.
struct RunContext {
  Engine* engine = nullptr;
  Statistics* statistics = nullptr;
};

// One call from the question to the answer.
//
// By default it is one decision: all limits are charged or none. (Those under quota_mode are
// charged if they admit it, and refuse it only if all of them do.) At most core::kMaxLimits are
// asked at once, of different counters; of more, those asked later may refuse what was charged
// before, which is given back then by receipt.
//
// As envoyproxy/ratelimit does it, each is charged on its own, whatever comes of it.
//
// To be used again for the next call: it keeps its buffers, so that a call of no special kind
// allocates nothing but its answer.
class Run {
 public:
  using Finished = void (*)(Run&, void* whose);

  // Forgets the call before.
  void begin(const RunContext& context, std::shared_ptr<const Edition> edition);

  // Finds the limits of a call. Why it cannot be asked, if it cannot.
  std::optional<Failure> prepare(const Call& call);

  // Asks, and tells when it is done; perhaps before it returns. Only looking takes nothing.
  void start(Link& link, bool only_look, Finished finished, void* whose);

  // When it is done.
  Result<Answer, Failure> answer();
  const std::vector<Asked>& asked() const { return asked_; }
  const std::string& trouble() const { return trouble_; }
  bool is_degraded() const { return degraded_; }
  // Whether it would be refused, were not all calls let through.
  bool passes_as_shadow() const { return options().shadow_mode && is_over(); }
  // Whether there are rules for the domain of the call.
  bool knows_domain() const { return knows_domain_; }
  std::string_view name_of(const Asked& asked) const {
    return std::string_view(names_).substr(asked.name_start, asked.name_end - asked.name_start);
  }

  // Who is told, for whoever started it.
  Service::Done done{};

 private:
  // Limits that are asked together, by position in the order.
  struct Round {
    std::size_t first = 0;
    std::size_t last = 0;
    bool gives_back = false;  // what it is about
    bool charged = false;
  };
  // Deciding, then taking back what a refused call was charged, then giving back what the call
  // gives back: a receipt of what is counted there comes first.
  enum class Phase { deciding, undoing, noting, returning };

  void find_limit(const Call& call, const Domain& domain, std::size_t i);
  std::optional<Failure> use_override(const Call& call, const Domain& domain, std::size_t i);
  void replace_rules();
  void keep_metadata(const Call& call);
  void make_rounds(bool that_give_back);

  void go_on();
  bool ask_next();
  bool find_next();
  void ask(engine::Verb verb);
  void on_answer(engine::GivenAnswer& answer);
  void note_decisions(const engine::GivenAnswer& answer);
  void on_decided(engine::GivenAnswer& answer);
  void on_trouble();
  void tell_what_is_left();

  const ServiceOptions& options() const { return edition_->options; }
  bool only_looks() const;
  bool wants_receipts() const;
  Asked& member(std::size_t position) { return asked_[order_[position]]; }
  bool is_quota(const Asked& asked) const {
    return options().quota_mode || (asked.rule != nullptr && asked.rule->quota);
  }
  bool quotas_refuse() const;
  bool is_over() const;
  void count();
  Status status_of(const Asked& asked) const;
  void add_headers(Answer& answer) const;
  void add_metadata(Answer& answer) const;

  RunContext context_{};
  std::shared_ptr<const Edition> edition_;
  std::string names_;
  std::vector<Asked> asked_;
  std::vector<std::size_t> order_;  // of those that are asked
  std::vector<Round> rounds_;
  std::vector<engine::GivenReceipt> receipts_;          // by position in the order
  std::unordered_map<std::string_view, Permits> left_;  // by name, of what was taken back
  std::string question_metadata_;
  bool has_quota_ = false;

  Link* link_ = nullptr;
  Finished finished_ = nullptr;
  void* whose_ = nullptr;
  bool only_look_ = false;
  bool refused_ = false;
  Phase phase_ = Phase::deciding;
  std::size_t round_ = 0;
  bool asking_ = false;
  bool answered_ = false;
  std::vector<engine::GivenLimit> limits_;
  std::vector<core::Limit> generous_;
  std::string trouble_;
  bool mistaken_ = false;  // the trouble is a mistake, not an outage
  bool degraded_ = false;
  bool knows_domain_ = false;
};

}  // namespace weir::envoy
