#include "server/http_verbs.h"

#include <fmt/format.h>

#include "server/rate_policies.h"
#include "server/texts.h"
#include "weir/parse_limit.h"
#include "wire/json_write.h"
#include "wire/rate_fields.h"

namespace weir::server {

using wire::ApiRequest;

namespace {

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
  wire::append_rate_fields(fields, style_of(service.headers),
                           policy_field(service, policy, verdict), verdict.limited_by,
                           verdict.decision);
  if (!verdict) wire::append_retry_after(fields, verdict.decision);
}

int status_of(const Verdict& verdict) {
  if (verdict) return 200;
  return verdict.degraded ? 503 : 429;
}

// Why there is no decision. The request is one that was read, so a name that nobody knows or a key
// that cannot be is all it can be.
Reply cannot_decide(Service& service, const Request& request, std::string error) {
  const bool known = service.policies.has(request.policy);
  const bool about_key = known && error.find("concurrent") == std::string::npos;
  return {.status = known ? 400 : 404,
          .error = std::move(error),
          .error_field = !about_key              ? "policy"
                         : request.parts.empty() ? "key"
                                                 : "parts"};
}

Reply decided(Service& service, const Request& request, Verdict verdict, std::string& body,
              const wire::VerdictExtras& extras = {}) {
  if (!verdict.error.empty()) return cannot_decide(service, request, std::move(verdict.error));
  wire::append_verdict(body, verdict, extras);
  return {.status = status_of(verdict), .verdict = std::move(verdict)};
}

}  // namespace

// ---- Answers

std::string& scratch_body() {
  thread_local std::string text;
  text.clear();
  return text;
}

namespace {

void send(HttpAnswer& answer, Service& service, std::string_view policy, int status,
          const Verdict& verdict, std::string_view body) {
  thread_local std::string fields;
  fields.clear();
  append_fields(fields, service, policy, verdict);
  answer.json(status, body, fields);
}

}  // namespace

void tell(HttpAnswer& answer, Service& service, std::string_view policy, const Reply& reply,
          std::string_view body, int refusal) {
  if (!reply.error.empty()) return answer.problem(reply.status, reply.error, reply.error_field);
  const int status = reply.status == 429 ? refusal : reply.status;
  reply.verdict ? send(answer, service, policy, status, *reply.verdict, body)
                : answer.json(status, body);
}

void tell(HttpAnswer& answer, Service& service, const Request& request, Verdict& verdict) {
  std::string& body = scratch_body();
  if (!verdict.error.empty()) {
    const Reply reply = cannot_decide(service, request, std::move(verdict.error));
    return tell(answer, service, request.policy, reply, body);
  }
  wire::append_verdict(body, verdict);
  send(answer, service, request.policy, status_of(verdict), verdict, body);
}

// ---- Verbs

Request request_of(const ApiRequest& asked) {
  return {.policy = asked.policy,
          .key = asked.key,
          .parts = asked.parts,
          .permits = asked.permits.value_or(1),
          .max_wait = asked.max_wait()};
}

Reply take(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  if (!asked.wants_receipt) return decided(service, request, service.engine.take(request), body);
  Receipt receipt;
  Verdict verdict = service.engine.take(request, receipt);
  const std::string name = verdict ? service.receipts.keep(std::move(receipt)) : std::string{};
  return decided(service, request, std::move(verdict), body, {.receipt = name});
}

// An answer to a question is none to be sorry for: 200, whatever it says.
Reply peek(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  Reply reply = decided(service, request, service.engine.peek(request, asked.holder), body);
  if (reply.verdict) reply.status = 200;
  return reply;
}

Reply settle(Service& service, const ApiRequest& asked, std::string& body) {
  Request request = request_of(asked);
  request.permits = asked.delta.value_or(0);
  if (asked.receipt.empty()) {
    if (request.permits < 0) {
      return {.status = 400,
              .error = "giving back needs the receipt of the take",
              .error_field = "receipt"};
    }
    return decided(service, request, service.engine.settle(request), body);
  }
  auto settled = service.receipts.settle(service.engine, request, asked.receipt);
  if (!settled) {
    return {.status = 404, .error = "there is no such receipt", .error_field = "receipt"};
  }
  return decided(service, request, *std::move(settled), body);
}

Reply reset(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  if (auto wrong = service.engine.reset(request)) {
    return cannot_decide(service, request, std::move(wrong->message));
  }
  body += R"({"reset":true})";
  return {};
}

Reply enter(Service& service, const ApiRequest& asked, std::string& body) {
  const std::string holder = asked.holder.empty() ? random_name() : std::string{asked.holder};
  const Request request = request_of(asked);
  return decided(service, request, service.engine.enter(request, holder), body, {.holder = holder});
}

Reply leave(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  const bool left = service.engine.leave(request, asked.holder);
  if (!left) {
    if (auto known = service.engine.explain(request); !known) {
      return cannot_decide(service, request, std::move(known.error().message));
    }
  }
  body += left ? R"({"left":true})" : R"({"left":false})";
  return {};
}

Reply explain(Service& service, const ApiRequest& asked, std::string& body) {
  const Request request = request_of(asked);
  auto limits = service.engine.explain(request);
  if (!limits) return cannot_decide(service, request, std::move(limits.error().message));
  body += R"({"decision":)";
  Reply reply = decided(service, request, service.engine.peek(request), body);
  if (!reply.error.empty()) return reply;
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
  body += R"(],"orders":[)";
  const auto orders = service.policies.orders_for(request, service.engine.now());
  for (const GivenOrder& given : orders) {
    if (&given != orders.data()) body += ',';
    wire::append_json_string(body, to_text(given));
  }
  body += "]}";
  reply.status = 200;
  return reply;
}

Reply throttle(Service& service, const ApiRequest& asked, std::string& body) {
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

}  // namespace weir::server
