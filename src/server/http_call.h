#pragma once

#include <memory>

#include "net/protocol.h"
#include "server/audit.h"
#include "server/http_responder.h"
#include "server/response_queue.h"
#include "server/server_context.h"
#include "server/take_batch.h"
#include "wire/http1.h"

namespace weir::server {

// A response that may be sent after the call's handler has returned.
struct DeferredResponse {
  std::shared_ptr<ResponseQueue::Slot> slot;  // none: it goes to `sink`
  wire::HttpConnection connection;
  bool head;
  std::shared_ptr<ResponseSink> sink{};

  // Once.
  void send(const auto& write) const {
    if (slot == nullptr) {
      HttpResponder response(*sink, head);
      return write(response);
    }
    HttpResponder response(slot->text, connection, head);
    write(response);
    slot->complete();
  }
};

// The rights that the sender of a request has shown.
Rights rights_of(const wire::HttpRequest& request, const net::Peer& peer, const Access& access);

// One request to the HTTP API, and the way to its response. Valid while the request is handled.
class HttpCall {
 public:
  // A request of HTTP/1. `last`: no input has arrived behind it yet.
  HttpCall(ServerContext& the_context, const wire::HttpRequest& the_request, const net::Peer& peer,
           bool last, TakeBatch& takes, ResponseQueue& responses, wire::HttpConnection connection,
           std::string& out)
      : context(the_context),
        request(the_request),
        caller{.address = peer.address, .listener = "HTTP"},
        peer_(peer),
        last_(last),
        takes_(takes),
        responses_(&responses),
        connection_(connection),
        out_(out),
        response_(out, connection, request.head) {}

  // A request of HTTP/2, which waits for no other and is answered by way of `sink`. `unused` stands
  // in for the output of a connection.
  HttpCall(ServerContext& the_context, const wire::HttpRequest& the_request, const net::Peer& peer,
           TakeBatch& takes, std::shared_ptr<ResponseSink> sink, std::string& unused)
      : context(the_context),
        request(the_request),
        caller{.address = peer.address, .listener = "HTTP"},
        peer_(peer),
        last_(true),
        takes_(takes),
        responses_(nullptr),
        connection_(wire::HttpConnection::unsaid),
        out_(unused),
        sink_(std::move(sink)),
        response_(*sink_, request.head) {}

  ServerContext& context;
  const wire::HttpRequest& request;
  const Caller caller;

  Rights rights() const { return rights_of(request, peer_, context.access); }

  // Adds a take to the batch, which decides and answers it; a take without neighbours is decided at
  // once. False if neither is possible.
  bool collect(const Request& take) {
    if (context.has_fleet) return false;
    if (!last_ || !takes_.empty()) return takes_.add(context, take, connection_, out_);
    TakeBatch::decide_one(context, take, response_);
    return true;
  }
  // Decides and answers the takes of earlier requests, so that this request sees their effects.
  void flush_takes() { takes_.decide(context, out_); }

  // For handlers that answer later, in place of `response`.
  DeferredResponse defer() {
    flush_takes();
    return {responses_ != nullptr ? responses_->add() : nullptr, connection_, request.head, sink_};
  }

  HttpResponder& response() {
    flush_takes();
    return response_;
  }

 private:
  const net::Peer& peer_;
  const bool last_;
  TakeBatch& takes_;
  ResponseQueue* const responses_;  // none: HTTP/2
  const wire::HttpConnection connection_;
  std::string& out_;
  const std::shared_ptr<ResponseSink> sink_{};
  HttpResponder response_;
};

// Runs `work`, which may block, on the job thread, and then `write(response, result)` on the thread
// of the call. `work` must not borrow from the call.
template <typename Work, typename Write>
void respond_after(HttpCall& call, Work work, Write write) {
  auto finish = [deferred = call.defer(), write = std::move(write)](const auto& result) {
    deferred.send([&](HttpResponder& response) { write(response, result); });
  };
  auto mailbox = net::mailbox_of_this_thread();
  if (call.context.job_thread == nullptr || mailbox == nullptr) return finish(work());
  call.context.job_thread->run(
      [work = std::move(work), finish = std::move(finish), mailbox = std::move(mailbox)] {
        mailbox->post([finish, result = work()] { finish(result); });
      });
}

}  // namespace weir::server
