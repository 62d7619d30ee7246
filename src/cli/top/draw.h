#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/snapshot.h"

namespace weir::cli::top {

struct Size {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

struct Style {
  bool utf8 = true;
  bool colour = false;
  bool is_live = true;  // draws the last row: the list of key commands
};

// Everything that the screen shows.
struct TopView {
  std::string address{};
  std::int64_t uptime = 0;
  std::uint64_t generation = 0;
  std::int64_t seconds = 0;  // the keys were counted during these last seconds
  std::vector<PolicyRates> rows{};
  std::string selected{};  // the policy whose keys are drawn; no such policy: the first row
  bool paused = false;
  std::string error{};  // of the last poll of the daemon; empty if it succeeded
};

// The lines of the screen: at most size.rows, each at most size.columns wide. A pure function.
std::vector<std::string> draw(const TopView& view, Size size, const Style& style);

// The number of rows that show everything.
std::size_t rows_for(const TopView& view, std::size_t columns);

// The index of the selected policy's row; 0 if there is no such policy.
std::size_t selected_row(const TopView& view);

// The name of a policy on the screen: "(ad hoc)" for limits that came with the call.
std::string_view name_of(const PolicyActivity& policy);

}  // namespace weir::cli::top
