#include "store/redis/spread.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "core/price_history.h"
#include "store/redis/slots.h"

namespace weir::store::redis {

namespace {

using Kind = SharedAnswer::Kind;

bool has_seats(const SharedItem& item) {
  return std::holds_alternative<core::Concurrency>(*item.limit);
}

bool charges(SharedVerb verb) { return verb == SharedVerb::take || verb == SharedVerb::enter; }

// Whether the answer is one decision over all items.
bool decides(SharedVerb verb) { return charges(verb) || verb == SharedVerb::peek; }

}  // namespace

// One question. Used for one after the other.
class Spread::Work {
 public:
  explicit Work(Spread& spread) : spread_(spread) {}

  void start(const SharedQuestion& question, Asker& asker, Nanos deadline, bool apart,
             bool is_part);

 private:
  // The items of one slot that are asked about in the same way.
  struct Part final : public Asker {
    void on_answer(SharedAnswer& given) override { work->on_part(*this, given); }

    Work* work = nullptr;
    std::uint32_t slot = 0;
    SharedQuestion question{};
    std::vector<std::size_t> positions{};  // of its items in the whole
    std::vector<SharedItem> items{};
    std::vector<SharedReceipt> receipts{};
    SharedAnswer answer{};
    // For giving back, when what was asked about is gone.
    std::vector<core::Limit> limits{};
    std::vector<std::shared_ptr<const core::PriceHistory>> histories{};
    std::string names{};
  };

  void ask_seats();
  void ask_others();
  void add(std::size_t position, SharedVerb verb);
  void send();
  void on_part(Part& part, SharedAnswer& answer);
  void on_phase_done();
  bool holder_renews() const;

  void conclude();
  void join(SharedAnswer& whole);
  void join_failures(SharedAnswer& whole) const;
  void join_decisions(SharedAnswer& whole) const;
  void give_back();
  void give_back(const Part& part);
  Part& new_part();
  void release();

  Spread& spread_;
  const SharedQuestion* question_ = nullptr;
  Asker* asker_ = nullptr;
  Nanos deadline_{};
  bool apart_ = false;
  bool is_part_ = false;

  enum class Phase : std::uint8_t { seats, all, returning };
  Phase phase_ = Phase::all;
  std::array<bool, core::kMaxLimits> counts_for_renewal_{};
  std::vector<std::unique_ptr<Part>> parts_{};  // kept for the next question
  std::size_t used_ = 0;                        // how many of them are of this one
  std::size_t sent_ = 0;
  std::size_t open_ = 0;
  bool is_sending_ = false;
  std::string holder_{};
  SharedAnswer whole_{};
};

// ---- The question

void Spread::Work::start(const SharedQuestion& question, Asker& asker, Nanos deadline, bool apart,
                         bool is_part) {
  question_ = &question;
  asker_ = &asker;
  deadline_ = deadline;
  apart_ = apart;
  is_part_ = is_part;
  used_ = sent_ = open_ = 0;
  const auto& items = question.items;
  const bool only_shadows =
      std::ranges::none_of(items, [](auto& item) { return has_seats(item) && !item.shadow; });
  for (std::size_t i = 0; i < items.size(); ++i) {
    counts_for_renewal_[i] = has_seats(items[i]) && (!items[i].shadow || only_shadows);
  }
  const bool seats_first = decides(question.verb) && std::ranges::any_of(items, has_seats);
  if (seats_first) return ask_seats();
  phase_ = Phase::all;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (question.verb != SharedVerb::leave || has_seats(items[i])) add(i, question.verb);
  }
  send();
}

void Spread::Work::ask_seats() {
  phase_ = Phase::seats;
  for (std::size_t i = 0; i < question_->items.size(); ++i) {
    if (counts_for_renewal_[i]) add(i, question_->verb);
  }
  send();
}

// Those that have not been asked. Of a renewal, and of what is refused already, they are only
// looked at; each as one decision over all would have.
void Spread::Work::ask_others() {
  phase_ = Phase::all;
  const bool renews = holder_renews();
  bool is_refused = question_->verb == SharedVerb::peek;
  for (std::size_t i = 0; i < used_; ++i) {
    const SharedAnswer& answer = parts_[i]->answer;
    is_refused = is_refused || answer.kind != Kind::decided || !answer.verdict.decision;
  }
  for (std::size_t i = 0; i < question_->items.size(); ++i) {
    if (counts_for_renewal_[i]) continue;
    const bool seats = has_seats(question_->items[i]);
    if (renews) {
      add(i, seats ? question_->verb : SharedVerb::settle);
    } else if (is_refused) {
      add(i, SharedVerb::peek);
    } else {
      add(i, seats ? question_->verb : SharedVerb::take);
    }
  }
  send();
}

