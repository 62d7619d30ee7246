#include "gateway/prober.h"

#include <fmt/format.h>

#include "wire/http1_answer.h"

namespace weir::gateway {

Prober::Prober(net::Ground& ground, std::shared_ptr<Backend> backend, Server& server)
    : ground_(ground),
      backend_(std::move(backend)),
      server_(server),
      active_(*backend_->service().health.active),
      timer_(ground.timers, [this] { call_ ? end(false) : ask(); }) {
  ask();
}

void Prober::ask() {
  kept_.clear();
  answer_.next();
  timer_.set_in(active_.timeout);
  const net::TlsContext tls = server_.upstream().tls ? backend_->tls() : net::TlsContext{};
  net::ChannelOwner& owner = *this;
  call_ = std::make_unique<Call>(ground_, server_, tls, owner);
  if (!call_->channel.is_open()) end(false);
}

void Prober::on_connected() {
  const Upstream& upstream = server_.upstream();
  const bool v6 = upstream.host.find(':') != std::string::npos;
  call_->channel.send(fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}{}{}:{}\r\nUser-Agent: weir-health\r\nConnection: close\r\n\r\n",
      active_.path, v6 ? "[" : "", upstream.host, v6 ? "]" : "", upstream.port));
}

void Prober::on_input(std::string_view input) {
  using Status = wire::HttpAnswerParser::Status;
  kept_.append(input);
  auto step = answer_.parse(kept_, true);
  // (Hints come before an answer, and are none.)
  while (step.status == Status::complete && answer_.status() < 200) {
    kept_.erase(0, step.consumed);
    answer_.next();
    step = answer_.parse(kept_, true);
  }
  if (step.status == Status::need_more) return;
  const int status = answer_.status();
  end(step.status == Status::complete && status >= active_.least_status &&
      status <= active_.most_status);
}

void Prober::end(bool good) {
  if (!call_) return;
  call_->channel.close();
  ground_.bury(std::move(call_));
  server_.note_check(good);
  timer_.set_in(active_.every);
}

}  // namespace weir::gateway
