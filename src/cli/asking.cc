#include "cli/asking.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace weir::cli {

using nlohmann::json;

namespace {

int fail(std::string_view text) {
  std::cerr << "weir: " << text << '\n';
  return kFailed;
}

// What is no UTF-8 cannot be said in JSON; it becomes something that nobody has.
std::string dumped(const json& body) {
  return body.is_null() ? std::string{} : body.dump(-1, ' ', false, json::error_handler_t::replace);
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
  CLI::Option* cert =
      command->add_option("--cert", client.cert, "A certificate, if the daemon asks for one")
          ->envname("WEIR_CERT")
          ->type_name("FILE");
  CLI::Option* key = command->add_option("--key", client.key, "The key of --cert")
                         ->envname("WEIR_KEY")
                         ->type_name("FILE");
  cert->needs(key);
  key->needs(cert);
}

void Asking::add_to(CLI::App* command) {
  add_client_options(command, client);
  command->add_flag("--json", as_json, "Print the answer as JSON");
}

int Asking::ask(std::string_view method, std::string_view path, const json& body,
                Printer print) const {
  const auto answer = client.ask(method, path, dumped(body));
  if (!answer) return fail(answer.error().message);
  const json said = json::parse(answer->body, nullptr, false);
  const bool decided = answer->status == 200 || answer->status == 429 || answer->status == 503;
  if (said.is_discarded() || !said.is_object()) {
    return fail(fmt::format("an answer that is no JSON, with status {}", answer->status));
  }
  if (!decided || said.contains("detail")) {
    return fail(said.value("detail", fmt::format("status {}", answer->status)));
  }
  as_json ? void(std::cout << said.dump(2) << '\n') : print(said);
  const json& decision = said.contains("decision") ? said["decision"] : said;
  return decision.value("allowed", true) ? kSuccess : kFailed;
}

}  // namespace weir::cli
