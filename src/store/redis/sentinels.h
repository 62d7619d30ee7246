#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/channel.h"
#include "store/redis/counts.h"
#include "store/redis/way.h"

namespace weir::store::redis {

struct SentinelOptions {
  std::vector<Place> hosts{};
  std::string master{};                         // its name
  Nanos watch_again = std::chrono::seconds{1};  // when no Sentinel is there to be heard
};

// How long a Sentinel has for its answer, the connection included.
inline constexpr Nanos kSentinelTimeout = std::chrono::milliseconds{300};

// Asks Sentinels where the master is: one after the other, until one knows. Stays with that one, is
// told by it when the master is another one, and asks it first the next time.
class MasterFinder final : private Guide {
 public:
  MasterFinder(SentinelOptions options, MakePeer make_peer);
  ~MasterFinder();
  MasterFinder(const MasterFinder&) = delete;
  MasterFinder& operator=(const MasterFinder&) = delete;

  void start(Nanos now);
  bool is_busy() const { return busy_; }

  // What came of it: where the master is, or why nobody knows.
  struct Finding {
    std::optional<Place> master{};
    Failure failure = Failure::unavailable;
    std::string why{};
  };
  // Once for each start, and when it had to look for another Sentinel to listen to.
  std::optional<Finding> take_finding() { return std::exchange(finding_, std::nullopt); }
  // Whether the master is another one since this was last asked.
  bool take_news() { return std::exchange(has_switched_, false); }

  void turn(Nanos now);
  void on_time(Nanos now);
  Nanos wake_at() const;
  void end();

 private:
  class Where;
  class Listening;

  bool on_error(Call&, std::string_view, Nanos) override { return false; }
  bool on_unsent(Call&, Nanos) override { return false; }
  void on_trouble(Nanos now) override;
  void on_news(std::span<const wire::RespValue> news) override;

  void ask(Nanos now);
  void on_found(Place place);
  void on_unknown();
  void on_failed(Failure failure, std::string_view why);
  void try_next();
  void conclude();

  const SentinelOptions options_;
  const MakePeer make_peer_;
  std::unique_ptr<Where> where_;
  std::unique_ptr<Listening> listening_;
  std::unique_ptr<Peer> peer_;
  std::size_t peer_is_ = 0;  // which of the hosts
  std::size_t current_ = 0;  // which of them is to be asked
  std::size_t tried_ = 0;    // how many have been asked this time
  bool busy_ = false;
  bool to_ask_ = false;      // the current one, in the next turn
  bool to_connect_ = false;  // and before that, to make a connection
  bool nobody_knows_ = false;
  bool is_lost_ = false;  // who was listened to
  Nanos watch_at_ = kForever;
  Finding failed_{};
  std::optional<Finding> finding_;
  bool has_switched_ = false;
  bool ended_ = false;
};

// The master that Sentinels name: looked for before each connection, and left when they name
// another.
class BySentinels final : public Way {
 public:
  BySentinels(SentinelOptions options, MakePeer make_sentinel, std::unique_ptr<Channel> master)
      : finder_(std::move(options), std::move(make_sentinel)),
        master_(std::move(master)),
        name_(master_->machine().server()) {}

  Channel& channel() { return *master_; }

  void call(Call& call, Nanos now) override { master_->machine().pass_on(call, false, now); }
  void turn(Nanos now) override;
  void on_time(Nanos now) override;
  Nanos wake_at() const override;
  bool is_ready() const override { return master_->machine().is_ready(); }
  bool is_mistaken() const override { return master_->machine().is_mistaken(); }
  void end() override;

 private:
  void follow(const MasterFinder::Finding& finding, Nanos now);

  MasterFinder finder_;
  const std::unique_ptr<Channel> master_;
  const std::string name_;  // of all of it, while nobody knows who is the master
  bool looking_ = false;
};

}  // namespace weir::store::redis
