#!/usr/bin/env python3
"""All features under load at once, for a while: soak_test.py WEIR [SECONDS] [--load].

Callers at both listeners that count their grants, an operator who changes policies and gives orders, hostile
clients, and restarts, orderly or by SIGKILL. At the end the daemon must know exactly the grants, and have
neither more memory nor more descriptors than before. `--load` adds `weir bench` at full speed.
"""

import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import closing

from daemon import Daemon, Resp, RespError, resident_kib, under_sanitizer

LOAD = "--load" in sys.argv and not sys.argv.remove("--load")
WEIR = sys.argv.pop(1)
SECONDS = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 12
KEYS = 40
CAPACITY = 1_000_000_000
COUNTED = f"  counted: {{ limits: [ {{ limit: {CAPACITY}/year, name: total }} ] }}\n"
OTHERS = ["  other: { limits: [ 100/s burst 50 ], overrides: { 'vip*': 1000/s } }\n",
          "  other: { limits: [ 50/s burst 20, { limit: 1000/min window, name: w } ] }\n",
          "  other: { limits: [ { limit: 5/s sliding exact, shadow: true } ], when_full: deny }\n"]
SEATS = "  seats: { limits: [ 20 concurrent lease 1s ] }\n"


class Bounds:
    """The usage of a key: at least the answered takes, at most also those without an answer."""

    def __init__(self):
        self.least = [0] * KEYS
        self.most = [0] * KEYS
        self.mutex = threading.Lock()

    def add(self, key, least, most):
        with self.mutex:
            self.least[key] += least
            self.most[key] += most


