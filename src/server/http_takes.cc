#include "server/http_takes.h"

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

HttpTakes& HttpTakes::of_this_thread() {
  thread_local const auto takes = std::make_unique<HttpTakes>();
  return *takes;
}

bool HttpTakes::add(Service& service, const Request& request, wire::HttpConnection connection,
                    std::string& out) {
  const std::size_t bytes = bytes_of(request);
  if (bytes > texts_.size()) return false;
  if (size_ == kMost || bytes > texts_.size() - used_) decide(service, out);
  Request& kept = requests_[size_];
  kept = {.policy = copy(request.policy),
          .key = copy(request.key),
          .permits = request.permits,
          .max_wait = request.max_wait};
  for (const Part& part : request.parts.all()) kept.parts.add({copy(part.name), copy(part.value)});
  connections_[size_++] = connection;
  return true;
}

void HttpTakes::decide_alone(Service& service, const Request& request, HttpAnswer& answer) {
  Verdict verdict = service.engine.take(request);
  tell(answer, service, request, verdict);
}

void HttpTakes::decide_all(Service& service, std::string& out) {
  const auto requests = std::span(requests_).first(size_);
  const auto verdicts = std::span(verdicts_).first(size_);
  service.engine.take_all(requests, verdicts);
  for (std::size_t i = 0; i < size_; ++i) {
    HttpAnswer answer(out, connections_[i]);
    tell(answer, service, requests[i], verdicts[i]);
  }
  size_ = used_ = 0;
}

std::string_view HttpTakes::copy(std::string_view text) {
  char* const at = texts_.data() + used_;
  used_ += text.copy(at, text.size());
  return {at, text.size()};
}

}  // namespace weir::server
