#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/lent_side.h"
#include "store/shared.h"
#include "weir/async_engine.h"

namespace weir {
inline namespace v0 {

// One request under limits of which some or all count on the fleet: those on this node are decided
// first, since they cost nothing. Only what they admit is asked of the fleet, and what it refuses
// is given back here. Without an answer the policy says what happens.
//
// What is leased is paid from a purse. If there is not enough in it, that is asked for before
// anything else is decided.
//
// Lives from the question to the answer, and is used again for another one.
class AsyncEngine::Call final : public store::Asker, private store::lease::Waiter {
 public:
  // What comes of a question to the fleet.
  struct Result {
    Verdict verdict{};
    std::unique_ptr<Receipt::Impl> receipt{};  // of a take that wanted one and was admitted
    std::vector<core::Decision> decisions{};   // of a peek, of each limit of the policy
    bool left = false;
    std::string trouble{};  // why the fleet could not be asked
  };
  using Finish = std::function<void(Result&)>;

  struct Question {
    engine::Verb verb = engine::Verb::take;
    const Request& request;
    std::string_view holder{};
    bool wants_receipt = false;
    Receipt::Impl* receipt = nullptr;  // of settle
  };

  // The plan is one that asks the fleet.
  static void start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                    const engine::Items& items, Instant now, const Question& question,
                    Finish finish);
  // For those who want to know the verdict only. (Wrapped in the above, it would take memory.)
  static void start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                    const engine::Items& items, Instant now, const Question& question, Done done);

  // A take under limits of which none has to be asked for, as its purses have enough, or are known
  // to get no more: what most calls on leased limits are. None: it must be started.
  static std::optional<Verdict> at_once(Engine::Impl& engine, Link& link,
                                        const engine::Planned& planned, const engine::Items& items,
                                        Instant now, const Request& request);

  void on_answer(store::SharedAnswer& answer) override;

 private:
  static Call& spare_or_new();
  void begin(Engine::Impl& engine, Link& link, const engine::Planned& planned,
             const engine::Items& items, Instant now, const Question& question);
  void prepare(const engine::Planned& planned, const engine::Items& items,
               const Question& question);
  void copy_request(const Request& request);
  void remember_prices();
  void name_keys();
  void name_lent();
  void advance();
  bool decide_here();
  void settle_here();
  void settle_lent();
  void ask();
  void name_receipts();

  void borrow();
  void on_purse(const store::LoanAnswer* trouble) override;
  void on_purses_asked();
  void do_without_purses();
  Nanos deadline() const;
  Nanos time_left() const;
  bool is_too_late();

  void follow(store::SharedAnswer& answer);
  void tell_of_purses(store::SharedAnswer& answer);
  void keep_receipts(const store::SharedAnswer* answer);
  void update_receipts();
  void do_without(const store::SharedAnswer& answer);
  void take_shares();
  void decide_locally();
  void settle_locally();
  void refuse();
  void give_back();
  void conclude(const core::Verdict* fleet);
  void tell();
  void finish();

  bool charges() const { return verb_ == engine::Verb::take || verb_ == engine::Verb::enter; }

  Engine::Impl* engine_ = nullptr;
  Link* link_ = nullptr;
  std::shared_ptr<const engine::Rules> rules_;  // in which the limits are
  const engine::Policy* policy_ = nullptr;
  const engine::Together* limits_ = nullptr;
  engine::SplitCall split_{};
  engine::Verb verb_ = engine::Verb::take;
  Instant now_{};  // on this node
  Nanos began_{};  // by the clock's `passed`: the store's timeout is for the whole call

  std::string texts_;
  Request request_{};
  std::string holder_;

  // The limits that count here, and those that count on the fleet: as this node would know them.
  struct Side {
    std::vector<store::Item> items;
    std::vector<std::size_t> positions;  // in the policy
  };
  Side here_;
  Side there_;
  std::vector<engine::KeyPrices> prices_;  // that the items' limits have had
  core::Verdict verdict_here_{};
  Engine::Impl::CoreReceipts receipts_{};
  Engine::Impl::Resets resets_{};

  // The limits that are paid from purses.
  Side leased_;
  engine::LentSide lent_;
  std::vector<std::string> lent_names_;
  core::Verdict verdict_lent_{};
  std::size_t pending_ = 0;  // purses that the store is asked for
  int rounds_ = 0;           // how often it was
  store::SharedAnswer trouble_{};

  std::vector<core::Limit> shares_;  // of the limits of the fleet, for when it cannot be asked
  std::vector<engine::SharePrices> share_prices_;

  std::string names_;
  std::vector<store::SharedItem> shared_;
  std::vector<store::SharedReceipt> shared_receipts_;
  store::SharedQuestion question_{};
  Receipt::Impl* given_ = nullptr;  // to be settled
  bool wants_receipt_ = false;

  Result result_{};
  Finish finish_;  // or else
  Done done_;
};

}  // namespace v0
}  // namespace weir
