#pragma once

#include "server/h2_session.h"
#include "server/take_batch.h"

namespace weir::server {

// The HTTP API over HTTP/2: one request on each stream. http_routes.h has its routes.
// Used by the thread that made it.
class H2ApiSession final : public H2Session {
 public:
  H2ApiSession(ServerContext& context, const net::Peer& peer);

 private:
  class Sink;

  std::size_t most_body(const wire::H2Stream& stream) override;
  void on_request(wire::H2Stream& stream) override;

  const net::Peer peer_;
  TakeBatch& takes_;
};

}  // namespace weir::server
