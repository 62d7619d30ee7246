#include "gateway/gateway.h"

namespace weir::gateway {

namespace {

constexpr std::string_view kTooManyConnections =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";

}  // namespace

Gateway::Gateway(GatewayConfig config, GatewayDeps deps)
    : deps_(std::move(deps)),
      config_(std::make_shared<const GatewayConfig>(std::move(config))),
      state_(new GatewayState{.engine = deps_.engine,
                              .link = deps_.link,
                              .tls = deps_.tls,
                              .client = config_->client,
                              .threads = std::max<std::size_t>(deps_.threads, 1),
                              .http2 = config_->http2,
                              .on_tls_failure = deps_.on_tls_failure}),
      backends_(state_->metrics, deps_.on_server_state) {}

Result<std::unique_ptr<Gateway>, Error> Gateway::open(GatewayConfig config, GatewayDeps deps) {
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(config), std::move(deps)));
  if (auto error = gateway->apply(gateway->config_)) return *std::move(error);
  net::ListenerOptions listener{
      .make_protocol = {}, .over_limit_reply = std::string(kTooManyConnections), .max_input = 0};
  // The loops may outlive the gateway: the factory shares the state.
  listener.make_handler = [state = gateway->state_](net::LoopContext& ground) {
    return std::make_unique<GatewayWorker>(ground, *state);
  };
  const Endpoint& listen = gateway->config_->listen;
  const auto port = gateway->deps_.loops.bind(listen.host, listen.port, std::move(listener));
  if (!port) return port.error();
  gateway->state_->port = *port;
  return gateway;
}

std::optional<Error> Gateway::apply(std::shared_ptr<const GatewayConfig> config) {
  const std::uint64_t generation = deps_.engine.generation();
  std::shared_ptr<AccessLogFile> log;
  if (!config->access_log.path.empty()) {
    const bool reuse_log = log_ && config->access_log == config_->access_log;
    if (reuse_log) {
      log = log_;
    } else {
      auto opened = AccessLogFile::open(config->access_log, state_->metrics.unlogged);
      if (!opened) return opened.error();
      log = *std::move(opened);
    }
  }
  auto routing = make_routing(config, deps_.policies(), backends_, state_->metrics, log);
  if (!routing) return routing.error();
  config_ = std::move(config);
  if (log_ && log_ != log) log_->retire();
  log_ = std::move(log);
  generation_ = generation;
  state_->routing.use(*std::move(routing));
  backends_.drop_unused();
  return std::nullopt;
}

Result<std::vector<std::string>, Error> Gateway::reload(GatewayConfig config) {
  std::vector<std::string> unchanged;
  if (config.listen != config_->listen) unchanged.emplace_back("gateway.listen");
  if (config.client != config_->client) unchanged.emplace_back("gateway.client");
  if (config.tls.has_value() != config_->tls.has_value()) unchanged.emplace_back("gateway.tls");
  if (config.http2 != config_->http2) unchanged.emplace_back("gateway.http2");
  config.listen = config_->listen;
  config.http2 = config_->http2;
  config.client = config_->client;
  if (auto error = apply(std::make_shared<const GatewayConfig>(std::move(config))))
    return *std::move(error);
  return unchanged;
}

void Gateway::on_tick() {
  if (log_) log_->flush_and_reopen();
  // An error is ignored: the routes that were made before stay in use.
  if (deps_.engine.generation() != generation_) (void)apply(config_);
}

}  // namespace weir::gateway
