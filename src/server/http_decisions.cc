#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "server/format.h"
#include "server/http_handlers.h"
#include "server/http_verbs.h"
#include "wire/http1_target.h"
#include "wire/json.h"
#include "wire/json_write.h"

namespace weir::server {

// ---- JSON bodies

namespace {

bool is_json(std::string_view content_type) {
  if (content_type == wire::kJson) [[likely]]
    return true;
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::string plain = lowered(type.substr(0, type.find_last_not_of(" \t") + 1));
  return plain.empty() || plain == wire::kJson || plain.ends_with("+json");
}

}  // namespace

bool has_json_body(HttpCall& call) {
  if (!call.request.declares_length) {
    call.response().problem(411, "the request has no body", "Content-Length");
    return false;
  }
  if (is_json(call.request.content_type)) return true;
  call.response().problem(415, "the body must be application/json", "Content-Type");
  return false;
}

namespace {

wire::JsonReader& reader() {
  thread_local wire::JsonReader of_this_thread;
  return of_this_thread;
}

// The parsed body; or none, and the call has been answered.
std::optional<wire::ApiBody> read_body(HttpCall& call, const wire::ApiFields& fields) {
  const auto refuse = [&](int status, std::string_view detail, std::string_view field = {}) {
    call.response().problem(status, detail, field);
    return std::nullopt;
  };
  if (!has_json_body(call)) return std::nullopt;
  const wire::ApiBody body = reader().read(call.request.body, fields);
  if (!body.error.empty()) return refuse(400, body.error);
  const wire::ApiItem* const only = body.is_batch ? nullptr : body.items.data();
  if (only != nullptr && !only->error.empty()) return refuse(400, only->error, only->error_field);
  return body;
}

// The response to a call with a list of items. Sent once the result of every item is set.
class ListResponse {
 public:
  ListResponse(DeferredResponse deferred, std::size_t size)
      : deferred_(std::move(deferred)), bodies_(size), left_(size) {}

  void set(std::size_t i, std::string_view error, std::string_view body) {
    if (error.empty()) {
      bodies_[i] = body;
    } else {
      wire::append_item_error(bodies_[i], error);
    }
    if (--left_ == 0) send();
  }
  void send() const {
    std::string all = "[";
    for (const std::string& body : bodies_) {
      if (&body != bodies_.data()) all += ',';
      all += body;
    }
    all += ']';
    deferred_.send([&](HttpResponder& response) { response.json(200, all); });
  }

 private:
  const DeferredResponse deferred_;
  std::vector<std::string> bodies_;
  std::size_t left_;
};

void answer_list(HttpCall& call, const auto& verb, std::span<const wire::ApiItem> items) {
  const auto list = std::make_shared<ListResponse>(call.defer(), items.size());
  if (items.empty()) list->send();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].error.empty()) {
      list->set(i, items[i].error, {});
      continue;
    }
    verb(call.context, items[i].request,
         [list, i](const Reply& reply, std::string_view body) { list->set(i, reply.error, body); });
  }
}

void answer_one(HttpCall& call, const auto& verb, const wire::ApiRequest& params,
                int refused_status = 429) {
  verb(call.context, params,
       [deferred = call.defer(), &context = call.context, policy = std::string{params.policy},
        refused_status](const Reply& reply, std::string_view body) {
         deferred.send([&](HttpResponder& response) {
           send_reply(response, context, policy, reply, body, refused_status);
         });
       });
}

void answer_body(HttpCall& call, const auto& verb, const wire::ApiBody& body) {
  body.is_batch ? answer_list(call, verb, body.items)
                : answer_one(call, verb, body.items[0].request);
}

void on_body(HttpCall& call, const auto& verb, const wire::ApiFields& fields) {
  if (const auto body = read_body(call, fields)) answer_body(call, verb, *body);
}

}  // namespace

void on_take(HttpCall& call) {
  const auto body = read_body(call, wire::api::kTake);
  if (!body) return;
  const bool needs_own_call = body->is_batch || body->items[0].request.wants_receipt;
  if (!needs_own_call && call.collect(request_of(body->items[0].request))) return;
  call.flush_takes();
  answer_body(call, take, *body);
}

