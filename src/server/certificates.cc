#include "server/certificates.h"

#include <algorithm>

#include "server/log.h"

namespace weir::server {

namespace {

net::TlsFiles files_of(const policy::Tls& tls) {
  return {.cert = tls.cert, .key = tls.key, .ca = tls.ca};
}

}  // namespace

Certificates::Stamps Certificates::stamps_of(const net::TlsFiles& files) {
  return {FileStamp::of(files.cert), FileStamp::of(files.key), FileStamp::of(files.ca)};
}

Result<std::unique_ptr<Certificates>, Error> Certificates::open(const policy::Tls& tls) {
  net::TlsFiles files = files_of(tls);
  const Stamps stamps = stamps_of(files);
  auto context = net::load_tls(files);
  if (!context) return context.error();
  return std::unique_ptr<Certificates>(
      new Certificates(std::move(files), stamps, *std::move(context)));
}

bool Certificates::use(const policy::Tls& tls) {
  files_ = files_of(tls);
  seen_ = stamps_of(files_);
  return load();
}

std::optional<bool> Certificates::look() {
  const Stamps stamps = stamps_of(files_);
  if (std::equal(stamps.begin(), stamps.end(), seen_.begin())) return std::nullopt;
  seen_ = stamps;
  return load();
}

bool Certificates::load() {
  auto context = net::load_tls(files_);
  if (!context) {
    log(Level::error, "{}; the certificate in use stays", context.error().message);
    return false;
  }
  current_.use(*std::move(context));
  log(Level::info, "the certificate {} is used by new connections", files_.cert);
  return true;
}

}  // namespace weir::server
