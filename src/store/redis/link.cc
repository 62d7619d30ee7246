#include "store/redis/link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/saturating.h"
#include "store/redis/cluster.h"
#include "store/redis/sentinels.h"
#include "store/redis/steady.h"

namespace weir::store::redis {

namespace {

// A map of slots is longer than any other reply: each slot alone, with its nodes.
constexpr wire::RespReplyRoom kRoomForMaps{.values = 1 << 18, .bytes = 16 << 20};

}  // namespace

// A question, who has asked it, and what is said about it.
class RedisLink::Exchange final : public Call {
 public:
  Exchange(RedisLink& link, std::unique_ptr<Talk> talk) : link_(link), talk_(std::move(talk)) {}

  // `part`: of a question that is spread over several.
  void start(const SharedQuestion& asked, Asker& by, bool part, Instant there) {
    question = &asked;
    asker = &by;
    is_part = part;
    talk_->start(asked, there);
  }

  void append_command(std::string& out, bool with_source) const override {
    talk_->append_command(out, with_source);
  }
  std::string_view key() const override { return question->items.front().key; }
  Next on_reply(std::span<const wire::RespValue> reply) override {
    return talk_->on_reply(reply, answer);
  }
  void on_answered() override {
    if (answer.kind != SharedAnswer::Kind::decided) {
      const bool is_wrong = answer.kind == SharedAnswer::Kind::misconfigured;
      (is_wrong ? link_.counts_.misconfigured : link_.counts_.unavailable).add();
    }
    link_.note_time(answer);
    link_.answer(*this);
  }
  void on_failure(Failure failure, std::string_view why) override {
    answer.kind = failure == Failure::misconfigured ? SharedAnswer::Kind::misconfigured
                                                    : SharedAnswer::Kind::unavailable;
    answer.error.assign(trip.by != nullptr ? *trip.by : link_.options_.machine.server);
    answer.error.append(": ").append(why);
    answer.decisions.clear();
    answer.receipts.clear();
    answer.left = false;
    answer.held = 0;
    link_.answer(*this);
  }
  bool take_apart(Nanos) override {
    if (question->items.size() < 2) return false;
    link_.spread_->ask_apart(*question, *asker, trip.deadline, is_part);
    link_.free_.push_back(this);
    return true;
  }

  const SharedQuestion* question = nullptr;
  Asker* asker = nullptr;
  bool is_part = false;
  SharedAnswer answer{};

 private:
  RedisLink& link_;
  const std::unique_ptr<Talk> talk_;
};

// The same of a loan.
class RedisLink::Loan final : public Call {
 public:
  explicit Loan(RedisLink& link) : link_(link) {}

  // False if it is answered already.
  bool start(const LoanQuestion& asked, Borrower& by, Instant there) {
    borrower_ = &by;
    key_ = asked.key;
    answer_ = {};
    if (talk_.start(asked, {.now = there}, answer_)) return true;
    link_.counts_.misconfigured.add();
    finish();
    return false;
  }

  void append_command(std::string& out, bool with_source) const override {
    talk_.append_command(out, with_source);
  }
  std::string_view key() const override { return key_; }
  Next on_reply(std::span<const wire::RespValue> reply) override {
    return talk_.on_reply(reply, answer_);
  }
  void on_answered() override {
    if (answer_.kind == SharedAnswer::Kind::decided) {
      link_.there_at_zero_ = answer_.now - link_.now_;
    } else {
      const bool is_wrong = answer_.kind == SharedAnswer::Kind::misconfigured;
      (is_wrong ? link_.counts_.misconfigured : link_.counts_.unavailable).add();
    }
    finish();
  }
  void on_failure(Failure failure, std::string_view why) override {
    answer_ = {};
    answer_.kind = failure == Failure::misconfigured ? SharedAnswer::Kind::misconfigured
                                                     : SharedAnswer::Kind::unavailable;
    answer_.error.assign(trip.by != nullptr ? *trip.by : link_.options_.machine.server);
    answer_.error.append(": ").append(why);
    finish();
  }

 private:
  void finish() {
    borrower_->on_loan(answer_);
    link_.free_loans_.push_back(this);
  }

