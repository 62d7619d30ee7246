#pragma once

#include <string>
#include <string_view>

#include "wire/grpc.h"
#include "wire/h2.h"

// (The library's headers stay in the sources.)
namespace google::protobuf {
class MessageLite;
}

// How a call of gRPC is answered.

namespace weir::server {

// Appends a message to the body of an answer.
void append_message(std::string& out, const google::protobuf::MessageLite& message);

// Answers with the one message that is in the body of the answer, and that all is well.
void finish_message(wire::H2Machine& machine, wire::H2Stream& stream);

// The beginning of an answer of several messages, and its end.
void start_answers(wire::H2Machine& machine, wire::H2Stream& stream);
void finish_answers(wire::H2Machine& machine, wire::H2Stream& stream, wire::GrpcCode code,
                    std::string_view text = {});

// That it cannot be, in words for people.
void refuse(wire::H2Machine& machine, wire::H2Stream& stream, wire::GrpcCode code,
            std::string_view text);
// The same, to somebody who does not speak gRPC: with a status of HTTP.
void refuse_http(wire::H2Machine& machine, wire::H2Stream& stream, int status,
                 std::string_view text);

}  // namespace weir::server
