"""The cost of limits on a Redis, beside a client that only sends. Used by bench/run.

One redis-server, alone on the first core; its client is on the second: the load, directly to the server or
through a daemon that shares its core, or a program with its own link. The load sends to the server exactly
the bytes that the daemon was seen to send. Contenders take turns within a round, and a ratio is of two
figures of the same round.

All keys exist, and have some of their limit left during the whole run.
"""

import ast
import json
import random
import re
import shutil
import socket
import subprocess
import urllib.request

import measure
from measure import Server, free_port, resp

KEYS = 100_000
MESSAGES = 100_000
CONNECTIONS = 8
IN_FLIGHT = 16  # on each connection
OPEN = 64  # open queries of a program
SAMPLE = 98_765_432_109  # the key by which the bytes of the daemon are captured

BUCKET = "1/s burst 1000"
SECOND = "1000/h"
USED = 500  # before anything is measured, so that no key comes to rest
RATE, BURST = 1000, 100  # of the limit that binds

# The minimum for a script that keeps a state for each key and expires it at rest.
BARE = """
redis.call('TIME')
local found
for i = 1, #KEYS do
  found = redis.call('GET', KEYS[i])
  redis.call('PSETEX', KEYS[i], '500000', found)
end
return found
"""

POLICY = """
listen: {{ resp: 127.0.0.1:{resp}, http: 127.0.0.1:{http}, grpc: off }}
store: redis://127.0.0.1:{redis}
store_timeout: 5s
policies:
  one: {{ limits: [ {{ limit: {bucket}, scope: fleet }} ] }}
  two: {{ limits: [ {{ limit: {bucket}, scope: fleet }}, {{ limit: {second}, scope: fleet }} ] }}
  day: {{ limits: [ {{ limit: {bucket}, scope: fleet }}, {{ limit: 1000000/day in UTC, scope: fleet }} ] }}
  binds: {{ limits: [ {{ limit: {rate}/s burst {burst}, scope: fleet }} ] }}
"""


def can_run():
    return shutil.which("redis-server") is not None


def text(key):
    return f"user:{key:011}"


class Together:
    """Servers that share the work: the cost of a decision is the sum over all of them."""

    def __init__(self, *servers):
        self.servers = servers

    def cpu_ns(self):
        return sum(server.cpu_ns() for server in self.servers)

    def stop(self):
        pass  # each is stopped separately


