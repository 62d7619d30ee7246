"""Starts a daemon on free ports, talks to it, and stops it by its pid."""

import atexit
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

DEMO = """
policies:
  login: { limits: [ 5/min sliding exact ] }
  api:
    limits:
      - { limit: 10/s burst 100, name: rate }
      - { limit: 1000/day, name: quota }
  seckill:
    limits:
      - { by: user, limit: 1/5s, name: user }
      - { by: sku, limit: 1000/s burst 3, name: product }
  batch: { limits: [ 1/s queue 3 ] }
  llm: { limits: [ { limit: 1000 per 1000h, name: tokens } ] }
  report: { limits: [ 2 concurrent lease 30s ] }
"""


class Daemon:
    """with Daemon(weir, config) as daemon: …"""

    def __init__(self, weir, policies=DEMO, folder=None, args=(), extra="", tls=None,
                 cwd=None, grpc="off", listener="127.0.0.1:0"):
        """`tls`: an SSLContext for the clients. `cwd`: the daemon's working directory. `grpc`: the address
        of the gRPC listener. `listener`: the address of the others; resp() and http() connect to
        127.0.0.1."""
        self.weir = weir
        self.tls = tls
        self.cwd = cwd
        self.temporary = None if folder else tempfile.TemporaryDirectory()
        self.folder = Path(folder or self.temporary.name)
        self.config = self.folder / "weir.yaml"
        self.config.write_text(
            f"listen: {{ resp: {listener}, http: {listener}, grpc: {grpc} }}\n{extra}\n{policies}")
        self.args = list(args)
        self.log = []
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        if self.temporary:
            self.temporary.cleanup()

    def start(self):
        self.process = subprocess.Popen(
            [self.weir, "serve", "--config", str(self.config), *self.args],
            stderr=subprocess.PIPE, text=True, cwd=self.cwd)
        self.log = []
        lines = iter(self.process.stderr.readline, "")
        ports = {}
        for line in lines:
            self.log.append(line)
            if found := re.search(r"(RESP|HTTP|gRPC) on \S*?:(\d+)\W*$", line):
                ports[found[1]] = int(found[2])
            if "ready, with" in line:
                break
        if "ready, with" not in "".join(self.log):
            raise AssertionError("the daemon did not start:\n" + "".join(self.log))
        self.resp_port, self.http_port = ports.get("RESP"), ports.get("HTTP")
        self.grpc_port = ports.get("gRPC")
        self.reader = threading.Thread(target=lambda: self.log.extend(lines))
        self.reader.start()

    def stop(self):
        """Stops it with SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self):
        code = self.process.wait(30)
        self.reader.join()
        self.process.stderr.close()
        return code

    def wait_for_log(self, text, times=1):
        """Waits until the log contains the text. (Reloads have no fixed time.)"""
        for _ in range(1000):
            if sum(text in line for line in list(self.log)) >= times:
                return
            time.sleep(0.01)
        raise AssertionError(f"the log never said {text!r}:\n" + "".join(self.log))

    # ---- RESP

    def resp(self):
        return Resp(self.resp_port, self.tls)

    # ---- HTTP

    def http(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request; JSON bodies are decoded."""
        if self.tls:
            connection = http.client.HTTPSConnection("127.0.0.1", self.http_port, timeout=20,
                                                     context=self.tls)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=20)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
        if "json" in (response.getheader("Content-Type") or ""):
            content = json.loads(content)
        connection.close()
        return response.status, response.headers, content

    def post(self, path, **fields):
        return self.http("POST", path, fields)


class RespError(Exception):
    pass


class Resp:
    """A connection that sends commands and reads answers, RESP2 and RESP3."""

    def __init__(self, port, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    @staticmethod
    def encode(*words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def send(self, *words):
        self.socket.sendall(self.encode(*words))

    def __call__(self, *words):
        self.send(*words)
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the connection ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return RespError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"$":
            if rest == b"-1":
                return None
            content = self.file.read(int(rest) + 2)
            return content[:-2].decode("utf-8", "surrogateescape")
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        raise AssertionError(f"unknown answer {line!r}")


def eventually(holds, what):
    """Waits until `condition` is true. (Background work has no fixed time.)"""
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(f"it never came to this: {what}")


CLAIMS = []  # open as long as this process runs
atexit.register(lambda: [claim.close() for claim in CLAIMS])


def free_port():
    """A port that no outgoing connection takes (those are above 32768), and no other test until this
    process ends: it is claimed by an abstract socket, which the kernel gives to one process only. A Redis
    of a cluster adds 10000 for its bus port, which has to be free too."""
    while True:
        port = random.randrange(10000, 20000)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0weir test port {port}")
            for needed in (port, port + 10000):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", needed))
        except OSError:
            claim.close()
            continue
        CLAIMS.append(claim)
        return port


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def under_sanitizer():
    return bool(os.environ.get("WEIR_SANITIZE"))
