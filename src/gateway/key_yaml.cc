#include "gateway/key_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/ascii.h"
#include "base/suggest.h"
#include "gateway/jwt.h"
#include "gateway/yaml_values.h"
#include "policy/values.h"
#include "weir/parts.h"

namespace weir::gateway {

namespace {

using SourceKind = KeySource::SourceKind;
using policy::in_quotes;
using policy::SourcePosition;

constexpr std::array<std::string_view, 10> kKinds{"ip",      "header", "query",  "cookie", "path",
                                                  "segment", "host",   "method", "jwt",    "const"};
constexpr std::string_view kExamples =
    "ip, ip/24, header:X-User-Id, query:id, cookie:session, path, segment:2, host, method, jwt:sub "
    "or const:all";

// Names of parts share the maximum size of a key with their values.
constexpr std::size_t kMaxPartName = 100;
constexpr std::size_t kMaxSources = 8;
constexpr std::size_t kMaxConstant = 128;
constexpr int kMaxSegment = 1000;

// The text after the colon or slash of a source, with its place.
struct SourceArgument {
  std::string_view text;
  SourcePosition place;
};

bool is_number(std::string_view text, int min, int max, int& into) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size() && !text.empty();
  if (!whole || number < min || number > max) return false;
  into = number;
  return true;
}

// Prefix lengths: the 24 of ip/24, or 24/64. A single number up to 32 is for IPv4, above for IPv6.
bool read_masks(std::string_view text, KeySource& source) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    return is_number(text.substr(0, slash), 1, 32, source.v4_bits) &&
           is_number(text.substr(slash + 1), 1, 128, source.v6_bits);
  }
  int bits = 0;
  if (!is_number(text, 1, 128, bits)) return false;
  (bits <= 32 ? source.v4_bits : source.v6_bits) = bits;
  return true;
}

std::optional<policy::Problem> read_argument(const SourceArgument& argument, KeySource& source) {
  const auto wrong = [&](std::string message) {
    return policy::Problem{argument.place, std::move(message)};
  };
  const std::string_view text = argument.text;
  switch (source.kind) {
    case SourceKind::ip:
      if (read_masks(text, source)) return std::nullopt;
      return wrong(
          fmt::format("{} is not a prefix length: write ip/24 for IPv4, ip/64 for IPv6, or "
                      "ip/24/64 for both",
                      in_quotes(text)));
    case SourceKind::header:
      if (!is_field_name(text)) {
        return wrong(
            fmt::format("{} is not the name of a header: write header:X-User-Id", in_quotes(text)));
      }
      source.name = lowered(text);
      return std::nullopt;
    case SourceKind::cookie:
      if (!is_field_name(text)) {
        return wrong(
            fmt::format("{} is not the name of a cookie: write cookie:session", in_quotes(text)));
      }
      source.name = text;
      return std::nullopt;
    case SourceKind::segment:
      if (is_number(text, 1, kMaxSegment, source.segment)) return std::nullopt;
      return wrong("segments are counted from 1: write segment:2 for b of /a/b/c");
    case SourceKind::query:
    case SourceKind::jwt:
    case SourceKind::constant:
      if (text.empty() || text.size() > kMaxConstant) {
        return wrong(fmt::format("the name after the colon has 1 to {} bytes", kMaxConstant));
      }
      source.name = text;
      return std::nullopt;
    case SourceKind::path:
    case SourceKind::host:
    case SourceKind::method:
      break;
  }
  return wrong(fmt::format("{} takes no argument: write it alone",
                           kKinds[static_cast<std::size_t>(source.kind)]));
}

bool needs_argument(SourceKind kind) {
  return kind != SourceKind::ip && kind != SourceKind::path && kind != SourceKind::host &&
         kind != SourceKind::method;
}

