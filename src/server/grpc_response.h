#pragma once

#include <string>
#include <string_view>

#include "wire/grpc.h"
#include "wire/h2.h"

// (The library's headers stay in the sources.)
namespace google::protobuf {
class MessageLite;
}

// Responses to gRPC calls.

namespace weir::server {

// Appends a length-prefixed message to the body of a response.
void append_message(std::string& out, const google::protobuf::MessageLite& message);

// Sends the one message in `stream.answer`, and status OK.
void respond_ok(wire::Http2Server& machine, wire::H2Stream& stream);

// Starts and ends a streaming response. The messages between them go into `stream.answer`.
void start_streaming(wire::Http2Server& machine, wire::H2Stream& stream);
void end_streaming(wire::Http2Server& machine, wire::H2Stream& stream, wire::GrpcCode code,
                   std::string_view text = {});

// Sends an error without a message (Trailers-Only). `text` is for people.
void refuse(wire::Http2Server& machine, wire::H2Stream& stream, wire::GrpcCode code,
            std::string_view text);
// The same to a client that does not speak gRPC: with an HTTP status.
void refuse_http(wire::Http2Server& machine, wire::H2Stream& stream, int status,
                 std::string_view text);

}  // namespace weir::server