void on_peek(HttpCall& call) { on_body(call, peek, wire::api::kPeek); }
void on_settle(HttpCall& call) { on_body(call, settle, wire::api::kSettle); }
void on_reset(HttpCall& call) {
  const auto audited = [&call](ServerContext& context, const wire::ApiRequest& params,
                               ReplyCallback done) {
    reset(context, params,
          [line = reset_audit_line(call.caller, request_of(params)), done = std::move(done)](
              const Reply& reply, std::string_view body) {
            if (reply.error.empty()) write_log(LogLevel::audit, line);
            done(reply, body);
          });
  };
  on_body(call, audited, wire::api::kReset);
}
void on_enter(HttpCall& call) { on_body(call, enter, wire::api::kEnter); }
void on_leave(HttpCall& call) { on_body(call, leave, wire::api::kLeave); }
void on_explain(HttpCall& call) { on_body(call, explain, wire::api::kExplain); }
void on_throttle(HttpCall& call) { on_body(call, throttle, wire::api::kThrottle); }

// ---- /v1/auth, for the auth_request of nginx and the ForwardAuth of Traefik

namespace {

struct AuthParam {
  std::string_view value;
  std::string buffer;
  bool malformed = false;
};

// The value of a field; empty if it is missing, none if it is repeated, which would be ambiguous.
std::optional<std::string_view> only_field(const wire::HttpRequest& request,
                                           std::string_view name) {
  std::string_view value;
  bool found = false;
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    if (!same_ignoring_case(request.fields[i].name, name)) continue;
    if (found) return std::nullopt;
    value = request.fields[i].value;
    found = true;
  }
  return value;
}

// The query wins over the header: it comes from the proxy's configuration, while a client may send
// any header through the proxy.
void read_param(const HttpCall& call, std::string_view name, std::string_view header,
                AuthParam& param) {
  const auto found = wire::query_value(call.request.query, name, param.buffer);
  using QueryStatus = wire::QueryValue::Status;
  param.malformed = found.status == QueryStatus::malformed || found.status == QueryStatus::repeated;
  param.value = found.value;
  if (found || header.empty()) return;
  const auto sent = only_field(call.request, header);
  param.malformed |= !sent;
  param.value = sent.value_or("");
}

// The parts in the headers X-Weir-Part-NAME. Their names are made lower case: proxies change the
// case of header names.
Parts parts_of(const wire::HttpRequest& request) {
  constexpr std::string_view start = "X-Weir-Part-";
  thread_local std::deque<std::string> names;
  names.clear();
  Parts parts;
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    const std::string_view name = request.fields[i].name;
    if (name.size() <= start.size()) continue;
    if (!same_ignoring_case(name.substr(0, start.size()), start)) continue;
    parts.add({names.emplace_back(lowered(name.substr(start.size()))), request.fields[i].value});
  }
  return parts;
}

}  // namespace

void on_auth(HttpCall& call) {
  thread_local AuthParam policy;
  thread_local AuthParam key;
  thread_local AuthParam permits;
  thread_local AuthParam deny;
  thread_local AuthParam missing;
  read_param(call, "policy", "X-Weir-Policy", policy);
  read_param(call, "key", "X-Weir-Key", key);
  read_param(call, "permits", {}, permits);
  read_param(call, "deny", {}, deny);
  read_param(call, "missing", {}, missing);
  const std::pair<std::string_view, const AuthParam*> all[] = {{"policy", &policy},
                                                               {"key", &key},
                                                               {"permits", &permits},
                                                               {"deny", &deny},
                                                               {"missing", &missing}};
  for (const auto& [name, param] : all) {
    if (param->malformed) {
      return call.response().problem(400, "this parameter is malformed or given twice", name);
    }
  }
  if (policy.value.empty()) {
    return call.response().problem(400, "no policy: write ?policy=… or send X-Weir-Policy",
                                   "policy");
  }
  const bool skips_missing = missing.value == "skip";
  if (!missing.value.empty() && !skips_missing) {
    return call.response().problem(400, "missing must be skip, or left out", "missing");
  }
  const Parts parts = key.value.empty() ? parts_of(call.request) : Parts{};
  if (key.value.empty() && parts.empty() && !skips_missing) {
    return call.response().problem(
        400, "no key: write &key=… or send X-Weir-Key, or X-Weir-Part-NAME for each part", "key");
  }
  const auto count = permits.value.empty() ? 1 : whole_number(permits.value);
  // Not 0: a take of no permits always passes, and a client may be able to add to the query.
  if (!count || *count < 1) {
    return call.response().problem(400, "permits must be a whole number of at least 1", "permits");
  }
  const auto refused_status = deny.value.empty() ? 429 : whole_number(deny.value);
  if (!refused_status || *refused_status < 400 || *refused_status > 599) {
    return call.response().problem(400, "deny must be a status from 400 to 599", "deny");
  }
  const wire::ApiRequest params{.policy = policy.value,
                                .key = key.value,
                                .parts = parts,
                                .skip_missing = skips_missing,
                                .permits = *count};
  answer_one(call, take, params, static_cast<int>(*refused_status));
}

}  // namespace weir::server
