// grpc_client PORT IN_FLIGHT SECONDS FILE: a load made by the gRPC library's client, which many
// programs use, unlike Envoy: one channel, one thread, IN_FLIGHT calls at a time. FILE has
// messages, each after its length in four bytes. Prints answers a second and the seconds it took.

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "grpc_answer.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<grpc::ByteBuffer> read_messages(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<grpc::ByteBuffer> messages;
  for (std::size_t at = 0; at + 4 <= all.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, all.data() + at, 4);
    const grpc::Slice slice(all.data() + at + 4, length);
    messages.emplace_back(&slice, 1);
    at += 4 + length;
  }
  return messages;
}

struct Call {
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const double seconds = std::atof(argv[3]);
  const std::vector<grpc::ByteBuffer> messages = read_messages(argv[4]);
  grpc::GenericStub stub(
      grpc::CreateChannel(std::string("127.0.0.1:") + argv[1], grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  std::size_t next = 0;
  const std::string method(kMethod);
  const auto start_call = [&] {
    Call* const call = new Call;
    call->reader =
        stub.PrepareUnaryCall(&call->context, method, messages[next++ % messages.size()], &queue);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call);
  };
  const auto finish_call = [&] {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) std::exit(1);
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    if (ok && call->status.ok() && call->answer.Length() > 0) return;
    std::fprintf(stderr, "grpc_client: %s\n", call->status.error_message().c_str());
    std::exit(1);
  };
  start_call();
  finish_call();  // it is connected
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (int i = std::atoi(argv[2]); i > 0; --i) start_call();
  std::uint64_t answered = 0;
  for (; Clock::now() < end || answered == 0; ++answered) {
    finish_call();
    start_call();
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  for (int i = std::atoi(argv[2]); i > 0; --i) finish_call();
  std::printf("%.0f %.6f\n", static_cast<double>(answered) / took, took);
}
