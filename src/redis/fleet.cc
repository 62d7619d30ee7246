#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "weir/redis.h"

#include "policy/endpoint.h"
#include "store/random_name.h"
#include "store/redis/link.h"

namespace weir {
inline namespace v0 {

namespace {

namespace redis = store::redis;
using policy::StoreAddress;

static_assert(std::tuple_size_v<decltype(RedisCounts::answers_by_time)> == redis::kLatencyBuckets);

constexpr Nanos kMinTimeout = std::chrono::milliseconds{1};
// Maximum time to wait for the reply to the leave message at shutdown. Without it the other nodes
// remove this one after a silence.
constexpr Nanos kMaxLeaveWait = std::chrono::milliseconds{500};

redis::LogCallback log_of(RedisOptions& options) {
  if (!options.log) return {};
  return [log = std::move(options.log)](redis::LinkLogLevel level, std::string_view text) {
    log(static_cast<RedisOptions::Level>(level), text);
  };
}
static_assert(static_cast<int>(RedisOptions::Level::error) ==
              static_cast<int>(redis::LinkLogLevel::error));

// The reason why these options cannot be used for a fleet; empty if they can.
std::string why_unusable(const StoreAddress& address, const RedisOptions& options) {
  if (address.kind == StoreAddress::Kind::memory) {
    return "memory is not a store that nodes can share: write redis://host:port";
  }
  if (options.cert.empty() != options.key.empty()) {
    return "a client certificate needs both files: give both cert and key, or neither";
  }
  const bool has_files = !options.ca.empty() || !options.cert.empty();
  if (has_files && !address.tls)
    return "ca, cert and key need TLS: write the address as rediss://, with an s";
  if (options.timeout < kMinTimeout) return "the timeout is too short: give at least 1 ms";
  return {};
}

Result<redis::ServerAddress, Error> server_address(const StoreAddress& address,
                                                   const RedisOptions& options) {
  redis::ServerAddress server;
  if (address.kind == StoreAddress::Kind::unix_socket) {
    server.path = address.path;
    return server;
  }
  server.host = address.hosts.front().host;
  server.port = address.hosts.front().port;
  if (!address.tls) return server;
  auto tls = net::load_client_tls({.cert = options.cert, .key = options.key, .ca = options.ca});
  if (!tls) return tls.error();
  server.tls = *std::move(tls);
  return server;
}

std::string host_and_process() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("{}:{}", host.data(), getpid());
}

// The node's info for people: a name of one word, at most 80 bytes, and the version.
std::string info_of(std::string name) {
  if (name.empty()) name = host_and_process();
  name.resize(std::min<std::size_t>(name.size(), 80));
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  std::ranges::replace_if(name, is_blank, '_');
  return name + ' ' + WEIR_VERSION;
}

redis::LinkOptions::Topology topology_of(const StoreAddress& address) {
  switch (address.kind) {
    case StoreAddress::Kind::sentinel:
      return redis::LinkOptions::Topology::sentinels;
    case StoreAddress::Kind::cluster:
      return redis::LinkOptions::Topology::cluster;
    default:
      return redis::LinkOptions::Topology::single_server;
  }
}

// The address as a URL for messages, without a password.
std::string shown(const StoreAddress& address, const redis::ServerAddress& server) {
  if (topology_of(address) == redis::LinkOptions::Topology::single_server) return server.shown();
  const bool is_cluster = address.kind == StoreAddress::Kind::cluster;
  std::string text =
      std::string{address.tls ? "rediss" : "redis"} + (is_cluster ? "+cluster://" : "+sentinel://");
  for (const policy::Endpoint& host : address.hosts) {
    if (text.back() != '/') text += ',';
    const std::string one = redis::ServerAddress{.host = host.host, .port = host.port}.shown();
    text += one.substr(one.find("//") + 2);
  }
  return is_cluster ? text : text + "/" + address.master;
}

void add(RedisCounts& sum, const redis::LinkCounts& counts) {
  // A link counts as connected with a connection to any server, and as having an open breaker with
  // the breaker of any server open.
  sum.connected += std::min<std::uint64_t>(counts.connected.get(), 1);
  sum.breakers_open += std::min<std::uint64_t>(counts.breaker_open.get(), 1);
  sum.calls += counts.calls.get();
  sum.round_trips += counts.flushes.get();
  sum.sent_calls += counts.flushed_calls.get();
  const std::uint64_t timeouts = counts.timeouts.get();
  sum.timeouts += timeouts;
  sum.connects += counts.connects.get();
  sum.refused_without_asking += counts.refused_by_cache.get();
  sum.unavailable += timeouts + counts.unavailable.get();
  sum.misconfigured += counts.misconfigured.get();
  sum.redirections += counts.redirections.get();
  sum.maps += counts.maps.get();
  sum.given_back += counts.given_back.get();
  for (std::size_t i = 0; i < counts.latency.size(); ++i) {
    sum.answers_by_time[i] += counts.latency[i].get();
  }
  sum.answer_time += Nanos{static_cast<std::int64_t>(counts.latency_sum.get())};
}

}  // namespace

struct RedisFleet::Impl {
  explicit Impl(std::string info) : membership(store::random_name(), std::move(info)) {}

