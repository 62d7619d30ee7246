#pragma once

#include <CLI/App.hpp>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/http_client.h"

// What the commands that ask a running daemon have in common.

namespace weir::cli {

// Where the daemon is, and how to come in: --url, --token, --ca, --cert, --key.
void add_client_options(CLI::App* command, HttpClient& client);

// A whole number as people write it, no less than this. (CLI11 alone takes the largest there is for
// one that is too large, and 010 for eight.)
CLI::Validator whole_number(std::int64_t least);

struct Asking {
  HttpClient client{.url = "http://127.0.0.1:7380"};
  bool as_json = false;

  // Those options and --json.
  void add_to(CLI::App* command);

  using Printer = void (*)(const nlohmann::json&);
  // Asks, prints what comes back, and returns the exit code. 429 is an answer, not a failure to
  // ask.
  int ask(std::string_view method, std::string_view path, const nlohmann::json& body,
          Printer print) const;
};

}  // namespace weir::cli
