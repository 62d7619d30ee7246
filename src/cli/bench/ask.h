#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/plan.h"

namespace weir::cli::bench {

// Asks the RESP door of the target once, with the password if there is one, and waits for the
// answer: its texts, of which lists have several. Errors: nobody is there, or what the daemon says.
Result<std::vector<std::string>, Error> ask_resp(const Plan& plan,
                                                 std::initializer_list<std::string_view> words);

}  // namespace weir::cli::bench
