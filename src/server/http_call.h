#pragma once

#include "net/protocol.h"
#include "server/audit.h"
#include "server/http_answer.h"
#include "server/http_takes.h"
#include "server/service.h"
#include "wire/http1.h"

namespace weir::server {

// One request and the way to its answer.
class HttpCall {
 public:
  // `last`: nothing has come behind it yet.
  HttpCall(Service& the_service, const wire::HttpRequest& the_request, const net::Peer& peer,
           bool last, HttpTakes& takes, wire::HttpConnection connection, std::string& out)
      : service(the_service),
        request(the_request),
        caller{.address = peer.address, .door = "HTTP"},
        loopback_(peer.loopback),
        last_(last),
        takes_(takes),
        connection_(connection),
        out_(out),
        answer_(out, connection, request.head) {}

  Service& service;
  const wire::HttpRequest& request;
  const Caller caller;

  Rights rights() const;

  // Decides a take together with those behind it, which answers it; false if that cannot be.
  bool collect(const Request& take) {
    if (!last_ || !takes_.empty()) return takes_.add(service, take, connection_, out_);
    takes_.decide_alone(service, take, connection_, out_);
    return true;
  }
  // Whoever asked before has the answer then, and what it did is done.
  void finish_earlier() { takes_.decide(service, out_); }

  HttpAnswer& answer() {
    finish_earlier();
    return answer_;
  }

 private:
  const bool loopback_;
  const bool last_;
  HttpTakes& takes_;
  const wire::HttpConnection connection_;
  std::string& out_;
  HttpAnswer answer_;
};

}  // namespace weir::server
