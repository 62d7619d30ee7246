#include "server/grpc_reflection.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>

#include <array>
#include <set>

#include "server/grpc_response.h"

namespace weir::server {

namespace {

namespace pb = grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// The .proto files of all services.
std::array<const FileDescriptor*, 4> service_files() {
  return {::envoy::service::ratelimit::v3::RateLimitRequest::descriptor()->file(),
          grpc::health::v1::HealthCheckRequest::descriptor()->file(),
          pb::ServerReflectionRequest::descriptor()->file(),
          grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()->file()};
}

void list_services(pb::ListServiceResponse& list) {
  for (const FileDescriptor* file : service_files()) {
    for (int i = 0; i < file->service_count(); ++i) {
      list.add_service()->set_name(file->service(i)->full_name());
    }
  }
}

// Adds a file and its imports, each once: a client needs them all to use the file.
void add_file(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
              pb::FileDescriptorResponse& files) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  file.CopyJsonNameTo(&proto);  // as protoc does, for clients that print messages as JSON
  proto.SerializeToString(files.add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) {
    add_file(*file.dependency(i), added, files);
  }
}

// `file`: null if there is none; `kind` is for the error.
void send_file(const FileDescriptor* file, std::string_view kind,
               pb::ServerReflectionResponse& to) {
  if (file != nullptr) {
    std::set<const FileDescriptor*> added;
    return add_file(*file, added, *to.mutable_file_descriptor_response());
  }
  auto& error = *to.mutable_error_response();
  error.set_error_code(static_cast<int>(wire::GrpcCode::not_found));
  error.set_error_message(std::string("there is no such ").append(kind));
}

void answer_request(const pb::ServerReflectionRequest& request, pb::ServerReflectionResponse& to) {
  using pb::ServerReflectionRequest;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      return list_services(*to.mutable_list_services_response());
    case ServerReflectionRequest::kFileByFilename:
      return send_file(pool.FindFileByName(request.file_by_filename()), "file", to);
    case ServerReflectionRequest::kFileContainingSymbol:
      return send_file(pool.FindFileContainingSymbol(request.file_containing_symbol()), "symbol",
                       to);
    case ServerReflectionRequest::kFileContainingExtension:
      return send_file(nullptr, "extension", to);
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (pool.FindMessageTypeByName(type) == nullptr) return send_file(nullptr, "type", to);
      to.mutable_all_extension_numbers_response()->set_base_type_name(type);
      return;
    }
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  auto& error = *to.mutable_error_response();
  error.set_error_code(static_cast<int>(wire::GrpcCode::invalid_argument));
  error.set_error_message("the request is empty: set one field of message_request");
}

}  // namespace

bool reflect(std::string_view message, std::string& out) {
  (void)service_files();  // registers the files of both versions with the pool
  pb::ServerReflectionRequest request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) return false;
  pb::ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  answer_request(request, response);
  append_message(out, response);
  return true;
}

}  // namespace weir::server
