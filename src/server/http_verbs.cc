#include "server/http_verbs.h"

#include <fmt/format.h>

#include <chrono>

#include "server/format.h"
#include "server/policy_field.h"
#include "server/thread_link.h"
#include "store/random_name.h"
#include "weir/async_engine.h"
#include "weir/parse_limit.h"
#include "wire/json_write.h"
#include "wire/rate_fields.h"

namespace weir::server {

using wire::ApiRequest;

namespace {

void append_fields(std::string& fields, ServerContext& context, std::string_view policy_field,
                   const Verdict& verdict) {
  const wire::LegacyHeaders& legacy = context.legacy_headers;
  const Instant now = legacy.reset_is_date ? std::chrono::system_clock::now() : Instant{};
  wire::append_rate_fields(fields, context.headers, policy_field, verdict.limited_by,
                           verdict.decision, legacy, now);
  if (!verdict) wire::append_retry_after(fields, verdict.decision);
  wire::append_wait(fields, verdict.decision);
  if (verdict.degraded) fields += "Weir-Degraded: 1\r\n";
}

// True for a refusal by on_store_failure, not by a limit.
bool is_store_failure(const Verdict& verdict) {
  return !verdict && verdict.degraded && verdict.refusing == 0;
}

int status_of(const Verdict& verdict) {
  if (verdict) return 200;
  return is_store_failure(verdict) ? 503 : 429;
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

// The reply to a request that cannot be decided.
Reply fault_reply(Fault fault, std::string error) {
  return {.status = fault == Fault::policy ? 404 : 400,
          .error = std::move(error),
          .error_field = field_of(fault)};
}

Reply error_reply(const OperationError& error) {
  if (error.fleet) return {.status = 503, .error = error.message};
  return fault_reply(error.fault, error.message);
}

Reply verdict_reply(const Verdict& verdict, std::string& body,
                    const wire::VerdictExtras& extras = {}) {
  if (!verdict.error.empty()) return fault_reply(verdict.fault, verdict.error);
  wire::append_verdict(body, verdict, extras);
  return {.status = status_of(verdict), .verdict = verdict};
}

AsyncEngine engine_of(ServerContext& context) { return {context.engine, link_of_this_thread()}; }

}  // namespace

// ---- Responses

namespace {

// Reserves the usual size at first use, so that a longer number does not allocate later.
void clear_scratch(std::string& scratch) {
  constexpr std::size_t usual_size = 512;
  scratch.clear();
  scratch.reserve(usual_size);
}

}  // namespace

std::string& scratch_body() {
  thread_local std::string text;
  clear_scratch(text);
  return text;
}

namespace {

void send(HttpResponder& response, ServerContext& context, std::string_view policy_field,
          int status, const Verdict& verdict, std::string_view body) {
  thread_local std::string fields;
  clear_scratch(fields);
  append_fields(fields, context, policy_field, verdict);
  if (status != 200) fields += kNoStore;
  response.json(status, body, fields);
}

}  // namespace

void send_reply(HttpResponder& response, ServerContext& context, std::string_view policy,
                const Reply& reply, std::string_view body, int refused_status) {
  if (!reply.error.empty()) return response.problem(reply.status, reply.error, reply.error_field);
  // A status that the caller chose also replaces the 503 of a store failure.
  const bool is_replaced =
      reply.status == 429 || (reply.verdict && !*reply.verdict && refused_status != 429);
  const int status = is_replaced ? refused_status : reply.status;
  if (!reply.verdict) return response.json(status, body);
  const std::string_view field = reply.limit.empty() ? policy_field(context, policy, *reply.verdict)
                                                     : policy_field(reply.limit);
  send(response, context, field, status, *reply.verdict, body);
}

void send_verdict(HttpResponder& response, ServerContext& context, const Request& request,
                  Verdict& verdict) {
  std::string& body = scratch_body();
  if (!verdict.error.empty()) {
    const Reply reply = fault_reply(verdict.fault, std::move(verdict.error));
    return send_reply(response, context, request.policy, reply, body);
  }
  wire::append_verdict(body, verdict);
  send(response, context, policy_field(context, request.policy, verdict), status_of(verdict),
       verdict, body);
}

// ---- Verbs

Request request_of(const ApiRequest& params) {
  return {.policy = params.policy,
          .key = params.key,
          .parts = params.parts,
          .permits = params.permits.value_or(1),
          .max_wait = params.max_wait(),
          .skip_missing = params.skip_missing};
}

void take(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const Request request = request_of(params);
  if (!params.wants_receipt) {
    return engine_of(context).take(request, [done](const Verdict& verdict) {
      std::string& body = scratch_body();
      const Reply reply = verdict_reply(verdict, body);
      done(reply, body);
    });
  }
  const auto finish = [&context, done](const Verdict& verdict, Receipt receipt) {
    std::string& body = scratch_body();
    const std::string name = verdict ? context.receipts.add(std::move(receipt)) : std::string{};
    const Reply reply = verdict_reply(verdict, body, {.receipt = name});
    done(reply, body);
  };
  engine_of(context).take(request, finish);
}

// Always 200: the verdict says what a take would get, and nothing was refused.
void peek(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const Request request = request_of(params);
  engine_of(context).peek(request, params.holder, [done](const Verdict& verdict) {
    std::string& body = scratch_body();
    Reply reply = verdict_reply(verdict, body);
    if (reply.verdict) reply.status = 200;
    done(reply, body);
  });
}

void settle(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  Request request = request_of(params);
  request.permits = params.delta.value_or(0);
  const auto refuse = [&](int status, std::string_view why) {
    done({.status = status, .error = std::string{why}, .error_field = "receipt"}, {});
  };
  const auto finish = [done](const Verdict& verdict) {
    std::string& body = scratch_body();
    const Reply reply = verdict_reply(verdict, body);
    done(reply, body);
  };
  if (params.receipt.empty()) {
    if (request.permits < 0) return refuse(400, "giving back needs the receipt of the take");
    return engine_of(context).settle(request, finish);
  }
  Receipts::Borrowed borrowed;
  switch (context.receipts.borrow(params.receipt, borrowed)) {
    case Receipts::BorrowResult::unknown:
      // A debit needs no receipt: the price is charged also after a restart, which loses receipts.
      if (request.permits > 0) return engine_of(context).settle(request, finish);
      return refuse(404, "there is no such receipt");
    case Receipts::BorrowResult::busy:
      return refuse(409, "another call is settling this receipt");
    case Receipts::BorrowResult::ok:
      break;
  }
  Receipt& receipt = borrowed->receipt;
  engine_of(context).settle(
      request, receipt,
      [borrowed = std::move(borrowed), finish](const Verdict& verdict) { finish(verdict); });
}

void reset(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const Request request = request_of(params);
  engine_of(context).reset(request, [done](const std::optional<OperationError>& error) {
    if (error) return done(error_reply(*error), {});
    done({}, R"({"reset":true})");
  });
}

void enter(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const std::string holder =
      params.holder.empty() ? store::random_name() : std::string{params.holder};
  const Request request = request_of(params);
  engine_of(context).enter(request, holder, [holder, done](const Verdict& verdict) {
    std::string& body = scratch_body();
    const Reply reply = verdict_reply(verdict, body, {.holder = holder});
    done(reply, body);
  });
}

void leave(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const Request request = request_of(params);
  engine_of(context).leave(request, params.holder,
                           [done](const Result<bool, OperationError>& left) {
                             if (!left) return done(error_reply(left.error()), {});
                             done({}, *left ? R"({"left":true})" : R"({"left":false})");
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
  wire::append_json_string(body, limit_state_text(limit));
  body += '}';
}

}  // namespace

void explain(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const Request request = request_of(params);
  const auto finish = [done, orders = context.policies.orders_for(request, context.engine.now())](
                          const Result<Explanation, OperationError>& explanation) {
    if (!explanation) return done(error_reply(explanation.error()), {});
    std::string& body = scratch_body();
    body += R"({"decision":)";
    Reply reply = verdict_reply(explanation->verdict, body);
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
    done(reply, body);
  };
  engine_of(context).explain(request, finish);
}

void throttle(ServerContext& context, const ApiRequest& params, ReplyCallback done) {
  const auto limit = parse_limit(params.limit);
  if (!limit) {
    return done({.status = 400, .error = limit.error().message, .error_field = "limit"}, {});
  }
  engine_of(context).throttle(
      *limit, params.key, params.permits.value_or(1), params.max_wait(),
      [done, text = std::string{params.limit}](const Verdict& verdict) {
        if (!verdict.error.empty()) {
          const std::string_view field = verdict.fault == Fault::key ? "key" : "limit";
          return done({.status = 400, .error = verdict.error, .error_field = field}, {});
        }
        std::string& body = scratch_body();
        wire::append_verdict(body, verdict);
        done({.status = status_of(verdict), .verdict = verdict, .limit = text}, body);
      });
}

}  // namespace weir::server
