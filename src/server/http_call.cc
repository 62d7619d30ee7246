#include "server/http_call.h"

namespace weir::server {

Rights HttpCall::rights() const {
  Rights rights = rights_from(request.authorization, service.access);
  rights.loopback = loopback_;
  return rights;
}

}  // namespace weir::server
