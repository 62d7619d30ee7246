#pragma once

#include <array>
#include <string>
#include <string_view>

#include "server/http_responder.h"
#include "server/server_context.h"
#include "wire/http1_response.h"

namespace weir::server {

// Pipelined takes of a connection that are decided together, which costs less than one by one. It
// is empty between turns of the loop, so one object serves all sessions of a thread.
// Not thread-safe.
class TakeBatch {
 public:
  static TakeBatch& of_this_thread();

  // Copies the request. If the batch is full, the takes in it are decided first. False if the
  // request is larger than an empty batch.
  bool add(ServerContext& context, const Request& request, wire::HttpConnection connection,
           std::string& out);

  // Decides a take that has no neighbours, without a copy.
  static void decide_one(ServerContext& context, const Request& request, HttpResponder& response);
  bool empty() const { return size_ == 0; }

  // Drops takes that an exception has left undecided: their connection is closed.
  struct ClearGuard {
    explicit ClearGuard(TakeBatch& its_takes) : takes(its_takes) {}
    ~ClearGuard() { takes.size_ = takes.used_ = 0; }
    ClearGuard(const ClearGuard&) = delete;
    ClearGuard& operator=(const ClearGuard&) = delete;
    TakeBatch& takes;
  };

  // Decides the takes and appends the responses, in the order of the requests.
  void decide(ServerContext& context, std::string& out) {
    if (size_ > 0) decide_all(context, out);
  }

 private:
  static constexpr std::size_t kMaxTakes = 64;

  void decide_all(ServerContext& context, std::string& out);
  std::string_view copy(std::string_view text);

  std::array<Request, kMaxTakes> requests_;
  std::array<Verdict, kMaxTakes> verdicts_;
  std::array<wire::HttpConnection, kMaxTakes> connections_;
  std::size_t size_ = 0;
  std::array<char, 16 << 10> texts_;  // that the requests borrow
  std::size_t used_ = 0;              // bytes of texts_
};

}  // namespace weir::server
