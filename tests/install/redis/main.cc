// A foreign program that uses weir::redis.

#include <weir/redis.h>

#include <chrono>
#include <iostream>

int main() {
  std::cout << weir::RedisFleet::open("redis//localhost").error().message << '\n';
  std::cout << weir::RedisFleet::open("redis+cluster://localhost/1").error().message << '\n';

  bool told = false;
  weir::RedisOptions options;
  options.log = [&told](weir::RedisOptions::Level, std::string_view text) {
    if (!told) std::cout << text << '\n';
    told = true;
  };
  const auto fleet = weir::RedisFleet::open("unix:///nowhere/redis.sock", options);
  const auto link = (*fleet)->connect();
  while (!told) link->wait(std::chrono::seconds{1});
  const weir::RedisCounts counts = (*fleet)->counts();
  std::cout << counts.links << " link, " << counts.connected << " connected\n";
}
