#!/usr/bin/env python3
"""All features of the gateway under load at once, for a while: gateway_soak_test.py WEIR [SECONDS].

HTTP/1 and HTTP/2 clients that check each response, services that are slow, die or answer nonsense, an
operator who changes the routes, and clients that send half a request and leave. At the end nothing is in
flight or queued, no permit is lost, and there are neither more descriptors nor more memory than before; a
sanitizer reports leaks when the daemon ends.
"""

import http.client
import os
import random
import socket
import sys
import threading
import time
import unittest
from contextlib import closing, suppress

from daemon import eventually, resident_kib, under_sanitizer
from gateway import Gateway, Handler, RawService, Service, read_head
from h2_peer import Peer, reset

WEIR = sys.argv.pop(1)
SECONDS = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 10
SEATS = 8

ROUTES = """
- {{ name: echo, match: {{ path: /echo/** }}, upstream: {echo}, limits: [ 1000000/s ], key: ip }}
- {{ name: few, match: {{ path: /few/** }}, upstream: {echo}, limits: [ {few} ], key: header:X-User }}
- {{ name: queue, match: {{ path: /queue/** }}, upstream: {echo}, limits: [ 200/s queue 20 ], key: ip }}
- {{ name: seats, match: {{ path: /seats/** }}, upstream: {echo}, limits: [ {seats} concurrent ], key: host }}
- {{ name: slow, match: {{ path: /paced/** }}, upstream: {echo}, bandwidth: 20MB/s, key: ip }}
- {{ name: bad, match: {{ path: /bad/** }}, upstream: {bad}, timeouts: {{ read: 300ms }}, retries: 1 }}
"""

# The allowed responses, by route. (A refusal is a valid response.)
EXPECTED = {"echo": {200}, "few": {200, 429}, "queue": {200, 429}, "seats": {200, 429}, "paced": {200},
            "bad": {200, 502, 504}}


class Keeping(Handler):
    """Keeps the body of each request."""

    def read_body(self):
        self.body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return len(self.body)


def misbehave(connection):
    """A service that misbehaves in several ways, in turn."""
    for _ in range(3):
        read_head(connection)
        manner = random.randrange(6)
        if manner == 0:
            return
        if manner == 1:
            return connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        if manner == 2:
            return connection.sendall(b"\0\1\2 nonsense\r\n\r\n")
        if manner == 3:
            return time.sleep(0.4)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


