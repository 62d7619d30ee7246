#pragma once

#include <CLI/App.hpp>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/http_client.h"

// Shared by the commands that call the HTTP API of a running daemon.

namespace weir::cli {

// Adds the options of the connection: --url, --token, --ca, --cert, --key. `client` must outlive
// `command`.
void add_client_options(CLI::App* command, HttpClient& client);

// Accepts a decimal integer of at least `min`. CLI11's own parser saturates numbers that are too
// large, and reads 010 as octal.
CLI::Validator whole_number(std::int64_t min);

// A call of the HTTP API: the options of the connection, and the output of the response.
struct ApiCall {
  HttpClient client{.url = "http://127.0.0.1:7380"};
  bool as_json = false;

  // Adds the options of the connection and --json.
  void add_to(CLI::App* command);

  using ResponsePrinter = void (*)(const nlohmann::json&);
  // Sends the request, prints the response, and returns the exit code. A refusal (429) is a
  // decision, not a failure: it is printed like any other response.
  int run(std::string_view method, std::string_view path, const nlohmann::json& body,
          ResponsePrinter print) const;
};

}  // namespace weir::cli
