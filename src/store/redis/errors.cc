#include "store/redis/errors.h"

#include <algorithm>
#include <array>

namespace weir::store::redis {

namespace {

struct Word {
  std::string_view word;
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
constexpr ErrorMeaning again(ErrorMeaning meaning) {
  meaning.reconnect = true;
  return meaning;
}

constexpr std::string_view kCluster =
    "this server is a node of a Redis Cluster: write its address as redis+cluster://";

constexpr std::array<Word, 22> kWords{{
    {"NOSCRIPT", {.what = ErrorClass::send_source}},
    {"LOADING", outage()},
    {"BUSY", outage("a slow script blocks the server: SCRIPT KILL ends it")},
    {"MASTERDOWN", outage()},
    {"READONLY", again(outage("this server is a replica: write the address of the master"))},
    {"OOM", outage("raise maxmemory of the server, with maxmemory-policy noeviction")},
    {"MISCONF", outage("the server cannot write its snapshots: is its disk full?")},
    {"NOREPLICAS", outage("the server lacks replicas (min-replicas-to-write)")},
    {"CLUSTERDOWN", outage("some slots of the cluster are not served")},
    {"TRYAGAIN", outage()},
    {"UNKILLABLE", outage()},
    {"UNBLOCKED", outage()},
    {"MOVED", elsewhere(kCluster)},
    {"ASK", elsewhere(kCluster)},
    {"CROSSSLOT", wrong("the keys of one decision lie on different nodes of a Redis Cluster")},
    {"NOAUTH", again(wrong("write the password into the address: redis://user:password@host"))},
    {"WRONGPASS", again(wrong("correct the user and password in the address"))},
    {"DENIED", wrong("the server is in protected mode: give it a password, or let it bind")},
    {"NOPERM", wrong("give the user the commands and keys it lacks, with ACL SETUSER")},
    {"WRONGTYPE", wrong("something else writes keys of ours: give it another database")},
    {"WEIRFORMAT", wrong("a newer weir has written this state: upgrade this one")},
    {"ERR", wrong()},
}};

constexpr std::string_view kNoCluster = "ERR This instance has cluster support disabled";

std::string_view first_word(std::string_view error) {
  const auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto end = std::find_if_not(error.begin(), error.end(), is_letter);
  return error.substr(0, static_cast<std::size_t>(end - error.begin()));
}

}  // namespace

ErrorMeaning meaning_of(std::string_view error) {
  const auto found = std::ranges::find(kWords, first_word(error), &Word::word);
  return found != kWords.end() ? found->meaning : wrong();
}

std::string explained(std::string_view error) {
  if (error.empty()) return "an error without a word";
  std::string text{error};
  std::string_view advice = meaning_of(error).advice;
  if (error.starts_with(kNoCluster)) {
    advice = "this server is no node of a cluster: write its address as redis://";
  }
  if (!advice.empty()) text.append(": ").append(advice);
  return text;
}

}  // namespace weir::store::redis