std::optional<KeySource> read_source(const YamlNode& node, Problems& problems) {
  const std::string_view text = node.text;
  const std::size_t end = std::min(text.find_first_of(":/"), text.size());
  const std::string_view word = text.substr(0, end);
  const auto kind = std::ranges::find(kKinds, word);
  // Only addresses take an argument after a slash.
  const bool slash = end < text.size() && text[end] == '/';
  if (kind == kKinds.end() || (slash && *kind != "ip") ||
      (!slash && end < text.size() && *kind == "ip")) {
    problems.push_back({node.place, fmt::format("a key is made of {}, not {}{}", kExamples,
                                                in_quotes(text), did_you_mean(word, kKinds))});
    return std::nullopt;
  }
  KeySource source{.kind = static_cast<SourceKind>(kind - kKinds.begin())};
  if (end == text.size()) {
    if (!needs_argument(source.kind)) return source;
    problems.push_back(
        {node.place, fmt::format("{} needs an argument: write one of {}", word, kExamples)});
    return std::nullopt;
  }
  if (auto wrong =
          read_argument({text.substr(end + 1), node.text_place().moved(end + 1)}, source)) {
    problems.push_back(*std::move(wrong));
    return std::nullopt;
  }
  return source;
}

// ---- Tokens

constexpr std::array<std::string_view, 4> kKeyFields{"key", "key_file", "algorithm", "id"};
constexpr std::array<std::string_view, 11> kJwtFields{"header",   "cookie",    "verify",   "keys",
                                                      "leeway",   "issuer",    "audience", "key",
                                                      "key_file", "algorithm", "id"};
constexpr std::array<std::string_view, 2> kVerify{"on", "off"};
constexpr std::array<std::string_view, 3> kAlgorithms{"HS256", "RS256", "ES256"};
// The minimum of RFC 7518 (3.2) for HS256; shorter secrets only warn, since issuers may not be able
// to change them.
constexpr std::size_t kMinSecretSize = 32;

// A key that was read, with its place.
struct ParsedVerifyKey {
  JwtRules::VerifyKey key;
  SourcePosition place;
};

std::optional<std::string> key_text(const YamlNode& node, const ReadText& read_text,
                                    Problems& problems) {
  const YamlNode* text = node.find("key");
  const YamlNode* file = node.find("key_file");
  if ((text == nullptr) == (file == nullptr)) {
    problems.push_back({node.place, "write either key: TEXT or key_file: FILE.pem"});
    return std::nullopt;
  }
  if (text != nullptr) {
    std::string key = policy::read_text(*text, "key", problems);
    return key.empty() ? std::nullopt : std::optional(std::move(key));
  }
  const std::string path = policy::read_text(*file, "key_file", problems);
  if (path.empty()) return std::nullopt;
  auto read = read_text(path);
  if (read && !read->empty()) return *std::move(read);
  problems.push_back({file->place, read ? fmt::format("{} is empty", path) : read.error().message});
  return std::nullopt;
}

std::optional<ParsedVerifyKey> read_verify_key(const YamlNode& node, const ReadText& read_text,
                                               Problems& problems, Problems& warnings) {
  ParsedVerifyKey read{.key = {}, .place = node.place};
  auto text = key_text(node, read_text, problems);
  if (const YamlNode* id = node.find("id")) read.key.id = policy::read_text(*id, "id", problems);
  const YamlNode* algorithm = node.find("algorithm");
  if (algorithm != nullptr) {
    read.key.algorithm = static_cast<JwtAlgorithm>(
        policy::read_word(*algorithm, "algorithm", kAlgorithms, problems));
  }
  if (!text) return std::nullopt;
  read.key.text = *std::move(text);
  const bool looks_like_pem = read.key.text.starts_with("-----BEGIN");
  if (algorithm == nullptr && looks_like_pem) {
    const auto found = algorithm_of_pem(read.key.text);
    if (!found) {
      problems.push_back(
          {node.place, "this is not a public key in PEM (-----BEGIN PUBLIC KEY-----)"});
      return std::nullopt;
    }
    read.key.algorithm = *found;
  }
  if (read.key.algorithm == JwtAlgorithm::hs256 && looks_like_pem) {
    problems.push_back({node.place,
                        "a public key must not be an HS256 secret, because anybody could sign "
                        "with it: write algorithm: RS256 or ES256"});
    return std::nullopt;
  }
  if (read.key.algorithm == JwtAlgorithm::hs256 && read.key.text.size() < kMinSecretSize) {
    warnings.push_back(
        {node.place, fmt::format("a secret of {} bytes can be guessed: HS256 needs at least {}",
                                 read.key.text.size(), kMinSecretSize)});
  }
  return read;
}