class Soak:
    def __init__(self, daemon, seconds):
        self.daemon = daemon
        self.ends = time.monotonic() + seconds
        self.restarts_end = time.monotonic() + seconds / 2
        self.bounds = Bounds()
        self.failures = []
        self.writing = threading.Lock()
        self.done = {}

    def over(self):
        return time.monotonic() > self.ends or self.failures

    def count(self, what, times=1):
        self.done[what] = self.done.get(what, 0) + times

    def in_thread(self, work, *args):
        def run():
            chance = random.Random(hash((work.__name__, *args)))
            while not self.over():
                try:
                    work(chance)
                except (OSError, EOFError, http.client.HTTPException):
                    time.sleep(0.01)  # the daemon is restarting
                except Exception as error:  # noqa: BLE001
                    self.failures.append(f"{work.__name__}: {error!r}")
                    raise

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    # ---- Callers, which count their grants

    def resp_caller(self, chance):
        with closing(Resp(self.daemon.resp_port)) as resp:
            for _ in range(100):
                if self.over():
                    return
                self.take_some(chance, resp)
                if chance.random() < 0.05:  # (receipts are kept, up to a number far from here)
                    self.take_and_give_back(chance, resp)
                resp("WEIR.ENTER", "seats", "k", f"h{chance.randrange(30)}")
                resp("WEIR.TAKE", "other", f"vip{chance.randrange(1000)}")

    def take_some(self, chance, resp):
        asked = [(chance.randrange(KEYS), chance.randint(1, 3)) for _ in range(chance.randint(1, 30))]
        for key, permits in asked:
            self.bounds.add(key, 0, permits)
        resp.socket.sendall(b"".join(resp.encode("WEIR.TAKE", "counted", f"k{key}", permits)
                                     for key, permits in asked))
        for key, permits in asked:
            answer = resp.read()
            if answer[0] != 1:
                self.failures.append(f"a take was refused: {answer!r}")
            self.bounds.add(key, permits, 0)
        self.count("takes over RESP", len(asked))

    def take_and_give_back(self, chance, resp):
        key = chance.randrange(KEYS)
        self.bounds.add(key, 0, 10)
        receipt = resp("WEIR.TAKE", "counted", f"k{key}", 10, "RECEIPT")[8]
        self.bounds.add(key, 3, 0)  # seven of them may be refunded, answered or not
        answer = resp("WEIR.SETTLE", "counted", f"k{key}", -7, "RECEIPT", receipt)
        if not isinstance(answer, RespError):
            self.bounds.add(key, 0, -7)
        self.count("settled")

    def http_caller(self, chance):
        with closing(http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=20)) as peer:
            for _ in range(100):
                if self.over():
                    return
                key, permits = chance.randrange(KEYS), chance.randint(1, 3)
                self.bounds.add(key, 0, permits)
                peer.request("POST", "/v1/take", json.dumps(
                    {"policy": "counted", "key": f"k{key}", "permits": permits}))
                answer = peer.getresponse()
                if answer.status != 200:
                    self.failures.append(f"{answer.status}: {answer.read()!r}")
                answer.read()
                self.bounds.add(key, permits, 0)
                self.count("takes over HTTP")

    # ---- An operator

    def write_policies(self, chance, wrong):
        head = self.daemon.config.read_text().split("policies:")[0]
        other = chance.choice(OTHERS)
        if wrong:
            other = other.replace("limits", "limts")  # an invalid file, which changes nothing
        fresh = self.daemon.config.with_suffix(".new")
        fresh.write_text(head + "policies:\n" + COUNTED + other + SEATS)
        fresh.rename(self.daemon.config)

    def operator(self, chance):
        ask = self.daemon.http
        verb = chance.choice(["write", "boost", "block", "pause", "squeeze", "lift", "put", "look"])
        for_a_while = {"policy": "other", "for": f"{chance.randint(1, 3000)}ms"}
        if verb == "write":
            with self.writing:
                self.write_policies(chance, wrong=chance.random() < 0.2)
        elif verb == "boost":
            ask("POST", "/v1/boost", {**for_a_while, "key": f"vip{chance.randrange(9)}", "times": 2})
        elif verb == "block":
            ask("POST", "/v1/block", {**for_a_while, "key": f"vip{chance.randrange(9)}*"})
        elif verb == "pause":
            ask("POST", "/v1/pause", for_a_while)
        elif verb == "squeeze":
            ask("POST", "/v1/squeeze", {**for_a_while, "times": 0.5})
        elif verb == "lift":
            for order in ask("GET", "/v1/orders")[2]["orders"][:3]:
                ask("DELETE", f"/v1/orders/{order['id']}")
        elif verb == "put":
            ask("PUT", f"/v1/policies/put{chance.randrange(5)}", "limits: [ 10/s ]")
            ask("DELETE", f"/v1/policies/put{chance.randrange(5)}")
        else:
            for path in ("/metrics", "/v1/policies", "/v1/top", "/readyz", "/"):
                ask("GET", path)
            ask("POST", "/v1/explain", {"policy": "other", "key": "vip1"})
        self.count(verb)
        time.sleep(0.02)

    # ---- Hostile clients

    def stranger(self, chance):
        port = chance.choice([self.daemon.resp_port, self.daemon.http_port])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            kind = chance.choice(["noise", "half", "silent", "large", "deaf", "reset"])
            if kind == "noise":
                peer.sendall(chance.randbytes(chance.randrange(5000)))
            elif kind == "half":
                peer.sendall(b"*3\r\n$9\r\nWEIR.TAKE\r\n$7\r\ncoun" if port == self.daemon.resp_port
                             else b"POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{")
            elif kind == "large":
                peer.sendall(b"GET /" + b"x" * 100_000)
            elif kind == "deaf":
                peer.sendall(b"PING\r\n" * 20_000)
            elif kind == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            time.sleep(chance.random() * 0.05)
        self.count("strangers")

    # ---- Stops and restarts of the daemon

    def restarter(self, chance):
        time.sleep(max(SECONDS / 20, 0.5))
        if time.monotonic() > self.restarts_end:
            return time.sleep(0.2)
        if chance.random() < 0.5:
            self.daemon.kill()
        elif code := self.daemon.stop():
            self.failures.append(f"it ended with {code}")
        with self.writing:  # no restart with an invalid file
            self.write_policies(chance, wrong=False)
            self.daemon.start()
        self.count("restarts")

    # ---- The test

    def run(self):
        threads = [self.in_thread(work, i) for i in range(2)
                   for work in (self.resp_caller, self.http_caller, self.stranger)]
        threads += [self.in_thread(self.operator), self.in_thread(self.restarter)]
        resident = []
        while not self.over():
            time.sleep(0.1)
            if time.monotonic() > self.restarts_end + 1:
                resident.append(resident_kib(self.daemon.process.pid))
        for thread in threads:
            thread.join()
        return resident


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class SoakTest(unittest.TestCase):
    def bench(self, daemon):
        """At full speed, once the restarts are over."""
        time.sleep(SECONDS / 2 + 1)
        done = subprocess.run([WEIR, "bench", f"127.0.0.1:{daemon.resp_port}", "--pipeline", "16", "--keys",
                               "1000000", "--duration", f"{SECONDS / 2 - 3:.0f}s", "--json"],
                              capture_output=True, text=True)
        self.load = json.loads(done.stdout) if done.returncode == 0 else done.stderr

    def test_totals_stay_exact_under_every_fault_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            # (Under asan freed memory is kept for a while: a little of it is enough.)
            os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:detect_leaks=1")
            policies = "policies:\n" + COUNTED + OTHERS[0] + SEATS
            with Daemon(WEIR, policies, folder=folder, extra=f"state: {folder}/state") as daemon:
                files = open_files(daemon.process.pid)
                soak = Soak(daemon, SECONDS)
                load = threading.Thread(target=self.bench, args=(daemon,)) if LOAD else None
                if load:
                    load.start()
                resident = soak.run()
                if load:
                    load.join()
                    self.assertIsInstance(self.load, dict, self.load)
                self.assertEqual(soak.failures, [])
                self.check_totals(daemon, soak.bounds)
                self.check_files(daemon, files)
                self.check_memory(resident)
                self.assertEqual(daemon.stop(), 0)
                print(self.summary(soak, resident), file=sys.stderr)

    def check_totals(self, daemon, bounds):
        for key in range(KEYS):
            remaining = daemon.post("/v1/peek", policy="counted", key=f"k{key}")[2]["remaining"]
            used = CAPACITY - remaining
            self.assertGreaterEqual(used, bounds.least[key], f"k{key}: something was forgotten")
            self.assertLessEqual(used, bounds.most[key], f"k{key}: something was charged twice")

    def check_files(self, daemon, before):
        for _ in range(200):
            now = open_files(daemon.process.pid)
            if now <= before:
                return
            time.sleep(0.1)
        self.fail(f"{now} descriptors are open, and {before} were at the start")

    def check_memory(self, resident):
        """In the half without restarts: the end compared with its first third."""
        if len(resident) < 60:
            return
        third = len(resident) // 3
        early, late = statistics.median(resident[:third]), statistics.median(resident[-third:])
        # The table is touched page by page, and allocators keep some memory.
        most = early * (1.10 if under_sanitizer() else 1.05) + 4096
        self.assertLess(late, most, "resident memory grows")

    def summary(self, soak, resident):
        loose = sum(soak.bounds.most) - sum(soak.bounds.least)
        what = ", ".join(f"{count} {name}" for name, count in sorted(soak.done.items()))
        return (f"{what}; {sum(soak.bounds.least)} permits granted, {loose} more never answered; "
                f"{resident[0]} to {resident[-1]} KiB" if resident else what)


if __name__ == "__main__":
    unittest.main()
