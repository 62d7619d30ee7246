#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/listen.h"
#include "weir/result.h"

namespace weir::store::redis {

using Addresses = Result<std::vector<net::Address>, Error>;

// The addresses that are written as such, in digits; nothing looks them up. Empty if it is a name.
std::vector<net::Address> numeric_address(const std::string& host, std::uint16_t port);

// Looks one name up, as often as wanted. The system has no way to do that without waiting, so each
// time a thread does it that lives only for this; if nobody wants to know any more, it ends by
// itself, later. There is never more than one: whoever starts while it is at work waits for it.
class Lookup {
 public:
  Lookup();
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // Becomes readable when there is a result.
  int descriptor() const;

  void start(const std::string& host, std::uint16_t port);
  void forget();
  // Of the last start; null if it is not there yet. Once.
  std::unique_ptr<Addresses> result();

 private:
  struct Mailbox;
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace weir::store::redis