// Reads the name of a header or cookie.
std::string read_field_name(const YamlNode& node, std::string_view what, Problems& problems) {
  const std::string text = policy::read_text(node, what, problems);
  if (!text.empty() && !is_field_name(text)) {
    problems.push_back(
        {node.place, fmt::format("{} is not the name of a {}", in_quotes(text), what)});
  }
  return text;
}

void read_jwt_settings(const YamlNode& node, JwtRules& rules, Problems& problems) {
  if (const YamlNode* header = node.find("header")) {
    rules.header = lowered(read_field_name(*header, "header", problems));
  }
  if (const YamlNode* cookie = node.find("cookie")) {
    rules.cookie = read_field_name(*cookie, "cookie", problems);
    if (node.find("header") != nullptr) {
      problems.push_back(
          {cookie->place, "a token is either in a header or in a cookie: write one of them"});
    }
  }
  if (const YamlNode* verify = node.find("verify")) {
    rules.verifies = policy::read_word(*verify, "verify", kVerify, problems) == 0;
  }
  if (const YamlNode* leeway = node.find("leeway")) {
    read_time(*leeway, "leeway", MayBeOff::no, rules.leeway, problems);
  }
  if (const YamlNode* issuer = node.find("issuer")) {
    rules.issuer = policy::read_text(*issuer, "issuer", problems);
  }
  if (const YamlNode* audience = node.find("audience")) {
    rules.audience = policy::read_text(*audience, "audience", problems);
  }
}

// Tokens are verified by a key, unless `verify: off` says otherwise explicitly.
void check_verification(const YamlNode& node, const JwtRules& rules, Problems& problems,
                        Problems& warnings) {
  if (rules.verifies) {
    if (!rules.keys.empty()) return;
    problems.push_back({node.place,
                        "nothing verifies these tokens: write key: or key_file:, or verify: off if "
                        "a proxy in front has verified them"});
    return;
  }
  if (!rules.keys.empty() || !rules.issuer.empty() || !rules.audience.empty()) {
    problems.push_back({node.place,
                        "verify: off leaves keys, issuer and audience unused: write one or the "
                        "other"});
  }
  warnings.push_back({node.place,
                      "tokens are not verified: a client that reaches the gateway directly can "
                      "invent any key"});
}

std::vector<ParsedVerifyKey> read_verify_keys(const YamlNode& node, const ReadText& read_text,
                                              Problems& problems, Problems& warnings) {
  std::vector<ParsedVerifyKey> keys;
  const auto add = [&](const YamlNode& written) {
    if (auto key = read_verify_key(written, read_text, problems, warnings))
      keys.push_back(*std::move(key));
  };
  if (node.find("key") != nullptr || node.find("key_file") != nullptr) add(node);
  const YamlNode* list = node.find("keys");
  if (list == nullptr) return keys;
  if (!list->is_list()) {
    problems.push_back(
        {list->place,
         fmt::format("\"keys\" is a list of maps with key or key_file, not {}", list->describe())});
  }
  for (const auto& item : list->items) {
    if (policy::is_map_of(*item, "keys", kKeyFields, problems)) add(*item);
  }
  return keys;
}

}  // namespace

KeyPart read_key(const YamlNode& node, Problems& problems) {
  KeyPart part;
  for (const YamlNode* item : one_or_more(node, "key", problems)) {
    if (auto source = read_source(*item, problems)) part.sources.push_back(*std::move(source));
  }
  if (part.sources.size() > kMaxSources) {
    problems.push_back({node.place, fmt::format("a key has at most {} sources, not {}", kMaxSources,
                                                part.sources.size())});
  }
  return part;
}

