#pragma once

#include <envoy/service/ratelimit/v3/rls.pb.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "envoy/messages.h"

// Envoy's messages as parsed by the Protocol Buffers library, to compare with.

namespace weir::test_support {

namespace pb = ::envoy::service::ratelimit::v3;

// All fields of a call, as text to compare.
inline std::string told(const envoy::RateLimitRequest& call) {
  const auto quoted = [](std::string_view text) {
    return std::to_string(text.size()) + ":" + std::string(text);
  };
  std::string all = quoted(call.domain) + " hits " + std::to_string(call.hits);
  for (const envoy::RateLimitDescriptor& each : call.descriptors) {
    all += "\n";
    for (const envoy::DescriptorEntry& entry : each.entries)
      all += quoted(entry.key) + quoted(entry.value);
    if (each.limit) {
      all += " limit " + std::to_string(each.limit->requests_per_unit) + "/" +
             std::to_string(static_cast<int>(each.limit->unit));
    }
    if (each.hits) all += " hits " + std::to_string(*each.hits);
    if (each.gives_back) all += " gives back";
  }
  return all;
}

// The same from the library; nothing if the bytes are not a valid message.
inline std::optional<std::string> told_by_library(std::string_view message) {
  pb::RateLimitRequest request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) return {};
  envoy::RateLimitRequest call{
      .domain = request.domain(), .descriptors = {}, .hits = request.hits_addend()};
  for (const auto& from : request.descriptors()) {
    envoy::RateLimitDescriptor& to = call.descriptors.emplace_back();
    for (const auto& entry : from.entries()) to.entries.push_back({entry.key(), entry.value()});
    if (from.has_limit()) {
      const int unit = from.limit().unit();
      const bool known = ::envoy::type::v3::RateLimitUnit_IsValid(unit);
      to.limit = {.requests_per_unit = from.limit().requests_per_unit(),
                  .unit = known ? static_cast<envoy::Unit>(unit) : envoy::Unit::unknown};
    }
    if (from.has_hits_addend()) to.hits = from.hits_addend().value();
    to.gives_back = from.is_negative_hits();
  }
  return told(call);
}

// An answer as serialized by the library. (Without metadata.)
inline std::string written_by_library(const envoy::RateLimitResponse& answer) {
  pb::RateLimitResponse response;
  response.set_overall_code(static_cast<pb::RateLimitResponse::Code>(answer.overall));
  for (const envoy::DescriptorStatus& from : answer.statuses) {
    auto& to = *response.add_statuses();
    to.set_code(static_cast<pb::RateLimitResponse::Code>(from.code));
    to.set_limit_remaining(from.remaining);
    if (from.limit) {
      auto& limit = *to.mutable_current_limit();
      limit.set_requests_per_unit(from.limit->requests_per_unit);
      limit.set_unit(static_cast<pb::RateLimitResponse::RateLimit::Unit>(from.limit->unit));
      limit.set_name(from.limit->name);
    }
    if (from.until_reset) {
      const auto seconds = std::chrono::floor<std::chrono::seconds>(*from.until_reset);
      to.mutable_duration_until_reset()->set_seconds(seconds.count());
      to.mutable_duration_until_reset()->set_nanos(
          static_cast<std::int32_t>((*from.until_reset - seconds).count()));
    }
  }
  for (const envoy::ResponseHeader& header : answer.response_headers) {
    auto& added = *response.add_response_headers_to_add();
    added.set_key(header.key);
    added.set_value(header.value);
  }
  return response.SerializeAsString();
}

}  // namespace weir::test_support
