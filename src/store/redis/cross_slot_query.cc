#include "store/redis/cross_slot_query.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "core/price_history.h"
#include "store/redis/hash_slots.h"

namespace weir::store::redis {

namespace {

using Kind = StoreResponse::Kind;

bool is_concurrency(const StoreItem& item) {
  return std::holds_alternative<core::Concurrency>(*item.limit);
}

bool charges(StoreVerb verb) { return verb == StoreVerb::take || verb == StoreVerb::enter; }

// True if the response is one decision over all items.
bool decides(StoreVerb verb) { return charges(verb) || verb == StoreVerb::peek; }

}  // namespace

// One request in flight. Used for one after the other.
class CrossSlotQuery::InFlight {
 public:
  explicit InFlight(CrossSlotQuery& owner) : owner_(owner) {}

  void start(const StoreRequest& request, StoreCallback& callback, Nanos deadline, bool each_key,
             bool is_part);

 private:
  // A part of the request: items of one hash slot with the same verb.
  struct SlotPart final : public StoreCallback {
    void on_response(StoreResponse& received) override { in_flight->on_part(*this, received); }

    InFlight* in_flight = nullptr;
    std::uint32_t slot = 0;
    StoreRequest request{};
    std::vector<std::size_t> positions{};  // indexes of its items in the whole request
    std::vector<StoreItem> items{};
    std::vector<StoreReceipt> receipts{};
    StoreResponse response{};
    // Copies for an undo, which outlives what the request borrows.
    std::vector<core::Limit> limits{};
    std::vector<std::shared_ptr<const core::PriceHistory>> histories{};
    std::string key_names{};
  };

  void send_concurrency();
  void send_others();
  void add(std::size_t position, StoreVerb verb);
  void send();
  void on_part(SlotPart& part, StoreResponse& response);
  void on_phase_done();
  bool holder_renews() const;

  void conclude();
  void join(StoreResponse& joined);
  void join_failures(StoreResponse& joined) const;
  void join_decisions(StoreResponse& joined) const;
  void undo();
  void undo(const SlotPart& part);
  SlotPart& new_part();
  void release();

  CrossSlotQuery& owner_;
  const StoreRequest* request_ = nullptr;
  StoreCallback* callback_ = nullptr;
  Nanos deadline_{};
  bool each_key_ = false;
  bool is_part_ = false;

  enum class Phase : std::uint8_t { concurrency, all, undo };
  Phase phase_ = Phase::all;
  std::array<bool, core::kMaxLimits> decides_renewal_{};
  std::vector<std::unique_ptr<SlotPart>> parts_{};  // kept for the next request
  std::size_t used_ = 0;                            // number of parts of this request
  std::size_t sent_ = 0;
  std::size_t pending_ = 0;
  bool is_sending_ = false;
  std::string holder_{};
  StoreResponse joined_{};
};

// ---- The request

void CrossSlotQuery::InFlight::start(const StoreRequest& request, StoreCallback& callback,
                                     Nanos deadline, bool each_key, bool is_part) {
  request_ = &request;
  callback_ = &callback;
  deadline_ = deadline;
  each_key_ = each_key;
  is_part_ = is_part;
  used_ = sent_ = pending_ = 0;
  const auto& items = request.items;
  const bool only_shadows =
      std::ranges::none_of(items, [](auto& item) { return is_concurrency(item) && !item.shadow; });
  for (std::size_t i = 0; i < items.size(); ++i) {
    decides_renewal_[i] = is_concurrency(items[i]) && (!items[i].shadow || only_shadows);
  }
  const bool concurrency_first =
      decides(request.verb) && std::ranges::any_of(items, is_concurrency);
  if (concurrency_first) return send_concurrency();
  phase_ = Phase::all;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (request.verb != StoreVerb::leave || is_concurrency(items[i])) add(i, request.verb);
  }
  send();
}

void CrossSlotQuery::InFlight::send_concurrency() {
  phase_ = Phase::concurrency;
  for (std::size_t i = 0; i < request_->items.size(); ++i) {
    if (decides_renewal_[i]) add(i, request_->verb);
  }
  send();
}

// Sends the items that were not sent yet, with the verb that a single decision over all items would
// imply: after a renewal or a denial they are only read.
void CrossSlotQuery::InFlight::send_others() {
  phase_ = Phase::all;
  const bool renews = holder_renews();
  bool is_refused = request_->verb == StoreVerb::peek;
  for (std::size_t i = 0; i < used_; ++i) {
    const StoreResponse& response = parts_[i]->response;
    is_refused = is_refused || response.kind != Kind::decided || !response.verdict.decision;
  }
  for (std::size_t i = 0; i < request_->items.size(); ++i) {
    if (decides_renewal_[i]) continue;
    const bool concurrency = is_concurrency(request_->items[i]);
    if (renews) {
      add(i, concurrency ? request_->verb : StoreVerb::settle);
    } else if (is_refused) {
      add(i, StoreVerb::peek);
    } else {
      add(i, concurrency ? request_->verb : StoreVerb::take);
    }
  }
  send();
}

