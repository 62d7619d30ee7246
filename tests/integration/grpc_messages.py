"""Messages of our .proto files, made by protoc when a test runs, and a caller for each method. Needs
Debian's python3-grpcio and python3-protobuf."""

import subprocess
import tempfile
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, message_factory

SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
UNKNOWN, OK, OVER_LIMIT = range(3)
SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK = range(1, 8)
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3

# What tests/grpc/client.cc and other clients ask about.
RULES = """
domain: test
descriptors:
  - key: daily
    rate_limit: { unit: day, requests_per_unit: 20 }
  - key: plenty
    rate_limit: { unit: day, requests_per_unit: 1000000 }
"""


class Messages:
    """messages = Messages(source); messages.RateLimitRequest(domain="test")"""

    def __init__(self, source):
        folder = Path(source) / "proto"
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto")
                       if "v1alpha" not in path.parts)  # the same names again
        with tempfile.NamedTemporaryFile() as compiled:
            subprocess.run(["protoc", "-I", folder, "--include_imports", "-o", compiled.name, *files],
                           check=True, timeout=60)
            found = descriptor_pb2.FileDescriptorSet.FromString(Path(compiled.name).read_bytes())
        for name, kind in message_factory.GetMessages(found.file).items():
            setattr(self, name.rpartition(".")[2], kind)

    def request(self, domain, *descriptors, hits=0):
        """Each descriptor is a list of (key, value), or a dict with entries and whatever else."""
        request = self.RateLimitRequest(domain=domain, hits_addend=hits)
        for descriptor in descriptors:
            more = descriptor if isinstance(descriptor, dict) else {"entries": descriptor}
            added = request.descriptors.add()
            for key, value in more["entries"]:
                added.entries.add(key=key, value=value)
            if "limit" in more:
                added.limit.requests_per_unit, added.limit.unit = more["limit"]
            if "hits" in more:
                added.hits_addend.value = more["hits"]
            added.is_negative_hits = more.get("gives_back", False)
        return request

    def should_rate_limit(self, channel):
        return channel.unary_unary(SHOULD_RATE_LIMIT,
                                   request_serializer=self.RateLimitRequest.SerializeToString,
                                   response_deserializer=self.RateLimitResponse.FromString)

    def check_health(self, channel):
        return channel.unary_unary("/grpc.health.v1.Health/Check",
                                   request_serializer=self.HealthCheckRequest.SerializeToString,
                                   response_deserializer=self.HealthCheckResponse.FromString)

    def watch_health(self, channel):
        return channel.unary_stream("/grpc.health.v1.Health/Watch",
                                    request_serializer=self.HealthCheckRequest.SerializeToString,
                                    response_deserializer=self.HealthCheckResponse.FromString)

    def reflect(self, channel, version="v1alpha"):
        return channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=self.ServerReflectionRequest.SerializeToString,
            response_deserializer=self.ServerReflectionResponse.FromString)


def dial(port, credentials=None):
    address = f"127.0.0.1:{port}"
    # (Who tries again at once learns of a restart at once.)
    options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.enable_http_proxy", 0)]
    if credentials:
        return grpc.secure_channel(address, credentials, options)
    return grpc.insecure_channel(address, options)
