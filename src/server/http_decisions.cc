#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "server/http_handlers.h"
#include "server/http_verbs.h"
#include "server/texts.h"
#include "wire/http1_target.h"
#include "wire/json.h"
#include "wire/json_write.h"

namespace weir::server {

// ---- Bodies of JSON

namespace {

bool is_json(std::string_view content_type) {
  if (content_type == wire::kJson) [[likely]]
    return true;
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::string plain = lowered(type.substr(0, type.find_last_not_of(" \t") + 1));
  return plain.empty() || plain == wire::kJson || plain.ends_with("+json");
}

}  // namespace

bool brings_json(HttpCall& call) {
  if (!call.request.says_length) {
    call.answer().problem(411, "a body is missing", "Content-Length");
    return false;
  }
  if (is_json(call.request.content_type)) return true;
  call.answer().problem(415, "the body must be application/json", "Content-Type");
  return false;
}

namespace {

wire::JsonReader& reader() {
  thread_local wire::JsonReader of_this_thread;
  return of_this_thread;
}

// What the body asks for, or nothing, and the call is answered.
std::optional<wire::ApiBody> read_body(HttpCall& call, const wire::ApiFields& fields) {
  const auto refuse = [&](int status, std::string_view detail, std::string_view field = {}) {
    call.answer().problem(status, detail, field);
    return std::nullopt;
  };
  if (!brings_json(call)) return std::nullopt;
  const wire::ApiBody body = reader().read(call.request.body, fields);
  if (!body.error.empty()) return refuse(400, body.error);
  const wire::ApiItem* const only = body.is_batch ? nullptr : body.items.data();
  if (only != nullptr && !only->error.empty()) return refuse(400, only->error, only->error_field);
  return body;
}

// The answers to the items of a batch, which are sent when the last of them is there.
class Batch {
 public:
  Batch(HttpLater later, std::size_t size) : later_(std::move(later)), bodies_(size), left_(size) {}

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
    later_.answer([&](HttpAnswer& answer) { answer.json(200, all); });
  }

 private:
  const HttpLater later_;
  std::vector<std::string> bodies_;
  std::size_t left_;
};

void answer_batch(HttpCall& call, const auto& verb, std::span<const wire::ApiItem> items) {
  const auto batch = std::make_shared<Batch>(call.later(), items.size());
  if (items.empty()) batch->send();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].error.empty()) {
      batch->set(i, items[i].error, {});
      continue;
    }
    verb(call.service, items[i].request, [batch, i](const Reply& reply, std::string_view body) {
      batch->set(i, reply.error, body);
    });
  }
}

void answer_one(HttpCall& call, const auto& verb, const wire::ApiRequest& asked,
                int refusal = 429) {
  verb(call.service, asked,
       [later = call.later(), &service = call.service, policy = std::string{asked.policy}, refusal](
           const Reply& reply, std::string_view body) {
         later.answer(
             [&](HttpAnswer& answer) { tell(answer, service, policy, reply, body, refusal); });
       });
}

void answer_body(HttpCall& call, const auto& verb, const wire::ApiBody& body) {
  body.is_batch ? answer_batch(call, verb, body.items)
                : answer_one(call, verb, body.items[0].request);
}

void on_body(HttpCall& call, const auto& verb, const wire::ApiFields& fields) {
  if (const auto body = read_body(call, fields)) answer_body(call, verb, *body);
}

}  // namespace

void on_take(HttpCall& call) {
  const auto body = read_body(call, wire::api::kTake);
  if (!body) return;
  const bool alone = body->is_batch || body->items[0].request.wants_receipt;
  if (!alone && call.collect(request_of(body->items[0].request))) return;
  call.finish_earlier();
  answer_body(call, take, *body);
}

