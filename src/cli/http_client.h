#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "weir/result.h"

namespace weir::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// Asks a daemon and waits for its answer. Errors: the address makes no sense, nobody answers in
// time, or it is not who it should be.
struct HttpClient {
  std::string url{};    // http://127.0.0.1:7380, or https://
  std::string token{};  // sent if there is one
  std::chrono::milliseconds patience{10'000};

  // Of https, in PEM.
  std::string ca{};    // who signed the daemon's certificate; empty: those the system trusts
  std::string cert{};  // shown to a daemon that asks for one
  std::string key{};

  // What is wrong with an address, if something is.
  static std::optional<Error> check(const std::string& url);

  Result<HttpAnswer, Error> ask(std::string_view method, std::string_view path,
                                std::string_view body = {}) const;
};

}  // namespace weir::cli
