#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "policy/grants.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "wire/rate_fields.h"
#include "wire/rate_headers.h"

namespace weir::gateway {

// The rate limit headers of responses, for the policies in force. Replaced when the policies
// change. Thread-safe: immutable.
class RateLimitHeaders {
 public:
  explicit RateLimitHeaders(const policy::PolicySet& policies, wire::LegacyHeaders legacy = {});

  // Appends the header lines of a style, each with its CRLF, for allowed and denied requests; in
  // every style also Weir-Degraded if the store was unreachable. `permits`: the permits of the
  // request.
  void append(std::string& out, wire::HeaderStyle style, std::string_view policy,
              const Verdict& verdict, Permits permits) const;

 private:
  struct PolicyHeaders {
    std::string policy_field;  // RateLimit-Policy; empty: limits depend on the key or the time
    std::vector<policy::Grant> grants;
    std::set<std::string, std::less<>>
        concurrency_limits;  // names of the concurrency limits, over all keys
    // With the store down requests are not counted (on_store_failure: open or closed).
    bool uncounted_if_down = false;
  };
  static void append_scg(std::string& out, const PolicyHeaders& headers, const Verdict& verdict,
                         Permits permits);

  std::map<std::string, PolicyHeaders, std::less<>> by_policy_;
  wire::LegacyHeaders legacy_;
};

// A response of the gateway itself: all but the status line, Content-Length and Connection.
struct LocalReply {
  int status = 429;
  std::string fields{};  // lines with their CRLF, Content-Type included
  std::string body{};
};

// The `refused:` settings for a verdict: those of the limit that refused, if it has its own.
const RefusalConfig& refusal_for(const RouteConfig& route, const Verdict& verdict);

// The reply to a request that the limits refused, or that was refused because the store is
// unreachable and the policy is closed (503). A route with a fallback sends it only if the fallback
// was not used.
LocalReply deny_reply(const RouteConfig& route, const RateLimitHeaders& headers,
                      const Verdict& verdict, Permits permits);

// The reply to a request with an empty key, where that is denied; without rate limit headers, as in
// Spring Cloud Gateway. `missing`: the source of the key (RequestKey::problem_source).
LocalReply empty_key_reply(const RouteConfig& route, std::string_view missing);

// Any other local reply: problem+json (RFC 9457) with a detail.
LocalReply problem_reply(int status, std::string_view detail);

}  // namespace weir::gateway