  RedisLink& link_;
  std::string_view key_{};
  LoanTalk talk_;
  Borrower* borrower_ = nullptr;
  LoanAnswer answer_{};
};

RedisLink::RedisLink(const LinkOptions& options, std::shared_ptr<LinkCounts> counts,
                     std::uint64_t seed)
    : options_(options),
      kept_counts_(std::move(counts)),
      counts_(*kept_counts_),
      alarm_(poller_),
      refusals_(seed),
      way_(make_way(seed)),
      there_at_zero_(std::chrono::system_clock::now() - steady_now()) {
  if (options.roster != nullptr) heartbeat_.emplace(*options.roster);
  if (options.kind == LinkOptions::Kind::cluster) {
    Spread::Host& host = *this;
    spread_.emplace(host, counts_);
  }
  finish_turn();
}

RedisLink::~RedisLink() {
  running_ = true;  // nothing more is sent
  way_->end();
}

// ---- Ways

std::unique_ptr<Channel> RedisLink::channel_to(const ServerAddress& address,
                                               const MachineOptions& options, LinkCounts& counts,
                                               const Log& log, Guide* guide) {
  Channel::Listener& listener = *this;
  return std::make_unique<Channel>(poller_, options, address, counts, log, listener, guide);
}

std::unique_ptr<Way> RedisLink::make_way(std::uint64_t seed) {
  MachineOptions machine = options_.machine;
  machine.seed = seed;
  switch (options_.kind) {
    case LinkOptions::Kind::alone:
      break;
    case LinkOptions::Kind::sentinels:
      return way_by_sentinels(machine);
    case LinkOptions::Kind::cluster:
      return way_by_cluster(machine);
  }
  return way_alone(machine);
}

std::unique_ptr<Way> RedisLink::way_alone(const MachineOptions& machine) {
  auto channel = channel_to(options_.address, machine, counts_, options_.log, nullptr);
  one_ = &channel->machine();
  return std::make_unique<Alone>(std::move(channel));
}

std::unique_ptr<Way> RedisLink::way_by_sentinels(const MachineOptions& machine) {
  MachineOptions of_master = machine;
  of_master.login.to_master = true;
  // Its connection begins with the question where it is.
  of_master.connect_timeout += kSentinelTimeout * static_cast<int>(options_.hosts.size());
  auto channel = channel_to(options_.address, of_master, counts_, options_.log, nullptr);
  one_ = &channel->machine();

  MachineOptions of_sentinel = machine;
  of_sentinel.timeout = of_sentinel.connect_timeout = kSentinelTimeout;
  of_sentinel.login.database = 0;
  of_sentinel.login.version.clear();
  of_sentinel.login.only_if_demanded = true;
  const auto sentinel_at = [this, of_sentinel](const Place& place, Guide& guide, Nanos) mutable {
    ServerAddress address = options_.address;
    address.host = place.host;
    address.port = place.port;
    of_sentinel.server = address.shown();
    return channel_to(address, of_sentinel, sentinel_counts_, {}, &guide);
  };
  return std::make_unique<BySentinels>(
      SentinelOptions{.hosts = options_.hosts, .master = options_.master}, sentinel_at,
      std::move(channel));
}

std::unique_ptr<Way> RedisLink::way_by_cluster(const MachineOptions& machine) {
  MachineOptions of_node = machine;
  of_node.reply_room = kRoomForMaps;
  const auto node_at = [this, of_node](const Place& place, Guide& guide, Nanos) mutable {
    ServerAddress address = options_.address;
    address.host = place.host;
    address.port = place.port;
    of_node.server = address.shown();
    of_node.seed += 1;
    return channel_to(address, of_node, counts_, options_.log, &guide);
  };
  return std::make_unique<Cluster>(ClusterOptions{.hosts = options_.hosts,
                                                  .name = machine.server,
                                                  .timeout = machine.timeout,
                                                  .seed = machine.seed},
                                   counts_, options_.log, node_at, steady_now());
}

// ---- Questions

void RedisLink::ask(const SharedQuestion& question, Asker& asker) {
  const Nanos now = steady_now();
  refusals_.forget(question);
  if (options_.remembers_refusals && !cached_is_in_use_ &&
      refusals_.refuses(question, now, cached_)) {
    counts_.refused_by_cache.add();
    cached_is_in_use_ = true;
    asker.on_answer(cached_);
    cached_is_in_use_ = false;
    return;
  }
  const Nanos within = std::min(question.within.value_or(timeout()), timeout());
  if (spread_ && Spread::is_needed(question)) {
    return spread_->ask(question, asker, now + within);
  }
  Exchange& exchange = free_exchange();
  exchange.start(question, asker, false, there_at_zero_ + now);
  call(exchange, now, within);
}

void RedisLink::call(Call& call, Nanos now, Nanos within) {
  if (one_ != nullptr) return one_->call(call, now, within);
  call.trip = {.began = now, .deadline = now + within};
  way_->call(call, now);
}

void RedisLink::ask_part(const SharedQuestion& question, Asker& asker, Nanos deadline) {
  const Nanos now = steady_now();
  Exchange& exchange = free_exchange();
  exchange.start(question, asker, true, there_at_zero_ + now);
  exchange.trip = {.began = now, .deadline = deadline > Nanos{0} ? deadline : now + timeout()};
  way_->call(exchange, now);
}

void RedisLink::borrow(const LoanQuestion& question, Borrower& borrower) {
  const Nanos now = steady_now();
  Loan& loan = free_loan();
  if (loan.start(question, borrower, there_at_zero_ + now)) call(loan, now, timeout());
}

RedisLink::Loan& RedisLink::free_loan() {
  if (free_loans_.empty()) {
    loans_.push_back(std::make_unique<Loan>(*this));
    free_loans_.reserve(loans_.capacity());
    return *loans_.back();
  }
  Loan& loan = *free_loans_.back();
  free_loans_.pop_back();
  return loan;
}

RedisLink::Exchange& RedisLink::free_exchange() {
  if (free_.empty()) {
    exchanges_.push_back(std::make_unique<Exchange>(*this, options_.make_talk()));
    free_.reserve(exchanges_.capacity());
    return *exchanges_.back();
  }
  Exchange& exchange = *free_.back();
  free_.pop_back();
  return exchange;
}

// What its clock says, for who asks next: as it was, and what has passed since.
void RedisLink::note_time(const SharedAnswer& answer) {
  if (answer.kind == SharedAnswer::Kind::decided) there_at_zero_ = answer.now - now_;
}

// (The asker sees the answer before the exchange is free for what it asks from within.)
void RedisLink::answer(Exchange& exchange) {
  answer_whole(*exchange.question, exchange.answer, *exchange.asker, exchange.is_part);
  free_.push_back(&exchange);
}

void RedisLink::answer_whole(const SharedQuestion& question, SharedAnswer& answer, Asker& asker,
                             bool is_part) {
  if (options_.remembers_refusals && !is_part) {
    // Those of before, which were on their way when it was asked.
    refusals_.forget(question);
    refusals_.remember(question, answer, now_);
  }
  asker.on_answer(answer);
}

// ---- Running

void RedisLink::run_ready() { run(std::chrono::milliseconds{0}); }

void RedisLink::wait(Nanos longest) {
  if (running_) return;
  flush();
  run(std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp(longest, Nanos{0}, Nanos{std::chrono::hours{1}})));
}

