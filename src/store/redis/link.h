#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "net/poller.h"
#include "store/redis/alarm.h"
#include "store/redis/channel.h"
#include "store/redis/counts.h"
#include "store/redis/loan_talk.h"
#include "store/redis/machine.h"
#include "store/redis/membership.h"
#include "store/redis/refusals.h"
#include "store/redis/spread.h"
#include "store/redis/talk.h"
#include "store/redis/transport.h"
#include "store/redis/way.h"
#include "store/shared.h"
#include "weir/fleet.h"

namespace weir::store::redis {

struct LinkOptions {
  // Who is at the address: a server, Sentinels that know where it is, or some nodes of a cluster.
  enum class Kind : std::uint8_t { alone, sentinels, cluster };

  MachineOptions machine{};
  Kind kind = Kind::alone;
  ServerAddress address{};     // of the server; else for its TLS
  std::vector<Place> hosts{};  // of Sentinels, or of the cluster
  std::string master{};        // what Sentinels call it
  MakeTalk make_talk{};
  Log log{};  // called on the thread of the link
  bool remembers_refusals = true;
  Roster* roster = nullptr;  // none: nobody is told that this node is there
};

// One thread's way to Redis: a connection to each server on which all questions are pipelined. Once
// it is warm a question to a server that is alone costs no memory.
class RedisLink final : public Link,
                        public SharedStore,
                        private Channel::Listener,
                        private Spread::Host {
 public:
  // `options` outlive it. Begins to connect.
  RedisLink(const LinkOptions& options, std::shared_ptr<LinkCounts> counts, std::uint64_t seed);
  // Answers what is open: unavailable.
  ~RedisLink() override;
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  // ---- Link. From within an answer, `run_ready`, `flush` and `wait` do nothing: what is asked
  // ---- there is sent when all answers that have come are given.
  int descriptor() const noexcept override { return poller_.descriptor(); }
  void run_ready() override;
  void flush() override;
  void wait(Nanos longest) override;

  // ---- SharedStore
  void ask(const SharedQuestion& question, Asker& asker) override;
  void borrow(const LoanQuestion& question, Borrower& borrower) override;
  Nanos timeout() const override { return options_.machine.timeout; }

  // Of the server, if there is one for all.
  const Machine& machine() const { return *one_; }
  bool is_ready() const { return way_->is_ready(); }

 private:
  class Exchange;
  class Loan;

  SharedStore& store() noexcept override { return *this; }

  // ---- Channel::Listener
  void on_heard(Nanos now) override { now_ = now; }
  void on_cut() override { refusals_.forget_all(); }

  // ---- Spread::Host
  void ask_part(const SharedQuestion& question, Asker& asker, Nanos deadline) override;
  void answer_whole(const SharedQuestion& question, SharedAnswer& answer, Asker& asker,
                    bool is_part) override;

  std::unique_ptr<Channel> channel_to(const ServerAddress& address, const MachineOptions& options,
                                      LinkCounts& counts, const Log& log, Guide* guide);
  std::unique_ptr<Way> make_way(std::uint64_t seed);
  std::unique_ptr<Way> way_alone(const MachineOptions& machine);
  std::unique_ptr<Way> way_by_sentinels(const MachineOptions& machine);
  std::unique_ptr<Way> way_by_cluster(const MachineOptions& machine);

  void run(std::chrono::milliseconds longest);
  void finish_turn();
  void keep_house();
  void be_heard(Nanos now);
  // Sends a call on its way, to be answered within the time.
  void call(Call& call, Nanos now, Nanos within);
  Exchange& free_exchange();
  Loan& free_loan();
  void note_time(const SharedAnswer& answer);
  void answer(Exchange& exchange);

  const LinkOptions& options_;
  const std::shared_ptr<LinkCounts> kept_counts_;
  LinkCounts& counts_;
  LinkCounts sentinel_counts_;  // which nobody reads
  net::Poller poller_;
  Alarm alarm_;
  std::optional<Heartbeat> heartbeat_;
  Refusals refusals_;
  Machine* one_ = nullptr;  // of the server, if there is one for all
  std::unique_ptr<Way> way_;
  std::optional<Spread> spread_;

  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<Exchange*> free_;
  std::vector<std::unique_ptr<Loan>> loans_;
  std::vector<Loan*> free_loans_;
  SharedAnswer cached_;            // for an answer that needs no exchange
  bool cached_is_in_use_ = false;  // its asker asks from within
  Nanos now_{};                    // when the replies that are being read have come
  Instant there_at_zero_;          // the server's time when ours, which never goes back, was zero
  Nanos house_at_ = kForever;      // when those who ask have something to see to
  Nanos due_at_ = kForever;        // when one of them is due
  bool running_ = false;
};

}  // namespace weir::store::redis
