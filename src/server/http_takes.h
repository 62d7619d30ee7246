#pragma once

#include <array>
#include <string>
#include <string_view>

#include "server/http_answer.h"
#include "server/service.h"
#include "wire/http1_response.h"

namespace weir::server {

// Takes that came one behind the other on a connection and wait to be decided together, which costs
// less. One for all sessions of a thread, as none of them keeps anything in it.
// Not thread-safe.
class HttpTakes {
 public:
  static HttpTakes& of_this_thread();

  // Keeps copies of what the request borrows. If there is no room, those before it are decided
  // first; false if there never is.
  bool add(Service& service, const Request& request, wire::HttpConnection connection,
           std::string& out);

  // One that nobody is before or behind. Copies nothing.
  static void decide_alone(Service& service, const Request& request, HttpAnswer& answer);
  bool empty() const { return size_ == 0; }

  // Forgets those that an exception has left undecided: they are of a connection that is closed.
  struct Guard {
    explicit Guard(HttpTakes& its_takes) : takes(its_takes) {}
    ~Guard() { takes.size_ = takes.used_ = 0; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    HttpTakes& takes;
  };

  // Appends the answers, in the order of the questions.
  void decide(Service& service, std::string& out) {
    if (size_ > 0) decide_all(service, out);
  }

 private:
  static constexpr std::size_t kMost = 64;

  void decide_all(Service& service, std::string& out);
  std::string_view copy(std::string_view text);

  std::array<Request, kMost> requests_;
  std::array<Verdict, kMost> verdicts_;
  std::array<wire::HttpConnection, kMost> connections_;
  std::size_t size_ = 0;
  std::array<char, 16 << 10> texts_;
  std::size_t used_ = 0;
};

}  // namespace weir::server
