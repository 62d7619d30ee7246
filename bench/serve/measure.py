"""The cost of the daemon, beside a bare loop and its peers. Used by bench/run.

Each server runs alone on one core, the load on another. Contenders take turns within a round, and a ratio is
of two figures of the same round. CPU is the run time of the server's threads as reported by the kernel. If
permitted, the bench keeps other processes of the machine away from both cores.
"""

import contextlib
import functools
import random
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

KEYS = 1_000_000
MESSAGES = 400_000  # prepared; more than fit in a cache
CONNECTIONS = 50

# The token bucket script of a popular gateway, written anew: two keys, tokens and time, whole seconds. The
# time is the caller's or, by default, the server's.
SCRIPT = """
local rate, capacity, now, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if not now then now = tonumber(redis.call('time')[1]) end
local ttl = math.floor(capacity / rate * 2)
local tokens = tonumber(redis.call('get', KEYS[1])) or capacity
local last = tonumber(redis.call('get', KEYS[2])) or 0
local filled = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = filled >= asked
if allowed then filled = filled - asked end
redis.call('setex', KEYS[1], ttl, filled)
redis.call('setex', KEYS[2], ttl, now)
return { allowed and 1 or 0, filled }
"""

POLICY = """
listen: {{ resp: 127.0.0.1:{resp}, http: {http}, grpc: off }}
{state}
policies: {{ p: {{ limits: [ 1000000/h burst 1000000 ] }} }}
"""

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; location / {{ return 200; }} }}
}}
"""


def free_port():
    """A port that no outgoing connection takes meanwhile (those are above 32768). A Redis of a cluster
    adds 10000 for its bus port, a range that this never uses."""
    while True:
        port = random.randrange(10000, 20000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def resp(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def http(method, path, body=""):
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n{body}".encode()


def stolen():
    """The number of times the host has stolen the two cores: no server can answer meanwhile."""
    lines = Path("/proc/stat").read_text().splitlines()
    return sum(int(line.split()[8]) for line in lines if line.startswith(("cpu0 ", "cpu1 ")))


def on_core(core, command, alone=False):
    """The command that runs another on a core; with `alone`, other processes are kept off that core if
    permitted, as they would be measured too. (Processes that share a core must sleep when they have no
    work.)"""
    alone = alone and may_be_alone()
    return ["taskset", "-c", str(core), *(["chrt", "--fifo", "50"] if alone else []), *map(str, command)]


@functools.cache
def may_be_alone():
    return shutil.which("chrt") is not None and \
        subprocess.run(["chrt", "--fifo", "50", "true"], capture_output=True).returncode == 0


class Server:
    """A process on the first core; stopped by its pid."""

    def __init__(self, command, port, core=0, alone=False):
        self.port = port
        self.process = subprocess.Popen(on_core(core, command, alone),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                time.sleep(0.0005)
        self.stop()
        raise SystemExit(f"bench: {command[0]} did not start")

    @contextlib.contextmanager
    def alone(self):
        """Keeps other processes off its core meanwhile, if permitted. (Only for a short time, as it is
        always busy.)"""
        if not may_be_alone():
            yield
            return
        threads = ["chrt", "--all-tasks", "--pid"]
        subprocess.run([*threads, "--fifo", "50", str(self.process.pid)], check=True)
        try:
            yield
        finally:
            subprocess.run([*threads, "--other", "0", str(self.process.pid)], check=True)

    def stop(self, kill=False):
        self.process.kill() if kill else self.process.terminate()
        self.process.wait()

    def cpu_ns(self):
        return sum(int((task / "schedstat").read_text().split()[0])
                   for task in Path(f"/proc/{self.process.pid}/task").iterdir())

    def resident_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines()
                    if line.startswith("VmRSS")) / 1024


class Bench:
    alone = True  # a server has a core, the load has another

    def __init__(self, build, seconds, keys=KEYS, messages=MESSAGES):
        self.build = build
        self.load = build / "bench/weir_load"
        self.seconds = seconds
        self.keys = keys
        self.messages = messages
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.servers = {}
        try:
            self.start(build)
        except BaseException:
            self.stop()
            raise

    def start(self, build):
        ports = [free_port() for _ in range(7)]
        config = self.path / "weir.yaml"
        config.write_text(POLICY.format(resp=ports[0], http=f"127.0.0.1:{ports[1]}", state=""))
        weir = self.serve([build / "weir", "serve", "--threads", "1", "--config", config], ports[0])
        self.servers["weir"] = weir
        blind_config = self.path / "blind.yaml"
        blind_config.write_text(POLICY.format(resp=ports[6], http="off", state=""))
        self.servers["blind"] = self.serve([build / "weir", "serve", "--threads", "1", "--metrics",
                                            "off", "--config", blind_config], ports[6])
        self.ports = {"weir": ports[0], "weir http": ports[1], "bare": ports[2], "bare http": ports[3],
                      "blind": ports[6]}
        bare = build / "bench/weir_bare_server"
        self.servers["bare"] = self.serve([bare, "resp", ports[2]], ports[2])
        self.servers["bare http"] = self.serve([bare, "http", ports[3]], ports[3])
        if shutil.which("redis-server"):
            self.ports["redis"] = ports[4]
            self.servers["redis"] = self.serve(["redis-server", "--port", ports[4], "--save", "",
                                                "--bind", "127.0.0.1", "--dir", self.path], ports[4])
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        if Path(nginx).exists():
            self.ports["nginx"] = ports[5]
            nginx_config = self.path / "nginx.conf"
            nginx_config.write_text(NGINX.format(folder=self.path, port=ports[5]))
            self.servers["nginx"] = self.serve([nginx, "-c", nginx_config, "-p", self.path], ports[5])

    def serve(self, command, port):
        return Server(command, port, alone=self.alone)

    def stop(self):
        for server in self.servers.values():
            server.stop()
        self.folder.cleanup()

    # ---- Messages

    def prepare(self, name, message_for, keys):
        path = self.path / name
        with path.open("wb") as file:
            for key in keys:
                message = message_for(f"user:{key:011}")
                file.write(struct.pack("<I", len(message)) + message)
        return path

    def kinds(self):
        """Name -> the message for a key, the byte that each answer has once, the server."""
        sha = None
        if "redis" in self.ports:
            sha = subprocess.run(["redis-cli", "-p", str(self.ports["redis"]), "SCRIPT", "LOAD", SCRIPT],
                                 capture_output=True, text=True, check=True).stdout.strip()
        kinds = {
            "take": (lambda key: resp("WEIR.TAKE", "p", key), "*", "weir"),
            "take unwatched": (lambda key: resp("WEIR.TAKE", "p", key), "*", "blind"),
            "bare": (lambda key: resp("WEIR.TAKE", "p", key), "*", "bare"),
            "http take": (lambda key: http("POST", "/v1/take",
                                           f'{{"policy":"p","key":"{key}"}}'), "H", "weir http"),
            "nginx": (lambda key: http("GET", "/"), "H", "nginx"),
            "http bare": (lambda key: http("POST", "/v1/take",
                                           f'{{"policy":"p","key":"{key}"}}'), "H", "bare http"),
        }
        if sha:
            kinds["set"] = (lambda key: resp("SET", key, "1"), "+", "redis")
            kinds["script"] = (lambda key: resp("EVALSHA", sha, 2, f"{{{key}}}.t", f"{{{key}}}.s",
                                                1000, 1000, 1_700_000_000, 1), "*", "redis")
        if "nginx" not in self.ports:
            del kinds["nginx"]
        return kinds

    # ---- Measuring

    def measure(self, kind, path, in_flight, connections=CONNECTIONS, rate=None, seconds=None,
                sleeps=False):
        """Answers a second, CPU ns of the server for each, µs at p50, p99, p99.9, and the seconds it took.
        For a load that sleeps see load.cc."""
        _, mark, where = kind
        seconds = min(seconds or self.seconds, self.seconds)
        server = self.servers[where if where in self.servers else "weir"]
        before = server.cpu_ns()
        done = subprocess.run(
            on_core(1, [self.load, self.ports[where], connections, in_flight, seconds, mark, path,
                        *([rate] if rate else []), *(["sleeps"] if sleeps else [])], self.alone),
            capture_output=True, text=True, check=True)
        answers, *percentiles, took = map(float, done.stdout.split())
        cpu = (server.cpu_ns() - before) / max(answers * took, 1)
        return (answers, cpu, *percentiles, took)

    def fill(self, kinds):
        """Uses every key once, so that no server has a small table."""
        for name in ("take", "take unwatched", "set", "script"):
            if name in kinds:
                path = self.prepare("fill", kinds[name][0], range(self.keys))
                with path.open("rb") as file, \
                        socket.create_connection(("127.0.0.1", self.ports[kinds[name][2]])) as peer:
                    self.pour(file, peer, kinds[name][1].encode())

    @staticmethod
    def pour(file, peer, mark):
        sent = answered = 0
        while head := file.read(4):
            batch = [file.read(struct.unpack("<I", head)[0])]
            while len(batch) < 500 and (head := file.read(4)):
                batch.append(file.read(struct.unpack("<I", head)[0]))
            peer.sendall(b"".join(batch))
            sent += len(batch)
            while answered < sent:
                answered += peer.recv(1 << 20).count(mark)

    def rounds(self, count):
        """Name -> a list of the results of `measure`, one for each round; contenders take turns."""
        kinds = self.kinds()
        self.fill(kinds)
        random_ = random.Random(1)
        files = {name: self.prepare(name, kind[0],
                                    (random_.randrange(self.keys) for _ in range(self.messages)))
                 for name, kind in kinds.items()}
        results = {f"{name} {in_flight}": [] for in_flight in (1, 16) for name in kinds}
        for _ in range(count):
            for in_flight in (1, 16):
                # (The order changes, so that no contender always follows the same one.)
                for name in random_.sample(list(kinds), len(kinds)):
                    figures = self.measure(kinds[name], files[name], in_flight)
                    results[f"{name} {in_flight}"].append(figures)
            half = statistics.median(rate for rate, *_ in results["take 1"]) / 2
            for name in ("take", "bare"):
                before = stolen()
                figures = self.measure(kinds[name], files[name], 1, rate=half, seconds=0.1)
                whose = "the host's" if stolen() > before else "ours"
                results.setdefault(f"{name} at half load, {whose}", []).append(figures)
        results["resident MB"] = self.servers["weir"].resident_mb()
        results["start ms"] = self.start_times(kinds["take"])
        return results

    def start_times(self, kind, times=5):
        """The time from the command to the first connection, with a full state file, after the daemon was
        stopped and after it was killed: milliseconds."""
        port = free_port()
        config = self.path / "state.yaml"
        config.write_text(POLICY.format(resp=port, http="off", state=f"state: {self.path}/state"))
        command = [self.build / "weir", "serve", "--threads", "1", "--config", config]
        server = Server(command, port)
        path = self.prepare("fill", kind[0], range(self.keys * 3 // 2))
        with path.open("rb") as file, socket.create_connection(("127.0.0.1", port)) as peer:
            self.pour(file, peer, kind[1].encode())
        took = []
        for i in range(2 * times):
            server.stop(kill=i % 2 == 1)
            began = time.monotonic()
            server = Server(command, port)
            took.append((time.monotonic() - began) * 1000)
        server.stop()
        return took


# Comparisons: title, A, B, the figure (0 rate, 1 CPU), and the aim for A / B.
RATIOS = [
    ("RESP: CPU of WEIR.TAKE / bare loop, 1 in flight", "take 1", "bare 1", 1, "<=", 1.15),
    ("RESP: rate of WEIR.TAKE / bare loop, 16 in flight", "take 16", "bare 16", 0, ">=", 0.55),
    ("RESP: with metrics and top keys / without, 16 in flight", "take 16", "take unwatched 16", 0, ">=",
     0.95),
    ("RESP: WEIR.TAKE / redis-server's SET, 16 in flight", "take 16", "set 16", 0, ">=", 1.5),
    ("RESP: WEIR.TAKE / token-bucket script, 16 in flight", "take 16", "script 16", 0, ">=", 8),
    ("HTTP: POST /v1/take / nginx return 200, 1 in flight", "http take 1", "nginx 1", 0, ">=", 1.0),
    ("HTTP: POST /v1/take / bare loop, 16 in flight", "http take 16", "http bare 16", 0, ">=", 0.4),
]
