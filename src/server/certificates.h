#pragma once

#include <array>
#include <memory>
#include <optional>

#include "net/tls_context.h"
#include "policy/config.h"
#include "server/file_stamp.h"
#include "weir/result.h"

namespace weir::server {

// The certificate that doors show, as its files are now. Files that do not fit together, such as a
// new certificate whose key is still to come, change nothing; they are tried again when one of them
// changes. Used by one thread, but for `current`.
class Certificates {
 public:
  static Result<std::unique_ptr<Certificates>, Error> open(const policy::Tls& files);

  const net::CurrentTls& current() const { return current_; }

  // Other files from now on, or the same anew. Whether they could be used; the log has what came of
  // it.
  bool use(const policy::Tls& files);
  // Reads the files again if one of them has changed. Nothing if none has.
  std::optional<bool> look();

 private:
  using Stamps = std::array<FileStamp, 3>;
  Certificates(net::TlsFiles files, const Stamps& stamps, net::TlsContext context)
      : files_(std::move(files)), seen_(stamps), current_(std::move(context)) {}

  static Stamps stamps_of(const net::TlsFiles& files);
  bool load();

  net::TlsFiles files_;
  Stamps seen_;  // of the files before they were read
  net::CurrentTls current_;
};

}  // namespace weir::server
