#include <fmt/format.h>

#include <string>
#include <string_view>

#include "server/http_handlers.h"
#include "server/texts.h"
#include "server/version.h"

namespace weir::server {

void show_health(HttpCall& call) { call.answer().respond(200, "text/plain", "ok\n"); }

// Nobody is let in before all doors are open, so that it is ready from the first answer on.
void show_readiness(HttpCall& call) {
  call.service.ending ? call.answer().respond(503, "text/plain", "ending\n")
                      : call.answer().respond(200, "text/plain", "ready\n");
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
  for (const auto& each : call.service.policies.list(call.service.engine.now(), 0)) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(each.name),
                        escaped(described(each.policy.limits)));
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
