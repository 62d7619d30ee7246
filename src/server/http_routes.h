#pragma once

#include <string>
#include <string_view>

#include "server/service.h"
#include "wire/http1.h"
#include "wire/http1_response.h"

namespace weir::server {

// One request and the way to its answer.
class HttpCall {
 public:
  HttpCall(Service& the_service, const wire::HttpRequest& the_request, bool loopback,
           wire::HttpConnection connection, std::string& out)
      : service(the_service),
        request(the_request),
        loopback_(loopback),
        connection_(connection),
        out_(out) {}

  Service& service;
  const wire::HttpRequest& request;

  Rights rights() const;

  // Each call is answered once. `fields` are lines with their CRLF.
  void respond(int status, std::string_view content_type, std::string_view body,
               std::string_view fields = {});
  void json(int status, std::string_view body, std::string_view fields = {});
  void problem(int status, std::string_view detail, std::string_view field = {},
               std::string_view fields = {});

 private:
  const bool loopback_;
  const wire::HttpConnection connection_;
  std::string& out_;
};

// Finds who answers a request, and lets it answer.
void route(HttpCall& call);

}  // namespace weir::server
