#include "store/redis/sentinels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weir::store::redis {

namespace {

constexpr std::string_view kSwitched = "+switch-master";

}  // namespace

// SENTINEL get-master-addr-by-name
class MasterFinder::Where final : public Call {
 public:
  explicit Where(MasterFinder& finder) : finder_(finder) {}

  void append_command(std::string& out, bool) const override {
    const std::array<std::string_view, 3> words{"SENTINEL", "get-master-addr-by-name",
                                                finder_.options_.master};
    append_words(out, words);
  }
  std::string_view key() const override { return {}; }
  Next on_reply(std::span<const wire::RespValue> reply) override {
    place_ = {};
    if (reply.size() != 3) return Next::answered;
    const std::string_view port = reply[2].text;
    std::from_chars(port.data(), port.data() + port.size(), place_.port);
    place_.host = reply[1].text;
    return Next::answered;
  }
  void on_answered() override {
    place_.host.empty() || place_.port == 0 ? finder_.on_unknown() : finder_.on_found(place_);
  }
  void on_failure(Failure failure, std::string_view why) override {
    finder_.on_failed(failure, *trip.by + ": " + std::string{why});
  }

 private:
  MasterFinder& finder_;
  Place place_{};
};

// SUBSCRIBE +switch-master. Without it a new master is found when the old one is lost.
class MasterFinder::Listening final : public Call {
 public:
  void append_command(std::string& out, bool) const override {
    constexpr std::array<std::string_view, 2> words{"SUBSCRIBE", kSwitched};
    append_words(out, words);
  }
  std::string_view key() const override { return {}; }
  Next on_reply(std::span<const wire::RespValue>) override { return Next::answered; }
  void on_answered() override { is_open = false; }
  void on_failure(Failure, std::string_view) override { is_open = false; }

  bool is_open = false;
  bool was_asked = false;  // of the current Sentinel
};

MasterFinder::MasterFinder(SentinelOptions options, MakePeer make_peer)
    : options_(std::move(options)),
      make_peer_(std::move(make_peer)),
      where_(std::make_unique<Where>(*this)),
      listening_(std::make_unique<Listening>()) {}

MasterFinder::~MasterFinder() { end(); }

void MasterFinder::end() {
  ended_ = true;
  if (peer_ != nullptr) peer_->machine().end();
}

void MasterFinder::start(Nanos) {
  if (busy_ || ended_) return;
  busy_ = true;
  tried_ = 0;
  nobody_knows_ = false;
  failed_ = {};
  watch_at_ = kForever;
  to_ask_ = true;
  const bool is_there = peer_ != nullptr && peer_is_ == current_ && peer_->machine().is_ready();
  to_connect_ = !is_there || is_lost_;
}

void MasterFinder::ask(Nanos now) {
  to_ask_ = false;
  if (std::exchange(to_connect_, false)) {
    // (The end of the one before is nobody's loss.)
    if (peer_ != nullptr) peer_->machine().end();
    peer_.reset();
    peer_is_ = current_;
    peer_ = make_peer_(options_.hosts[current_], *this, now);
    listening_->was_asked = false;
    is_lost_ = false;
  }
  peer_->machine().call(*where_, now);
}

void MasterFinder::on_found(Place place) {
  busy_ = false;
  finding_ = Finding{.master = std::move(place)};
}

void MasterFinder::on_unknown() {
  nobody_knows_ = true;
  try_next();
}

void MasterFinder::on_failed(Failure failure, std::string_view why) {
  if (failed_.why.empty() || failure == Failure::misconfigured) {
    failed_.failure = failure;
    failed_.why = why;
  }
  is_lost_ = true;
  try_next();
}

void MasterFinder::try_next() {
  if (ended_) return;
  current_ = (current_ + 1) % options_.hosts.size();
  if (++tried_ == options_.hosts.size()) return conclude();
  to_ask_ = to_connect_ = true;
}

void MasterFinder::conclude() {
  busy_ = false;
  if (nobody_knows_) {
    failed_.failure = Failure::misconfigured;
    failed_.why = "no Sentinel knows a master by the name of " + options_.master +
                  ": write the name that is in their sentinel monitor";
  } else if (failed_.failure != Failure::misconfigured) {
    failed_.why = "no Sentinel answers: " + failed_.why;
  }
  finding_ = std::exchange(failed_, {});
}

// (Who is asked at the moment is told so by its question.)
void MasterFinder::on_trouble(Nanos) {
  if (!busy_) is_lost_ = true;
}

void MasterFinder::on_news(std::span<const wire::RespValue> news) {
  if (news.size() != 4 || news[1].text != "message" || news[2].text != kSwitched) return;
  const std::string_view text = news[3].text;
  if (text.substr(0, text.find(' ')) == options_.master) has_switched_ = true;
}

void MasterFinder::turn(Nanos now) {
  if (ended_) return;
  if (now >= watch_at_) start(now);
  while (to_ask_) ask(now);
  if (peer_ == nullptr) return;
  Machine& machine = peer_->machine();
  const bool may_listen = !busy_ && !is_lost_ && machine.is_ready() && machine.speaks_resp3();
  if (may_listen && !listening_->was_asked && !listening_->is_open) {
    listening_->was_asked = listening_->is_open = true;
    machine.call(*listening_, now);
  }
  if (is_lost_ && !busy_) watch_at_ = std::min(watch_at_, now + options_.watch_again);
  peer_->turn();
}

void MasterFinder::on_time(Nanos now) {
  if (peer_ != nullptr) peer_->on_time(now);
}

Nanos MasterFinder::wake_at() const {
  return peer_ == nullptr ? watch_at_ : std::min(watch_at_, peer_->machine().wake_at());
}

// ----

void BySentinels::turn(Nanos now) {
  finder_.turn(now);
  if (finder_.take_news()) master_->machine().leave("the Sentinels have named another master", now);
  if (const auto finding = finder_.take_finding()) follow(*finding, now);
  master_->turn_without_connecting();
  if (!master_->lacks_connection()) {
    looking_ = looking_ && master_->machine().wants_connection();
    return;
  }
  if (!std::exchange(looking_, true)) {
    master_->machine().rename(name_);
    finder_.start(now);
  }
  finder_.turn(now);
}

void BySentinels::follow(const MasterFinder::Finding& finding, Nanos now) {
  const bool was_looked_for = std::exchange(looking_, false);
  Machine& machine = master_->machine();
  if (finding.master && was_looked_for && master_->lacks_connection()) {
    return master_->connect_to(*finding.master);
  }
  if (finding.master && *finding.master != master_->place()) {
    return machine.leave("the Sentinels name another master", now);
  }
  if (!finding.master && was_looked_for) {
    machine.on_disconnected(finding.why, now, finding.failure);
  }
}

void BySentinels::on_time(Nanos now) {
  finder_.on_time(now);
  master_->on_time(now);
}

Nanos BySentinels::wake_at() const {
  return std::min(finder_.wake_at(), std::as_const(*master_).machine().wake_at());
}

void BySentinels::end() {
  finder_.end();
  master_->machine().end();
}

}  // namespace weir::store::redis
