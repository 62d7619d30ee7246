#pragma once

#include "server/h2_session.h"
#include "server/http_takes.h"

namespace weir::server {

// The HTTP API over HTTP/2: a request on each stream. What a request means is in http_routes.h.
// Used by the thread that made it.
class HttpStreams final : public H2Session {
 public:
  HttpStreams(Service& service, const net::Peer& peer);

 private:
  class Sink;

  std::size_t most_body(const wire::H2Stream& stream) override;
  void on_request(wire::H2Stream& stream) override;

  const net::Peer peer_;
  HttpTakes& takes_;
};

}  // namespace weir::server
