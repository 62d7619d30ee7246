#pragma once

#include <algorithm>
#include <boost/beast/http.hpp>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "wire/http1.h"
#include "wire/http1_text.h"

namespace weir::wire {

namespace http = boost::beast::http;

// Compares our parser with Boost.Beast's, on the header of a request that ours accepts. A server
// that accepts or reads a request differently from the proxy in front of it is open to request
// smuggling.
class HttpPeer {
 public:
  // `bytes` are those of the request. Empty if Beast agrees, otherwise the difference.
  static std::string disagrees(std::string_view bytes, const HttpRequest& request) {
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    http::request_parser<http::string_body> parser;
    parser.header_limit(std::numeric_limits<std::uint32_t>::max());
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    boost::system::error_code error;
    parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    if (error) return checks_more(request) ? "" : "it refuses: " + error.message();
    if (!parser.is_header_done()) return "it wants more";
    if (parser.chunked() != !request.field("Transfer-Encoding").empty()) return "another coding";
    const auto length = parser.content_length();
    if (!parser.chunked() && length.value_or(0) != request.body.size()) return "another length";
    return compare(parser.get(), request);
  }

 private:
  using Message = http::request<http::string_body>;

  static std::string compare(const Message& theirs, const HttpRequest& ours) {
    if (view(theirs.method_string()) != ours.method) return "another method";
    if (view(theirs.target()) != ours.target) return "another target";
    if (static_cast<int>(theirs.version()) != ours.version) return "another version";
    if (std::distance(theirs.begin(), theirs.end()) !=
        static_cast<std::ptrdiff_t>(ours.fields.size())) {
      return "more fields";
    }
    for (std::size_t i = 0; i < ours.fields.size(); ++i) {
      const HttpField field = ours.fields[i];
      const auto same_name = theirs.equal_range(text(field.name));
      const bool found = std::any_of(same_name.first, same_name.second, [&](const auto& each) {
        return view(each.value()) == field.value;
      });
      if (!found) return "another field " + std::string(field.name);
    }
    return {};
  }

  // True if the request has fields that Beast validates and our parser does not use: then Beast may
  // refuse it.
  static bool checks_more(const HttpRequest& request) {
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      for (const std::string_view name : {"Connection", "Proxy-Connection", "Upgrade"}) {
        if (same_ignoring_case(request.fields[i].name, name)) return true;
      }
    }
    return false;
  }

  template <typename Text>
  static std::string_view view(const Text& text) {
    return {text.data(), text.size()};
  }
  static boost::beast::string_view text(std::string_view text) {
    return {text.data(), text.size()};
  }
};

}  // namespace weir::wire
