#include <fmt/format.h>

#include <string>
#include <string_view>

#include "server/format.h"
#include "server/http_handlers.h"
#include "server/version.h"

namespace weir::server {

void show_health(HttpCall& call) { call.response().respond(200, "text/plain", "ok\n"); }

// Ready from the first response on: no connection is accepted before all listeners are bound.
void show_readiness(HttpCall& call) {
  call.context.is_draining ? call.response().respond(503, "text/plain", "ending\n")
                           : call.response().respond(200, "text/plain", "ready\n");
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
  for (const auto& each : call.context.policies.list(call.context.engine.now(), 0)) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(each.name),
                        escaped(limit_text(each.policy.limits)));
  }
  call.response().respond(
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
          kVersion, call.context.engine.generation(), call.context.loops.counts().open, rows));
}

}  // namespace weir::server
