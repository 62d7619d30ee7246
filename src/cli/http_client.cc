#include "cli/http_client.h"

#include <openssl/err.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <charconv>
#include <optional>

namespace weir::cli {

namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::asio::io_context;
using boost::asio::ip::tcp;
using boost::beast::tcp_stream;
using boost::system::error_code;

namespace {

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

struct Address {
  std::string authority{};  // host and port as they were written
  std::string host{};       // without brackets
  std::string port{};
  bool with_tls = false;
};

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  return error == std::errc{} && stop == end && port != 0;
}

Result<Address, Error> address_of(const std::string& url) {
  const Error wrong{"cannot understand the address " + url + ": write it as http://127.0.0.1:7380"};
  Address address;
  address.with_tls = url.starts_with("https://");
  if (!address.with_tls && !url.starts_with("http://")) return wrong;
  std::string rest = url.substr(url.find("//") + 2);
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.find('/') != std::string::npos) return wrong;
  address.authority = rest;
  const std::size_t bracket = rest.find(']');
  const std::size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  address.host = rest.substr(0, colon);
  address.port = colon != std::string::npos ? rest.substr(colon + 1)
                 : address.with_tls         ? "443"
                                            : "80";
  if (address.host.starts_with('[')) address.host = address.host.substr(1, bracket - 1);
  if (address.host.empty() || !is_port(address.port)) return wrong;
  return address;
}

// Starts something and waits until it is done, or its stream's patience is over.
template <typename Start>
error_code wait_for(io_context& context, Start start) {
  error_code result;
  start([&result](const error_code& error, const auto&...) { result = error; });
  context.restart();
  context.run();
  return result;
}

Request request_for(const HttpClient& client, const Address& address, std::string_view method,
                    std::string_view path, std::string_view body) {
  Request request;
  request.method_string(method);
  request.target(path);
  request.set(http::field::host, address.authority);
  request.set(http::field::connection, "close");
  if (!client.token.empty()) request.set(http::field::authorization, "Bearer " + client.token);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  return request;
}

template <typename Stream>
error_code exchange(io_context& context, Stream& stream, const Request& request,
                    Response& response) {
  const error_code error =
      wait_for(context, [&](auto done) { http::async_write(stream, request, done); });
  if (error) return error;
  boost::beast::flat_buffer buffer;
  return wait_for(context, [&](auto done) { http::async_read(stream, buffer, response, done); });
}

// ---- TLS

// Whom to trust, and who we are. An error names the file.
std::optional<Error> prepare(ssl::context& context, const HttpClient& client) {
  error_code error;
  const auto cannot_use = [&](const std::string& file) {
    return Error{"cannot use " + file + ": " + error.message() + " (it must be in PEM)"};
  };
  context.set_verify_mode(ssl::verify_peer, error);
  if (client.ca.empty()) {
    context.set_default_verify_paths(error);
  } else if (context.load_verify_file(client.ca, error)) {
    return cannot_use(client.ca);
  }
  if (client.cert.empty()) return std::nullopt;
  if (context.use_certificate_chain_file(client.cert, error)) return cannot_use(client.cert);
  if (context.use_private_key_file(client.key, ssl::context::pem, error)) {
    return cannot_use(client.key);
  }
  return std::nullopt;
}

bool is_name(const std::string& host) {
  error_code not_an_address;
  boost::asio::ip::make_address(host, not_an_address);
  return static_cast<bool>(not_an_address);
}

// Why it was not let in, or does not want in: with what is wrong with the daemon's certificate.
std::string reason_of(const error_code& error, SSL* session) {
  const long result = SSL_get_verify_result(session);
  if (result == X509_V_OK) return error.message();
  return "its certificate is not trusted: " + std::string{X509_verify_cert_error_string(result)} +
         ": give who signed it as --ca FILE";
}

// What went wrong; empty if nothing did.
std::string exchange_with_tls(io_context& context, tcp_stream& plain, ssl::context& tls,
                              const std::string& host, const Request& request, Response& response) {
  ssl::stream<tcp_stream&> stream(plain, tls);
  stream.set_verify_callback(ssl::host_name_verification(host));
  if (is_name(host)) SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
  error_code error =
      wait_for(context, [&](auto done) { stream.async_handshake(ssl::stream_base::client, done); });
  if (!error) error = exchange(context, stream, request, response);
  return error ? reason_of(error, stream.native_handle()) : std::string{};
}

}  // namespace

std::optional<Error> HttpClient::check(const std::string& url) {
  const auto address = address_of(url);
  return address ? std::nullopt : std::optional{address.error()};
}

Result<HttpAnswer, Error> HttpClient::ask(std::string_view method, std::string_view path,
                                          std::string_view body) const {
  const auto address = address_of(url);
  if (!address) return address.error();
  const auto failed = [&](const error_code& error) {
    return Error{"cannot ask " + url + ": " + error.message() + ": does `weir serve` run there?"};
  };
  io_context context;
  error_code error;
  const auto found = tcp::resolver(context).resolve(address->host, address->port, error);
  if (error) return failed(error);
  tcp_stream stream(context);
  stream.expires_after(patience);
  error = wait_for(context, [&](auto done) { stream.async_connect(found, done); });
  if (error) return failed(error);

  const Request request = request_for(*this, *address, method, path, body);
  Response response;
  if (address->with_tls) {
    ssl::context tls(ssl::context::tls_client);
    if (const auto wrong = prepare(tls, *this)) return *wrong;
    const std::string why =
        exchange_with_tls(context, stream, tls, address->host, request, response);
    if (!why.empty()) return Error{"cannot ask " + url + ": " + why};
  } else {
    error = exchange(context, stream, request, response);
    if (error) return failed(error);
  }
  return HttpAnswer{.status = static_cast<int>(response.result_int()),
                    .body = std::move(response.body())};
}

}  // namespace weir::cli
