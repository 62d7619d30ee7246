#pragma once

#include <string>

namespace weir::pictures {

// Each runs the core and returns an SVG.
std::string window_edge();       // fixed and sliding windows on the same calls
std::string debt();              // the debt of a bucket
std::string warmup();            // smooth and warm-up
std::string queues();            // queue, delay, nodelay
std::string sliding_estimate();  // two counters against the log

// Drawn from measurements that are kept in fleet_data.h.
std::string fleet_uneven();  // each scope, with nearly all callers at one daemon
std::string fleet_change();  // each scope, while a daemon is killed and started again

// Drawn by hand.
std::string table();  // a new key in the memory table

}  // namespace weir::pictures
