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

// Whoever sends texts that are none would fill the log.
void silence_library() {
  static const auto before = google::protobuf::SetLogHandler(nullptr);
  (void)before;
}

constexpr std::uint32_t text_of(std::uint32_t field) { return proto_tag(field, ProtoType::text); }
constexpr std::uint32_t number_of(std::uint32_t field) {
  return proto_tag(field, ProtoType::number);
}

// ---- Reading
//
// As the library does it: of a field that comes twice the last one counts, of a message that does
// what both say together; fields that nobody knows are passed over; texts are UTF-8.

// What the wire has may be any number.
envoy::Unit unit_of(std::uint64_t number) {
  const auto unit = static_cast<std::int32_t>(number);
  return ::envoy::type::v3::RateLimitUnit_IsValid(unit) ? static_cast<envoy::Unit>(unit)
                                                        : envoy::Unit::unknown;
}

bool read_text(const ProtoReader& reader, std::string_view& to) {
  to = reader.text();
  return is_utf8(to);
}

bool read_entry(ProtoReader reader, envoy::Entry& to) {
  bool good = true;
  while (good && reader.next()) {
    if (reader.tag() == text_of(1)) good = read_text(reader, to.key);
    if (reader.tag() == text_of(2)) good = read_text(reader, to.value);
  }
  return good && !reader.failed();
}

bool read_override(ProtoReader reader, envoy::LimitOverride& to) {
  while (reader.next()) {
    if (reader.tag() == number_of(1)) {
      to.requests_per_unit = static_cast<std::uint32_t>(reader.number());
    }
    if (reader.tag() == number_of(2)) to.unit = unit_of(reader.number());
  }
  return !reader.failed();
}

// A number in a message of its own, so that it can be told whether it is there.
bool read_wrapped(ProtoReader reader, std::uint64_t& to) {
  while (reader.next()) {
    if (reader.tag() == number_of(1)) to = reader.number();
  }
  return !reader.failed();
}

template <typename Value>
Value& made(std::optional<Value>& value) {
  return value ? *value : value.emplace();
}

