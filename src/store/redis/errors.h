#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::store::redis {

// What to do about an error that a server answers.
enum class ErrorClass : std::uint8_t {
  elsewhere,      // another node has it: for one that is addressed alone, misconfigured
  send_source,    // the script is not there: send all of it
  unavailable,    // an outage, which passes: the policy says what happens meanwhile
  misconfigured,  // does not pass by itself: somebody has to put it right, and nobody is let
                  // through because of it
};

struct ErrorMeaning {
  ErrorClass what = ErrorClass::misconfigured;
  // Whether another connection may find somebody else, or be let in.
  bool reconnect = false;
  std::string_view advice{};  // what to do, for people; may be empty
};

// Errors are told apart by their first word, which Redis keeps from version to version; the rest is
// prose.
//
//   NOSCRIPT     send_source    restarted, or SCRIPT FLUSH: normal
//   LOADING      unavailable    reads its file after a start: ends by itself
//   BUSY         unavailable    runs somebody's slow script: ends, or an operator ends it
//   MASTERDOWN   unavailable    a replica without its master: a failover is under way
//   READONLY     unavailable    was the master, is a replica now; connects again, as by then the
//                               name may lead to the new one
//   OOM          unavailable    maxmemory is reached: passes when keys expire
//   MISCONF      unavailable    cannot write its snapshots, so takes no writes: a full disk
//   NOREPLICAS   unavailable    min-replicas-to-write: too few replicas at the moment
//   CLUSTERDOWN  unavailable    slots that nobody serves at the moment
//   TRYAGAIN     unavailable    keys are on their way to another node
//   UNKILLABLE   unavailable    as BUSY
//   UNBLOCKED    unavailable    a master that became a replica meanwhile
//   MOVED, ASK   elsewhere      a node of a cluster, addressed as if it were alone
//   CROSSSLOT    misconfigured  the keys of one decision on different nodes of a cluster
//   NOAUTH       misconfigured  wants a password that is not in the address; connects again
//   WRONGPASS    misconfigured  the password is wrong; connects again
//   DENIED       misconfigured  protected mode: takes no strangers
//   NOPERM       misconfigured  the user's ACL lacks a command or key
//   NOPROTO      misconfigured  speaks neither RESP3 nor RESP2
//   WRONGTYPE    misconfigured  a key of ours is somebody else's
//   EXECABORT    misconfigured  only in answer to MULTI, which is never sent
//   WEIRFORMAT   misconfigured  our own script's: a state that a newer weir has written
//   ERR          misconfigured  errors of scripts, unknown commands, everything without a word
//   any other    misconfigured  what is not known must not let everybody through
//
// (`-ERR max number of clients reached` comes before anything is asked, and the connection ends
// with it: a connection that is lost is unavailable, whatever was said.)
ErrorMeaning meaning_of(std::string_view error);

// The error with what to do about it.
std::string explained(std::string_view error);

}  // namespace weir::store::redis
