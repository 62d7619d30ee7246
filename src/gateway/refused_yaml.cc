#include "gateway/refused_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/ascii.h"
#include "gateway/service_yaml.h"
#include "gateway/yaml_values.h"
#include "policy/values.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

using policy::in_quotes;

// The last two are not allowed for single limits.
constexpr std::array<std::string_view, 8> kRefused{"status", "headers",  "body",     "content_type",
                                                   "file",   "redirect", "fallback", "limits"};
constexpr std::span<const std::string_view> kRefusedByLimit = std::span(kRefused).first<6>();
constexpr ValueRange kRefusalStatus{400, 599};
constexpr ValueRange kRedirectStatus{300, 399};
constexpr std::size_t kMaxBodySize = 1 << 20;

// Fields that the gateway writes itself.
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 8> reserved{
      "content-length", "transfer-encoding", "connection", "content-type", "location",
      "date",           "keep-alive",        "upgrade"};
  return std::ranges::find(reserved, lowered(name)) != reserved.end();
}

std::vector<HeaderLine> read_header_lines(const YamlNode& node, Problems& problems) {
  std::vector<HeaderLine> lines;
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("\"headers\" is a map from names to values, not {}",
                                                node.describe())});
    return lines;
  }
  for (const YamlNode::Field& field : node.fields) {
    if (!is_field_name(field.name)) {
      problems.push_back(
          {field.place, fmt::format("{} is not the name of a header", in_quotes(field.name))});
    } else if (is_reserved(field.name)) {
      problems.push_back({field.place, fmt::format("{} is written by the gateway: use content_type "
                                                   "or redirect, or leave it out",
                                                   in_quotes(field.name))});
    } else if (!field.value->is_scalar() || !is_field_value(field.value->text)) {
      problems.push_back({field.value->place, "the value of a header is one line of text"});
    } else {
      lines.emplace_back(field.name, field.value->text);
    }
  }
  return lines;
}

std::string content_type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> known{
      {{".html", "text/html; charset=utf-8"},
       {".htm", "text/html; charset=utf-8"},
       {".json", "application/json"},
       {".xml", "application/xml"},
       {".svg", "image/svg+xml"},
       {".txt", "text/plain; charset=utf-8"}}};
  for (const auto& [ending, type] : known) {
    if (path.ends_with(ending)) return std::string{type};
  }
  return "application/octet-stream";
}

void read_file(const YamlNode& node, RefusalConfig& refused, const ReadText& read_text,
               Problems& problems) {
  const std::string path = policy::read_text(node, "file", problems);
  if (path.empty()) return;
  auto text = read_text(path);
  if (!text) {
    problems.push_back({node.place, text.error().message});
  } else if (text->size() > kMaxBodySize) {
    problems.push_back({node.place, fmt::format("{} has {} bytes, more than 1MiB: every refused "
                                                "request gets this body",
                                                path, text->size())});
  } else {
    refused.body = *std::move(text);
    refused.content_type = content_type_of(path);
  }
}

void read_body(const YamlNode& node, RefusalConfig& refused, const ReadText& read_text,
               Problems& problems) {
  if (const YamlNode* body = node.find("body")) {
    if (body->is_scalar()) {
      refused.body = body->text;
    } else {
      problems.push_back(
          {body->place,
           fmt::format("\"body\" is a text, not {}: write '' for an empty one", body->describe())});
    }
    // Guess the type: a body that starts with { or [ is JSON.
    if (body->text.starts_with('{') || body->text.starts_with('[')) {
      refused.content_type = "application/json";
    }
  }
  if (const YamlNode* file = node.find("file")) {
    if (node.find("body") != nullptr) {
      problems.push_back({file->place, "body or file: one of them is enough"});
    }
    read_file(*file, refused, read_text, problems);
  }
  if (const YamlNode* type = node.find("content_type")) {
    refused.content_type = policy::read_text(*type, "content_type", problems);
    if (!is_field_value(refused.content_type)) {
      problems.push_back({type->place, "\"content_type\" is one line of text"});
    }
    if (!refused.body) {
      problems.push_back(
          {type->place, "\"content_type\" has no effect without body or file: write one of them"});
    }
  }
}

void read_redirect(const YamlNode& node, RefusalConfig& refused, Problems& problems) {
  refused.redirect = policy::read_text(node, "redirect", problems);
  const bool clean = std::ranges::all_of(refused.redirect, wire::is_visible);
  const bool absolute = refused.redirect.starts_with("http://") ||
                        refused.redirect.starts_with("https://") ||
                        refused.redirect.starts_with('/');
  if (!refused.redirect.empty() && (!clean || !absolute)) {
    problems.push_back({node.place, fmt::format("\"redirect\" is https://… or /path, not {}",
                                                in_quotes(refused.redirect))});
  }
  if (refused.status < 300 || refused.status > 399) refused.status = 302;
}

// 200 is allowed as well, for clients that cannot handle an error status.
void read_status(const YamlNode& node, bool redirects, int& into, Problems& problems) {
  if (!redirects && node.is_scalar() && node.text == "200") {
    into = 200;
    return;
  }
  read_number(node, "status", redirects ? kRedirectStatus : kRefusalStatus, into, problems);
}

// The fields that `refused:` and its `limits:` have in common.
RefusalConfig read_reply(const YamlNode& node, const ReadText& read_text, Problems& problems) {
  RefusalConfig refused;
  const YamlNode* redirect = node.find("redirect");
  if (const YamlNode* status = node.find("status")) {
    read_status(*status, redirect != nullptr, refused.status, problems);
  }
  if (redirect != nullptr) read_redirect(*redirect, refused, problems);
  if (const YamlNode* headers = node.find("headers")) {
    refused.headers = read_header_lines(*headers, problems);
  }
  read_body(node, refused, read_text, problems);
  return refused;
}

void read_by_limit(const YamlNode& node, RefusalConfig& refused, const ReadText& read_text,
                   Problems& problems) {
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("\"limits\" is a map from names of limits to their "
                                                "replies, not {}",
                                                node.describe())});
    return;
  }
  for (const YamlNode::Field& field : node.fields) {
    if (!policy::is_map_of(*field.value, field.name, kRefusedByLimit, problems)) continue;
    refused.by_limit[field.name] =
        std::make_shared<const RefusalConfig>(read_reply(*field.value, read_text, problems));
  }
}

}  // namespace

RefusalConfig read_refused(const YamlNode& node, const ServiceConfig& defaults,
                           const ReadText& read_text, Problems& problems) {
  if (!policy::is_map_of(node, "refused", kRefused, problems)) return {};
  RefusalConfig refused = read_reply(node, read_text, problems);
  if (const YamlNode* limits = node.find("limits")) {
    read_by_limit(*limits, refused, read_text, problems);
  }
  const YamlNode* fallback = node.find("fallback");
  if (fallback == nullptr) return refused;
  if (node.find("redirect") != nullptr) {
    problems.push_back({fallback->place, "a redirect or a fallback: one of them is enough"});
  }
  ServiceConfig service = defaults;
  service.servers = read_upstreams(*fallback, problems);
  refused.fallback = std::make_shared<const ServiceConfig>(std::move(service));
  return refused;
}

}  // namespace weir::gateway
