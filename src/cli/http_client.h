#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "weir/result.h"

namespace weir::cli {

// A complete response.
struct ApiResponse {
  int status = 0;
  std::string body;
};

// A blocking HTTP/1.1 client, with a new connection for each request. Errors: the address is
// invalid, the connection failed, the response did not arrive in time, or the certificate is not
// trusted.
struct HttpClient {
  std::string url{};                          // http://127.0.0.1:7380, or https://
  std::string token{};                        // sent as a bearer token, unless empty
  std::chrono::milliseconds timeout{10'000};  // of the whole request

  // PEM files for https.
  std::string ca{};    // CA certificates; empty: those that the system trusts
  std::string cert{};  // client certificate, for a daemon that requires one
  std::string key{};

  // The error of an invalid address.
  static std::optional<Error> check(const std::string& url);

  Result<ApiResponse, Error> call(std::string_view method, std::string_view path,
                                  std::string_view body = {}) const;
};

}  // namespace weir::cli