class Bench(measure.Bench):
    alone = False  # the daemon shares its core with the load, and both are busy

    def __init__(self, build, seconds, keys=KEYS, messages=MESSAGES):
        super().__init__(build, seconds, keys, messages)

    def start(self, build):
        self.ports = {name: free_port() for name in ("redis", "weir", "http")}
        self.servers["redis"] = Server(
            ["redis-server", "--port", self.ports["redis"], "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", self.path], self.ports["redis"])
        config = self.path / "weir.yaml"
        config.write_text(POLICY.format(resp=self.ports["weir"], http=self.ports["http"],
                                        redis=self.ports["redis"], bucket=BUCKET, second=SECOND,
                                        rate=RATE, burst=BURST))
        self.servers["weir"] = Server([build / "weir", "serve", "--threads", "1", "--config", config],
                                      self.ports["weir"], core=1)
        self.servers["both"] = Together(self.servers["weir"], self.servers["redis"])
        self.ports["both"] = self.ports["weir"]

    # ---- Messages

    def ask_daemon(self, verb, **fields):
        asked = urllib.request.Request(f"http://127.0.0.1:{self.ports['http']}/v1/{verb}",
                                       json.dumps(fields).encode(),
                                       {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)

    def take_once(self, policy, permits):
        if self.ask_daemon("take", policy=policy, key=text(SAMPLE), permits=permits)["degraded"]:
            raise SystemExit("bench: the daemon gets no answer from redis-server")

    def seen(self, policy, permits, sha=None):
        """The bytes that the daemon sends to the server for a take, for any key; or the same for another
        script."""
        self.ask_daemon("reset", policy=policy, key=text(SAMPLE))
        self.take_once(policy, permits)  # from now on the server has the script
        with socket.create_connection(("127.0.0.1", self.ports["redis"])) as watching:
            lines = watching.makefile("r")
            watching.sendall(resp("MONITOR"))
            lines.readline()
            self.take_once(policy, permits)
            line = next(line for line in lines if '"EVALSHA"' in line and str(SAMPLE) in line)
        # (Words are quoted as in Python: \\x00 is a byte.)
        words = [ast.literal_eval("b" + word)
                 for word in re.findall(r'"(?:[^"\\]|\\.)*"', line.split("] ", 1)[1])]
        if sha:
            words[1] = sha.encode()
        return lambda key: resp(*(word.replace(str(SAMPLE).encode(), key[-11:].encode())
                                  for word in words))

    def load_script(self, source):
        return subprocess.run(["redis-cli", "-p", str(self.ports["redis"]), "SCRIPT", "LOAD", source],
                              capture_output=True, text=True, check=True).stdout.strip()

    def copied(self, time, permits):
        """The most copied script, under the same limit; an empty time means the server's."""
        return lambda key: resp("EVALSHA", self.copied_sha, 2, f"{{{key}}}.t", f"{{{key}}}.s", 1, 1000,
                                time, permits)

    def kinds(self, permits=1):
        """Name -> the message for a key, the byte that each answer has once, the server."""
        self.copied_sha = self.load_script(measure.SCRIPT)
        bare = self.load_script(BARE)
        return {
            "take": (lambda key: resp("WEIR.TAKE", "one", key, permits), "*", "weir"),
            # (The scripts for common calls reply with one text, the copied one with a list.)
            "one bucket": (self.seen("one", permits), "$", "redis"),
            "copied script": (self.copied("", permits), "*", "redis"),
            "copied script, told the time": (self.copied(1_700_000_000, permits), "*", "redis"),
            "two buckets": (self.seen("two", permits), "$", "redis"),
            "bucket and day": (self.seen("day", permits), "$", "redis"),
            "one key, nothing decided": (self.seen("one", permits, bare), "$", "redis"),
            "two keys, nothing decided": (self.seen("two", permits, bare), "$", "redis"),
            "decision on one limit": (lambda key: resp("WEIR.TAKE", "one", key, permits), "*", "both"),
            "decision on two limits": (lambda key: resp("WEIR.TAKE", "two", key, permits), "*", "both"),
        }

    def fill(self):
        kinds = self.kinds(USED)
        for name in ("one bucket", "copied script", "two buckets", "bucket and day"):
            message_for, mark, where = kinds[name]
            path = self.prepare("fill", message_for, range(self.keys))
            with path.open("rb") as file, \
                    socket.create_connection(("127.0.0.1", self.ports[where]), timeout=10) as peer:
                self.pour(file, peer, mark.encode())

    # ---- Measuring

    def ask(self, kind, path):
        # (The load sleeps, as it has to when it shares its core with the daemon. Waking it for a batch of
        # answers is cheap compared with the scripts.)
        return self.measure(kind, path, IN_FLIGHT, CONNECTIONS, sleeps=True)

    def program(self, limit, keys, *options):
        """Answers a second, CPU ns of the program for each, and the kernel's part of them."""
        command = [self.build / "bench/weir_fleet_client", self.ports["redis"], limit, keys, OPEN,
                   self.seconds, *options]
        # (Program and server wait for each other. Other processes on their cores meanwhile would leave cold
        # caches.)
        with self.servers["redis"].alone():
            done = subprocess.run(measure.on_core(1, command, alone=True), capture_output=True, text=True,
                                  check=True)
        rate, cpu, kernel, _, degraded = map(float, done.stdout.split())
        if degraded:
            raise SystemExit(f"bench: {degraded:.0f} questions had no answer from redis-server")
        return rate, cpu, kernel

    def decisions(self):
        """Outcome -> its count under the limit that binds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['http']}/metrics") as page:
            found = re.findall(r'^weir_decisions_total{policy="binds",outcome="(\w+)"} (\d+)',
                               page.read().decode(), re.M)
        return {outcome: int(count) for outcome, count in found}

    def settled_decisions(self):
        """The same, when all requests are decided."""
        before, now = None, self.decisions()
        while before != now:
            before, now = now, self.decisions()
        return now

    def accuracy(self, name):
        """The admitted calls under the limit that binds, and their expected number."""
        kind = (lambda key: resp("WEIR.TAKE", "binds", key), "*", "weir")
        path = self.prepare("binds", kind[0], [name] * (IN_FLIGHT * CONNECTIONS))
        before = self.settled_decisions().get("allowed", 0)
        *_, seconds = self.ask(kind, path)
        return self.settled_decisions()["allowed"] - before, BURST + RATE * seconds

    def rounds(self, count):
        """Name -> a list of figures, one for each round; contenders take turns."""
        self.fill()
        kinds = self.kinds()
        random_ = random.Random(1)
        files = {name: self.prepare(name, kind[0],
                                    (random_.randrange(self.keys) for _ in range(self.messages)))
                 for name, kind in kinds.items()}
        results = {}
        for i in range(count):
            figures = {name: self.ask(kind, files[name]) for name, kind in kinds.items()}
            figures["program"] = self.program(BUCKET, self.keys)
            figures["refused"] = self.program("1/h burst 1", 1)
            figures["refused, each by the server"] = self.program("1/h burst 1", 1, "forgets")
            figures["admitted"] = self.accuracy(i)
            for name, values in figures.items():
                results.setdefault(name, []).append(values)
        return results


# Comparisons: title, A, B, the figure (0 rate, 1 CPU), and the aim for A / B.
RATIOS = [
    ("a take by way of the daemon / the same EVALSHA, straight", "take", "one bucket", 0, ">=", 0.85),
    ("one bucket / the script that is copied most", "one bucket", "copied script", 0, ">=", 1.2),
    ("... which is told the time", "one bucket", "copied script, told the time", 0, None, None),
    ("CPU of a decision, the daemon's and the server's: on two limits / on one",
     "decision on two limits", "decision on one limit", 1, "<=", 1.6),
    ("... the server's alone: two buckets / one", "two buckets", "one bucket", 1, None, None),
    ("... if it only read and wrote: two keys / one", "two keys, nothing decided",
     "one key, nothing decided", 1, None, None),
    ("server's CPU: a bucket and a day's quota / one", "bucket and day", "one bucket", 1, None, None),
    ("one key that is refused / each time by the server", "refused", "refused, each by the server", 0,
     None, None),
]