bool CrossSlotQuery::InFlight::holder_renews() const {
  for (std::size_t i = 0; i < used_; ++i) {
    const SlotPart& part = *parts_[i];
    const std::uint32_t all = (std::uint32_t{1} << part.items.size()) - 1;
    if (part.response.kind != Kind::decided || part.response.held != all) return false;
  }
  return true;
}

CrossSlotQuery::InFlight::SlotPart& CrossSlotQuery::InFlight::new_part() {
  if (used_ == parts_.size()) parts_.push_back(std::make_unique<SlotPart>());
  SlotPart& part = *parts_[used_++];
  part.in_flight = this;
  part.positions.clear();
  part.items.clear();
  part.receipts.clear();
  part.request = {};
  return part;
}

// Concurrency limits get parts of their own: otherwise a part would decide by itself whether the
// call is a renewal.
void CrossSlotQuery::InFlight::add(std::size_t position, StoreVerb verb) {
  StoreItem item = request_->items[position];
  const std::uint32_t slot = hash_slot_of(item.key);
  const auto fits = [&](const std::unique_ptr<SlotPart>& part) {
    const bool mixes = decides(verb) && is_concurrency(part->items.front()) != is_concurrency(item);
    return part->slot == slot && part->request.verb == verb && !mixes && !each_key_;
  };
  const auto first = parts_.begin() + static_cast<std::ptrdiff_t>(sent_);
  const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto found = std::find_if(first, end, fits);
  SlotPart& part = found != end ? **found : new_part();
  part.slot = slot;
  part.request.verb = verb;
  if (verb == StoreVerb::settle && request_->verb != StoreVerb::settle) item.ask.cost = 0;
  part.positions.push_back(position);
  part.items.push_back(item);
  if (position < request_->receipts.size() && verb == request_->verb) {
    part.receipts.push_back(request_->receipts[position]);
  }
}

// A response may come from within `send_part`.
void CrossSlotQuery::InFlight::send() {
  is_sending_ = true;
  pending_ += used_ - sent_;
  const std::size_t end = used_;
  while (sent_ < end) {
    SlotPart& part = *parts_[sent_++];
    part.request.items = part.items;
    part.request.receipts = part.receipts;
    if (phase_ != Phase::undo) {
      part.request.holder = request_->holder;
      part.request.now = request_->now;
      part.request.receipt_name = request_->receipt_name;
      part.request.wants_receipts = charges(part.request.verb);
    }
    owner_.sender_.send_part(part.request, part, deadline_);
  }
  is_sending_ = false;
  if (pending_ == 0) on_phase_done();
}

// ---- The response

void CrossSlotQuery::InFlight::on_part(SlotPart& part, StoreResponse& response) {
  std::swap(part.response, response);
  --pending_;
  if (pending_ == 0 && !is_sending_) on_phase_done();
}

void CrossSlotQuery::InFlight::on_phase_done() {
  switch (phase_) {
    case Phase::concurrency:
      return send_others();
    case Phase::all:
      return conclude();
    case Phase::undo:
      return release();
  }
}

void CrossSlotQuery::InFlight::conclude() {
  join(joined_);
  const bool was_admitted = joined_.kind == Kind::decided && joined_.verdict.decision;
  const bool undoes = charges(request_->verb) && !was_admitted;
  if (undoes) undo();
  // The undo does not use the request, which may end in `on_complete`.
  StoreCallback& callback = *callback_;
  const StoreRequest& request = *request_;
  owner_.sender_.on_complete(request, joined_, callback, is_part_);
  if (!undoes) return release();
  send();
}

void CrossSlotQuery::InFlight::join_failures(StoreResponse& joined) const {
  for (std::size_t i = 0; i < used_; ++i) {
    const StoreResponse& response = parts_[i]->response;
    if (response.kind == Kind::decided) continue;
    if (joined.kind == Kind::decided || response.kind == Kind::misconfigured) {
      joined.kind = response.kind;
      joined.error = response.error;
    }
  }
}

void CrossSlotQuery::InFlight::join(StoreResponse& joined) {
  joined.kind = Kind::decided;
  joined.error.clear();
  joined.now = Instant{};
  joined.verdict = {};
  joined.left = false;
  joined.held = 0;
  joined.decisions.clear();
  joined.receipts.clear();
  join_failures(joined);
  for (std::size_t i = 0; i < used_; ++i) {
    const SlotPart& part = *parts_[i];
    for (std::size_t k = 0; k < part.receipts.size(); ++k) {
      request_->receipts[part.positions[k]] = part.receipts[k];
    }
    if (part.response.kind != Kind::decided) continue;
    joined.now = std::max(joined.now, part.response.now);
    joined.left = joined.left || part.response.left;
    for (std::size_t k = 0; k < part.positions.size(); ++k) {
      const std::size_t position = part.positions[k];
      if ((part.response.held >> k & 1) != 0) joined.held |= std::uint32_t{1} << position;
    }
  }
  const bool has_decisions = decides(request_->verb) || request_->verb == StoreVerb::settle;
  if (joined.kind == Kind::decided && has_decisions) join_decisions(joined);
}

