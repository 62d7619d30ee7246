#include "cli/asking.h"

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

// What is no UTF-8 cannot be said in JSON, and nothing else may be said instead: it could be
// somebody's key.
std::optional<std::string> dumped(const json& body) {
  if (body.is_null()) return std::string{};
  try {
    return body.dump();
  } catch (const json::type_error&) {
    return std::nullopt;
  }
}

// Once it is this command that was called: what the environment says is read for all of them, and
// concerns nobody else.
void check(const HttpClient& client) {
  if (const auto flaw = HttpClient::check(client.url)) {
    throw CLI::ValidationError("--url", flaw->message);
  }
  if (client.cert.empty() != client.key.empty()) {
    throw CLI::ValidationError("--cert", "a certificate and its key go together: --cert and --key");
  }
}

}  // namespace

void add_client_options(CLI::App* command, HttpClient& client) {
  command->add_option("--url", client.url, "Where the daemon is")
      ->envname("WEIR_URL")
      ->capture_default_str();
  command->add_option("--token", client.token, "The password or admin token, if it has one")
      ->envname("WEIR_TOKEN");
  command
      ->add_option("--ca", client.ca,
                   "For https://: who signed its certificate (default: whom the system trusts)")
      ->envname("WEIR_CA")
      ->type_name("FILE");
  command->add_option("--cert", client.cert, "A certificate, if the daemon asks for one")
      ->envname("WEIR_CERT")
      ->type_name("FILE");
  command->add_option("--key", client.key, "The key of --cert")
      ->envname("WEIR_KEY")
      ->type_name("FILE");
  command->parse_complete_callback([&client] { check(client); });
}

CLI::Validator whole_number(std::int64_t least) {
  const auto normalized = [least](std::string& text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end || number < least) {
      return fmt::format("{} is not a whole number from {} to {}", text, least, INT64_MAX);
    }
    text = fmt::format("{}", number);
    return std::string{};
  };
  return {normalized, ""};
}

void Asking::add_to(CLI::App* command) {
  add_client_options(command, client);
  command->add_flag("--json", as_json, "Print the answer as JSON");
}

int Asking::ask(std::string_view method, std::string_view path, const json& body,
                Printer print) const {
  const auto text = dumped(body);
  if (!text) {
    return fail(
        "this is not UTF-8, which is all that can be asked over HTTP: ask over RESP, where keys "
        "are "
        "bytes, as with redis-cli",
        kUsage);
  }
  const auto answer = client.ask(method, path, *text);
  if (!answer) return fail(answer.error().message);
  const json said = json::parse(answer->body, nullptr, false);
  const bool decided = answer->status == 200 || answer->status == 429 || answer->status == 503;
  if (said.is_discarded() || !said.is_object()) {
    return fail(fmt::format("an answer that is no JSON, with status {}", answer->status));
  }
  if (!decided || said.contains("detail")) {
    std::string detail = said.value("detail", fmt::format("status {}", answer->status));
    if (answer->status == 401) {
      detail += client.token.empty() ? ": give it with --token, or in WEIR_TOKEN"
                                     : ": the --token that was given (or WEIR_TOKEN) is another";
    }
    return fail(detail);
  }
  as_json ? void(std::cout << said.dump(2) << '\n') : print(said);
  const json& decision = said.contains("decision") ? said["decision"] : said;
  return decision.value("allowed", true) ? kSuccess : kFailed;
}

}  // namespace weir::cli