std::vector<KeyPart> read_parts(const YamlNode& node, Problems& problems) {
  std::vector<KeyPart> parts;
  if (!node.is_map() || node.fields.empty()) {
    problems.push_back({node.place, fmt::format("\"parts\" is a map from names of parts to their "
                                                "sources, like {{ user: "
                                                "header:X-User-Id }}, not {}",
                                                node.is_map() ? "an empty one" : node.describe())});
    return parts;
  }
  if (node.fields.size() > Parts::kMax) {
    problems.push_back({node.place, fmt::format("{} parts are too many (at most {})",
                                                node.fields.size(), Parts::kMax)});
    return parts;
  }
  for (const YamlNode::Field& field : node.fields) {
    if (field.name.empty() || field.name.size() > kMaxPartName) {
      problems.push_back(
          {field.place, fmt::format("the name of a part has 1 to {} bytes", kMaxPartName)});
    }
    KeyPart part = read_key(*field.value, problems);
    part.name = field.name;
    parts.push_back(std::move(part));
  }
  std::ranges::sort(parts, {}, &KeyPart::name);
  return parts;
}

std::shared_ptr<const JwtReader> read_jwt(const YamlNode& node, const ReadText& read_text,
                                          Problems& problems, Problems& warnings) {
  const auto rejecting_reader = [] { return *JwtReader::make({}); };
  if (!policy::is_map_of(node, "jwt", kJwtFields, problems)) return rejecting_reader();
  const std::size_t before = problems.size();
  JwtRules rules;
  read_jwt_settings(node, rules, problems);
  const std::vector<ParsedVerifyKey> keys = read_verify_keys(node, read_text, problems, warnings);
  for (const ParsedVerifyKey& read : keys) rules.keys.push_back(read.key);
  if (problems.size() == before) check_verification(node, rules, problems, warnings);
  if (problems.size() > before) return rejecting_reader();
  auto reader = JwtReader::make(std::move(rules));
  if (reader) return *std::move(reader);
  problems.push_back({keys[reader.error().key].place, reader.error().message});
  return rejecting_reader();
}

RequestCost read_cost(const YamlNode& node, Problems& problems) {
  constexpr std::array<std::string_view, 3> fields{"header", "fixed", "most"};
  constexpr std::string_view header = "header:";
  RequestCost cost;
  const auto read_header = [&](std::string_view name, SourcePosition place) {
    cost.kind = RequestCost::CostKind::header;
    cost.header = lowered(name);
    if (is_field_name(name)) return;
    problems.push_back({place, fmt::format("{} is not the name of a header: write header:X-Cost",
                                           in_quotes(name))});
  };
  if (node.is_map()) {
    policy::check_fields(node, fields, "\"cost\"", problems);
    const YamlNode* name = node.find("header");
    if (name == nullptr) {
      problems.push_back(
          {node.place, "\"cost\" needs a header: write { header: X-Cost, most: 100 }"});
    } else {
      read_header(policy::read_text(*name, "header", problems), name->place);
    }
    if (const YamlNode* fixed = node.find("fixed"))
      read_number(*fixed, "fixed", {1}, cost.fixed, problems);
    if (const YamlNode* most = node.find("most"))
      read_number(*most, "most", {1}, cost.most, problems);
  } else if (node.is_scalar() && node.text == "bytes") {
    cost.kind = RequestCost::CostKind::bytes;
    cost.most = INT64_MAX;
  } else if (node.is_scalar() && node.text.starts_with(header)) {
    read_header(std::string_view{node.text}.substr(header.size()), node.place);
  } else if (node.is_scalar() && !node.text.empty() && node.text[0] >= '0' && node.text[0] <= '9') {
    read_number(node, "cost", {1}, cost.fixed, problems);
  } else {
    problems.push_back(
        {node.place, fmt::format("\"cost\" is a number from 1, header:NAME or bytes, not {}",
                                 node.describe())});
  }
  return cost;
}

}  // namespace weir::gateway
