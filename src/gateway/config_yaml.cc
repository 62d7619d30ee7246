#include "gateway/config_yaml.h"

#include <fmt/format.h>

#include <array>

#include "gateway/route_yaml.h"
#include "gateway/yaml_values.h"
#include "policy/endpoint.h"
#include "policy/source.h"
#include "policy/values.h"
#include "policy/yaml.h"

namespace weir::gateway {

namespace {

using policy::in_quotes;

constexpr std::array<std::string_view, 11> kFields{"listen",          "tls",
                                                   "http2",           "trusted_proxies",
                                                   "client_from",     "routes",
                                                   "max_header",      "max_header_count",
                                                   "max_connections", "client_timeouts",
                                                   "access_log"};
constexpr std::array<std::string_view, 3> kTls{"cert", "key", "ca"};
constexpr std::array<std::string_view, 3> kClientFrom{"either", "x-forwarded-for", "forwarded"};
constexpr std::array<std::string_view, 4> kClientTimeouts{"header", "body", "idle", "send"};
constexpr std::array<std::string_view, 3> kAccessLog{"file", "format", "key"};
constexpr std::array<std::string_view, 3> kLoggedKey{"off", "hashed", "plain"};
constexpr std::array<std::string_view, 2> kFormats{"text", "json"};
constexpr ValueRange kHeaderBytes{1024, 1 << 20};
constexpr ValueRange kHeaderLines{10, 10'000};
constexpr ValueRange kConnections{1, 10'000'000};

// Reads the fields of the section, one method each.
class GatewaySectionReader {
 public:
  explicit GatewaySectionReader(const RouteReadContext& reading)
      : reading_(reading), problems_(reading.problems) {}

  GatewayConfig read(const YamlNode& node) {
    check_known_fields(node);
    if (const YamlNode* field = node.find("listen")) read_listen(*field);
    check_listener(node);
    if (const YamlNode* field = node.find("tls")) read_tls(*field);
    if (const YamlNode* field = node.find("http2")) {
      config_.http2 = policy::read_bool(*field, "http2", problems_);
    }
    if (const YamlNode* field = node.find("trusted_proxies")) read_trusted(*field);
    if (const YamlNode* field = node.find("client_from")) {
      config_.client_from =
          static_cast<ClientFrom>(policy::read_word(*field, "client_from", kClientFrom, problems_));
    }
    read_client(node);
    if (const YamlNode* field = node.find("access_log")) read_access_log(*field);
    read_all_routes(node);
    return std::move(config_);
  }

 private:
  void check_known_fields(const YamlNode& node) {
    std::vector<std::string_view> known(kFields.begin(), kFields.end());
    known.insert(known.end(), route_settings().begin(), route_settings().end());
    policy::check_fields(node, known, "\"gateway\"", problems_);
  }

  void read_listen(const YamlNode& node) {
    if (!node.is_scalar()) {
      problems_.push_back(
          {node.place, fmt::format("\"listen\" is host:port, not {}", node.describe())});
      return;
    }
    const auto endpoint = policy::parse_endpoint(node.text, node.text_place());
    if (endpoint) {
      config_.listen = *endpoint;
    } else {
      problems_.push_back(endpoint.error());
    }
  }

  void check_listener(const YamlNode& gateway) {
    const policy::ListenAddresses& listeners = reading_.file.listen;
    for (const auto& [name, listener] :
         {std::pair{"resp", listeners.resp}, std::pair{"http", listeners.http},
          std::pair{"grpc", listeners.grpc}}) {
      if (!listener || !policy::same_endpoint(*listener, config_.listen)) continue;
      const YamlNode* written = gateway.find("listen");
      problems_.push_back({written != nullptr ? written->place : gateway.place,
                           fmt::format("\"{}\" of the daemon listens at {}: choose another port",
                                       name, policy::to_text(*listener))});
    }
  }

  void read_tls(const YamlNode& node) {
    if (!policy::is_map_of(node, "tls", kTls, problems_)) return;
    TlsFiles tls;
    const std::array<std::string*, kTls.size()> files{&tls.cert, &tls.key, &tls.ca};
    for (std::size_t i = 0; i < kTls.size(); ++i) {
      if (const YamlNode* field = node.find(kTls[i])) {
        *files[i] = policy::read_text(*field, kTls[i], problems_);
      } else if (kTls[i] != "ca") {
        problems_.push_back(
            {node.place, fmt::format("\"tls\" needs a {0}: write {0}: FILE.pem", kTls[i])});
      }
    }
    config_.tls = std::move(tls);
  }

  void read_trusted(const YamlNode& node) {
    if (node.is_list() && node.items.empty()) return;
    for (const YamlNode* item : one_or_more(node, "trusted_proxies", problems_)) {
      const auto range = parse_range(item->text);
      if (!range) {
        problems_.push_back({item->place, fmt::format("{} is not an address or a CIDR range: write "
                                                      "10.0.0.0/8 or 2001:db8::1",
                                                      in_quotes(item->text))});
        continue;
      }
      const bool trusts_all = range->bits == 0 || (range->first.is_v4() && range->bits == 96);
      if (trusts_all) {
        reading_.warnings.push_back(
            {item->place,
             "every client is trusted, so that it can choose its address with "
             "X-Forwarded-For: write the addresses of your proxies"});
      }
      config_.trusted_proxies.push_back(*range);
    }
  }

  void read_client(const YamlNode& node) {
    ClientLimits& client = config_.client;
    if (const YamlNode* field = node.find("max_header")) {
      read_number(*field, "max_header", kHeaderBytes, client.max_header, problems_);
    }
    if (const YamlNode* field = node.find("max_header_count")) {
      read_number(*field, "max_header_count", kHeaderLines, client.max_header_count, problems_);
    }
    if (const YamlNode* field = node.find("max_connections")) {
      read_number(*field, "max_connections", kConnections, client.max_connections, problems_);
    }
    const YamlNode* timeouts = node.find("client_timeouts");
    if (timeouts == nullptr) return;
    if (!policy::is_map_of(*timeouts, "client_timeouts", kClientTimeouts, problems_)) return;
    const std::array<Nanos*, kClientTimeouts.size()> times{&client.header, &client.body,
                                                           &client.idle, &client.send};
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (const YamlNode* field = timeouts->find(kClientTimeouts[i])) {
        read_time(*field, kClientTimeouts[i], MayBeOff::no, *times[i], problems_);
      }
    }
  }

  void read_access_log(const YamlNode& node) {
    AccessLogConfig& log = config_.access_log;
    if (node.is_scalar()) {
      if (node.text != "off") log.path = policy::read_text(node, "access_log", problems_);
      return;
    }
    if (!policy::is_map_of(node, "access_log", kAccessLog, problems_)) return;
    if (const YamlNode* file = node.find("file")) {
      log.path = policy::read_text(*file, "file", problems_);
    } else {
      problems_.push_back(
          {node.place, "\"access_log\" needs a file: write file: stdout, or file: PATH"});
    }
    if (const YamlNode* format = node.find("format")) {
      log.json = policy::read_word(*format, "format", kFormats, problems_) == 1;
    }
    if (const YamlNode* key = node.find("key")) {
      log.key = static_cast<KeyLogging>(policy::read_word(*key, "key", kLoggedKey, problems_));
    }
  }

  void read_all_routes(const YamlNode& node) {
    RouteConfig defaults;
    defaults.headers = reading_.file.headers;
    config_.legacy_headers = reading_.file.legacy_headers;
    read_settings(node, defaults, reading_);
    if (const YamlNode* routes = node.find("routes")) {
      config_.routes = read_routes(*routes, defaults, reading_);
    } else {
      problems_.push_back(
          {node.place,
           "a gateway needs routes: write routes: [ { upstream: http://127.0.0.1:9000, "
           "limits: [ 100/s ], key: ip } ]"});
    }
  }

  const RouteReadContext& reading_;
  Problems& problems_;
  GatewayConfig config_;
};

Result<std::string, Error> from_disk(const std::string& path) {
  auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  return std::move(source->text);
}

}  // namespace

FullConfig read_config(const policy::Source& source, Problems& problems, Problems& warnings,
                       const ReadText& read_text) {
  FullConfig file;
  file.config = policy::read_config(source, problems, warnings);
  const auto gateway = file.config.gateway;
  if (gateway == nullptr || !gateway->is_map()) return file;
  const RouteReadContext reading{file.config, read_text, problems, warnings};
  file.gateway = GatewaySectionReader(reading).read(*gateway);
  policy::sort_problems(problems);
  policy::sort_problems(warnings);
  return file;
}

FullConfig read_config(const policy::Source& source, Problems& problems, Problems& warnings) {
  return read_config(source, problems, warnings, from_disk);
}

}  // namespace weir::gateway
