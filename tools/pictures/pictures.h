#pragma once

#include <string>

namespace weir::pictures {

// Each runs the core and returns an SVG.
std::string window_edge();       // fixed and sliding windows on the same calls
std::string debt();              // how the bucket reckons
std::string warmup();            // smooth and warm-up
std::string queues();            // queue, delay, nodelay
std::string sliding_estimate();  // two counters against the log

// Drawn by hand.
std::string table();  // a new key in the memory table

}  // namespace weir::pictures
