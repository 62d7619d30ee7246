"""The cost of the gRPC listener, beside a bare nghttp2 loop and the gRPC library's server, which both answer
a constant. Used by bench/run.

Each server runs alone on one core, the load on another. Three programs make the load: one of ours that sends
prepared bytes (h2_load.cc), h2load of nghttp2, and the gRPC library's client. Contenders take turns within a
round, and a ratio is of two figures of the same round.

If an envoyproxy/ratelimit is available (make peers) it is measured too, and weir with the same Redis behind
it, which is on the core of the servers: its CPU time counts as theirs.
"""

import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import measure
from measure import free_port, on_core

IN_FLIGHT = 64
KEYS = 10_000
MESSAGES = 100_000
SPINNING = "weir --spin 100"
GATHERING = "weir --gather 40"
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

POLICY = """
listen: {{ resp: off, http: off, grpc: 127.0.0.1:{grpc} }}
envoy_ratelimit: {rules}
"""

# Every user has plenty; one that everybody shares has long been used up.
RULES = """
domain: bench
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 1000000 }
  - key: hot
    rate_limit: { unit: hour, requests_per_unit: 20 }
"""


def field(number, content):
    """A field of a protobuf message. (Shorter than 128 bytes.)"""
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(content)]) + content


def request(key, value):
    entry = field(1, key) + field(2, value)
    return field(1, "bench") + field(2, field(1, entry))


def has_library(build):
    return (build / "bench/weir_grpc_server").exists()


RATELIMIT = Path(__file__).resolve().parents[2] / "build" / "ratelimit"
THEIRS, ON_REDIS = "envoyproxy/ratelimit", "weir on Redis"


class OnRedis:
    """A server, and the Redis behind it."""

    def __init__(self, server, redis):
        self.server, self.redis = server, redis

    def cpu_ns(self):
        return self.server.cpu_ns() + self.redis.cpu_ns()

    def stop(self):
        self.server.stop()