void RedisLink::run(std::chrono::milliseconds longest) {
  if (running_) return;
  running_ = true;
  poller_.wait(longest);
  way_->on_time(steady_now());
  keep_house();
  running_ = false;
  finish_turn();
}

void RedisLink::keep_house() {
  const Nanos now = steady_now();
  if (now >= due_at_) {
    for (const Kept& one : kept) one.keeper->on_due();
  }
  if (now < house_at_) return;
  house_at_ = kForever;
  for (const Kept& one : kept) one.keeper->keep_house();
}

void RedisLink::flush() {
  if (!running_) finish_turn();
}

void RedisLink::finish_turn() {
  running_ = true;
  const Nanos now = steady_now();
  be_heard(now);
  way_->turn(now);
  bool has_work = false;
  due_at_ = kForever;
  for (const Kept& one : kept) {
    has_work |= one.keeper->has_work();
    due_at_ = std::min(due_at_, Nanos{sat_add(now.count(), one.keeper->due_in().count())});
  }
  if (has_work && house_at_ == kForever) house_at_ = now + kHousekeeping;
  const Nanos beat_at = heartbeat_ && way_->is_ready() ? heartbeat_->due_at(now) : kForever;
  alarm_.wake_at(std::min({way_->wake_at(), beat_at, house_at_, due_at_}));
  running_ = false;
}

void RedisLink::be_heard(Nanos now) {
  if (!heartbeat_) return;
  if (way_->is_mistaken()) options_.roster->on_mistake();
  if (way_->is_ready() && heartbeat_->is_due()) call(*heartbeat_, now, timeout());
}

}  // namespace weir::store::redis
