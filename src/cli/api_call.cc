#include "cli/api_call.h"

#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/report.h"

namespace weir::cli {

using nlohmann::json;

namespace {

// JSON cannot represent text that is not UTF-8. Replacing its bytes is no option: the result could
// be another key.
std::optional<std::string> dumped(const json& body) {
  if (body.is_null()) return std::string{};
  try {
    return body.dump();
  } catch (const json::type_error&) {
    return std::nullopt;
  }
}

// Runs only for the command that was called: CLI11 reads the environment variables for all
// commands, and a bad one must not break a command that does not use it.
void check(const HttpClient& client) {
  if (const auto error = HttpClient::check(client.url)) {
    throw CLI::ValidationError("--url", error->message);
  }
  if (client.cert.empty() != client.key.empty()) {
    throw CLI::ValidationError("--cert", "--cert and --key must be given together");
  }
}

}  // namespace

void add_client_options(CLI::App* command, HttpClient& client) {
  command->add_option("--url", client.url, "Address of the daemon")
      ->envname("WEIR_URL")
      ->capture_default_str();
  command->add_option("--token", client.token, "Password or admin token of the daemon")
      ->envname("WEIR_TOKEN");
  command
      ->add_option("--ca", client.ca,
                   "CA certificates that verify an https daemon (default: the system store)")
      ->envname("WEIR_CA")
      ->type_name("FILE");
  command->add_option("--cert", client.cert, "Client certificate, if the daemon requires one")
      ->envname("WEIR_CERT")
      ->type_name("FILE");
  command->add_option("--key", client.key, "Private key of --cert")
      ->envname("WEIR_KEY")
      ->type_name("FILE");
  command->parse_complete_callback([&client] { check(client); });
}

CLI::Validator whole_number(std::int64_t min) {
  const auto normalized = [min](std::string& text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end || number < min) {
      return fmt::format("{} is not a whole number from {} to {}", text, min, INT64_MAX);
    }
    text = fmt::format("{}", number);
    return std::string{};
  };
  return {normalized, ""};
}

void ApiCall::add_to(CLI::App* command) {
  add_client_options(command, client);
  command->add_flag("--json", as_json, "Print the response as JSON");
}

int ApiCall::run(std::string_view method, std::string_view path, const json& body,
                 ResponsePrinter print) const {
  const auto text = dumped(body);
  if (!text) {
    return fail(
        "an argument is not valid UTF-8, which HTTP requires: use RESP, where keys are bytes, for "
        "example with redis-cli",
        kUsage);
  }
  const auto answer = client.call(method, path, *text);
  if (!answer) return fail(answer.error().message);
  const json response = json::parse(answer->body, nullptr, false);
  const bool decided = answer->status == 200 || answer->status == 429 || answer->status == 503;
  if (response.is_discarded() || !response.is_object()) {
    return fail(fmt::format(
        "the response is not JSON (status {}): --url must be the HTTP listener of a daemon",
        answer->status));
  }
  if (!decided || response.contains("detail")) {
    std::string detail = response.value("detail", fmt::format("status {}", answer->status));
    if (answer->status == 401) {
      detail += client.token.empty() ? ": set --token or WEIR_TOKEN"
                                     : ": --token (or WEIR_TOKEN) is not the right one";
    }
    return fail(detail);
  }
  as_json ? void(std::cout << response.dump(2) << '\n') : print(response);
  const json& decision = response.contains("decision") ? response["decision"] : response;
  return decision.value("allowed", true) ? kSuccess : kFailed;
}

}  // namespace weir::cli
