#include <fmt/format.h>

#include "server/http_handlers.h"
#include "server/version.h"

namespace weir::server {

namespace {

void append_memory(Exposition& to, const MemoryUse& use) {
  to.gauge("weir_memory_bytes", "The size of the table.");
  to.sample(use.bytes);
  to.gauge("weir_memory_slots", "Keys under a limit that it holds at most.");
  to.sample(use.slots);
  to.gauge("weir_memory_slots_live", "Of these, in use by keys that are not at rest.");
  to.sample(use.live);
  to.gauge("weir_memory_record_bytes", "The part of it for exact logs and holders.");
  to.sample(use.record_bytes);
  to.gauge("weir_memory_record_bytes_used", "Of these, in use.");
  to.sample(use.record_used);
  to.counter("weir_memory_forgotten_total", "Keys at rest that made room for others.");
  to.sample(use.forgotten);
  to.counter("weir_memory_full_total",
             "Calls of keys for which there was no room, by what the policy says about that.");
  to.sample({{"when_full", "share"}}, use.shared);
  to.sample({{"when_full", "deny"}}, use.denied);
  to.sample({{"when_full", "allow"}}, use.untracked);
}

void append_process(Exposition& to, const Service& service) {
  const net::LoopCounts connections = service.loops.counts();
  to.gauge("weir_connections_open", "Connections that are open.");
  to.sample(connections.open);
  to.counter("weir_connections_total", "Connections that were accepted.");
  to.sample(connections.accepted);
  to.counter("weir_connections_refused_total", "Turned away: there were too many.");
  to.sample(connections.turned_away);
  to.counter("weir_tls_failures_total", "Ended because there was no TLS with them, or no longer.");
  to.sample(service.tls_failures.load());
  to.gauge("weir_generation", "How often the policies have been replaced.");
  to.sample(service.engine.generation());
  to.counter("weir_reloads_total", "How often the policy file was read again.");
  to.sample({{"result", "succeeded"}}, service.reloads.succeeded.load());
  to.sample({{"result", "failed"}}, service.reloads.failed.load());
  to.gauge("weir_build_info", "Which version this is.");
  to.sample({{"version", kVersion}}, 1);
}

}  // namespace

void show_health(HttpCall& call) { call.answer().respond(200, "text/plain", "ok\n"); }

void show_metrics(HttpCall& call) {
  const Service& service = call.service;
  Exposition all;
  service.metrics.append_to(all);
  append_memory(all, service.memory.last());
  append_process(all, service);
  call.answer().respond(200, "text/plain; version=0.0.4; charset=utf-8", all.text());
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
