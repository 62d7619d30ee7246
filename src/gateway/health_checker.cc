#include "gateway/health_checker.h"

#include <fmt/format.h>

#include "wire/http1_answer.h"

namespace weir::gateway {

HealthChecker::HealthChecker(net::LoopContext& loop, std::shared_ptr<Backend> backend,
                             UpstreamServer& server)
    : loop_(loop),
      backend_(std::move(backend)),
      server_(server),
      config_(*backend_->service().health.active),
      timer_(loop.timers, [this] { connection_ ? finish_check(false) : start_check(); }) {
  start_check();
}

void HealthChecker::start_check() {
  input_.clear();
  parser_.next();
  timer_.set_in(config_.timeout);
  const net::TlsContext tls = server_.upstream().tls ? backend_->tls() : net::TlsContext{};
  net::ChannelOwner& owner = *this;
  connection_ = std::make_unique<ProbeConnection>(loop_, server_, tls, owner);
  if (!connection_->channel.is_open()) finish_check(false);
}

void HealthChecker::on_connected() {
  const Upstream& upstream = server_.upstream();
  const bool v6 = upstream.host.find(':') != std::string::npos;
  connection_->channel.send(fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}{}{}:{}\r\nUser-Agent: weir-health\r\nConnection: close\r\n\r\n",
      config_.path, v6 ? "[" : "", upstream.host, v6 ? "]" : "", upstream.port));
}

void HealthChecker::on_input(std::string_view input) {
  using Status = wire::HttpAnswerParser::Status;
  input_.append(input);
  auto step = parser_.parse(input_, true);
  // Skip interim responses (1xx).
  while (step.status == Status::complete && parser_.status() < 200) {
    input_.erase(0, step.consumed);
    parser_.next();
    step = parser_.parse(input_, true);
  }
  if (step.status == Status::need_more) return;
  const int status = parser_.status();
  finish_check(step.status == Status::complete && status >= config_.min_status &&
               status <= config_.max_status);
}

void HealthChecker::finish_check(bool good) {
  if (!connection_) return;
  connection_->channel.close();
  loop_.defer_delete(std::move(connection_));
  server_.record_check(good);
  timer_.set_in(config_.every);
}

}  // namespace weir::gateway
