#include "gateway/gateway.h"

namespace weir::gateway {

namespace {

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";

}  // namespace

Gateway::Gateway(Config config, Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      config_(std::make_shared<const Config>(std::move(config))),
      common_(new Common{.engine = surroundings_.engine,
                         .link = surroundings_.link,
                         .tls = surroundings_.tls,
                         .client = config_->client,
                         .threads = std::max<std::size_t>(surroundings_.threads, 1),
                         .http2 = config_->http2,
                         .no_tls = surroundings_.no_tls}),
      backends_(common_->counts, surroundings_.server_changed) {}

Result<std::unique_ptr<Gateway>, Error> Gateway::open(Config config, Surroundings surroundings) {
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(config), std::move(surroundings)));
  if (auto error = gateway->use(gateway->config_)) return *std::move(error);
  net::Door door{.speak = {}, .too_many = std::string(kTooMany), .most_input = 0};
  // (The loops may outlive the gateway.)
  door.house = [common = gateway->common_](net::Ground& ground) {
    return std::make_unique<House>(ground, *common);
  };
  const Endpoint& listen = gateway->config_->listen;
  const auto port = gateway->surroundings_.loops.bind(listen.host, listen.port, std::move(door));
  if (!port) return port.error();
  gateway->common_->port = *port;
  return gateway;
}

std::optional<Error> Gateway::use(std::shared_ptr<const Config> config) {
  const std::uint64_t generation = surroundings_.engine.generation();
  std::shared_ptr<AccessLogFile> log;
  if (!config->access_log.path.empty()) {
    const bool same = log_ && config->access_log == config_->access_log;
    if (same) {
      log = log_;
    } else {
      auto opened = AccessLogFile::open(config->access_log, common_->counts.unlogged);
      if (!opened) return opened.error();
      log = *std::move(opened);
    }
  }
  auto routing = make_routing(config, surroundings_.policies(), backends_, common_->counts, log);
  if (!routing) return routing.error();
  config_ = std::move(config);
  if (log_ && log_ != log) log_->retire();
  log_ = std::move(log);
  generation_ = generation;
  common_->routing.use(*std::move(routing));
  backends_.sweep();
  return std::nullopt;
}

Result<std::vector<std::string>, Error> Gateway::reload(Config config) {
  std::vector<std::string> unchanged;
  if (config.listen != config_->listen) unchanged.emplace_back("gateway.listen");
  if (config.client != config_->client) unchanged.emplace_back("gateway.client");
  if (config.tls.has_value() != config_->tls.has_value()) unchanged.emplace_back("gateway.tls");
  if (config.http2 != config_->http2) unchanged.emplace_back("gateway.http2");
  config.listen = config_->listen;
  config.http2 = config_->http2;
  config.client = config_->client;
  if (auto error = use(std::make_shared<const Config>(std::move(config)))) return *std::move(error);
  return unchanged;
}

void Gateway::look_around() {
  if (log_) log_->look();
  // (What cannot be made now was made before: it stays.)
  if (surroundings_.engine.generation() != generation_) (void)use(config_);
}

}  // namespace weir::gateway
