// Any bytes as a RateLimitRequest: our parser agrees with the Protocol Buffers library.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/envoy_messages.h"
#include "support/envoy_by_library.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view message(reinterpret_cast<const char*>(data), size);
  const weir::envoy::RateLimitRequest* const call =
      weir::server::EnvoyMessages::of_this_thread().read(message);
  const auto expected = weir::test_support::told_by_library(message);
  if (expected.has_value() != (call != nullptr)) std::abort();
  if (call != nullptr && weir::test_support::told(*call) != *expected) std::abort();
  return 0;
}
