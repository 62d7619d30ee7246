#pragma once

#include <memory>

#include "net/protocol.h"
#include "server/answers.h"
#include "server/audit.h"
#include "server/http_answer.h"
#include "server/http_takes.h"
#include "server/service.h"
#include "wire/http1.h"

namespace weir::server {

// Where an answer goes that may come later.
struct HttpLater {
  std::shared_ptr<Answers::Place> place;  // none: it goes to the sink
  wire::HttpConnection connection;
  bool head;
  std::shared_ptr<HttpSink> sink{};

  // Once.
  void answer(const auto& write) const {
    if (place == nullptr) {
      HttpAnswer answer(*sink, head);
      return write(answer);
    }
    HttpAnswer answer(place->text, connection, head);
    write(answer);
    place->done();
  }
};

// What the sender of a request has shown that it may do.
Rights rights_of(const wire::HttpRequest& request, const net::Peer& peer, const Access& access);

// One request and the way to its answer.
class HttpCall {
 public:
  // `last`: nothing has come behind it yet.
  HttpCall(Service& the_service, const wire::HttpRequest& the_request, const net::Peer& peer,
           bool last, HttpTakes& takes, Answers& answers, wire::HttpConnection connection,
           std::string& out)
      : service(the_service),
        request(the_request),
        caller{.address = peer.address, .door = "HTTP"},
        peer_(peer),
        last_(last),
        takes_(takes),
        answers_(&answers),
        connection_(connection),
        out_(out),
        answer_(out, connection, request.head) {}

  // One that nobody is before or behind, whose answer is no text of HTTP/1. `nothing` is not used.
  HttpCall(Service& the_service, const wire::HttpRequest& the_request, const net::Peer& peer,
           HttpTakes& takes, std::shared_ptr<HttpSink> sink, std::string& nothing)
      : service(the_service),
        request(the_request),
        caller{.address = peer.address, .door = "HTTP"},
        peer_(peer),
        last_(true),
        takes_(takes),
        answers_(nullptr),
        connection_(wire::HttpConnection::unsaid),
        out_(nothing),
        sink_(std::move(sink)),
        answer_(*sink_, request.head) {}

  Service& service;
  const wire::HttpRequest& request;
  const Caller caller;

  Rights rights() const { return rights_of(request, peer_, service.access); }

  // Decides a take together with those behind it, which answers it; false if that cannot be.
  bool collect(const Request& take) {
    if (service.has_fleet) return false;
    if (!last_ || !takes_.empty()) return takes_.add(service, take, connection_, out_);
    HttpTakes::decide_alone(service, take, answer_);
    return true;
  }
  // Whoever asked before has the answer then, and what it did is done.
  void finish_earlier() { takes_.decide(service, out_); }

  // Instead of `answer`, for who has to ask others first.
  HttpLater later() {
    finish_earlier();
    return {answers_ != nullptr ? answers_->add() : nullptr, connection_, request.head, sink_};
  }

  HttpAnswer& answer() {
    finish_earlier();
    return answer_;
  }

 private:
  const net::Peer& peer_;
  const bool last_;
  HttpTakes& takes_;
  Answers* const answers_;
  const wire::HttpConnection connection_;
  std::string& out_;
  const std::shared_ptr<HttpSink> sink_{};
  HttpAnswer answer_;
};

// Answers a call with what `work` returns. Work may block: it runs on the worker, and borrows
// nothing from the call. `write` is given the answer and the result, on the thread of the call.
template <typename Work, typename Write>
void answer_after(HttpCall& call, Work work, Write write) {
  auto finish = [later = call.later(), write = std::move(write)](const auto& result) {
    later.answer([&](HttpAnswer& answer) { write(answer, result); });
  };
  auto mailbox = net::mailbox_of_this_thread();
  if (call.service.worker == nullptr || mailbox == nullptr) return finish(work());
  call.service.worker->run(
      [work = std::move(work), finish = std::move(finish), mailbox = std::move(mailbox)] {
        mailbox->post([finish, result = work()] { finish(result); });
      });
}

}  // namespace weir::server
