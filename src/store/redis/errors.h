#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::store::redis {

// How weir handles an error reply of a server.
enum class ErrorClass : std::uint8_t {
  elsewhere,      // another node serves the hash slot; without a cluster router: misconfigured
  send_source,    // the script is not cached: send its source
  unavailable,    // a temporary outage: the policy's on_store_failure decides meanwhile
  misconfigured,  // permanent until an operator fixes it; never lets calls through
};

struct ErrorMeaning {
  ErrorClass what = ErrorClass::misconfigured;
  // True if a new connection may reach another server, or may be authorized.
  bool reconnect = false;
  std::string_view advice{};  // for the operator: what to do; may be empty
};

// Classifies an error by its first word, which is stable across versions of Redis; the rest is
// prose.
//
//   NOSCRIPT     send_source    after a restart or SCRIPT FLUSH: normal
//   LOADING      unavailable    loads its data after a start: ends by itself
//   BUSY         unavailable    a slow script runs: it ends, or an operator kills it
//   MASTERDOWN   unavailable    a replica without its master, during a failover
//   READONLY     unavailable    a master that became a replica; reconnects, because the name may
//                               resolve to the new master by then
//   OOM          unavailable    maxmemory is reached; ends when keys expire
//   MISCONF      unavailable    cannot write snapshots and so refuses writes: a full disk
//   NOREPLICAS   unavailable    too few replicas at the moment (min-replicas-to-write)
//   CLUSTERDOWN  unavailable    some hash slots have no node at the moment
//   TRYAGAIN     unavailable    the keys' hash slot is being migrated
//   UNKILLABLE   unavailable    as BUSY
//   UNBLOCKED    unavailable    the master became a replica while the command waited
//   MOVED, ASK   elsewhere      another node of the cluster serves the hash slot
//   CROSSSLOT    misconfigured  the keys of one decision have different hash slots
//   NOAUTH       misconfigured  the address lacks the password; reconnects
//   WRONGPASS    misconfigured  the password is wrong; reconnects
//   DENIED       misconfigured  protected mode: accepts no remote clients
//   NOPERM       misconfigured  the user's ACL lacks a command or key
//   NOPROTO      misconfigured  supports neither RESP3 nor RESP2
//   WRONGTYPE    misconfigured  a key of weir's was written by another program
//   EXECABORT    misconfigured  only a reply to MULTI, which weir never sends
//   WEIRFORMAT   misconfigured  of weir's scripts: a state that a newer weir wrote
//   ERR          misconfigured  errors of scripts, unknown commands, all unnamed errors
//   any other    misconfigured  fail closed: an unknown error must not let all calls through
//
// `-ERR max number of clients reached` is unavailable all the same: the server sends it before any
// command and then closes the connection, and a lost connection is always unavailable.
ErrorMeaning meaning_of(std::string_view error);

// The error's text, followed by its advice.
std::string with_advice(std::string_view error);

}  // namespace weir::store::redis