bool Spread::Work::holder_renews() const {
  for (std::size_t i = 0; i < used_; ++i) {
    const Part& part = *parts_[i];
    const std::uint32_t all = (std::uint32_t{1} << part.items.size()) - 1;
    if (part.answer.kind != Kind::decided || part.answer.held != all) return false;
  }
  return true;
}

Spread::Work::Part& Spread::Work::new_part() {
  if (used_ == parts_.size()) parts_.push_back(std::make_unique<Part>());
  Part& part = *parts_[used_++];
  part.work = this;
  part.positions.clear();
  part.items.clear();
  part.receipts.clear();
  part.question = {};
  return part;
}

// Seats are asked about alone: beside them a part would decide by itself what a renewal is.
void Spread::Work::add(std::size_t position, SharedVerb verb) {
  SharedItem item = question_->items[position];
  const std::uint32_t slot = slot_of(item.key);
  const auto fits = [&](const std::unique_ptr<Part>& part) {
    const bool mixes = decides(verb) && has_seats(part->items.front()) != has_seats(item);
    return part->slot == slot && part->question.verb == verb && !mixes && !apart_;
  };
  const auto first = parts_.begin() + static_cast<std::ptrdiff_t>(sent_);
  const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto found = std::find_if(first, end, fits);
  Part& part = found != end ? **found : new_part();
  part.slot = slot;
  part.question.verb = verb;
  if (verb == SharedVerb::settle && question_->verb != SharedVerb::settle) item.ask.cost = 0;
  part.positions.push_back(position);
  part.items.push_back(item);
  if (position < question_->receipts.size() && verb == question_->verb) {
    part.receipts.push_back(question_->receipts[position]);
  }
}

// (An answer may come from within.)
void Spread::Work::send() {
  is_sending_ = true;
  open_ += used_ - sent_;
  const std::size_t end = used_;
  while (sent_ < end) {
    Part& part = *parts_[sent_++];
    part.question.items = part.items;
    part.question.receipts = part.receipts;
    if (phase_ != Phase::returning) {
      part.question.holder = question_->holder;
      part.question.now = question_->now;
      part.question.receipt_name = question_->receipt_name;
      part.question.wants_receipts = charges(part.question.verb);
    }
    spread_.host_.ask_part(part.question, part, deadline_);
  }
  is_sending_ = false;
  if (open_ == 0) on_phase_done();
}

// ---- The answer

void Spread::Work::on_part(Part& part, SharedAnswer& answer) {
  std::swap(part.answer, answer);
  --open_;
  if (open_ == 0 && !is_sending_) on_phase_done();
}

void Spread::Work::on_phase_done() {
  switch (phase_) {
    case Phase::seats:
      return ask_others();
    case Phase::all:
      return conclude();
    case Phase::returning:
      return release();
  }
}

void Spread::Work::conclude() {
  join(whole_);
  const bool was_admitted = whole_.kind == Kind::decided && whole_.verdict.decision;
  const bool gives_back = charges(question_->verb) && !was_admitted;
  if (gives_back) give_back();
  // What is returned is not borrowed from the question any more.
  Asker& asker = *asker_;
  const SharedQuestion& question = *question_;
  spread_.host_.answer_whole(question, whole_, asker, is_part_);
  if (!gives_back) return release();
  send();
}

void Spread::Work::join_failures(SharedAnswer& whole) const {
  for (std::size_t i = 0; i < used_; ++i) {
    const SharedAnswer& answer = parts_[i]->answer;
    if (answer.kind == Kind::decided) continue;
    if (whole.kind == Kind::decided || answer.kind == Kind::misconfigured) {
      whole.kind = answer.kind;
      whole.error = answer.error;
    }
  }
}

void Spread::Work::join(SharedAnswer& whole) {
  whole.kind = Kind::decided;
  whole.error.clear();
  whole.now = Instant{};
  whole.verdict = {};
  whole.left = false;
  whole.held = 0;
  whole.decisions.clear();
  whole.receipts.clear();
  join_failures(whole);
  for (std::size_t i = 0; i < used_; ++i) {
    const Part& part = *parts_[i];
    for (std::size_t k = 0; k < part.receipts.size(); ++k) {
      question_->receipts[part.positions[k]] = part.receipts[k];
    }
    if (part.answer.kind != Kind::decided) continue;
    whole.now = std::max(whole.now, part.answer.now);
    whole.left = whole.left || part.answer.left;
    for (std::size_t k = 0; k < part.positions.size(); ++k) {
      const std::size_t position = part.positions[k];
      if ((part.answer.held >> k & 1) != 0) whole.held |= std::uint32_t{1} << position;
    }
  }
  const bool has_decisions = decides(question_->verb) || question_->verb == SharedVerb::settle;
  if (whole.kind == Kind::decided && has_decisions) join_decisions(whole);
}