  // Moves the counts of closed links to their sum.
  void sum_closed_links() {
    const auto is_closed = [](const auto& counts) { return counts.use_count() == 1; };
    for (const auto& counts : links) {
      if (is_closed(counts)) add(of_closed_links, *counts);
    }
    std::erase_if(links, is_closed);
  }

  redis::LinkOptions options{};
  std::mutex mutex;
  std::mt19937_64 seeds{std::random_device{}()};
  redis::MembershipView membership;
  std::vector<std::shared_ptr<redis::LinkCounts>> links{};
  RedisCounts of_closed_links{};
};

RedisFleet::RedisFleet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RedisFleet::~RedisFleet() {
  if (!is_member()) return;
  impl_->membership.leave();
  const auto link = connect();
  const auto until = std::chrono::steady_clock::now() + kMaxLeaveWait;
  while (!impl_->membership.has_left() && std::chrono::steady_clock::now() < until) {
    link->wait(std::chrono::milliseconds{10});
  }
}

Result<std::unique_ptr<RedisFleet>, Error> RedisFleet::open(std::string_view url,
                                                            RedisOptions options) {
  const auto address = policy::parse_store(url, {});
  if (!address) return Error{"the address of the store: " + address.error().message};
  if (std::string why = why_unusable(*address, options); !why.empty()) return Error{std::move(why)};
  auto server = server_address(*address, options);
  if (!server) return server.error();

  auto impl = std::make_unique<Impl>(info_of(std::move(options.node_name)));
  redis::LinkOptions& links = impl->options;
  links.address = *std::move(server);
  links.topology = topology_of(*address);
  for (const policy::Endpoint& host : address->hosts) links.hosts.push_back({host.host, host.port});
  links.master = address->master;
  links.connection.server = shown(*address, links.address);
  links.connection.timeout = options.timeout;
  links.connection.login = {.user = address->user,
                            .password = address->password,
                            .database = address->database,
                            .client_name = options.client_name,
                            .version = WEIR_VERSION};
  links.make_codec = redis::make_script_codec;
  links.log = log_of(options);
  links.membership = &impl->membership;
  return std::unique_ptr<RedisFleet>(new RedisFleet(std::move(impl)));
}

std::unique_ptr<Link> RedisFleet::connect() {
  auto counts = std::make_shared<redis::LinkCounts>();
  std::uint64_t seed = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->sum_closed_links();
    impl_->links.push_back(counts);
    seed = impl_->seeds();
  }
  return std::make_unique<redis::RedisLink>(impl_->options, std::move(counts), seed);
}

std::uint32_t RedisFleet::nodes() const noexcept { return impl_->membership.nodes(); }

bool RedisFleet::is_member() const noexcept {
  return impl_->membership.is_member(redis::Heartbeat::now());
}

bool RedisFleet::is_misconfigured() const noexcept { return impl_->membership.is_misconfigured(); }

std::uint64_t RedisFleet::membership_version() const noexcept {
  return impl_->membership.version();
}

Membership RedisFleet::membership(std::uint64_t since) const {
  return impl_->membership.since(since, redis::Heartbeat::now());
}

RedisNodes RedisFleet::all_nodes() const {
  const auto list = impl_->membership.member_list(redis::Heartbeat::now());
  RedisNodes all{.generation = list.generation, .member = is_member()};
  for (const redis::Member& member : list.members) {
    const std::size_t space = std::min(member.info.find(' '), member.info.size());
    all.nodes.push_back({.name = member.info.substr(0, space),
                         .version = member.info.substr(std::min(space + 1, member.info.size())),
                         .silent = member.silent,
                         .seen = member.seen,
                         .self = member.id == impl_->membership.id()});
  }
  return all;
}

RedisCounts RedisFleet::counts() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->sum_closed_links();
  RedisCounts sum = impl_->of_closed_links;
  sum.links = impl_->links.size();
  sum.nodes = nodes();
  for (const auto& counts : impl_->links) add(sum, *counts);
  return sum;
}

}  // namespace v0
}  // namespace weir