class Soak:
    def __init__(self, gateway, seconds):
        self.gateway = gateway
        self.ends = time.monotonic() + seconds
        self.failures = []
        self.done = {}

    def over(self):
        return time.monotonic() > self.ends or self.failures

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def in_thread(self, work, number):
        def run():
            chance = random.Random(f"{work.__name__} {number}")
            while not self.over():
                try:
                    work(chance)
                except Exception as error:  # noqa: BLE001
                    self.failures.append(f"{work.__name__}: {error!r}")

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def check(self, route, status, body, sent):
        if status not in EXPECTED[route]:
            self.failures.append(f"{route}: {status} {body[:200]!r}")
        elif status == 200 and route != "bad" and body != sent:
            self.failures.append(f"{route}: {len(body)} bytes came back of {len(sent)}")
        self.count(f"{route} {status}")

    @staticmethod
    def some_request(chance):
        route = chance.choice(list(EXPECTED))
        size = chance.choice((0, 1, 1000, 70_000, 300_000))
        return route, b"" if route == "bad" else bytes([chance.randrange(256)]) * size

    # ---- Clients

    def client(self, chance):
        with closing(self.gateway.client()) as client:
            for _ in range(20):
                route, body = self.some_request(chance)
                chunked = chance.random() < 0.3 and body
                try:
                    client.request("POST" if body else "GET", f"/{route}/x",
                                   iter([body[:10], body[10:]]) if chunked else body or None,
                                   {"X-User": f"u{chance.randrange(5)}"}, encode_chunked=bool(chunked))
                    response = client.getresponse()
                    self.check(route, response.status, response.read(), body)
                except (http.client.HTTPException, OSError):
                    # For a truncated response, and for refusals that do not read a body.
                    if route in ("echo", "paced"):
                        raise
                    self.count(f"{route} broken off")
                    return
                if response.will_close:
                    return

    def h2_client(self, chance):
        with Peer(self.gateway.port) as peer:
            for _ in range(10):
                asked = {}
                for _ in range(chance.randint(1, 8)):
                    route, body = self.some_request(chance)
                    body = body[:20_000]  # (within the window, so that streams do not wait for each other)
                    fields = [(":method", "POST" if body else "GET"), (":scheme", "http"),
                              (":path", f"/{route}/x"), (":authority", "a"),
                              ("x-user", f"u{chance.randrange(5)}")]
                    asked[peer.request(fields, body or None)] = route, body
                if chance.random() < 0.3:  # resets the stream
                    peer.send(reset(asked.popitem()[0]))
                for stream, (route, body) in asked.items():
                    answer = peer.answer(stream)
                    if answer.reset is None:
                        self.check(route, answer.status, answer.body, body)
                    elif route == "bad":
                        self.count("bad reset")
                    else:
                        self.failures.append(f"{route}: reset with {answer.reset}")

    # ---- Hostile clients

    def stranger(self, chance):
        with self.gateway.connect() as s, suppress(OSError):
            manner = chance.randrange(6)
            if manner == 0:
                s.sendall(b"POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 500)
            elif manner == 1:
                s.sendall(b"GET /queue/x HTTP/1.1\r\nHost: a\r\n\r\n" * 30)
            elif manner == 2:
                s.sendall(bytes(chance.randrange(256) for _ in range(300)))
            elif manner == 3:
                s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(chance.randrange(256) for _ in range(90)))
            elif manner == 4:
                s.sendall(b"POST /seats/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
                s.shutdown(socket.SHUT_WR)
                s.recv(1000)
            else:
                s.sendall(b"POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + b"y" * 300_000)
                s.recv(100)
            self.count("strangers")

    # ---- An operator

    def operator(self, chance):
        few = chance.choice(("5/s burst 2", "5/s sliding", "5/s queue 1"))
        text = self.gateway.config.read_text()
        for old in ("5/s burst 2", "5/s sliding", "5/s queue 1"):
            text = text.replace(f"limits: [ {old} ]", f"limits: [ {few} ]")
        self.gateway.config.write_text(text)
        self.count("changes")
        time.sleep(0.5)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class GatewaySoak(unittest.TestCase):
    maxDiff = None

    def soak(self, gateway, seconds):
        soak = Soak(gateway, seconds)
        workers = [soak.client] * 4 + [soak.h2_client] * 3 + [soak.stranger] * 2 + [soak.operator]
        for thread in [soak.in_thread(work, number) for number, work in enumerate(workers)]:
            thread.join()
        self.assertEqual(soak.failures, [])
        return soak.done

    def assert_at_rest(self, gateway):
        for gauge in ("weir_gateway_in_flight", "weir_gateway_queued"):
            eventually(lambda: sum(gateway.metric(gauge).values()) == 0, f"{gauge} is 0")
        # All concurrency permits are free: that many requests enter at the same time.
        entered = threading.Barrier(SEATS, timeout=30)
        statuses = []

        def enter():
            with closing(gateway.client()) as client:
                entered.wait()
                client.request("GET", "/seats/x")
                statuses.append(client.getresponse().status)

        threads = [threading.Thread(target=enter) for _ in range(SEATS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * SEATS)

    def test_totals_stay_exact_under_every_fault_at_once(self):
        with Service(lambda handler: handler.answer(200, handler.body), handler=Keeping) as service, RawService(misbehave) as bad:
            routes = ROUTES.format(echo=service.url, bad=bad.url, few="5/s burst 2", seats=SEATS)
            with Gateway(WEIR, routes, more="client_timeouts: { header: 2s, body: 2s, idle: 5s }") as gateway:
                pid = gateway.process.pid
                self.soak(gateway, SECONDS / 4)
                before = resident_kib(pid)
                done = self.soak(gateway, SECONDS)
                self.assert_at_rest(gateway)
                eventually(lambda: descriptors(pid) < 60, "connections have ended")
                after = resident_kib(pid)
                if not under_sanitizer():
                    self.assertLess(after, before + 16 * 1024)
                self.assertEqual(gateway.stop(), 0)
        for what in ("echo 200", "few 429", "seats 200", "bad 502", "strangers", "changes"):
            self.assertGreater(done.get(what, 0), 0, what)
        print(f"{SECONDS:.0f} s, {before // 1024} -> {after // 1024} MiB:",
              ", ".join(f"{what} {count}" for what, count in sorted(done.items())))


if __name__ == "__main__":
    unittest.main()
