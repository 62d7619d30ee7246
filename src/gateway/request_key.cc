#include "gateway/request_key.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/ascii.h"
#include "gateway/field_name.h"
#include "gateway/jwt.h"

namespace weir::gateway {

namespace {

using SourceKind = KeySource::SourceKind;

constexpr std::size_t kBytesForValues = 2048;

// Replaces the bytes after `start` by "sha256:…".
void hash_from(std::string& bytes, std::size_t start) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  EVP_Digest(bytes.data() + start, bytes.size() - start, hash.data(), &length, EVP_sha256(),
             nullptr);
  bytes.resize(start);
  bytes += "sha256:";
  for (unsigned int i = 0; i < length; ++i) {
    bytes += digits[hash[i] >> 4];
    bytes += digits[hash[i] & 15];
  }
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '|') {
      out += "%7C";
    } else if (c == '%') {
      out += "%25";
    } else {
      out += c;
    }
  }
}

void append_range(std::string& out, const IpAddress& client, int v4_bits, int v6_bits) {
  append_text(out, masked(client, v4_bits, v6_bits));
  const int bits = client.is_v4() ? v4_bits : v6_bits;
  if (bits != (client.is_v4() ? 32 : 128)) out.append("/").append(std::to_string(bits));
}

// The n-th segment of a path, from 1.
std::string_view segment_of(std::string_view path, int n) {
  for (; !path.empty(); --n) {
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    if (n == 1) return segment;
    path.remove_prefix(segment.size());
  }
  return {};
}

// Collects the values of a source that should occur once.
class SingleValue {
 public:
  void add(std::string_view value) {
    if (found_) {
      first_.ambiguous = first_.ambiguous || value != first_.value;
    } else {
      first_.value = value;
      found_ = true;
    }
  }
  FirstValue get() const { return first_; }

 private:
  FirstValue first_;
  bool found_ = false;
};

// Servers that map fields to variables do not distinguish hyphens from underscores: both spellings
// count as the same field.
FirstValue header_value(FieldSpan fields, std::string_view name) {
  SingleValue values;
  for (const wire::HttpField& field : fields) {
    if (may_be_same_field(field.name, name)) values.add(field.value);
  }
  return values.get();
}

// Reads key sources from one request. Returned values lie in the request, the configuration or
// `buffer`.
class SourceReader {
 public:
  SourceReader(const JwtReader* jwt, const KeyInput& input, std::string& buffer)
      : jwt_(jwt), input_(input), buffer_(buffer) {}

  FirstValue read(const KeySource& source) {
    switch (source.kind) {
      case SourceKind::ip:
        buffer_.clear();
        append_range(buffer_, input_.client, source.v4_bits, source.v6_bits);
        return {buffer_};
      case SourceKind::header:
        return header_value(input_.fields, source.name);
      case SourceKind::query:
        return first_query_value(input_.query, source.name, buffer_);
      case SourceKind::cookie:
        return first_cookie_value(input_.fields, source.name);
      case SourceKind::path:
        return {input_.path.lenient};
      case SourceKind::segment:
        return {segment_of(input_.path.lenient, source.segment)};
      case SourceKind::host:
        return {input_.host};
      case SourceKind::method:
        return {input_.method};
      case SourceKind::jwt:
        return {claim(source.name)};
      case SourceKind::constant:
        return {source.name};
    }
    return {};
  }

 private:
  // The token is verified once for all claims.
  std::string_view claim(std::string_view name) {
    if (jwt_ == nullptr) return {};
    if (!looked_) claims_ = jwt_->claims_of(jwt_->token_of(input_.fields), input_.now);
    looked_ = true;
    if (!claims_) return {};
    buffer_ = claim_in(*claims_, name);
    return buffer_;
  }

  const JwtReader* jwt_;
  const KeyInput& input_;
  std::string& buffer_;
  bool looked_ = false;
  std::optional<std::string> claims_;
};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

// Appends `text` form-decoded.
void append_decoded(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
                        hex_value(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
}

bool decodes_to(std::string_view text, std::string_view name) {
  if (text.find_first_of("%+") == std::string_view::npos) return text == name;
  if (text.size() > name.size() * 3) return false;
  std::string decoded;
  append_decoded(decoded, text);
  return decoded == name;
}

}  // namespace

std::size_t longest_value(std::size_t parts) {
  return kBytesForValues / std::max<std::size_t>(parts, 1);
}