void Spread::Work::join_decisions(SharedAnswer& whole) const {
  const std::size_t count = question_->items.size();
  whole.decisions.resize(count);
  FixedVector<core::Charge, core::kMaxLimits> all;
  for (const SharedItem& item : question_->items) {
    all.emplace_back(core::Charge{.limit = item.limit, .ask = item.ask, .shadow = item.shadow});
  }
  for (std::size_t i = 0; i < used_; ++i) {
    const Part& part = *parts_[i];
    for (std::size_t k = 0; k < part.answer.decisions.size(); ++k) {
      whole.decisions[part.positions[k]] = part.answer.decisions[k];
    }
  }
  whole.verdict = core::judge(whole.decisions, all);
  if (question_->verb == SharedVerb::settle) {
    whole.verdict.decision.outcome = core::Outcome::allowed;
    whole.verdict.decision.retry_after = Nanos{0};
  }
  if (!question_->wants_receipts || !whole.verdict.decision) return;
  whole.receipts.resize(count);
  for (std::size_t i = 0; i < used_; ++i) {
    const Part& part = *parts_[i];
    for (std::size_t k = 0; k < part.answer.receipts.size(); ++k) {
      whole.receipts[part.positions[k]] = part.answer.receipts[k];
    }
  }
}

// ---- Giving back

void Spread::Work::give_back() {
  phase_ = Phase::returning;
  holder_ = question_->holder;
  const std::size_t taken = used_;
  deadline_ = Nanos{0};
  for (std::size_t i = 0; i < taken; ++i) {
    const Part& part = *parts_[i];
    if (!charges(part.question.verb) || part.answer.kind != Kind::decided) continue;
    if (part.answer.verdict.decision) give_back(part);
  }
}

// With copies of all that the question has only lent.
void Spread::Work::give_back(const Part& part) {
  Part& back = new_part();
  back.question.verb = has_seats(part.items.front()) ? SharedVerb::leave : SharedVerb::settle;
  back.question.now = question_->now;
  back.question.holder = holder_;
  back.limits.clear();
  back.histories.clear();
  back.names.clear();
  back.limits.reserve(part.items.size());
  std::size_t bytes = 0;
  for (const SharedItem& item : part.items) bytes += item.key.size();
  back.names.reserve(bytes);
  for (std::size_t k = 0; k < part.items.size(); ++k) {
    const bool stays = (part.answer.held >> k & 1) != 0;
    const bool is_taken =
        k < part.answer.receipts.size() && part.answer.receipts[k].receipt.taken > 0;
    if (stays || !is_taken) continue;
    SharedItem item = part.items[k];
    const std::size_t at = back.names.size();
    back.names += item.key;
    item.key = std::string_view(back.names).substr(at);
    item.limit = &back.limits.emplace_back(*item.limit);
    item.history = back.histories.emplace_back(core::copy_of(item.history)).get();
    item.ask.cost = -item.ask.cost;
    back.items.push_back(item);
    back.receipts.push_back(part.answer.receipts[k]);
  }
  if (back.items.empty()) {
    --used_;
  } else {
    spread_.counts_.given_back.add();
  }
}

void Spread::Work::release() {
  question_ = nullptr;
  asker_ = nullptr;
  spread_.free_.push_back(this);
}

// ----

Spread::Spread(Host& host, LinkCounts& counts) : host_(host), counts_(counts) {}
Spread::~Spread() = default;

bool Spread::is_needed(const SharedQuestion& question) {
  if (question.items.size() < 2) return false;
  const std::uint16_t slot = slot_of(question.items.front().key);
  return std::ranges::any_of(question.items.subspan(1),
                             [&](const SharedItem& item) { return slot_of(item.key) != slot; });
}

void Spread::ask(const SharedQuestion& question, Asker& asker, Nanos deadline) {
  free_work().start(question, asker, deadline, false, false);
}

void Spread::ask_apart(const SharedQuestion& question, Asker& asker, Nanos deadline, bool is_part) {
  free_work().start(question, asker, deadline, true, is_part);
}

Spread::Work& Spread::free_work() {
  if (free_.empty()) {
    works_.push_back(std::make_unique<Work>(*this));
    free_.reserve(works_.capacity());
    return *works_.back();
  }
  Work& work = *free_.back();
  free_.pop_back();
  return work;
}

}  // namespace weir::store::redis
