#include "server/grpc_response.h"

#include <google/protobuf/message_lite.h>

#include <array>

#include "base/utf8.h"

namespace weir::server {

using wire::GrpcCode;
using wire::H2Field;

namespace {

// The same for all responses, so that HPACK's dynamic table holds them.
constexpr H2Field kContentType{"content-type", "application/grpc"};
constexpr std::array kFields{H2Field{":status", "200"}, kContentType};
constexpr std::array kOk{H2Field{"grpc-status", "0"}};

// Escapes a text for grpc-message, and truncates it: a request may have made it long.
std::string field_text(std::string_view text) {
  constexpr std::size_t max_bytes = 1024;
  std::string field;
  wire::append_grpc_text(field, truncate_utf8(text, max_bytes));
  return field;
}

H2Field status_field(GrpcCode code) { return {"grpc-status", wire::to_digits(code)}; }

}  // namespace

void append_message(std::string& out, const google::protobuf::MessageLite& message) {
  const std::size_t at = out.size();
  const std::size_t size = message.ByteSizeLong();
  out.resize(at + wire::kGrpcPrefix + size);
  wire::write_grpc_prefix(out.data() + at, size);
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<std::uint8_t*>(out.data() + at + wire::kGrpcPrefix));
}

void respond_ok(wire::Http2Server& machine, wire::H2Stream& stream) {
  start_streaming(machine, stream);
  machine.finish(stream, kOk);
}

void start_streaming(wire::Http2Server& machine, wire::H2Stream& stream) {
  machine.start(stream, kFields);
}

void end_streaming(wire::Http2Server& machine, wire::H2Stream& stream, GrpcCode code,
                   std::string_view text) {
  if (code == GrpcCode::ok) return machine.finish(stream, kOk);
  const std::string message = field_text(text);
  machine.finish(stream, std::array{status_field(code), H2Field{"grpc-message", message, false}});
}

// Has grpc-accept-encoding: the error for an unsupported compression must list the supported ones,
// which is none.
void refuse(wire::Http2Server& machine, wire::H2Stream& stream, GrpcCode code,
            std::string_view text) {
  const std::string message = field_text(text);
  machine.respond(stream, std::array{kFields[0], kContentType, status_field(code),
                                     H2Field{"grpc-message", message, false},
                                     H2Field{"grpc-accept-encoding", "identity"}});
}

void refuse_http(wire::Http2Server& machine, wire::H2Stream& stream, int status,
                 std::string_view text) {
  const std::string digits = std::to_string(status);
  const std::string message = field_text(text);
  machine.respond(
      stream, std::array{H2Field{":status", digits, false}, kContentType,
                         status_field(GrpcCode::unknown), H2Field{"grpc-message", message, false}});
}

}  // namespace weir::server
