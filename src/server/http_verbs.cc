#include "server/http_verbs.h"

#include <fmt/format.h>

#include <chrono>

#include "server/links.h"
#include "server/rate_policies.h"
#include "server/texts.h"
#include "store/random_name.h"
#include "weir/async_engine.h"
#include "weir/parse_limit.h"
#include "wire/json_write.h"
#include "wire/rate_fields.h"

namespace weir::server {

using wire::ApiRequest;

namespace {

void append_fields(std::string& fields, Service& service, std::string_view policy_field,
                   const Verdict& verdict) {
  const LegacyHeaders& legacy = service.legacy_headers;
  const Instant now = legacy.reset_is_date ? std::chrono::system_clock::now() : Instant{};
  wire::append_rate_fields(fields, service.headers, policy_field, verdict.limited_by,
                           verdict.decision, legacy, now);
  if (!verdict) wire::append_retry_after(fields, verdict.decision);
  wire::append_wait(fields, verdict.decision);
  if (verdict.degraded) fields += "Weir-Degraded: 1\r\n";
}

// Refused by no limit, but for want of an answer from the store.
bool for_the_store(const Verdict& verdict) {
  return !verdict && verdict.degraded && verdict.refusing == 0;
}

int status_of(const Verdict& verdict) {
  if (verdict) return 200;
  return for_the_store(verdict) ? 503 : 429;
}

std::string_view field_of(Fault fault) {
  switch (fault) {
    case Fault::key:
      return "key";
    case Fault::parts:
      return "parts";
    case Fault::policy:
    case Fault::verb:
    case Fault::none:
      break;
  }
  return "policy";
}

// Why there is no decision.
Reply cannot_decide(Fault fault, std::string error) {
  return {.status = fault == Fault::policy ? 404 : 400,
          .error = std::move(error),
          .error_field = field_of(fault)};
}

Reply failed(const Trouble& trouble) {
  if (trouble.fleet) return {.status = 503, .error = trouble.message};
  return cannot_decide(trouble.fault, trouble.message);
}

Reply decided(const Verdict& verdict, std::string& body, const wire::VerdictExtras& extras = {}) {
  if (!verdict.error.empty()) return cannot_decide(verdict.fault, verdict.error);
  wire::append_verdict(body, verdict, extras);
  return {.status = status_of(verdict), .verdict = verdict};
}

AsyncEngine engine_of(Service& service) { return {service.engine, link_of_this_thread()}; }

}  // namespace

// ---- Answers

namespace {

// Room for whatever is usual, from the first time on: numbers get longer now and then.
void make_empty(std::string& scratch) {
  constexpr std::size_t usual = 512;
  scratch.clear();
  scratch.reserve(usual);
}

}  // namespace

std::string& scratch_body() {
  thread_local std::string text;
  make_empty(text);
  return text;
}

namespace {

void send(HttpAnswer& answer, Service& service, std::string_view policy_field, int status,
          const Verdict& verdict, std::string_view body) {
  thread_local std::string fields;
  make_empty(fields);
  append_fields(fields, service, policy_field, verdict);
  if (status != 200) fields += kNotToKeep;
  answer.json(status, body, fields);
}

}  // namespace

void tell(HttpAnswer& answer, Service& service, std::string_view policy, const Reply& reply,
          std::string_view body, int refusal) {
  if (!reply.error.empty()) return answer.problem(reply.status, reply.error, reply.error_field);
  // (Who chose a status for refusals means those for want of the store, too.)
  const bool chosen = reply.status == 429 || (reply.verdict && !*reply.verdict && refusal != 429);
  const int status = chosen ? refusal : reply.status;
  if (!reply.verdict) return answer.json(status, body);
  const std::string_view field = reply.limit.empty() ? policy_field(service, policy, *reply.verdict)
                                                     : policy_field(reply.limit);
  send(answer, service, field, status, *reply.verdict, body);
}

void tell(HttpAnswer& answer, Service& service, const Request& request, Verdict& verdict) {
  std::string& body = scratch_body();
  if (!verdict.error.empty()) {
    const Reply reply = cannot_decide(verdict.fault, std::move(verdict.error));
    return tell(answer, service, request.policy, reply, body);
  }
  wire::append_verdict(body, verdict);
  send(answer, service, policy_field(service, request.policy, verdict), status_of(verdict), verdict,
       body);
}

// ---- Verbs

Request request_of(const ApiRequest& asked) {
  return {.policy = asked.policy,
          .key = asked.key,
          .parts = asked.parts,
          .permits = asked.permits.value_or(1),
          .max_wait = asked.max_wait(),
          .skip_missing = asked.skip_missing};
}

void take(Service& service, const ApiRequest& asked, Told told) {
  const Request request = request_of(asked);
  if (!asked.wants_receipt) {
    return engine_of(service).take(request, [told](const Verdict& verdict) {
      std::string& body = scratch_body();
      const Reply reply = decided(verdict, body);
      told(reply, body);
    });
  }
  const auto tell = [&service, told](const Verdict& verdict, Receipt receipt) {
    std::string& body = scratch_body();
    const std::string name = verdict ? service.receipts.keep(std::move(receipt)) : std::string{};
    const Reply reply = decided(verdict, body, {.receipt = name});
    told(reply, body);
  };
  engine_of(service).take(request, tell);
}

// To be told that one would be refused is no refusal: 200, whatever it says.
void peek(Service& service, const ApiRequest& asked, Told told) {
  const Request request = request_of(asked);
  engine_of(service).peek(request, asked.holder, [told](const Verdict& verdict) {
    std::string& body = scratch_body();
    Reply reply = decided(verdict, body);
    if (reply.verdict) reply.status = 200;
    told(reply, body);
  });
}

void settle(Service& service, const ApiRequest& asked, Told told) {
  Request request = request_of(asked);
  request.permits = asked.delta.value_or(0);
  const auto refuse = [&](int status, std::string_view why) {
    told({.status = status, .error = std::string{why}, .error_field = "receipt"}, {});
  };
  const auto tell = [told](const Verdict& verdict) {
    std::string& body = scratch_body();
    const Reply reply = decided(verdict, body);
    told(reply, body);
  };
  if (asked.receipt.empty()) {
    if (request.permits < 0) return refuse(400, "giving back needs the receipt of the take");
    return engine_of(service).settle(request, tell);
  }
  Receipts::Borrowed borrowed;
  switch (service.receipts.borrow(asked.receipt, borrowed)) {
    case Receipts::Found::no:
      // (What is debited needs none: one from before a restart must not spare anybody the price.)
      if (request.permits > 0) return engine_of(service).settle(request, tell);
      return refuse(404, "there is no such receipt");
    case Receipts::Found::busy:
      return refuse(409, "the receipt is being settled by somebody else");
    case Receipts::Found::yes:
      break;
  }
  Receipt& receipt = borrowed->receipt;
  engine_of(service).settle(
      request, receipt,
      [borrowed = std::move(borrowed), tell](const Verdict& verdict) { tell(verdict); });
}

void reset(Service& service, const ApiRequest& asked, Told told) {
  const Request request = request_of(asked);
  engine_of(service).reset(request, [told](const std::optional<Trouble>& trouble) {
    if (trouble) return told(failed(*trouble), {});
    told({}, R"({"reset":true})");
  });
}

void enter(Service& service, const ApiRequest& asked, Told told) {
  const std::string holder =
      asked.holder.empty() ? store::random_name() : std::string{asked.holder};
  const Request request = request_of(asked);
  engine_of(service).enter(request, holder, [holder, told](const Verdict& verdict) {
    std::string& body = scratch_body();
    const Reply reply = decided(verdict, body, {.holder = holder});
    told(reply, body);
  });
}

void leave(Service& service, const ApiRequest& asked, Told told) {
  const Request request = request_of(asked);
  engine_of(service).leave(request, asked.holder, [told](const Result<bool, Trouble>& left) {
    if (!left) return told(failed(left.error()), {});
    told({}, *left ? R"({"left":true})" : R"({"left":false})");
  });
}

namespace {

void append_limit(std::string& body, const LimitState& limit) {
  body += R"({"name":)";
  wire::append_json_string(body, limit.name);
  body += R"(,"limit":)";
  wire::append_json_string(body, limit.limit);
  fmt::format_to(std::back_inserter(body), R"(,"cost":{},"shadow":{},"state":)", limit.cost,
                 limit.shadow);
  wire::append_verdict(body, {.decision = limit.decision, .limited_by = limit.name});
  if (limit.share) {
    fmt::format_to(std::back_inserter(body), R"(,"share":{},"whole":{})", limit.share->part,
                   limit.share->whole);
  }
  if (limit.origin.kind != LimitOrigin::Kind::policy) {
    const bool by_hours = limit.origin.kind == LimitOrigin::Kind::schedule;
    body += by_hours ? R"(,"schedule":)" : R"(,"override":)";
    wire::append_json_string(body, limit.origin.text);
  }
  body += R"(,"text":)";
  wire::append_json_string(body, explained(limit));
  body += '}';
}

}  // namespace

void explain(Service& service, const ApiRequest& asked, Told told) {
  const Request request = request_of(asked);
  const auto tell = [told, orders = service.policies.orders_for(request, service.engine.now())](
                        const Result<Explanation, Trouble>& explanation) {
    if (!explanation) return told(failed(explanation.error()), {});
    std::string& body = scratch_body();
    body += R"({"decision":)";
    Reply reply = decided(explanation->verdict, body);
    reply.status = 200;
    body += R"(,"limits":[)";
    for (const LimitState& limit : explanation->limits) {
      if (&limit != explanation->limits.data()) body += ',';
      append_limit(body, limit);
    }
    body += R"(],"orders":[)";
    for (const GivenOrder& given : orders) {
      if (&given != orders.data()) body += ',';
      wire::append_json_string(body, to_text(given));
    }
    body += "]}";
    told(reply, body);
  };
  engine_of(service).explain(request, tell);
}

void throttle(Service& service, const ApiRequest& asked, Told told) {
  const auto limit = parse_limit(asked.limit);
  if (!limit) {
    return told({.status = 400, .error = limit.error().message, .error_field = "limit"}, {});
  }
  engine_of(service).throttle(
      *limit, asked.key, asked.permits.value_or(1), asked.max_wait(),
      [told, text = std::string{asked.limit}](const Verdict& verdict) {
        if (!verdict.error.empty()) {
          const std::string_view field = verdict.fault == Fault::key ? "key" : "limit";
          return told({.status = 400, .error = verdict.error, .error_field = field}, {});
        }
        std::string& body = scratch_body();
        wire::append_verdict(body, verdict);
        told({.status = status_of(verdict), .verdict = verdict, .limit = text}, body);
      });
}

}  // namespace weir::server
