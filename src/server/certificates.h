#pragma once

#include <array>
#include <memory>
#include <optional>

#include "net/tls_context.h"
#include "policy/config.h"
#include "server/file_stamp.h"
#include "weir/result.h"

namespace weir::server {

// The certificate that listeners present, reloaded when its files change. If the files do not fit
// together, such as a new certificate whose key is not written yet, the certificate in use stays;
// the next change of a file leads to another attempt. Used by one thread, except `current`.
class Certificates {
 public:
  static Result<std::unique_ptr<Certificates>, Error> open(const policy::TlsFiles& files);

  const net::CurrentTls& current() const { return current_; }

  // Loads these files from now on; they may be the same ones. Logs the result. False: they cannot
  // be used, and the certificate in use stays.
  bool use(const policy::TlsFiles& files);
  // Loads the files again if one of them has changed; none: no file has.
  std::optional<bool> reload_if_changed();

 private:
  using Stamps = std::array<FileStamp, 3>;
  Certificates(net::PemFiles files, const Stamps& stamps, net::TlsContext context)
      : files_(std::move(files)), stamps_(stamps), current_(std::move(context)) {}

  static Stamps stamps_of(const net::PemFiles& files);
  bool load();

  net::PemFiles files_;
  Stamps stamps_;  // taken before the files were read
  net::CurrentTls current_;
};

}  // namespace weir::server
