#include "store/redis/errors.h"

#include <algorithm>
#include <array>

namespace weir::store::redis {

namespace {

struct NamedError {
  std::string_view name;
  ErrorMeaning meaning;
};

constexpr ErrorMeaning outage(std::string_view advice = {}) {
  return {.what = ErrorClass::unavailable, .advice = advice};
}
constexpr ErrorMeaning wrong(std::string_view advice = {}) {
  return {.what = ErrorClass::misconfigured, .advice = advice};
}
constexpr ErrorMeaning elsewhere(std::string_view advice) {
  return {.what = ErrorClass::elsewhere, .advice = advice};
}
constexpr ErrorMeaning reconnecting(ErrorMeaning meaning) {
  meaning.reconnect = true;
  return meaning;
}

constexpr std::string_view kCluster =
    "this server is a node of a Redis Cluster: write its address as redis+cluster://";

constexpr std::array<NamedError, 22> kErrors{{
    {"NOSCRIPT", {.what = ErrorClass::send_source}},
    {"LOADING", outage()},
    {"BUSY", outage("a slow script blocks the server: SCRIPT KILL stops it")},
    {"MASTERDOWN", outage()},
    {"READONLY", reconnecting(outage("this server is a replica: write the address of the master"))},
    {"OOM", outage("raise maxmemory of the server, with maxmemory-policy noeviction")},
    {"MISCONF", outage("the server cannot write its snapshots: check whether its disk is full")},
    {"NOREPLICAS", outage("the server has fewer replicas than min-replicas-to-write")},
    {"CLUSTERDOWN", outage("some hash slots of the cluster have no node")},
    {"TRYAGAIN", outage()},
    {"UNKILLABLE", outage()},
    {"UNBLOCKED", outage()},
    {"MOVED", elsewhere(kCluster)},
    {"ASK", elsewhere(kCluster)},
    {"CROSSSLOT", wrong("the keys of one decision have different hash slots of a Redis Cluster")},
    {"NOAUTH",
     reconnecting(wrong("write the password into the address: redis://user:password@host"))},
    {"WRONGPASS", reconnecting(wrong("correct the user and password in the address"))},
    {"DENIED", wrong("the server is in protected mode: set a password on it, or configure bind")},
    {"NOPERM", wrong("give the user the commands and keys it lacks, with ACL SETUSER")},
    {"WRONGTYPE", wrong("another program writes keys of weir: give it another database")},
    {"WEIRFORMAT", wrong("a newer weir wrote this state: upgrade this one")},
    {"ERR", wrong()},
}};

constexpr std::string_view kClusterDisabled = "ERR This instance has cluster support disabled";

std::string_view first_word(std::string_view error) {
  const auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto end = std::find_if_not(error.begin(), error.end(), is_letter);
  return error.substr(0, static_cast<std::size_t>(end - error.begin()));
}

}  // namespace

ErrorMeaning meaning_of(std::string_view error) {
  const auto found = std::ranges::find(kErrors, first_word(error), &NamedError::name);
  return found != kErrors.end() ? found->meaning : wrong();
}

std::string with_advice(std::string_view error) {
  if (error.empty()) return "an error without a text";
  std::string text{error};
  std::string_view advice = meaning_of(error).advice;
  if (error.starts_with(kClusterDisabled)) {
    advice = "this server is not a node of a cluster: write its address as redis://";
  }
  if (!advice.empty()) text.append(": ").append(advice);
  return text;
}

}  // namespace weir::store::redis
