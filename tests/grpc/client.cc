// weir_grpc_test_client ADDRESS [--ca FILE] [--cert FILE --key FILE] CHECK…: the gRPC library's
// client against a daemon that serves the rules of tests/integration/grpc_rules.py. Prints "ok
// CHECK" for each check, or the difference.

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace {

using envoy::service::ratelimit::v3::RateLimitRequest;
using envoy::service::ratelimit::v3::RateLimitResponse;
using envoy::service::ratelimit::v3::RateLimitService;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <typename A, typename B>
void expect_equal(const A& have, const B& want, const std::string& what) {
  expect(have == want, what + ": " + std::to_string(have) + " instead of " + std::to_string(want));
}

void expect_ok(const grpc::Status& status) {
  expect(status.ok(),
         "status " + std::to_string(status.error_code()) + ": " + status.error_message());
}

void expect_code(const grpc::Status& status, grpc::StatusCode code) {
  expect(status.error_code() == code, "status " + std::to_string(status.error_code()) +
                                          " instead of " + std::to_string(code) + ": " +
                                          status.error_message());
}

RateLimitRequest request(const std::string& key, const std::string& value) {
  RateLimitRequest asked;
  asked.set_domain("test");
  auto* const entry = asked.add_descriptors()->add_entries();
  entry->set_key(key);
  entry->set_value(value);
  return asked;
}

// Each run of a check has its own keys.
std::string fresh(const std::string& name) {
  static int count = 0;
  return name + std::to_string(getpid()) + "-" + std::to_string(++count);
}

class Checks {
 public:
  explicit Checks(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)),
        service_(RateLimitService::NewStub(channel_)),
        health_(Health::NewStub(channel_)) {}

  void unary() {
    const RateLimitResponse answer = ask(request("daily", fresh("unary")));
    expect_equal(int(answer.overall_code()), int(RateLimitResponse::OK), "overall");
    expect_equal(answer.statuses_size(), 1, "statuses");
    const auto& status = answer.statuses(0);
    expect_equal(int(status.code()), int(RateLimitResponse::OK), "code");
    expect_equal(status.current_limit().requests_per_unit(), 20U, "requests_per_unit");
    expect_equal(int(status.current_limit().unit()), int(RateLimitResponse::RateLimit::DAY),
                 "unit");
    expect_equal(status.limit_remaining(), 19U, "remaining");
    const auto seconds = status.duration_until_reset().seconds();
    expect(seconds >= 0 && seconds <= 86400, "duration_until_reset");
  }

  void refused() {
    const std::string name = fresh("refused");
    for (unsigned i = 1; i <= 25; ++i) {
      const RateLimitResponse answer = ask(request("daily", name));
      const bool passes = i <= 20;
      expect_equal(int(answer.overall_code()),
                   int(passes ? RateLimitResponse::OK : RateLimitResponse::OVER_LIMIT), "overall");
      expect_equal(answer.statuses(0).limit_remaining(), passes ? 20 - i : 0, "remaining");
    }
  }

  // All calls are in flight before the first answer.
  void in_flight() {
    constexpr unsigned kCount = 1000;
    struct Call {
      grpc::ClientContext context;
      RateLimitResponse answer;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncResponseReader<RateLimitResponse>> reader;
    };
    const std::string name = fresh("flight");
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kCount; ++i) {
      Call& call = *calls.emplace_back(std::make_unique<Call>());
      call.reader = service_->AsyncShouldRateLimit(&call.context, request("plenty", name), &queue);
      call.reader->Finish(&call.answer, &call.status, &call);
    }
    std::vector<unsigned> remaining;
    for (unsigned i = 0; i < kCount; ++i) {
      void* tag = nullptr;
      bool ok = false;
      expect(queue.Next(&tag, &ok) && ok, "a call that did not end");
      Call& call = *static_cast<Call*>(tag);
      expect_ok(call.status);
      remaining.push_back(call.answer.statuses(0).limit_remaining());
    }
    std::sort(remaining.begin(), remaining.end());
    for (unsigned i = 0; i < kCount; ++i) {
      expect_equal(remaining[i], 1'000'000 - kCount + i, "each takes one");
    }
  }

  void metadata() {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", "42");
    context.AddMetadata("trace-bin", std::string("\0\x01\xff", 3));
    context.AddMetadata("x-long", std::string(4000, 'a'));
    RateLimitResponse answer;
    expect_ok(service_->ShouldRateLimit(&context, request("daily", fresh("meta")), &answer));
    expect_equal(answer.statuses_size(), 1, "statuses");
  }

  // A message above the maximum size is an error of this call only.
  void too_much_metadata() {
    grpc::ClientContext context;
    for (int i = 0; i < 200; ++i) {
      context.AddMetadata("x-" + std::to_string(i), std::string(1000, 'a'));
    }
    RateLimitResponse answer;
    const auto status = service_->ShouldRateLimit(&context, request("daily", fresh("m")), &answer);
    expect(!status.ok(), "it was taken");
    unary();
  }

  void long_deadline() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(24));
    RateLimitResponse answer;
    expect_ok(service_->ShouldRateLimit(&context, request("daily", fresh("late")), &answer));
  }

  void empty_domain() {
    RateLimitRequest asked = request("daily", "x");
    asked.clear_domain();
    expect_failure(asked, grpc::UNKNOWN, "rate limit domain must not be empty");
  }

  void no_descriptors() {
    RateLimitRequest asked;
    asked.set_domain("test");
    expect_failure(asked, grpc::UNKNOWN, "rate limit descriptor list must not be empty");
  }

  void oversized() {
    expect_failure(request("daily", std::string(5'000'000, 'x')), grpc::RESOURCE_EXHAUSTED, "");
    unary();
  }

  void wrong_method() {
    for (const char* method : {"/envoy.service.ratelimit.v3.RateLimitService/Nothing",
                               "/no.such.Service/Nothing", "/nothing"}) {
      expect_code(generic(method, request("daily", "x").SerializeAsString()), grpc::UNIMPLEMENTED);
    }
    unary();
  }

  void no_message() {
    const grpc::Status status = generic(
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "\x0a\xff this is none");
    expect(status.error_code() == grpc::INTERNAL || status.error_code() == grpc::INVALID_ARGUMENT,
           "status " + std::to_string(status.error_code()));
    unary();
  }

  // Compression was not offered: a client that compresses learns from the answer that it is
  // unsupported.
  void compressed() {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    RateLimitResponse answer;
    const auto status = service_->ShouldRateLimit(
        &context, request("daily", std::string(1000, 'x') + fresh("zip")), &answer);
    expect_code(status, grpc::UNIMPLEMENTED);
    unary();
  }

  void health() {
    for (const char* name : {"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"}) {
      grpc::ClientContext context;
      HealthCheckRequest asked;
      asked.set_service(name);
      HealthCheckResponse answer;
      expect_ok(health_->Check(&context, asked, &answer));
      expect_equal(int(answer.status()), int(HealthCheckResponse::SERVING), name);
    }
    grpc::ClientContext context;
    HealthCheckRequest asked;
    asked.set_service("nobody");
    HealthCheckResponse answer;
    expect_code(health_->Check(&context, asked, &answer), grpc::NOT_FOUND);
  }

  // The first answer comes at once, then the stream stays open until the deadline.
  void watch_until_deadline() {
    grpc::ClientContext context;
    const auto begin = std::chrono::steady_clock::now();
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
    const auto reader = watch(context, "ratelimit");
    HealthCheckResponse answer;
    expect(reader->Read(&answer), "no first answer");
    expect_equal(int(answer.status()), int(HealthCheckResponse::SERVING), "status");
    expect(!reader->Read(&answer), "a second answer");
    expect_code(reader->Finish(), grpc::DEADLINE_EXCEEDED);
    expect(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(250), "too early");
  }

  void watch_and_cancel() {
    for (int i = 0; i < 100; ++i) {
      grpc::ClientContext context;
      const auto reader = watch(context, i % 2 == 0 ? "ratelimit" : "nobody");
      HealthCheckResponse answer;
      expect(reader->Read(&answer), "no first answer");
      expect_equal(
          int(answer.status()),
          int(i % 2 == 0 ? HealthCheckResponse::SERVING : HealthCheckResponse::SERVICE_UNKNOWN),
          "status");
      context.TryCancel();
      while (reader->Read(&answer)) {
      }
      expect_code(reader->Finish(), grpc::CANCELLED);
    }
    unary();
  }

  // Prints when the watch starts, then each status and the end of the stream. (The test stops the
  // daemon meanwhile.)
  void watch_the_end() {
    grpc::ClientContext context;
    const auto reader = watch(context, "");
    HealthCheckResponse answer;
    while (reader->Read(&answer)) {
      std::printf("told %s\n", HealthCheckResponse::ServingStatus_Name(answer.status()).c_str());
      std::fflush(stdout);
    }
    const grpc::Status status = reader->Finish();
    std::printf("ended %d\n", int(status.error_code()));
  }

 private:
  RateLimitResponse ask(const RateLimitRequest& asked) {
    grpc::ClientContext context;
    RateLimitResponse answer;
    expect_ok(service_->ShouldRateLimit(&context, asked, &answer));
    return answer;
  }

  void expect_failure(const RateLimitRequest& asked, grpc::StatusCode code,
                      const std::string& text) {
    grpc::ClientContext context;
    RateLimitResponse answer;
    const grpc::Status status = service_->ShouldRateLimit(&context, asked, &answer);
    expect_code(status, code);
    expect(status.error_message().find(text) != std::string::npos, status.error_message());
  }

  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> watch(grpc::ClientContext& context,
                                                                 const std::string& name) {
    HealthCheckRequest asked;
    asked.set_service(name);
    return health_->Watch(&context, asked);
  }

  grpc::Status generic(const std::string& method, const std::string& message) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(message);
    const grpc::ByteBuffer bytes(&slice, 1);
    const auto reader = stub.PrepareUnaryCall(&context, method, bytes, &queue);
    grpc::ByteBuffer answer;
    grpc::Status status;
    reader->StartCall();
    reader->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    expect(queue.Next(&tag, &ok) && ok, "a call that did not end");
    return status;
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RateLimitService::Stub> service_;
  std::unique_ptr<Health::Stub> health_;
};

