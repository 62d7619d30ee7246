#pragma once

#include <string_view>

// The files in lua/, embedded at build time by cmake/embed_lua.cmake: lua/take_bucket.lua is
// kTakeBucket.

namespace weir::store::redis::lua {

extern const std::string_view kClock;
extern const std::string_view kTake;
extern const std::string_view kTakeBucket;
extern const std::string_view kTakeWindow;
extern const std::string_view kAlignedWindow;
extern const std::string_view kListedWindow;
extern const std::string_view kCountWindow;
extern const std::string_view kCharge;
extern const std::string_view kHead;
extern const std::string_view kBucket;
extern const std::string_view kNginx;
extern const std::string_view kSmooth;
extern const std::string_view kWindow;
extern const std::string_view kSliding;
extern const std::string_view kLog;
extern const std::string_view kHolders;
extern const std::string_view kCell;
extern const std::string_view kMain;
extern const std::string_view kReset;
extern const std::string_view kLeave;
extern const std::string_view kMembership;
extern const std::string_view kLeaseBucket;
extern const std::string_view kLeaseWindow;
extern const std::string_view kLeaseSliding;
extern const std::string_view kLease;

}  // namespace weir::store::redis::lua
