#include "server/take_batch.h"

#include <memory>

#include "server/http_verbs.h"

namespace weir::server {

namespace {

std::size_t bytes_of(const Request& request) {
  std::size_t bytes = request.policy.size() + request.key.size();
  for (const Part& part : request.parts.all()) bytes += part.name.size() + part.value.size();
  return bytes;
}

}  // namespace

TakeBatch& TakeBatch::of_this_thread() {
  thread_local const auto takes = std::make_unique<TakeBatch>();
  return *takes;
}

bool TakeBatch::add(ServerContext& context, const Request& request, wire::HttpConnection connection,
                    std::string& out) {
  const std::size_t bytes = bytes_of(request);
  if (bytes > texts_.size()) return false;
  if (size_ == kMaxTakes || bytes > texts_.size() - used_) decide(context, out);
  Request& own = requests_[size_];
  own = {.policy = copy(request.policy),
         .key = copy(request.key),
         .permits = request.permits,
         .max_wait = request.max_wait};
  for (const Part& part : request.parts.all()) own.parts.add({copy(part.name), copy(part.value)});
  connections_[size_++] = connection;
  return true;
}

void TakeBatch::decide_one(ServerContext& context, const Request& request,
                           HttpResponder& response) {
  Verdict verdict = context.engine.take(request);
  send_verdict(response, context, request, verdict);
}

void TakeBatch::decide_all(ServerContext& context, std::string& out) {
  const auto requests = std::span(requests_).first(size_);
  const auto verdicts = std::span(verdicts_).first(size_);
  context.engine.take_all(requests, verdicts);
  for (std::size_t i = 0; i < size_; ++i) {
    HttpResponder response(out, connections_[i]);
    send_verdict(response, context, requests[i], verdicts[i]);
  }
  size_ = used_ = 0;
}

std::string_view TakeBatch::copy(std::string_view text) {
  char* const at = texts_.data() + used_;
  used_ += text.copy(at, text.size());
  return {at, text.size()};
}

}  // namespace weir::server
