// A server whose clients wait for their turn without a thread for each: a reservation gives the
// time, and a timer fires then. A request is a line with a name and some words; each name gets ten
// answers a second.

#include <weir/clock.h>
#include <weir/keyed_limiter.h>

#include <boost/asio.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>

namespace asio = boost::asio;
using asio::ip::tcp;

struct Client {
  tcp::socket socket;
  asio::steady_timer timer{socket.get_executor()};
  std::string input{}, output{};
};

weir::KeyedLimiter limiter{weir::per_second(10).burst(1)};

void read(std::shared_ptr<Client> client);

void answer(std::shared_ptr<Client> client, std::string text) {
  client->output = std::move(text);
  async_write(client->socket, asio::buffer(client->output), [client](auto, auto) { read(client); });
}

void decide(std::shared_ptr<Client> client) {
  const std::string line = client->input.substr(0, client->input.find('\n') + 1);
  client->input.erase(0, line.size());
  const auto turn = limiter.reserve(line.substr(0, line.find(' ')), 1, std::chrono::seconds{1});
  if (!turn) return answer(client, "too many at once: " + line);
  client->timer.expires_after(turn.ready_at() - weir::system_clock().now());
  client->timer.async_wait([client, line](auto) { answer(client, "hello " + line); });
}

void read(std::shared_ptr<Client> client) {
  const auto then = [client](auto gone, auto) { return gone ? void() : decide(client); };
  asio::async_read_until(client->socket, asio::dynamic_buffer(client->input, 4096), '\n', then);
}

void accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&](auto error, tcp::socket socket) {
    if (!error) read(std::shared_ptr<Client>(new Client{std::move(socket)}));
    accept(acceptor);
  });
}

int main() {
  asio::io_context loop;
  tcp::acceptor acceptor{loop, {asio::ip::address_v4::loopback(), 0}};
  std::cout << "listening on " << acceptor.local_endpoint() << std::endl;
  accept(acceptor);
  loop.run();
}
