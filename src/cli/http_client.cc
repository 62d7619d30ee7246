#include "cli/http_client.h"

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

// Starts something and waits until it is done, or its stream's patience is over.
template <typename Start>
error_code wait_for(boost::asio::io_context& context, Start start) {
  error_code result;
  start([&result](const error_code& error, const auto&...) { result = error; });
  context.restart();
  context.run();
  return result;
}

http::request<http::string_body> request_for(const HttpClient& client, const Address& address,
                                             std::string_view method, std::string_view path,
                                             std::string_view body) {
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(path);
  request.set(http::field::host, address.host);
  request.set(http::field::connection, "close");
  if (!client.token.empty()) request.set(http::field::authorization, "Bearer " + client.token);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  return request;
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
  error_code error;
  const auto found = tcp::resolver(context).resolve(address->host, address->port, error);
  if (error) return failed(error);
  boost::beast::tcp_stream stream(context);
  stream.expires_after(patience);
  error = wait_for(context, [&](auto done) { stream.async_connect(found, done); });
  if (error) return failed(error);

  const auto request = request_for(*this, *address, method, path, body);
  error = wait_for(context, [&](auto done) { http::async_write(stream, request, done); });
  if (error) return failed(error);

  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  error = wait_for(context, [&](auto done) { http::async_read(stream, buffer, response, done); });
  if (error) return failed(error);
  return HttpAnswer{.status = static_cast<int>(response.result_int()),
                    .body = std::move(response.body())};
}

}  // namespace weir::cli
