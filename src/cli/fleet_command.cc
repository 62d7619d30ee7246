#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/api_call.h"
#include "cli/commands.h"

namespace weir::cli {

namespace {

using nlohmann::json;
using TableRow = std::vector<std::string>;

// Prints aligned columns; the last cell of a row is not padded.
void print_table(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const TableRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}", row[i], i + 1 < row.size() ? widths[i] + 2 : 0);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

std::string text_of(const json& object, const char* name) {
  return object.at(name).get<std::string>();
}

std::string seconds_of(const json& millis) {
  return fmt::format("{:.1f}s", static_cast<double>(millis.get<std::int64_t>()) / 1000);
}

void print_nodes(const json& fleet) {
  std::vector<TableRow> rows{{"RANK", "NODE", "VERSION", "HEARD", "SEEN"}};
  for (const json& node : fleet.at("nodes")) {
    rows.push_back({node.at("rank").dump(), text_of(node, "name"), text_of(node, "version"),
                    seconds_of(node.at("silent_ms")) + " ago", node.at("seen").dump()});
    if (node.at("self").get<bool>()) rows.back().emplace_back("this one");
  }
  print_table(rows);
}

void print_split(const json& fleet) {
  if (fleet.at("split").empty()) return;
  std::vector<TableRow> rows{{"POLICY", "LIMIT", "", "HERE", "OF"}};
  for (const json& limit : fleet.at("split")) {
    rows.push_back({text_of(limit, "policy"), text_of(limit, "name"), text_of(limit, "limit"),
                    limit.at("share").dump(), limit.at("whole").dump()});
    if (limit.at("granted") > limit.at("share")) {
      rows.back().push_back(
          fmt::format("{} in {}", limit.at("granted").dump(), seconds_of(limit.at("grows_in_ms"))));
    }
  }
  std::cout << '\n';
  print_table(rows);
}

void print_leases(const json& leases) {
  if (leases.at("borrowed") == 0) return;
  std::cout << fmt::format(
      "\nleases: {} permits held for {} keys; {} borrowed, {} returned, {} lapsed\n",
      leases.at("held").dump(), leases.at("keys").dump(), leases.at("borrowed").dump(),
      leases.at("returned").dump(), leases.at("lapsed").dump());
}

void print_store(const json& store) {
  std::cout << fmt::format(
      "\nstore: {} of {} links connected, {} circuit breakers open; {} calls, {} "
      "timed out; {:.2f} ms per call\n",
      store.at("connected").dump(), store.at("links").dump(), store.at("breakers_open").dump(),
      store.at("calls").dump(), store.at("timeouts").dump(), store.at("answer_ms").get<double>());
}

void print_fleet(const json& fleet) {
  if (!fleet.at("fleet").get<bool>()) {
    std::cout << "this daemon counts on its own: it has no store that it shares with other nodes\n";
    return;
  }
  const std::size_t nodes = fleet.at("nodes").size();
  std::cout << fmt::format(
      "generation {}: {} node{}{}\n\n", fleet.at("generation").dump(), nodes, nodes == 1 ? "" : "s",
      fleet.at("member").get<bool>() ? ""
                                     : " at the last contact; this node is cut off from the store");
  print_nodes(fleet);
  print_split(fleet);
  print_leases(fleet.at("leases"));
  print_store(fleet.at("store"));
}

}  // namespace

void add_fleet_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("fleet", "Show the nodes that share the store, and the share of this one");
  const auto api_call = std::make_shared<ApiCall>();
  api_call->add_to(command);
  command->callback(
      [=, &exit_code] { exit_code = api_call->run("GET", "/v1/fleet", {}, print_fleet); });
}

}  // namespace weir::cli
