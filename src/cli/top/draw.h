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
  bool for_ever = true;  // the last row says which keys do what
};

// All there is to show.
struct View {
  std::string address{};
  std::int64_t uptime = 0;
  std::uint64_t generation = 0;
  std::int64_t seconds = 0;  // that the keys are of
  std::vector<Row> rows{};
  std::string
      selected{};  // the policy whose keys are shown: the first if there is none of the name
  bool paused = false;
  std::string trouble{};  // why there is nothing new; empty if there is
};

// The lines of a terminal of that size, at most as many and as wide. Pure.
std::vector<std::string> draw(const View& view, Size size, const Style& style);

// How many rows it takes to show everything.
std::size_t rows_for(const View& view, std::size_t columns);

// The row of the policy that is selected; 0 if none is.
std::size_t selected_row(const View& view);

// How a policy is called on the screen.
std::string_view name_of(const Policy& policy);

}  // namespace weir::cli::top
