#include "server/envoy_messages.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <chrono>

#include "server/grpc_answer.h"

namespace weir::server {

namespace {

namespace pb = ::envoy::service::ratelimit::v3;
namespace common = ::envoy::extensions::common::ratelimit::v3;
using google::protobuf::Arena;

// Whoever sends texts that are none would fill the log.
void silence_library() {
  static const auto before = google::protobuf::SetLogHandler(nullptr);
  (void)before;
}

// (What the wire has may be any number.)
envoy::Unit unit_of(::envoy::type::v3::RateLimitUnit unit) {
  return ::envoy::type::v3::RateLimitUnit_IsValid(unit) ? static_cast<envoy::Unit>(unit)
                                                        : envoy::Unit::unknown;
}

// (Descriptors of earlier calls are used again, for their memory.)
void read_descriptor(const common::RateLimitDescriptor& from, envoy::Descriptor& to) {
  to.entries.clear();
  for (const auto& entry : from.entries()) to.entries.push_back({entry.key(), entry.value()});
  to.limit.reset();
  if (from.has_limit()) {
    to.limit = {.requests_per_unit = from.limit().requests_per_unit(),
                .unit = unit_of(from.limit().unit())};
  }
  to.hits.reset();
  if (from.has_hits_addend()) to.hits = from.hits_addend().value();
  to.gives_back = from.is_negative_hits();
}

void write_status(const envoy::Status& from, pb::RateLimitResponse::DescriptorStatus& to) {
  to.set_code(static_cast<pb::RateLimitResponse::Code>(from.code));
  to.set_limit_remaining(from.remaining);
  if (from.limit) {
    auto& limit = *to.mutable_current_limit();
    limit.set_requests_per_unit(from.limit->requests_per_unit);
    limit.set_unit(static_cast<pb::RateLimitResponse::RateLimit::Unit>(from.limit->unit));
    if (!from.limit->name.empty()) limit.set_name(from.limit->name);
  }
  if (from.until_reset) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*from.until_reset);
    auto& duration = *to.mutable_duration_until_reset();
    duration.set_seconds(seconds.count());
    duration.set_nanos(static_cast<std::int32_t>((*from.until_reset - seconds).count()));
  }
}

void write_answer(const envoy::Answer& from, pb::RateLimitResponse& to) {
  to.set_overall_code(static_cast<pb::RateLimitResponse::Code>(from.overall));
  for (const envoy::Status& status : from.statuses) write_status(status, *to.add_statuses());
  for (const envoy::Header& header : from.response_headers) {
    auto& added = *to.add_response_headers_to_add();
    added.set_key(header.key);
    added.set_value(header.value);
  }
  if (!from.metadata.empty()) {
    const auto status =
        google::protobuf::util::JsonStringToMessage(from.metadata, to.mutable_dynamic_metadata());
    if (!status.ok()) to.clear_dynamic_metadata();
  }
}

}  // namespace

struct EnvoyMessages::Impl {
  // Messages live here, of which most need no more than this.
  std::array<char, 16 << 10> block;
  Arena arena{block.data(), block.size()};
  envoy::Call call;

  const envoy::Call* read(const pb::RateLimitRequest& from) {
    call.domain = from.domain();
    call.hits = from.hits_addend();
    call.descriptors.resize(static_cast<std::size_t>(from.descriptors_size()));
    for (int i = 0; i < from.descriptors_size(); ++i) {
      read_descriptor(from.descriptors(i), call.descriptors[static_cast<std::size_t>(i)]);
    }
    return &call;
  }

  // A call that was much longer than others leaves no memory behind.
  void begin() {
    constexpr std::size_t many = 64;
    if (call.descriptors.capacity() > many) call = {};
    for (envoy::Descriptor& each : call.descriptors) {
      if (each.entries.capacity() > many) each = {};
    }
    arena.Reset();
  }
};

EnvoyMessages::EnvoyMessages() : impl_(std::make_unique<Impl>()) { silence_library(); }
EnvoyMessages::~EnvoyMessages() = default;

EnvoyMessages& EnvoyMessages::of_this_thread() {
  thread_local EnvoyMessages messages;
  return messages;
}

const envoy::Call* EnvoyMessages::read(std::string_view message) {
  impl_->begin();
  auto* request = Arena::CreateMessage<pb::RateLimitRequest>(&impl_->arena);
  const bool read = request->ParseFromArray(message.data(), static_cast<int>(message.size()));
  return read ? impl_->read(*request) : nullptr;
}

const envoy::Call* EnvoyMessages::read_json(std::string_view text) {
  impl_->begin();
  auto* request = Arena::CreateMessage<pb::RateLimitRequest>(&impl_->arena);
  const auto status =
      google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, request);
  return status.ok() ? impl_->read(*request) : nullptr;
}

void EnvoyMessages::append(std::string& out, const envoy::Answer& answer) {
  auto* response = Arena::CreateMessage<pb::RateLimitResponse>(&impl_->arena);
  write_answer(answer, *response);
  append_message(out, *response);
}

std::string EnvoyMessages::to_json(const envoy::Answer& answer) {
  pb::RateLimitResponse response;
  write_answer(answer, response);
  std::string json;
  (void)google::protobuf::util::MessageToJsonString(response, &json).ok();
  return json;
}

}  // namespace weir::server
