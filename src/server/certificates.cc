#include "server/certificates.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>

#include "server/log.h"

namespace weir::server {

namespace {

net::PemFiles files_of(const policy::TlsFiles& tls) {
  return {.cert = tls.cert, .key = tls.key, .ca = tls.ca};
}

// Logs until when clients trust the certificate. An expired one is used nevertheless: clients that
// do not check the date are still served.
void log_certificate(const net::TlsContext& context, const std::string& cert,
                     std::string_view event) {
  const std::time_t expiry = net::expiry_of(context);
  const bool expired = expiry < std::time(nullptr);
  log(expired ? LogLevel::warning : LogLevel::info,
      "the certificate {} {}, {} {:%Y-%m-%d %H:%M} UTC", cert, event,
      expired ? "but clients will not trust it: it expired" : "valid until", fmt::gmtime(expiry));
}

}  // namespace

Certificates::Stamps Certificates::stamps_of(const net::PemFiles& files) {
  return {FileStamp::of(files.cert), FileStamp::of(files.key), FileStamp::of(files.ca)};
}

Result<std::unique_ptr<Certificates>, Error> Certificates::open(const policy::TlsFiles& tls) {
  net::PemFiles files = files_of(tls);
  const Stamps stamps = stamps_of(files);
  auto context = net::load_tls(files);
  if (!context) return context.error();
  log_certificate(*context, files.cert, "is used");
  return std::unique_ptr<Certificates>(
      new Certificates(std::move(files), stamps, *std::move(context)));
}

bool Certificates::use(const policy::TlsFiles& tls) {
  files_ = files_of(tls);
  stamps_ = stamps_of(files_);
  return load();
}

std::optional<bool> Certificates::reload_if_changed() {
  const Stamps stamps = stamps_of(files_);
  if (std::equal(stamps.begin(), stamps.end(), stamps_.begin())) return std::nullopt;
  stamps_ = stamps;
  return load();
}

bool Certificates::load() {
  auto context = net::load_tls(files_);
  if (!context) {
    log(LogLevel::error, "{}; the certificate in use stays", context.error().message);
    return false;
  }
  current_.use(*context);
  log_certificate(*context, files_.cert, "is used by new connections");
  return true;
}

}  // namespace weir::server
