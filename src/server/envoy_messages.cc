#include "server/envoy_messages.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/ascii.h"
#include "base/utf8.h"
#include "wire/grpc.h"
#include "wire/protobuf.h"

namespace weir::server {

using wire::proto_tag;
using wire::ProtoReader;
using wire::ProtoType;
using wire::ProtoWriter;

namespace {

// The library logs each text that is not UTF-8, and clients could fill the log.
void silence_library() {
  static const auto before = google::protobuf::SetLogHandler(nullptr);
  (void)before;
}

constexpr std::uint32_t text_tag(std::uint32_t field) { return proto_tag(field, ProtoType::text); }
constexpr std::uint32_t number_tag(std::uint32_t field) {
  return proto_tag(field, ProtoType::number);
}

// ---- Reading
//
// The semantics of the Protocol Buffers library: the last one of a repeated scalar field wins,
// repeated messages are merged, unknown fields are skipped, and texts must be UTF-8.

// An enum on the wire may have any value.
envoy::Unit unit_of(std::uint64_t number) {
  const auto unit = static_cast<std::int32_t>(number);
  return ::envoy::type::v3::RateLimitUnit_IsValid(unit) ? static_cast<envoy::Unit>(unit)
                                                        : envoy::Unit::unknown;
}

bool read_text(const ProtoReader& reader, std::string_view& to) {
  to = reader.text();
  return is_utf8(to);
}

bool read_entry(ProtoReader reader, envoy::DescriptorEntry& to) {
  bool good = true;
  while (good && reader.next()) {
    if (reader.tag() == text_tag(1)) good = read_text(reader, to.key);
    if (reader.tag() == text_tag(2)) good = read_text(reader, to.value);
  }
  return good && !reader.failed();
}

bool read_override(ProtoReader reader, envoy::LimitOverride& to) {
  while (reader.next()) {
    if (reader.tag() == number_tag(1)) {
      to.requests_per_unit = static_cast<std::uint32_t>(reader.number());
    }
    if (reader.tag() == number_tag(2)) to.unit = unit_of(reader.number());
  }
  return !reader.failed();
}

// google.protobuf.UInt64Value.
bool read_wrapped(ProtoReader reader, std::uint64_t& to) {
  while (reader.next()) {
    if (reader.tag() == number_tag(1)) to = reader.number();
  }
  return !reader.failed();
}

template <typename Value>
Value& made(std::optional<Value>& value) {
  return value ? *value : value.emplace();
}

bool read_descriptor(ProtoReader reader, envoy::RateLimitDescriptor& to) {
  bool good = true;
  while (good && reader.next()) {
    switch (reader.tag()) {
      case text_tag(1):
        good = read_entry({reader.text(), reader}, to.entries.emplace_back());
        break;
      case text_tag(2):
        good = read_override({reader.text(), reader}, made(to.limit));
        break;
      case text_tag(3):
        good = read_wrapped({reader.text(), reader}, made(to.hits));
        break;
      case number_tag(4):
        to.gives_back = reader.number() != 0;
        break;
      default:
        break;
    }
  }
  return good && !reader.failed();
}

// ---- Reading JSON
//
// The library's parser is lenient: it takes names without quotes, trailing commas, and an object in
// place of a list of one or of a number. Such input is refused rather than guessed at.

// Accepts strict JSON with the structure of a RateLimitRequest. The library checks the rest.
class StrictJson final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return fits(JsonKind::null); }
  bool boolean(bool) override { return fits(JsonKind::other); }
  bool number_integer(number_integer_t) override { return fits(JsonKind::other); }
  bool number_unsigned(number_unsigned_t) override { return fits(JsonKind::other); }
  bool number_float(number_float_t, const string_t&) override { return fits(JsonKind::other); }
  bool string(string_t&) override { return fits(JsonKind::other); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  // A field has two names, such as hitsAddend and hits_addend; no message has `max_fields` fields.
  bool key(string_t& name) override {
    constexpr std::size_t max_fields = 16;
    std::vector<std::string>& names = open_.back().names;
    std::erase(name, '_');
    name = lowered(name);
    const bool is_repeated = std::ranges::find(names, name) != names.end();
    if (is_repeated || names.size() == max_fields) return false;
    names.push_back(name);
    return true;
  }

 private:
  enum class JsonKind : std::uint8_t { null, object, list, other };
  struct OpenValue {
    JsonKind kind;
    std::vector<std::string> names{};  // of an object: its fields so far
  };

  bool fits(JsonKind kind) const {
    if (open_.empty() || open_.back().kind == JsonKind::list) return kind == JsonKind::object;
    const std::string& name = open_.back().names.back();
    const bool is_list = name == "descriptors" || name == "entries";
    if (is_list) return kind == JsonKind::list || kind == JsonKind::null;
    return kind != JsonKind::list && (name != "hitsaddend" || kind != JsonKind::object);
  }
  bool open(JsonKind kind) {
    constexpr std::size_t max_depth = 8;
    if (!fits(kind) || open_.size() == max_depth) return false;
    open_.push_back({kind});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<OpenValue> open_;
};

bool is_strict_json(std::string_view text) {
  StrictJson strict;
  return nlohmann::json::sax_parse(text, &strict);
}

// ---- Writing

void write_limit(ProtoWriter& writer, const envoy::CurrentLimit& limit) {
  writer.number(1, limit.requests_per_unit);
  writer.number(2, static_cast<std::uint64_t>(limit.unit));
  writer.text(3, limit.name);
}

void write_duration(ProtoWriter& writer, Nanos duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  writer.number(1, static_cast<std::uint64_t>(seconds.count()));
  writer.number(2, static_cast<std::uint64_t>((duration - seconds).count()));
}

void write_status(ProtoWriter& writer, const envoy::DescriptorStatus& status) {
  writer.number(1, static_cast<std::uint64_t>(status.code));
  if (status.limit) writer.message(2, [&] { write_limit(writer, *status.limit); });
  writer.number(3, status.remaining);
  if (status.until_reset) writer.message(4, [&] { write_duration(writer, *status.until_reset); });
}

// The library encodes this field: it is a google.protobuf.Struct.
void write_metadata(ProtoWriter& writer, const std::string& json) {
  google::protobuf::Struct metadata;
  if (!google::protobuf::util::JsonStringToMessage(json, &metadata).ok()) return;
  const std::string bytes = metadata.SerializeAsString();
  writer.message(6, [&] { writer.raw(bytes); });
}

void write_answer(std::string& out, const envoy::RateLimitResponse& answer) {
  ProtoWriter writer(out);
  writer.number(1, static_cast<std::uint64_t>(answer.overall));
  for (const envoy::DescriptorStatus& status : answer.statuses) {
    writer.message(2, [&] { write_status(writer, status); });
  }
  for (const envoy::ResponseHeader& header : answer.response_headers) {
    writer.message(3, [&] {
      writer.text(1, header.key);
      writer.text(2, header.value);
    });
  }
  if (!answer.metadata.empty()) write_metadata(writer, answer.metadata);
}

}  // namespace

EnvoyMessages::EnvoyMessages() { silence_library(); }

EnvoyMessages& EnvoyMessages::of_this_thread() {
  thread_local EnvoyMessages messages;
  return messages;
}

// Descriptors of earlier calls are used again, to save allocations. `reset` frees those of a call
// that was unusually long.
envoy::RateLimitDescriptor& EnvoyMessages::next_descriptor() {
  if (used_ == call_.descriptors.size()) call_.descriptors.emplace_back();
  envoy::RateLimitDescriptor& descriptor = call_.descriptors[used_++];
  descriptor.entries.clear();
  descriptor.limit.reset();
  descriptor.hits.reset();
  descriptor.gives_back = false;
  return descriptor;
}

void EnvoyMessages::reset() {
  constexpr std::size_t max_kept = 64;
  if (call_.descriptors.capacity() > max_kept) call_ = {};
  for (envoy::RateLimitDescriptor& each : call_.descriptors) {
    if (each.entries.capacity() > max_kept) each = {};
  }
  call_.domain = {};
  call_.hits = 0;
  used_ = 0;
}

const envoy::RateLimitRequest* EnvoyMessages::read(std::string_view message) {
  reset();
  ProtoReader reader(message);
  bool good = true;
  while (good && reader.next()) {
    switch (reader.tag()) {
      case text_tag(1):
        good = read_text(reader, call_.domain);
        break;
      case text_tag(2):
        if (used_ > envoy::kMaxDescriptors) break;  // the service refuses the call
        good = read_descriptor({reader.text(), reader}, next_descriptor());
        break;
      case number_tag(3):
        call_.hits = static_cast<std::uint32_t>(reader.number());
        break;
      default:
        break;
    }
  }
  call_.descriptors.resize(used_);
  return good && !reader.failed() ? &call_ : nullptr;
}

const envoy::RateLimitRequest* EnvoyMessages::read_json(std::string_view text) {
  if (!is_strict_json(text)) return nullptr;
  ::envoy::service::ratelimit::v3::RateLimitRequest request;
  const auto status =
      google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &request);
  if (!status.ok()) return nullptr;
  from_json_ = request.SerializeAsString();
  return read(from_json_);
}

void EnvoyMessages::append(std::string& out, const envoy::RateLimitResponse& answer) {
  const std::size_t at = out.size();
  out.resize(at + wire::kGrpcPrefix);
  write_answer(out, answer);
  wire::write_grpc_prefix(out.data() + at, out.size() - at - wire::kGrpcPrefix);
}

std::string EnvoyMessages::to_json(const envoy::RateLimitResponse& answer) {
  std::string bytes;
  write_answer(bytes, answer);
  ::envoy::service::ratelimit::v3::RateLimitResponse response;
  std::string json;
  const bool good = response.ParseFromString(bytes) &&
                    google::protobuf::util::MessageToJsonString(response, &json).ok();
  (void)good;  // it was encoded just above
  return json;
}

}  // namespace weir::server
