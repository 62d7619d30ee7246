#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/rate_headers.h"
#include "gateway/config.h"
#include "policy/grants.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "wire/rate_fields.h"

namespace weir::gateway {

// What clients are told about limits, for the policies in force. Made anew when they change.
// Thread-safe: nothing changes after construction.
class RateLines {
 public:
  explicit RateLines(const policy::PolicySet& policies, LegacyHeaders legacy = {});

  // Appends the lines of a style for an answer, refused or not, each with its CRLF, and in every
  // style whether the store could not be asked. `asked`: the permits that the request asked for.
  void append(std::string& out, HeaderStyle style, std::string_view policy, const Verdict& verdict,
              Permits asked) const;

 private:
  struct Lines {
    std::string policy_field;  // RateLimit-Policy; empty where limits depend on the key or the time
    std::vector<policy::Grant> grants;
    std::set<std::string, std::less<>> held;  // the names of concurrent limits, for anybody
    bool nobody_counts = false;               // while the store cannot be asked: open or closed
  };
  static void append_scg(std::string& out, const Lines& lines, const Verdict& verdict,
                         Permits asked);

  std::map<std::string, Lines, std::less<>> by_policy_;
  LegacyHeaders legacy_;
};

// An answer of the gateway's own: everything but the start line, Content-Length and Connection.
struct Answer {
  int status = 429;
  std::string fields{};  // lines with their CRLF, Content-Type among them
  std::string body{};
};

// What of a route's `refused:` is for a verdict: that of the limit that refuses, if it has its own.
const Refused& refused_by(const Route& route, const Verdict& verdict);

// What a route answers to a request that its limits refuse, or because they could not be asked and
// its policy is closed (503). Not for routes with a fallback, unless that cannot be asked.
Answer refuse(const Route& route, const RateLines& lines, const Verdict& verdict, Permits asked);

// To a request without a key, where that is denied. As Spring does, without rate fields.
// `missing` names what the key would have been taken from.
Answer deny_empty_key(const Route& route, std::string_view missing);

// Any other answer of the gateway's own: problem+json with a status and a sentence.
Answer problem(int status, std::string_view detail);

}  // namespace weir::gateway