void CrossSlotQuery::InFlight::join_decisions(StoreResponse& joined) const {
  const std::size_t count = request_->items.size();
  joined.decisions.resize(count);
  FixedVector<core::Charge, core::kMaxLimits> all;
  for (const StoreItem& item : request_->items) {
    all.emplace_back(core::Charge{.limit = item.limit, .ask = item.ask, .shadow = item.shadow});
  }
  for (std::size_t i = 0; i < used_; ++i) {
    const SlotPart& part = *parts_[i];
    for (std::size_t k = 0; k < part.response.decisions.size(); ++k) {
      joined.decisions[part.positions[k]] = part.response.decisions[k];
    }
  }
  joined.verdict = core::judge(joined.decisions, all);
  if (request_->verb == StoreVerb::settle) {
    joined.verdict.decision.outcome = core::Outcome::allowed;
    joined.verdict.decision.retry_after = Nanos{0};
  }
  if (!request_->wants_receipts || !joined.verdict.decision) return;
  joined.receipts.resize(count);
  for (std::size_t i = 0; i < used_; ++i) {
    const SlotPart& part = *parts_[i];
    for (std::size_t k = 0; k < part.response.receipts.size(); ++k) {
      joined.receipts[part.positions[k]] = part.response.receipts[k];
    }
  }
}

// ---- Undo

void CrossSlotQuery::InFlight::undo() {
  phase_ = Phase::undo;
  holder_ = request_->holder;
  const std::size_t taken = used_;
  deadline_ = Nanos{0};
  for (std::size_t i = 0; i < taken; ++i) {
    const SlotPart& part = *parts_[i];
    if (!charges(part.request.verb) || part.response.kind != Kind::decided) continue;
    if (part.response.verdict.decision) undo(part);
  }
}

// Copies everything that the request only lends.
void CrossSlotQuery::InFlight::undo(const SlotPart& part) {
  SlotPart& undo_part = new_part();
  undo_part.request.verb =
      is_concurrency(part.items.front()) ? StoreVerb::leave : StoreVerb::settle;
  undo_part.request.now = request_->now;
  undo_part.request.holder = holder_;
  undo_part.limits.clear();
  undo_part.histories.clear();
  undo_part.key_names.clear();
  undo_part.limits.reserve(part.items.size());
  std::size_t bytes = 0;
  for (const StoreItem& item : part.items) bytes += item.key.size();
  undo_part.key_names.reserve(bytes);
  for (std::size_t k = 0; k < part.items.size(); ++k) {
    const bool held_before = (part.response.held >> k & 1) != 0;
    const bool is_taken =
        k < part.response.receipts.size() && part.response.receipts[k].receipt.taken > 0;
    if (held_before || !is_taken) continue;
    StoreItem item = part.items[k];
    const std::size_t at = undo_part.key_names.size();
    undo_part.key_names += item.key;
    item.key = std::string_view(undo_part.key_names).substr(at);
    item.limit = &undo_part.limits.emplace_back(*item.limit);
    item.history = undo_part.histories.emplace_back(core::copy_of(item.history)).get();
    item.ask.cost = -item.ask.cost;
    undo_part.items.push_back(item);
    undo_part.receipts.push_back(part.response.receipts[k]);
  }
  if (undo_part.items.empty()) {
    --used_;
  } else {
    owner_.counts_.given_back.add();
  }
}

void CrossSlotQuery::InFlight::release() {
  request_ = nullptr;
  callback_ = nullptr;
  owner_.free_.push_back(this);
}

// ----

CrossSlotQuery::CrossSlotQuery(PartSender& sender, LinkCounts& counts)
    : sender_(sender), counts_(counts) {}
CrossSlotQuery::~CrossSlotQuery() = default;

bool CrossSlotQuery::is_needed(const StoreRequest& request) {
  if (request.items.size() < 2) return false;
  const std::uint16_t slot = hash_slot_of(request.items.front().key);
  return std::ranges::any_of(request.items.subspan(1),
                             [&](const StoreItem& item) { return hash_slot_of(item.key) != slot; });
}

void CrossSlotQuery::ask(const StoreRequest& request, StoreCallback& callback, Nanos deadline) {
  acquire().start(request, callback, deadline, false, false);
}

void CrossSlotQuery::ask_each_key(const StoreRequest& request, StoreCallback& callback,
                                  Nanos deadline, bool is_part) {
  acquire().start(request, callback, deadline, true, is_part);
}

CrossSlotQuery::InFlight& CrossSlotQuery::acquire() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<InFlight>(*this));
    free_.reserve(all_.capacity());
    return *all_.back();
  }
  InFlight& in_flight = *free_.back();
  free_.pop_back();
  return in_flight;
}

}  // namespace weir::store::redis
