#include "store/redis/membership.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "store/redis/scripts.h"

namespace weir::store::redis {

namespace {

constexpr std::int64_t kMaxNodes = 1'000'000;
constexpr std::size_t kMaxSteps = 64;

// Removes and returns the text before the first separator, or all of it if there is none.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view taken = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(taken.size() + 1, text.size()));
  return taken;
}

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < min || value > max) return std::nullopt;
  return value;
}

constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max();

// 3:1 is the second of three nodes; 3:-1 means that this node was not among the three.
std::optional<Membership::NodeRank> parse_place(std::string_view text) {
  const auto nodes = number_in(take_until(text, ':'), 0, kMaxNodes);
  if (!nodes) return std::nullopt;
  const auto rank = number_in(text, -1, *nodes - 1);
  if (!rank) return std::nullopt;
  Membership::NodeRank place{.nodes = static_cast<std::uint32_t>(*nodes)};
  if (*rank >= 0) place.rank = static_cast<std::uint32_t>(*rank);
  return place;
}

// A line: id, milliseconds of silence, acknowledged generation, and the info for people.
std::optional<Member> parse_member(std::string_view line) {
  Member member{.id = std::string{take_until(line, ' ')}};
  const auto silent = number_in(take_until(line, ' '), 0, std::int64_t{1} << 40);
  const auto seen = number_in(take_until(line, ' '), 0, kMaxNumber);
  if (member.id.empty() || !silent || !seen) return std::nullopt;
  member.silent = std::chrono::milliseconds{*silent};
  member.seen = static_cast<std::uint64_t>(*seen);
  member.info = line;
  return member;
}

template <typename T>
bool parse_all(std::string_view text, char separator, std::optional<T> (*read)(std::string_view),
               std::vector<T>& all) {
  while (!text.empty()) {
    auto one = read(take_until(text, separator));
    if (!one) return false;
    all.push_back(*std::move(one));
  }
  return !all.empty();
}

// The reply is consistent: this node is a member in the newest generation.
bool is_consistent(const MembershipReply& reply) {
  return reply.generation > 0 && reply.places.back().rank && reply.joined <= reply.generation;
}

}  // namespace

std::optional<MembershipReply> parse_membership_reply(std::span<const wire::RespValue> reply) {
  using Kind = wire::RespValue::Kind;
  constexpr std::array kinds{Kind::array,   Kind::integer, Kind::integer, Kind::integer,
                             Kind::integer, Kind::bulk,    Kind::bulk};
  if (!std::ranges::equal(reply, kinds, {}, &wire::RespValue::kind)) return std::nullopt;
  for (const wire::RespValue& value : reply.subspan(1, 4)) {
    if (value.number < 0) return std::nullopt;
  }
  MembershipReply read{.epoch = static_cast<std::uint64_t>(reply[1].number),
                       .generation = static_cast<std::uint64_t>(reply[2].number),
                       .joined = static_cast<std::uint64_t>(reply[3].number),
                       .founder = reply[4].number == 1};
  const bool is_read = parse_all(reply[5].text, ' ', parse_place, read.places) &&
                       parse_all(reply[6].text, '\n', parse_member, read.members);
  if (!is_read || !is_consistent(read)) return std::nullopt;
  return read;
}

// ---- MembershipView

// If links of several threads ask at the same time, one of them gets true.
bool MembershipView::is_due(Nanos now) {
  if (has_left()) return false;
  std::int64_t due = due_at_.load(std::memory_order_relaxed);
  return now.count() >= due &&
         due_at_.compare_exchange_strong(due, (now + kHeartbeatInterval).count());
}

MembershipView::HeartbeatState MembershipView::heartbeat_state() const {
  const std::lock_guard lock(mutex_);
  return {.leaves = leaving_, .epoch = last_.epoch, .generation = last_.generation};
}

// Two links may receive replies in another order than the server sent them. Knowledge never goes
// back, because other nodes rely on acknowledged generations. Once the membership has expired, any
// epoch is accepted, even an earlier one.
bool MembershipView::is_newer(const MembershipReply& reply, Nanos now) const {
  if (reply.epoch != last_.epoch) return reply.epoch > last_.epoch || !is_member(now);
  if (reply.generation != last_.generation) return reply.generation > last_.generation;
  return reply.places.size() <= last_.places.size();
}