bool read_descriptor(ProtoReader reader, envoy::Descriptor& to) {
  bool good = true;
  while (good && reader.next()) {
    switch (reader.tag()) {
      case text_of(1):
        good = read_entry({reader.text(), reader}, to.entries.emplace_back());
        break;
      case text_of(2):
        good = read_override({reader.text(), reader}, made(to.limit));
        break;
      case text_of(3):
        good = read_wrapped({reader.text(), reader}, made(to.hits));
        break;
      case number_of(4):
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
// The library takes for JSON what looks like it: names without quotes, commas with nothing behind
// them, an object for a list of one or for a number. Whoever writes that means something else,
// perhaps, and is told.

// Passes what is JSON and may be a RateLimitRequest: the library sees to the rest.
class StrictJson final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return may_be(Kind::null); }
  bool boolean(bool) override { return may_be(Kind::other); }
  bool number_integer(number_integer_t) override { return may_be(Kind::other); }
  bool number_unsigned(number_unsigned_t) override { return may_be(Kind::other); }
  bool number_float(number_float_t, const string_t&) override { return may_be(Kind::other); }
  bool string(string_t&) override { return may_be(Kind::other); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  // No message has as many fields as this, and a field has two names: hitsAddend and hits_addend.
  bool key(string_t& name) override {
    constexpr std::size_t most_fields = 16;
    std::vector<std::string>& names = open_.back().names;
    std::erase(name, '_');
    name = lowered(name);
    const bool known = std::ranges::find(names, name) != names.end();
    if (known || names.size() == most_fields) return false;
    names.push_back(name);
    return true;
  }

 private:
  enum class Kind : std::uint8_t { null, object, list, other };
  struct Open {
    Kind kind;
    std::vector<std::string> names{};  // of an object: the fields it has had
  };

  bool may_be(Kind kind) const {
    if (open_.empty() || open_.back().kind == Kind::list) return kind == Kind::object;
    const std::string& name = open_.back().names.back();
    const bool is_list = name == "descriptors" || name == "entries";
    if (is_list) return kind == Kind::list || kind == Kind::null;
    return kind != Kind::list && (name != "hitsaddend" || kind != Kind::object);
  }
  bool open(Kind kind) {
    constexpr std::size_t deepest = 8;
    if (!may_be(kind) || open_.size() == deepest) return false;
    open_.push_back({kind});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Open> open_;
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

void write_status(ProtoWriter& writer, const envoy::Status& status) {
  writer.number(1, static_cast<std::uint64_t>(status.code));
  if (status.limit) writer.message(2, [&] { write_limit(writer, *status.limit); });
  writer.number(3, status.remaining);
  if (status.until_reset) writer.message(4, [&] { write_duration(writer, *status.until_reset); });
}

// A Struct, whose encoding is better left to the library.
void write_metadata(ProtoWriter& writer, const std::string& json) {
  google::protobuf::Struct metadata;
  if (!google::protobuf::util::JsonStringToMessage(json, &metadata).ok()) return;
  const std::string bytes = metadata.SerializeAsString();
  writer.message(6, [&] { writer.raw(bytes); });
}

void write_answer(std::string& out, const envoy::Answer& answer) {
  ProtoWriter writer(out);
  writer.number(1, static_cast<std::uint64_t>(answer.overall));
  for (const envoy::Status& status : answer.statuses) {
    writer.message(2, [&] { write_status(writer, status); });
  }
  for (const envoy::Header& header : answer.response_headers) {
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

// Descriptors of earlier calls are used again, for their memory; but a call that was much longer
// than others leaves none behind.
envoy::Descriptor& EnvoyMessages::next_descriptor() {
  if (used_ == call_.descriptors.size()) call_.descriptors.emplace_back();
  envoy::Descriptor& descriptor = call_.descriptors[used_++];
  descriptor.entries.clear();
  descriptor.limit.reset();
  descriptor.hits.reset();
  descriptor.gives_back = false;
  return descriptor;
}

void EnvoyMessages::begin() {
  constexpr std::size_t many = 64;
  if (call_.descriptors.capacity() > many) call_ = {};
  for (envoy::Descriptor& each : call_.descriptors) {
    if (each.entries.capacity() > many) each = {};
  }
  call_.domain = {};
  call_.hits = 0;
  used_ = 0;
}

const envoy::Call* EnvoyMessages::read(std::string_view message) {
  begin();
  ProtoReader reader(message);
  bool good = true;
  while (good && reader.next()) {
    switch (reader.tag()) {
      case text_of(1):
        good = read_text(reader, call_.domain);
        break;
      case text_of(2):
        if (used_ > envoy::kMostDescriptors) break;  // it is refused
        good = read_descriptor({reader.text(), reader}, next_descriptor());
        break;
      case number_of(3):
        call_.hits = static_cast<std::uint32_t>(reader.number());
        break;
      default:
        break;
    }
  }
  call_.descriptors.resize(used_);
  return good && !reader.failed() ? &call_ : nullptr;
}

const envoy::Call* EnvoyMessages::read_json(std::string_view text) {
  if (!is_strict_json(text)) return nullptr;
  ::envoy::service::ratelimit::v3::RateLimitRequest request;
  const auto status =
      google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &request);
  if (!status.ok()) return nullptr;
  from_json_ = request.SerializeAsString();
  return read(from_json_);
}

void EnvoyMessages::append(std::string& out, const envoy::Answer& answer) {
  const std::size_t at = out.size();
  out.resize(at + wire::kGrpcPrefix);
  write_answer(out, answer);
  wire::write_grpc_prefix(out.data() + at, out.size() - at - wire::kGrpcPrefix);
}

std::string EnvoyMessages::to_json(const envoy::Answer& answer) {
  std::string bytes;
  write_answer(bytes, answer);
  ::envoy::service::ratelimit::v3::RateLimitResponse response;
  std::string json;
  const bool good = response.ParseFromString(bytes) &&
                    google::protobuf::util::MessageToJsonString(response, &json).ok();
  (void)good;  // it was made here
  return json;
}

}  // namespace weir::server
