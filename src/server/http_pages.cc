#include <fmt/format.h>

#include <array>

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

void append_orders(Exposition& to, const Service& service) {
  std::array<std::uint64_t, kOrderVerbs> counts{};
  for (const GivenOrder& given : service.policies.orders(service.engine.now())) {
    ++counts[static_cast<std::size_t>(given.order.verb)];
  }
  to.gauge("weir_orders", "Orders of operators that are in force.");
  for (int i = 0; i < kOrderVerbs; ++i) {
    const auto verb = static_cast<policy::Order::Verb>(i);
    to.sample({{"verb", name_of(verb)}}, counts[static_cast<std::size_t>(i)]);
  }
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
  to.gauge("weir_last_reload_successful", "0: the policy file as it is now is not in force.");
  to.sample(service.reloads.last_succeeded ? 1 : 0);
  // The name that Prometheus' own clients use.
  to.gauge("process_start_time_seconds", "When the daemon started, in seconds since 1970.");
  to.sample(std::chrono::floor<std::chrono::seconds>(service.started).time_since_epoch().count());
  to.gauge("weir_build_info", "Which version this is.");
  to.sample({{"version", kVersion}}, 1);
}

}  // namespace

void show_health(HttpCall& call) { call.answer().respond(200, "text/plain", "ok\n"); }

// Nobody is let in before all doors are open, so that it is ready from the first answer on.
void show_readiness(HttpCall& call) {
  call.service.ending ? call.answer().respond(503, "text/plain", "ending\n")
                      : call.answer().respond(200, "text/plain", "ready\n");
}

void show_metrics(HttpCall& call) {
  const Service& service = call.service;
  Exposition all;
  service.metrics.append_to(all);
  append_memory(all, service.memory.last());
  append_orders(all, service);
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
