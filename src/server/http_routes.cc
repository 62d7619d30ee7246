#include "server/http_routes.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/rate_policies.h"
#include "server/texts.h"
#include "server/version.h"
#include "weir/parse_limit.h"
#include "wire/http1_target.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "wire/rate_fields.h"

namespace weir::server {

using wire::ApiField;
using wire::ApiRequest;

namespace {

// The date, written once a second.
std::string_view date_now() {
  thread_local time_t written_at = 0;
  thread_local std::string written;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != written_at) {
    written_at = now.tv_sec;
    written.clear();
    wire::append_http_date(written, Instant{std::chrono::seconds{now.tv_sec}});
  }
  return written;
}

// Texts that are put together for one answer, on memory that is used again.
std::string& scratch() {
  thread_local std::string text;
  text.clear();
  return text;
}
std::string& scratch_fields() {
  thread_local std::string text;
  text.clear();
  return text;
}

}  // namespace

// ---- Answering

void HttpCall::respond(int status, std::string_view content_type, std::string_view body,
                       std::string_view fields) {
  wire::append_response(out_, {.status = status,
                               .content_type = content_type,
                               .body = body,
                               .fields = fields,
                               .date = date_now(),
                               .connection = connection_,
                               .head = request.head});
}

void HttpCall::json(int status, std::string_view body, std::string_view fields) {
  respond(status, wire::kJson, body, fields);
}

void HttpCall::problem(int status, std::string_view detail, std::string_view field,
                       std::string_view fields) {
  std::string body;
  wire::append_problem(body, {.status = status, .detail = detail, .field = field});
  respond(status, wire::kProblemJson, body, fields);
}

Rights HttpCall::rights() const {
  Rights rights{.loopback = loopback_};
  constexpr std::string_view scheme = "Bearer ";
  const std::string_view given = request.field("Authorization");
  if (!given.starts_with(scheme)) return rights;
  const std::string_view secret = given.substr(scheme.size());
  const Access& access = service.access;
  rights.let_in = !access.password.empty() && same_secret(secret, access.password);
  rights.admin = !access.admin_token.empty() && same_secret(secret, access.admin_token);
  return rights;
}

