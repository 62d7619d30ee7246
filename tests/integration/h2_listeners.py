"""The two listeners that speak HTTP/2, and a request that each of them answers."""

import json

from h2_peer import Peer, grpc_message

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

# The least of Envoy's rules that tests of the protocol need.
RULES = """
domain: test
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
"""

POLICIES = "policies: { p: { limits: [ 1000000/h ] } }"


def text_field(number, text):
    """A length-delimited field of a protobuf message."""
    text = text.encode() if isinstance(text, str) else text
    length, size = b"", len(text)
    while size >= 128:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + text


def rate_limit_request(*entries, domain="test"):
    """A RateLimitRequest of one descriptor with these entries, as bytes."""
    descriptor = b"".join(
        text_field(1, text_field(1, key) + text_field(2, value)) for key, value in entries)
    return text_field(1, domain) + text_field(2, descriptor)


class HttpListener:
    name = "HTTP"
    body = json.dumps({"policy": "p", "key": "k"}).encode()

    def __init__(self, daemon):
        self.port = daemon.http_port
        self.tls = daemon.tls

    def peer(self, **more):
        return Peer(self.port, tls=self.tls, **more)

    @staticmethod
    def fields(*more, without=(), **pseudo):
        """The header fields of a request; `pseudo`: replacements, `without`: names to leave out."""
        fields = {":method": "POST", ":scheme": "http", ":path": "/v1/take", ":authority": "localhost",
                  "content-type": "application/json"}
        fields.update({f":{name}": value for name, value in pseudo.items()})
        return [(name, value) for name, value in fields.items() if name not in without] + list(more)

    @staticmethod
    def is_answered(answer):
        return answer.status == 200 and json.loads(answer.body)["allowed"]


class GrpcListener:
    name = "gRPC"
    body = grpc_message(rate_limit_request(("user", "k")))

    def __init__(self, daemon):
        self.port = daemon.grpc_port
        self.tls = daemon.tls

    def peer(self, **more):
        return Peer(self.port, tls=self.tls, **more)

    @staticmethod
    def fields(*more, without=(), **pseudo):
        fields = {":method": "POST", ":scheme": "http", ":path": METHOD, ":authority": "localhost",
                  "content-type": "application/grpc", "te": "trailers"}
        fields.update({f":{name}": value for name, value in pseudo.items()})
        return [(name, value) for name, value in fields.items() if name not in without] + list(more)

    @staticmethod
    def is_answered(answer):
        return answer.status == 200 and answer.grpc_status == 0 and answer.body[5:7] == b"\x08\x01"