void make_key(const std::vector<KeyPart>& key, const JwtReader* jwt, const KeyInput& input,
              RequestKey& into) {
  into.bytes_.clear();
  into.slices_.clear();
  into.status_ = RequestKey::KeyStatus::made;
  into.problem_ = nullptr;
  SourceReader reader(jwt, input, into.scratch_);
  for (const KeyPart& part : key) {
    const std::size_t start = into.bytes_.size();
    const bool several = part.sources.size() > 1;
    bool is_whole = true;
    for (std::size_t i = 0; i < part.sources.size(); ++i) {
      const FirstValue found = reader.read(part.sources[i]);
      if (found.ambiguous && into.status_ != RequestKey::KeyStatus::ambiguous) {
        into.status_ = RequestKey::KeyStatus::ambiguous;
        into.problem_ = &part.sources[i];
      }
      if (found.value.empty() && into.problem_ == nullptr) into.problem_ = &part.sources[i];
      is_whole = is_whole && !found.value.empty();
      if (i > 0) into.bytes_ += '|';
      if (several) {
        append_escaped(into.bytes_, found.value);
      } else {
        into.bytes_ += found.value;
      }
    }
    if (!is_whole) into.bytes_.resize(start);
    if (!is_whole && into.status_ == RequestKey::KeyStatus::made)
      into.status_ = RequestKey::KeyStatus::empty;
    if (into.bytes_.size() - start > longest_value(key.size())) hash_from(into.bytes_, start);
    into.slices_.push_back({part.name, start, into.bytes_.size() - start});
  }
  if (key.empty()) into.status_ = RequestKey::KeyStatus::empty;
}

std::string RequestKey::problem_source() const {
  if (problem_ == nullptr) return "key";
  switch (problem_->kind) {
    case SourceKind::ip:
      return "client address";
    case SourceKind::header:
      return "header " + problem_->name;
    case SourceKind::query:
      return "query parameter " + problem_->name;
    case SourceKind::cookie:
      return "cookie " + problem_->name;
    case SourceKind::path:
      return "path";
    case SourceKind::segment:
      return "path segment " + std::to_string(problem_->segment);
    case SourceKind::host:
      return "Host header";
    case SourceKind::method:
      return "method";
    case SourceKind::jwt:
      return "claim " + problem_->name + " of a valid bearer token";
    case SourceKind::constant:
      return "constant";
  }
  return "key";
}

std::string RequestKey::text(KeyLogging style) const {
  std::string text;
  for (const KeySlice& slice : slices_) {
    if (!text.empty()) text += ',';
    if (!slice.name.empty()) text.append(slice.name).append("=");
    text.append(bytes_, slice.start, slice.size);
  }
  if (style == KeyLogging::hashed && !text.empty()) hash_from(text, 0);
  return text;
}

void RequestKey::fill(Request& request) const {
  request.parts = Parts{};
  request.key = {};
  for (const KeySlice& slice : slices_) {
    const std::string_view value = std::string_view{bytes_}.substr(slice.start, slice.size);
    if (slice.name.empty()) {
      request.key = value;
    } else {
      request.parts.add({slice.name, value});
    }
  }
}

FirstValue first_cookie_value(FieldSpan fields, std::string_view name) {
  SingleValue values;
  for (const wire::HttpField& field : fields) {
    if (!same_ignoring_case(field.name, "Cookie")) continue;
    std::string_view list = field.value;
    while (!list.empty()) {
      const std::string_view pair = list.substr(0, list.find(';'));
      list.remove_prefix(std::min(pair.size() + 1, list.size()));
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos || trimmed(pair.substr(0, equals)) != name) continue;
      const std::string_view value = trimmed(pair.substr(equals + 1));
      const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
      values.add(quoted ? value.substr(1, value.size() - 2) : value);
    }
  }
  return values.get();
}

FirstValue first_query_value(std::string_view query, std::string_view name, std::string& buffer) {
  bool found = false;
  FirstValue first;
  std::size_t first_size = 0;
  buffer.clear();
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (!decodes_to(pair.substr(0, equals), name)) continue;
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    append_decoded(buffer, value);
    if (!found) {
      found = true;
      first_size = buffer.size();
      continue;
    }
    if (std::string_view{buffer}.substr(first_size) !=
        std::string_view{buffer}.substr(0, first_size)) {
      first.ambiguous = true;
    }
    buffer.resize(first_size);
  }
  first.value = buffer;
  return first;
}

}  // namespace weir::gateway
