#include "server/http_call.h"

namespace weir::server {

Rights rights_of(const wire::HttpRequest& request, const net::Peer& peer, const Access& access) {
  Rights rights = rights_from(request.authorization, access);
  rights.loopback = peer.loopback;
  return rights;
}

}  // namespace weir::server