void on_peek(HttpCall& call) { on_body(call, peek, wire::api::kPeek); }
void on_settle(HttpCall& call) { on_body(call, settle, wire::api::kSettle); }
void on_reset(HttpCall& call) {
  const auto audited = [&call](Service& service, const wire::ApiRequest& asked, Told told) {
    reset(service, asked,
          [line = reset_line(call.caller, request_of(asked)), told = std::move(told)](
              const Reply& reply, std::string_view body) {
            if (reply.error.empty()) write_log(Level::audit, line);
            told(reply, body);
          });
  };
  on_body(call, audited, wire::api::kReset);
}
void on_enter(HttpCall& call) { on_body(call, enter, wire::api::kEnter); }
void on_leave(HttpCall& call) { on_body(call, leave, wire::api::kLeave); }
void on_explain(HttpCall& call) { on_body(call, explain, wire::api::kExplain); }
void on_throttle(HttpCall& call) { on_body(call, throttle, wire::api::kThrottle); }

// ---- For nginx and Traefik

namespace {

struct Param {
  std::string_view value;
  std::string buffer;
  bool malformed = false;
};

// Nothing if there are several: nobody could say which of them counts.
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

// The query comes from the proxy's configuration; a header may come from a stranger whom the proxy
// lets through, so it only counts where the query says nothing.
void read_param(const HttpCall& call, std::string_view name, std::string_view header,
                Param& param) {
  const auto found = wire::query_value(call.request.query, name, param.buffer);
  using Status = wire::QueryValue::Status;
  param.malformed = found.status == Status::malformed || found.status == Status::repeated;
  param.value = found.value;
  if (found || header.empty()) return;
  const auto sent = only_field(call.request, header);
  param.malformed |= !sent;
  param.value = sent.value_or("");
}

// Those of headers X-Weir-Part-NAME. Names are in small letters: a header's own are lost on the
// way.
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
  thread_local Param policy;
  thread_local Param key;
  thread_local Param permits;
  thread_local Param deny;
  thread_local Param missing;
  read_param(call, "policy", "X-Weir-Policy", policy);
  read_param(call, "key", "X-Weir-Key", key);
  read_param(call, "permits", {}, permits);
  read_param(call, "deny", {}, deny);
  read_param(call, "missing", {}, missing);
  const std::pair<std::string_view, const Param*> all[] = {{"policy", &policy},
                                                           {"key", &key},
                                                           {"permits", &permits},
                                                           {"deny", &deny},
                                                           {"missing", &missing}};
  for (const auto& [name, param] : all) {
    if (param->malformed) return call.answer().problem(400, "malformed or given twice", name);
  }
  if (policy.value.empty()) {
    return call.answer().problem(400, "no policy: write ?policy=… or send X-Weir-Policy", "policy");
  }
  const bool skips_missing = missing.value == "skip";
  if (!missing.value.empty() && !skips_missing) {
    return call.answer().problem(400, "missing is skip, or not there", "missing");
  }
  const Parts parts = key.value.empty() ? parts_of(call.request) : Parts{};
  if (key.value.empty() && parts.empty() && !skips_missing) {
    return call.answer().problem(
        400, "no key: write &key=… or send X-Weir-Key, or X-Weir-Part-NAME for each part", "key");
  }
  const auto count = permits.value.empty() ? 1 : whole_number(permits.value);
  // (Of none everybody has enough: whoever can write into the query must not get by with that.)
  if (!count || *count < 1) {
    return call.answer().problem(400, "permits is a whole number of at least 1", "permits");
  }
  const auto refusal = deny.value.empty() ? 429 : whole_number(deny.value);
  if (!refusal || *refusal < 400 || *refusal > 599) {
    return call.answer().problem(400, "deny is a status from 400 to 599", "deny");
  }
  const wire::ApiRequest asked{.policy = policy.value,
                               .key = key.value,
                               .parts = parts,
                               .skip_missing = skips_missing,
                               .permits = *count};
  answer_one(call, take, asked, static_cast<int>(*refusal));
}

}  // namespace weir::server
