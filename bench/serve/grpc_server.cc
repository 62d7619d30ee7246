// grpc_server PORT: a common way to build a gRPC listener. The gRPC library's server, one thread on
// a completion queue (its fastest API), that parses no message and answers every call with the same
// bytes.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <cstdio>
#include <string>

#include "grpc_answer.h"

namespace {

grpc::ByteBuffer answer() {
  const grpc::Slice slice(kAnswer.data(), kAnswer.size(), grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

// One call after the other, each through four steps.
class Call {
 public:
  Call(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), stream_(&context_) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, this);
  }

  void proceed(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    switch (step_++) {
      case 0:
        new Call(service_, queue_);
        stream_.Read(&request_, this);
        break;
      case 1:
        stream_.WriteAndFinish(answer(), grpc::WriteOptions(), grpc::Status::OK, this);
        break;
      default:
        delete this;
    }
  }

 private:
  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer request_;
  int step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("127.0.0.1:") + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  for (int i = 0; i < 64; ++i) new Call(service, *queue);
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);) static_cast<Call*>(tag)->proceed(ok);
}