namespace {

// ---- Decisions

Request request_of(const ApiRequest& asked) {
  return {.policy = asked.policy,
          .key = asked.key,
          .parts = asked.parts,
          .permits = asked.permits.value_or(1),
          .max_wait = asked.max_wait()};
}

// What a verb answers: a status, and JSON in `body`. `verdict` is what there is to tell in fields.
struct Answer {
  int status = 200;
  std::optional<Verdict> verdict{};
  std::string error{};
  std::string_view error_field{};
};

using Verb = Answer (*)(Service&, const ApiRequest&, std::string& body);

int status_of(const Verdict& verdict) {
  if (verdict) return 200;
  return verdict.degraded ? 503 : 429;
}

// Why there is no decision. The request is one that was read, so a name that nobody knows or a key
// that cannot be is all it can be.
Answer cannot_decide(Service& service, const ApiRequest& asked, std::string error) {
  const bool known = service.policies.has(asked.policy);
  const bool about_key = known && error.find("concurrent") == std::string::npos;
  return {.status = known ? 400 : 404,
          .error = std::move(error),
          .error_field = !about_key            ? "policy"
                         : asked.parts.empty() ? "key"
                                               : "parts"};
}

Answer decided(Service& service, const ApiRequest& asked, Verdict verdict, std::string& body,
               const wire::VerdictExtras& extras = {}) {
  if (!verdict.error.empty()) return cannot_decide(service, asked, std::move(verdict.error));
  wire::append_verdict(body, verdict, extras);
  return {.status = status_of(verdict), .verdict = std::move(verdict)};
}

Answer take(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  if (!asked.wants_receipt) return decided(service, asked, service.engine.take(request), body);
  Receipt receipt;
  Verdict verdict = service.engine.take(request, receipt);
  const std::string name = verdict ? service.receipts.keep(std::move(receipt)) : std::string{};
  return decided(service, asked, std::move(verdict), body, {.receipt = name});
}

// An answer to a question is none to be sorry for: 200, whatever it says.
Answer peek(Service& service, const ApiRequest& asked, std::string& body) {
  Answer answer =
      decided(service, asked, service.engine.peek(request_of(asked), asked.holder), body);
  if (answer.verdict) answer.status = 200;
  return answer;
}

Answer settle(Service& service, const ApiRequest& asked, std::string& body) {
  Request request = request_of(asked);
  request.permits = asked.delta.value_or(0);
  if (asked.receipt.empty()) {
    if (request.permits < 0) {
      return {.status = 400,
              .error = "giving back needs the receipt of the take",
              .error_field = "receipt"};
    }
    return decided(service, asked, service.engine.settle(request), body);
  }
  auto settled = service.receipts.settle(service.engine, request, asked.receipt);
  if (!settled) {
    return {.status = 404, .error = "there is no such receipt", .error_field = "receipt"};
  }
  return decided(service, asked, *std::move(settled), body);
}

Answer reset(Service& service, const ApiRequest& asked, std::string& body) {
  if (auto wrong = service.engine.reset(request_of(asked))) {
    return cannot_decide(service, asked, std::move(wrong->message));
  }
  body += R"({"reset":true})";
  return {};
}

Answer enter(Service& service, const ApiRequest& asked, std::string& body) {
  const std::string holder = asked.holder.empty() ? random_name() : std::string{asked.holder};
  return decided(service, asked, service.engine.enter(request_of(asked), holder), body,
                 {.holder = holder});
}

Answer leave(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  const bool left = service.engine.leave(request, asked.holder);
  if (!left) {
    if (auto known = service.engine.explain(request); !known) {
      return cannot_decide(service, asked, std::move(known.error().message));
    }
  }
  body += left ? R"({"left":true})" : R"({"left":false})";
  return {};
}

Answer explain(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  auto limits = service.engine.explain(request);
  if (!limits) return cannot_decide(service, asked, std::move(limits.error().message));
  body += R"({"decision":)";
  Answer answer = decided(service, asked, service.engine.peek(request), body);
  if (!answer.error.empty()) return answer;
  body += R"(,"limits":[)";
  for (std::size_t i = 0; i < limits->size(); ++i) {
    const LimitState& limit = (*limits)[i];
    body += i == 0 ? R"({"name":)" : R"(,{"name":)";
    wire::append_json_string(body, limit.name);
    body += R"(,"limit":)";
    wire::append_json_string(body, limit.limit);
    fmt::format_to(std::back_inserter(body), R"(,"cost":{},"shadow":{},"state":)", limit.cost,
                   limit.shadow);
    wire::append_verdict(body, {.decision = limit.decision, .limited_by = limit.name});
    body += R"(,"text":)";
    wire::append_json_string(body, explained(limit));
    body += '}';
  }
  body += "]}";
  answer.status = 200;
  return answer;
}

Answer throttle(Service& service, const ApiRequest& asked, std::string& body) {
  const auto limit = parse_limit(asked.limit);
  if (!limit) return {.status = 400, .error = limit.error().message, .error_field = "limit"};
  Verdict verdict =
      service.engine.throttle(*limit, asked.key, asked.permits.value_or(1), asked.max_wait());
  if (!verdict.error.empty()) {
    const bool about_limit = verdict.error.find("concurrent") != std::string::npos;
    return {.status = 400,
            .error = std::move(verdict.error),
            .error_field = about_limit ? "limit" : "key"};
  }
  wire::append_verdict(body, verdict);
  return {.status = status_of(verdict), .verdict = std::move(verdict)};
}

// ---- The way of a body

wire::RateFieldStyle style_of(policy::HeaderStyle style) {
  switch (style) {
    case policy::HeaderStyle::ietf:
      return wire::RateFieldStyle::ietf;
    case policy::HeaderStyle::legacy:
      return wire::RateFieldStyle::legacy;
    case policy::HeaderStyle::both:
      return wire::RateFieldStyle::both;
    case policy::HeaderStyle::off:
      break;
  }
  return wire::RateFieldStyle::off;
}

void append_fields(std::string& fields, Service& service, std::string_view policy,
                   const Verdict& verdict) {
  const auto policies = quota_policies(service, policy, verdict);
  wire::append_rate_fields(fields, style_of(service.headers), policies, verdict.limited_by,
                           verdict.decision);
  if (!verdict) wire::append_retry_after(fields, verdict.decision);
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::string plain = lower(type.substr(0, type.find_last_not_of(" \t") + 1));
  return plain.empty() || plain == wire::kJson || plain.ends_with("+json");
}

wire::JsonReader& reader() {
  thread_local wire::JsonReader of_this_thread;
  return of_this_thread;
}

void answer_batch(HttpCall& call, Verb verb, std::span<const wire::ApiItem> items) {
  std::string& body = scratch();
  body += '[';
  for (const wire::ApiItem& item : items) {
    if (&item != items.data()) body += ',';
    std::string error = item.error;
    const std::size_t start = body.size();
    if (error.empty()) error = verb(call.service, item.request, body).error;
    if (error.empty()) continue;
    body.resize(start);
    wire::append_item_error(body, error);
  }
  body += ']';
  call.json(200, body);
}

void answer_one(HttpCall& call, Verb verb, const wire::ApiItem& item) {
  if (!item.error.empty()) return call.problem(400, item.error, item.error_field);
  std::string& body = scratch();
  const Answer answer = verb(call.service, item.request, body);
  if (!answer.error.empty()) return call.problem(answer.status, answer.error, answer.error_field);
  std::string& fields = scratch_fields();
  if (answer.verdict) append_fields(fields, call.service, item.request.policy, *answer.verdict);
  call.json(answer.status, body, fields);
}

void answer_body(HttpCall& call, Verb verb, const wire::ApiFields& fields) {
  if (!call.request.says_length) return call.problem(411, "a body is missing", "Content-Length");
  if (!is_json(call.request.field("Content-Type"))) {
    return call.problem(415, "the body must be application/json", "Content-Type");
  }
  const wire::ApiBody body = reader().read(call.request.body, fields);
  if (!body.error.empty()) return call.problem(400, body.error);
  body.is_batch ? answer_batch(call, verb, body.items) : answer_one(call, verb, body.items[0]);
}

template <Verb kVerb, const wire::ApiFields& kFields>
void on_body(HttpCall& call) {
  answer_body(call, kVerb, kFields);
}

// ---- For nginx and Traefik

struct Param {
  std::string_view value;
  std::string buffer;
  bool malformed = false;
};

// The query comes from the proxy's configuration; a header may come from a stranger whom the proxy
// lets through, so it only counts where the query says nothing.
void read_param(const HttpCall& call, std::string_view name, std::string_view header,
                Param& param) {
  const auto found = wire::query_value(call.request.query, name, param.buffer);
  using Status = wire::QueryValue::Status;
  param.malformed = found.status == Status::malformed || found.status == Status::repeated;
  param.value = found ? found.value : header.empty() ? "" : call.request.field(header);
}

void auth(HttpCall& call) {
  thread_local Param policy;
  thread_local Param key;
  thread_local Param permits;
  thread_local Param deny;
  read_param(call, "policy", "X-Weir-Policy", policy);
  read_param(call, "key", "X-Weir-Key", key);
  read_param(call, "permits", {}, permits);
  read_param(call, "deny", {}, deny);
  const std::pair<std::string_view, const Param*> all[] = {
      {"policy", &policy}, {"key", &key}, {"permits", &permits}, {"deny", &deny}};
  for (const auto& [name, param] : all) {
    if (param->malformed) return call.problem(400, "malformed or given twice", name);
  }
  if (policy.value.empty()) {
    return call.problem(400, "no policy: write ?policy=… or send X-Weir-Policy", "policy");
  }
  if (key.value.empty()) {
    return call.problem(400, "no key: write &key=… or send X-Weir-Key", "key");
  }
  const auto count = permits.value.empty() ? 1 : whole_number(permits.value);
  if (!count || *count < 0) return call.problem(400, "permits is a whole number", "permits");
  const auto refusal = deny.value.empty() ? 429 : whole_number(deny.value);
  if (!refusal || *refusal < 400 || *refusal > 599) {
    return call.problem(400, "deny is a status from 400 to 599", "deny");
  }
  const ApiRequest asked{.policy = policy.value, .key = key.value, .permits = *count};
  std::string& body = scratch();
  const Answer answer = take(call.service, asked, body);
  if (!answer.error.empty()) return call.problem(answer.status, answer.error, answer.error_field);
  std::string& fields = scratch_fields();
  append_fields(fields, call.service, policy.value, *answer.verdict);
  const bool refused = answer.status == 429;
  call.json(refused ? static_cast<int>(*refusal) : answer.status, body, fields);
}

// ---- Policies

void list_policies(HttpCall& call) {
  nlohmann::json policies = nlohmann::json::object();
  for (const Policies::Listed& each : call.service.policies.list()) {
    policies[each.name] = {{"limits", each.limits}, {"source", each.put ? "put" : "file"}};
  }
  const nlohmann::json body{{"generation", call.service.engine.generation()},
                            {"policies", std::move(policies)}};
  call.json(200, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

constexpr std::string_view kPolicyPath = "/v1/policies/";

// The name in the path, or nothing, and the call is answered. (Names are kept as JSON, where other
// bytes than UTF-8 would come back as another name.)
std::optional<std::string> policy_name(HttpCall& call) {
  std::string buffer;
  const auto name = wire::decode_path(call.request.path.substr(kPolicyPath.size()), buffer);
  const bool fits = name && !name->empty() && name->size() <= 256;
  if (fits && is_utf8(*name)) return std::string{*name};
  call.problem(400, "the name of a policy has 1 to 256 bytes, in UTF-8", "name");
  return std::nullopt;
}

void put_policy(HttpCall& call) {
  if (!call.request.says_length) return call.problem(411, "a body is missing", "Content-Length");
  const auto name = policy_name(call);
  if (!name) return;
  if (auto error = call.service.policies.put(call.service.engine, *name, call.request.body)) {
    return call.problem(400, error->message, *name);
  }
  call.json(200, fmt::format(R"({{"generation":{}}})", call.service.engine.generation()));
}

void delete_policy(HttpCall& call) {
  const auto name = policy_name(call);
  if (!name) return;
  const auto removed = call.service.policies.remove(call.service.engine, *name);
  if (!removed) return call.problem(500, removed.error().message);
  if (!*removed) return call.problem(404, "no policy of that name was put", *name);
  call.json(200, fmt::format(R"({{"generation":{}}})", call.service.engine.generation()));
}

// ---- For people and their tools

void healthz(HttpCall& call) { call.respond(200, "text/plain", "ok\n"); }

void metrics(HttpCall& call) {
  const net::LoopCounts connections = call.service.loops.counts();
  call.respond(
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
                  "weir_generation {}\n",
                  connections.open, connections.accepted, connections.turned_away,
                  call.service.engine.generation()));
}

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

void dashboard(HttpCall& call) {
  std::string rows;
  for (const Policies::Listed& each : call.service.policies.list()) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(each.name),
                        escaped(fmt::format("{}", fmt::join(each.limits, ", "))));
  }
  call.respond(
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

void not_built(HttpCall& call) { call.problem(501, "this version does not have that yet"); }

// ---- Routes

using Handler = void (*)(HttpCall&);
enum class For { anybody, let_in, admin };

struct Route {
  std::string_view path;
  std::string_view method;
  Handler handler;
  For whom = For::let_in;
};

constexpr std::array kRoutes{
    Route{"/v1/take", "POST", on_body<take, wire::api::kTake>},
    Route{"/v1/peek", "POST", on_body<peek, wire::api::kPeek>},
    Route{"/v1/settle", "POST", on_body<settle, wire::api::kSettle>, For::admin},
    Route{"/v1/reset", "POST", on_body<reset, wire::api::kReset>, For::admin},
    Route{"/v1/enter", "POST", on_body<enter, wire::api::kEnter>},
    Route{"/v1/leave", "POST", on_body<leave, wire::api::kLeave>},
    Route{"/v1/explain", "POST", on_body<explain, wire::api::kExplain>},
    Route{"/v1/throttle", "POST", on_body<throttle, wire::api::kThrottle>},
    Route{"/v1/auth", "GET", auth},
    Route{"/v1/auth", "POST", auth},
    Route{"/v1/policies", "GET", list_policies},
    Route{kPolicyPath, "PUT", put_policy, For::admin},
    Route{kPolicyPath, "DELETE", delete_policy, For::admin},
    Route{"/v1/top", "GET", not_built},
    Route{"/json", "POST", not_built},
    Route{"/metrics", "GET", metrics},
    Route{"/healthz", "GET", healthz, For::anybody},
    Route{"/readyz", "GET", healthz, For::anybody},
    Route{"/", "GET", dashboard},
};

// A path that ends with a slash has something behind it.
bool leads_to(const Route& route, std::string_view path) {
  if (route.path.size() > 1 && route.path.ends_with('/')) return path.starts_with(route.path);
  return path == route.path;
}

bool answers(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

// Whether a page elsewhere made a browser of this machine ask: those know this machine by a name of
// their own.
bool from_elsewhere(const HttpCall& call) {
  std::string_view host = call.request.host;
  host =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return !host.empty() && host != "localhost" && host != "[::1]" && !host.starts_with("127.");
}

bool let_in(HttpCall& call, const Route& route) {
  if (route.whom == For::anybody) return true;
  const Rights rights = call.rights();
  const Access& access = call.service.access;
  constexpr std::string_view challenge = "WWW-Authenticate: Bearer\r\n";
  if (!rights.may_call(access)) {
    call.problem(401, "send the password as Authorization: Bearer …", "Authorization", challenge);
    return false;
  }
  if (route.whom != For::admin || rights.admin) return true;
  if (!access.admin_token.empty()) {
    call.problem(401, "this needs the admin token, as Authorization: Bearer …", "Authorization",
                 challenge);
    return false;
  }
  if (rights.may_change(access) && !from_elsewhere(call)) return true;
  call.problem(403, "this is for this machine only, or with an admin_token");
  return false;
}

}  // namespace

void route(HttpCall& call) {
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!leads_to(route, call.request.path)) continue;
    if (answers(route, call.request.method)) {
      if (let_in(call, route)) route.handler(call);
      return;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "Allow: " : ", ", route.method);
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) return call.problem(404, "there is nothing at this path");
  call.problem(405, "this path does not have that method", {}, allowed + "\r\n");
}

}  // namespace weir::server