void MembershipView::on_reply(const MembershipReply& reply, Nanos sent, Nanos now) {
  const std::lock_guard lock(mutex_);
  misconfigured_.store(false, std::memory_order_relaxed);
  if (leaving_ || !is_newer(reply, now)) return;
  const bool was_there = reply.epoch == last_.epoch && reply.joined == last_.joined;
  if (!was_there && last_.generation > 0) add_step(now, {}, false);
  if (!was_there || reply.places != last_.places) add_step(now, reply.places, reply.founder);
  if (!was_there || now - last_at_ > 2 * kHeartbeatInterval) steady_since_ = now;
  count_nodes(reply.places.back().nodes, now);
  last_ = reply;
  last_at_ = now;
  const std::int64_t until = (sent + kMembershipValidFor).count();
  if (until > valid_until_.load(std::memory_order_relaxed)) {
    valid_until_.store(until, std::memory_order_release);
  }
}

// The first node to rejoin after an outage is alone in the list. If one of its links is still down,
// it must not take that for a fleet of one node: the others still use their shares.
void MembershipView::count_nodes(std::uint32_t listed, Nanos now) {
  const bool all_are_back = now - steady_since_ >= kAllRejoinedWithin;
  if (listed > nodes() || all_are_back) nodes_.store(listed, std::memory_order_relaxed);
}

void MembershipView::add_step(Nanos now, const std::vector<Membership::NodeRank>& places,
                              bool founding) {
  steps_.push_back({.at = now, .places = places, .founding = founding});
  if (steps_.size() > kMaxSteps) steps_.pop_front();
  version_.store(version() + 1, std::memory_order_release);
}

// If steps after `version` were dropped, the first step returned has no place: a dropped step may
// have had none.
Membership MembershipView::since(std::uint64_t version, Nanos now) const {
  const std::lock_guard lock(mutex_);
  Membership membership{.version = this->version()};
  const std::uint64_t before = membership.version - steps_.size();
  if (version < before) membership.steps.push_back({.ago = now - steps_.front().at});
  for (std::size_t i = version > before ? version - before : 0; i < steps_.size(); ++i) {
    membership.steps.push_back(
        {.ago = now - steps_[i].at, .places = steps_[i].places, .founding = steps_[i].founding});
  }
  return membership;
}

MembershipView::MemberList MembershipView::member_list(Nanos now) const {
  const std::lock_guard lock(mutex_);
  MemberList list{.generation = last_.generation, .members = last_.members};
  for (Member& member : list.members) member.silent += now - last_at_;
  return list;
}

void MembershipView::leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  valid_until_.store(0, std::memory_order_release);
  due_at_.store(0, std::memory_order_relaxed);
}

void append_heartbeat(std::string& out, bool with_source, std::string_view key,
                      const MembershipView& membership, std::string_view test_time) {
  using std::chrono::duration_cast;
  static const std::string silence =
      std::to_string(duration_cast<std::chrono::microseconds>(kRemovedAfter).count());
  static const std::string keep =
      std::to_string(duration_cast<std::chrono::milliseconds>(kListExpiry).count());
  const LuaScript& script = membership_script();
  const MembershipView::HeartbeatState state = membership.heartbeat_state();
  const std::string epoch = std::to_string(state.epoch);
  const std::string generation = std::to_string(state.generation);
  const std::array<std::string_view, 12> words{with_source ? "EVAL" : "EVALSHA",
                                               with_source ? script.source : script.sha1,
                                               "1",
                                               key,
                                               membership.id(),
                                               state.leaves ? "bye" : "here",
                                               epoch,
                                               generation,
                                               membership.info(),
                                               silence,
                                               keep,
                                               test_time};
  append_resp(out, words);
}

// ---- Heartbeat

Nanos Heartbeat::now() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return std::chrono::seconds{t.tv_sec} + Nanos{t.tv_nsec};
}

bool Heartbeat::is_due() {
  const Nanos at = now();
  if (in_flight_ || !membership_.is_due(at)) return false;
  sent_ = at;
  in_flight_ = true;
  return true;
}

Nanos Heartbeat::due_at(Nanos link_now) const {
  if (in_flight_ || membership_.has_left()) return kForever;
  return link_now + std::max(membership_.due_at() - now(), Nanos{0});
}

void Heartbeat::append_command(std::string& out, bool with_source) const {
  append_heartbeat(out, with_source, kMemberListKey, membership_);
}

void Heartbeat::on_failure(CallFailure failure, std::string_view) {
  in_flight_ = false;
  if (failure == CallFailure::misconfigured) membership_.on_misconfigured();
}

Heartbeat::ReplyResult Heartbeat::on_reply(std::span<const wire::RespValue> reply) {
  if (const auto parsed = parse_membership_reply(reply)) {
    membership_.on_reply(*parsed, sent_, now());
  } else if (membership_.heartbeat_state().leaves) {
    membership_.on_left();
  }
  return ReplyResult::answered;
}

}  // namespace weir::store::redis
