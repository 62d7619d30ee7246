#include <fmt/format.h>

#include "server/http_handlers.h"
#include "server/version.h"

namespace weir::server {

void show_health(HttpCall& call) { call.answer().respond(200, "text/plain", "ok\n"); }

void show_metrics(HttpCall& call) {
  const net::LoopCounts connections = call.service.loops.counts();
  const Reloads& reloads = call.service.reloads;
  call.answer().respond(
      200, "text/plain; version=0.0.4",
      fmt::format("# HELP weir_connections_open Connections that are open.\n"
                  "# TYPE weir_connections_open gauge\n"
                  "weir_connections_open {}\n"
                  "# HELP weir_connections_total Connections that were accepted.\n"
                  "# TYPE weir_connections_total counter\n"
                  "weir_connections_total {}\n"
                  "# HELP weir_connections_refused_total Turned away: there were too many.\n"
                  "# TYPE weir_connections_refused_total counter\n"
                  "weir_connections_refused_total {}\n"
                  "# HELP weir_generation How often the policies have been replaced.\n"
                  "# TYPE weir_generation gauge\n"
                  "weir_generation {}\n"
                  "# HELP weir_reloads_total How often the policy file was read again.\n"
                  "# TYPE weir_reloads_total counter\n"
                  "weir_reloads_total{{result=\"succeeded\"}} {}\n"
                  "weir_reloads_total{{result=\"failed\"}} {}\n",
                  connections.open, connections.accepted, connections.turned_away,
                  call.service.engine.generation(), reloads.succeeded.load(),
                  reloads.failed.load()));
}

namespace {

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

}  // namespace

void show_dashboard(HttpCall& call) {
  std::string rows;
  for (const Policies::Listed& each : call.service.policies.list()) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(each.name),
                        escaped(fmt::format("{}", fmt::join(each.limits, ", "))));
  }
  call.answer().respond(
      200, "text/html; charset=utf-8",
      fmt::format(
          "<!doctype html>\n<html lang=en><meta charset=utf-8><title>weir</title>\n"
          "<style>body{{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:50rem;"
          "padding:0 1rem}}td,th{{text-align:left;padding:.3rem 2rem .3rem 0}}"
          "code{{background:#8882;padding:.1rem .3rem}}</style>\n"
          "<h1>weir {}</h1>\n<p>Generation {} of the policies, {} connections.</p>\n"
          "<table><tr><th>Policy</th><th>Limits</th></tr>\n{}</table>\n"
          "<p>Ask: <code>POST /v1/take</code>. More: <a href=/v1/policies>policies</a>, "
          "<a href=/metrics>metrics</a>.</p></html>\n",
          kVersion, call.service.engine.generation(), call.service.loops.counts().open, rows));
}

}  // namespace weir::server