class Bench(measure.Bench):
    def start(self, build):
        self.ports = {name: free_port() for name in ("weir", "nghttp2", "grpc")}
        rules = self.path / "rules.yaml"
        rules.write_text(RULES)
        config = self.path / "weir.yaml"
        config.write_text(POLICY.format(grpc=self.ports["weir"], rules=rules))
        self.servers["weir"] = self.serve(
            [build / "weir", "serve", "--threads", "1", "--config", config], self.ports["weir"])
        for name, option, time in ((SPINNING, "--spin", "100"), (GATHERING, "--gather", "40")):
            self.ports[name] = free_port()
            config = self.path / f"weir{option}.yaml"
            config.write_text(POLICY.format(grpc=self.ports[name], rules=rules))
            self.servers[name] = self.serve(
                [build / "weir", "serve", "--threads", "1", option, time, "--config", config],
                self.ports[name])
        self.servers["nghttp2"] = self.serve(
            [build / "bench/weir_bare_h2_server", self.ports["nghttp2"]], self.ports["nghttp2"])
        if has_library(build):
            self.servers["grpc"] = self.serve(
                [build / "bench/weir_grpc_server", self.ports["grpc"]], self.ports["grpc"])

        self.redis = None
        if RATELIMIT.exists() and shutil.which("redis-server"):
            self.start_theirs(build)

    def start_theirs(self, build):
        redis, self.ports[THEIRS], self.ports[ON_REDIS] = free_port(), free_port(), free_port()
        self.redis = self.serve(["redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "",
                                 "--appendonly", "no"], redis)
        config = self.path / "on_redis.yaml"
        config.write_text(POLICY.format(grpc=self.ports[ON_REDIS], rules=self.path / "rules.yaml")
                          + f"compat: envoyproxy\nstore: redis://127.0.0.1:{redis}\nstore_timeout: 10s\n")
        self.servers[ON_REDIS] = OnRedis(self.serve(
            [build / "weir", "serve", "--threads", "1", "--config", config], self.ports[ON_REDIS]), self.redis)
        rules = self.path / "root" / "ratelimit" / "config"
        rules.mkdir(parents=True)
        (rules / "bench.yaml").write_text(RULES)
        settings = {"RUNTIME_ROOT": self.path / "root", "RUNTIME_SUBDIRECTORY": "ratelimit",
                    "RUNTIME_WATCH_ROOT": "false", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis}",
                    "USE_STATSD": "false", "DISABLE_STATS": "true", "LOG_LEVEL": "error", "HOST": "127.0.0.1",
                    "PORT": free_port(), "GRPC_HOST": "127.0.0.1", "GRPC_PORT": self.ports[THEIRS],
                    "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": free_port()}
        self.servers[THEIRS] = OnRedis(self.serve(
            ["env", *(f"{name}={value}" for name, value in settings.items()), RATELIMIT], self.ports[THEIRS]),
            self.redis)

    def stop(self):
        super().stop()
        if self.redis:
            self.redis.stop()

    def prepare_calls(self):
        random_ = random.Random(1)
        users = [random_.randrange(KEYS) for _ in range(MESSAGES)]
        return {
            "user": self.prepare("user", lambda key: request("user", key), users),
            "hot": self.prepare("hot", lambda _: request("hot", "one"), range(1000)),
        }

    # ---- Load generators: answers a second, and the number of answers.

    def run_on_core(self, command):
        done = subprocess.run(on_core(1, command, self.alone), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench: {Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def light(self, port, path, connections):
        said = self.run_on_core([self.build / "bench/weir_h2_load", port, connections,
                                 IN_FLIGHT // connections, self.seconds, path])
        rate, _, took = map(float, said.split())
        return rate, rate * took

    def h2load(self, port, path, connections):
        # It sends the same message repeatedly.
        message = path.read_bytes()
        message = message[4:4 + struct.unpack("<I", message[:4])[0]]
        framed = self.path / "framed"
        framed.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
        count = max(int(100_000 * self.seconds), IN_FLIGHT)
        said = self.run_on_core(
            ["h2load", "-t", 1, "-c", connections, "-m", IN_FLIGHT // connections, "-n", count,
             "-d", framed, "-H", "content-type: application/grpc", "-H", "te: trailers",
             f"http://127.0.0.1:{port}{METHOD}"])
        if f" {count} succeeded" not in said:
            raise SystemExit(f"bench: h2load was not answered:\n{said}")
        return float(re.search(r"([\d.]+) req/s", said)[1]), count

    def library(self, port, path, _):
        said = self.run_on_core([self.build / "bench/weir_grpc_client", port, IN_FLIGHT, self.seconds,
                                 path])
        rate, took = map(float, said.split())
        return rate, rate * took

    def loads(self):
        loads = {"light": (self.light, 1), "light, 4 connections": (self.light, 4)}
        if shutil.which("h2load"):
            loads["h2load, 4 connections"] = (self.h2load, 4)
        if has_library(self.build):
            loads["gRPC client"] = (self.library, 1)
        return loads

    def rounds(self, count):
        """Name -> (answers a second, CPU ns of the server for each), one for each round."""
        calls = self.prepare_calls()
        for name in self.servers:  # the first load inserts the keys
            self.light(self.ports[name], calls["user"], 1)
        results = {}
        for _ in range(count):
            for load, (run, connections) in self.loads().items():
                for name, server in self.servers.items():
                    if name in (SPINNING, GATHERING) and load != CLIENT:  # the other loads do not need it
                        continue
                    if isinstance(server, OnRedis) and load != LIGHT:
                        continue
                    for kind in ("user", "hot") if (name, load) == ("weir", "light") else ("user",):
                        before = server.cpu_ns()
                        rate, answers = run(self.ports[name], calls[kind], connections)
                        cpu = (server.cpu_ns() - before) / max(answers, 1)
                        which = name if kind == "user" else f"{name}, refused"
                        results.setdefault(f"{which} {load}", []).append((rate, cpu))
        return results


LIGHT, H2LOAD, CLIENT = "light", "h2load, 4 connections", "gRPC client"

# Comparisons: title, A, B, the figure (0 rate, 1 CPU), and the aim for A / B.
RATIOS = [
    ("CPU of a call / gRPC C++ server's", f"weir {LIGHT}", f"grpc {LIGHT}", 1, "<=", 0.2),
    ("rate / gRPC C++ server", f"weir {LIGHT}", f"grpc {LIGHT}", 0, ">=", 4),
    ("... when it refuses", f"weir, refused {LIGHT}", f"grpc {LIGHT}", 0, ">=", 4),
    ("... on 4 connections", f"weir {LIGHT}, 4 connections", f"grpc {LIGHT}, 4 connections", 0, ">=", 4),
    ("rate / gRPC C++ server, asked by h2load on 4 connections", f"weir {H2LOAD}", f"grpc {H2LOAD}", 0,
     ">=", 2.5),
    ("rate / bare nghttp2 loop", f"weir {LIGHT}", f"nghttp2 {LIGHT}", 0, ">=", 0.7),
    ("rate / bare nghttp2 loop, asked by h2load on 4 connections", f"weir {H2LOAD}", f"nghttp2 {H2LOAD}",
     0, None, None),
    ("rate / gRPC C++ server, asked by a gRPC C++ client", f"weir {CLIENT}", f"grpc {CLIENT}", 0, ">=",
     1),
    ("... and weir serves with --gather 40", f"{GATHERING} {CLIENT}", f"grpc {CLIENT}", 0, ">=", 1),
    ("... and weir serves with --spin 100", f"{SPINNING} {CLIENT}", f"grpc {CLIENT}", 0, ">=", 1),
    ("bare nghttp2 loop / gRPC C++ server, asked by a gRPC C++ client", f"nghttp2 {CLIENT}",
     f"grpc {CLIENT}", 0, None, None),
    (f"rate / {THEIRS}, which has a Redis", f"weir {LIGHT}", f"{THEIRS} {LIGHT}", 0, None, None),
    ("... with the same Redis behind weir", f"{ON_REDIS} {LIGHT}", f"{THEIRS} {LIGHT}", 0, None, None),
]
