#include "cli/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace weir::cli {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

struct Address {
  std::string host;
  std::string port = "80";
};

Result<Address, Error> address_of(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  const Error wrong{"cannot understand the address " + url + ": write it as http://127.0.0.1:7380"};
  if (!url.starts_with(scheme)) return wrong;
  std::string rest = url.substr(scheme.size());
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.find('/') != std::string::npos) return wrong;
  Address address;
  const std::size_t bracket = rest.find(']');
  const std::size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  address.host = rest.substr(0, colon);
  if (colon != std::string::npos) address.port = rest.substr(colon + 1);
  if (address.host.starts_with('[')) address.host = address.host.substr(1, bracket - 1);
  if (address.host.empty() || address.port.empty()) return wrong;
  return address;
}

}  // namespace

Result<HttpAnswer, Error> HttpClient::ask(std::string_view method, std::string_view path,
                                          std::string_view body) const {
  const auto address = address_of(url);
  if (!address) return address.error();
  const auto failed = [&](const error_code& error) {
    return Error{"cannot ask " + url + ": " + error.message() + ": does `weir serve` run there?"};
  };
  boost::asio::io_context context;
  tcp::socket socket(context);
  error_code error;
  const auto found = tcp::resolver(context).resolve(address->host, address->port, error);
  if (error) return failed(error);
  boost::asio::connect(socket, found, error);
  if (error) return failed(error);

  http::request<http::string_body> request;
  request.method_string(method);
  request.target(path);
  request.set(http::field::host, address->host);
  request.set(http::field::connection, "close");
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  http::write(socket, request, error);
  if (error) return failed(error);

  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(socket, buffer, response, error);
  if (error) return failed(error);
  return HttpAnswer{.status = static_cast<int>(response.result_int()),
                    .body = std::move(response.body())};
}

}  // namespace weir::cli