const std::map<std::string, void (Checks::*)()> kChecks = {
    {"unary", &Checks::unary},
    {"refused", &Checks::refused},
    {"in_flight", &Checks::in_flight},
    {"metadata", &Checks::metadata},
    {"too_much_metadata", &Checks::too_much_metadata},
    {"long_deadline", &Checks::long_deadline},
    {"empty_domain", &Checks::empty_domain},
    {"no_descriptors", &Checks::no_descriptors},
    {"oversized", &Checks::oversized},
    {"wrong_method", &Checks::wrong_method},
    {"no_message", &Checks::no_message},
    {"compressed", &Checks::compressed},
    {"health", &Checks::health},
    {"watch_until_deadline", &Checks::watch_until_deadline},
    {"watch_and_cancel", &Checks::watch_and_cancel},
    {"watch_the_end", &Checks::watch_the_end},
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 2;
  grpc::SslCredentialsOptions tls;
  std::vector<std::string> names;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--ca") {
      tls.pem_root_certs = content(words[++i]);
    } else if (words[i] == "--cert") {
      tls.pem_cert_chain = content(words[++i]);
    } else if (words[i] == "--key") {
      tls.pem_private_key = content(words[++i]);
    } else {
      names.push_back(words[i]);
    }
  }
  Checks checks(grpc::CreateChannel(words[0], tls.pem_root_certs.empty()
                                                  ? grpc::InsecureChannelCredentials()
                                                  : grpc::SslCredentials(tls)));
  bool well = true;
  for (const std::string& name : names) {
    try {
      (checks.*kChecks.at(name))();
      std::printf("ok %s\n", name.c_str());
    } catch (const std::exception& problem) {
      std::printf("%s: %s\n", name.c_str(), problem.what());
      well = false;
    }
    std::fflush(stdout);
  }
  return well ? 0 : 1;
}
