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

constexpr Nanos kShortestTimeout = std::chrono::milliseconds{1};
// Whoever ends waits no longer than this for its good-bye: without one it is missed soon.
constexpr Nanos kLongestGoodBye = std::chrono::milliseconds{500};

redis::Log log_of(RedisOptions& options) {
  if (!options.log) return {};
  return [log = std::move(options.log)](redis::LogLevel level, std::string_view text) {
    log(static_cast<RedisOptions::Level>(level), text);
  };
}
static_assert(static_cast<int>(RedisOptions::Level::error) ==
              static_cast<int>(redis::LogLevel::error));

// What is not for a fleet.
std::string why_not(const StoreAddress& address, const RedisOptions& options) {
  if (address.kind == StoreAddress::Kind::memory) {
    return "memory is no store that nodes share: write redis://host:port";
  }
  if (options.cert.empty() != options.key.empty()) {
    return "a certificate and its key come together: give both cert and key, or neither";
  }
  const bool has_files = !options.ca.empty() || !options.cert.empty();
  if (has_files && !address.tls)
    return "files for TLS are given: write the address as rediss://, with an s";
  if (options.timeout < kShortestTimeout) return "the timeout is too short: give at least 1 ms";
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

// For people: a name of one word that is not too long, and the version.
std::string info_of(std::string name) {
  if (name.empty()) name = host_and_process();
  name.resize(std::min<std::size_t>(name.size(), 80));
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  std::ranges::replace_if(name, is_blank, '_');
  return name + ' ' + WEIR_VERSION;
}

redis::LinkOptions::Kind kind_of(const StoreAddress& address) {
  switch (address.kind) {
    case StoreAddress::Kind::sentinel:
      return redis::LinkOptions::Kind::sentinels;
    case StoreAddress::Kind::cluster:
      return redis::LinkOptions::Kind::cluster;
    default:
      return redis::LinkOptions::Kind::alone;
  }
}

// The address for people, without a password.
std::string shown(const StoreAddress& address, const redis::ServerAddress& server) {
  if (kind_of(address) == redis::LinkOptions::Kind::alone) return server.shown();
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
  // A link is connected if it is to one server, and has a breaker open if it has one of several.
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
  explicit Impl(std::string info) : roster(store::random_name(), std::move(info)) {}

  // What links that are gone have counted stays counted.
  void forget_gone_links() {
    const auto is_gone = [](const auto& counts) { return counts.use_count() == 1; };
    for (const auto& counts : links) {
      if (is_gone(counts)) add(of_gone_links, *counts);
    }
    std::erase_if(links, is_gone);
  }

  redis::LinkOptions options{};
  std::mutex mutex;
  std::mt19937_64 seeds{std::random_device{}()};
  redis::Roster roster;
  std::vector<std::shared_ptr<redis::LinkCounts>> links{};
  RedisCounts of_gone_links{};
};

RedisFleet::RedisFleet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RedisFleet::~RedisFleet() {
  if (!is_member()) return;
  impl_->roster.leave();
  const auto link = connect();
  const auto until = std::chrono::steady_clock::now() + kLongestGoodBye;
  while (!impl_->roster.has_left() && std::chrono::steady_clock::now() < until) {
    link->wait(std::chrono::milliseconds{10});
  }
}

Result<std::unique_ptr<RedisFleet>, Error> RedisFleet::open(std::string_view url,
                                                            RedisOptions options) {
  const auto address = policy::parse_store(url, {});
  if (!address) return Error{"the address of the store: " + address.error().message};
  if (std::string why = why_not(*address, options); !why.empty()) return Error{std::move(why)};
  auto server = server_address(*address, options);
  if (!server) return server.error();

  auto impl = std::make_unique<Impl>(info_of(std::move(options.node_name)));
  redis::LinkOptions& links = impl->options;
  links.address = *std::move(server);
  links.kind = kind_of(*address);
  for (const policy::Endpoint& host : address->hosts) links.hosts.push_back({host.host, host.port});
  links.master = address->master;
  links.machine.server = shown(*address, links.address);
  links.machine.timeout = options.timeout;
  links.machine.login = {.user = address->user,
                         .password = address->password,
                         .database = address->database,
                         .client_name = options.client_name,
                         .version = WEIR_VERSION};
  links.make_talk = redis::talk_by_scripts;
  links.log = log_of(options);
  links.roster = &impl->roster;
  return std::unique_ptr<RedisFleet>(new RedisFleet(std::move(impl)));
}

std::unique_ptr<Link> RedisFleet::connect() {
  auto counts = std::make_shared<redis::LinkCounts>();
  std::uint64_t seed = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->forget_gone_links();
    impl_->links.push_back(counts);
    seed = impl_->seeds();
  }
  return std::make_unique<redis::RedisLink>(impl_->options, std::move(counts), seed);
}

std::uint32_t RedisFleet::nodes() const noexcept { return impl_->roster.nodes(); }

bool RedisFleet::is_member() const noexcept {
  return impl_->roster.is_member(redis::Heartbeat::now());
}

bool RedisFleet::is_mistaken() const noexcept { return impl_->roster.is_mistaken(); }

std::uint64_t RedisFleet::membership_version() const noexcept { return impl_->roster.version(); }

Membership RedisFleet::membership(std::uint64_t since) const {
  return impl_->roster.since(since, redis::Heartbeat::now());
}

RedisNodes RedisFleet::all_nodes() const {
  const auto view = impl_->roster.view(redis::Heartbeat::now());
  RedisNodes all{.generation = view.generation, .member = is_member()};
  for (const redis::Member& member : view.members) {
    const std::size_t space = std::min(member.info.find(' '), member.info.size());
    all.nodes.push_back({.name = member.info.substr(0, space),
                         .version = member.info.substr(std::min(space + 1, member.info.size())),
                         .silent = member.silent,
                         .seen = member.seen,
                         .self = member.id == impl_->roster.id()});
  }
  return all;
}

RedisCounts RedisFleet::counts() const {
  const std::lock_guard lock(impl_->mutex);
  impl_->forget_gone_links();
  RedisCounts sum = impl_->of_gone_links;
  sum.links = impl_->links.size();
  sum.nodes = nodes();
  for (const auto& counts : impl_->links) add(sum, *counts);
  return sum;
}

}  // namespace v0
}  // namespace weir
