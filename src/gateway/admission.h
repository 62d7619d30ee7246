#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gateway/request_key.h"
#include "weir/async_engine.h"

namespace weir::gateway {

// Properties of a policy that decide how it is asked.
struct PolicyTraits {
  bool has_concurrency = false;  // has concurrency limits: callers enter and leave
  Nanos hold_time{0};            // the shortest hold time of these
  bool has_queue = false;        // has limits with a queue: admitted callers may have to wait
};

// Receives the verdict of an Admission.
class AdmissionCallback {
 public:
  virtual void on_verdict(const Verdict& verdict) = 0;

 protected:
  ~AdmissionCallback() = default;
};

class Admission;

// Retries `leave` for admissions of which it is unknown whether the fleet has received it. Without
// a retry their permits would stay taken until the hold time ends. For one thread.
class LeaveRetries {
 public:
  void add(std::shared_ptr<Admission> admission);
  // To be called periodically.
  void retry_all();

 private:
  std::vector<std::shared_ptr<Admission>> admissions_;
};

// The permits of one request: takes them, renews held ones, and settles or returns them at the end.
// Lives until the last answer of the fleet has come, also if the request has ended before. For one
// thread.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  Admission(AsyncEngine& engine, LeaveRetries& leave_retries)
      : engine_(engine), leave_retries_(leave_retries) {}

  // To be filled in before `ask`.
  RequestKey key;
  std::shared_ptr<const void>
      config_owner;  // keeps alive the configuration that the key borrows from

  // Asks the policy; the callback may run before this returns. `policy` is copied. `needs_receipt`:
  // a receipt is needed, because permits may be returned or corrected.
  void ask(std::string_view policy, const PolicyTraits& traits, Permits permits, bool needs_receipt,
           AdmissionCallback& callback);
  // Extends the hold time of a concurrent request.
  void renew_hold();
  // The request is complete; it used `correction` more permits than it took (less if negative).
  void finish(Permits correction);
  // The request was not served: returns everything that it took.
  void return_all();
  // Sends `leave` once more, unless the hold time has ended anyway.
  void retry_leave();

 private:
  using Clock = std::chrono::steady_clock;
  Request request() const;
  void on_verdict(const Verdict& verdict);
  void leave();
  void on_left(const Result<bool, OperationError>& left);
  void settle(Permits delta);

  AsyncEngine& engine_;
  LeaveRetries& leave_retries_;
  AdmissionCallback* callback_ = nullptr;  // null: the request has ended
  std::string policy_;
  std::string holder_;  // empty: has not entered
  Receipt receipt_;
  Permits permits_ = 1;
  bool has_receipt_ = false;
  bool pending_ = false;
  bool admitted_ = false;      // admitted, and not returned yet
  bool fleet_unsure_ = false;  // the fleet may have counted it without this node knowing
  Nanos hold_time_{0};
  Clock::time_point hold_end_{};  // end of the hold time after `leave`
};

}  // namespace weir::gateway
