"""HTTP/2 clients that are slow or idle, and the timeouts of the daemon: h2_patience_test.py WEIR.

All of them run concurrently, so that the test takes as long as the longest timeout.
"""

import sys
import threading
import time
import unittest

from daemon import Daemon
from h2_listeners import POLICIES, RULES, GrpcListener, HttpListener
from h2_peer import *  # noqa: F403: frames, flags and codes

WEIR = sys.argv.pop(1)
TIMEOUT = 20  # seconds; the timeout for a complete request and for reading answers
WATCH = "/grpc.health.v1.Health/Watch"


class Slow(threading.Thread):
    """A slow client: records when it was disconnected."""

    def __init__(self, name, peer, go_on=None):
        super().__init__(daemon=True)
        self.title, self.peer, self.go_on = name, peer, go_on
        self.begin = time.monotonic()
        self.lasted = None
        self.start()

    def run(self):
        self.peer.socket.settimeout(2 * TIMEOUT + 20)
        if self.go_on:
            threading.Thread(target=self.say_more, daemon=True).start()
        try:
            self.peer.end()
        except OSError as error:
            if isinstance(error, TimeoutError):
                return
        self.lasted = time.monotonic() - self.begin

    def say_more(self):
        try:
            while self.lasted is None:
                self.peer.send(self.go_on)
                time.sleep(1)
        except OSError:
            pass


class TimeoutTest(unittest.TestCase):
    def test_stalled_clients_time_out_and_waiting_ones_do_not(self):
        daemon = Daemon(WEIR, POLICIES, grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml")
        (daemon.folder / "rules.yaml").write_text(RULES)
        with daemon:
            slow, calm = [], []
            for listener in (HttpListener(daemon), GrpcListener(daemon)):
                slow += self.slow_ones(listener)
                calm += self.calm_ones(listener)
            for each in slow:
                each.join(2 * TIMEOUT + 30)
                with self.subTest(who=each.title):
                    self.assertIsNotNone(each.lasted, "it is still there")
                    self.assertGreater(each.lasted, TIMEOUT - 3)
                    self.assertLess(each.lasted, 2 * TIMEOUT + 10)
            for listener, title, peer, open_stream in calm:
                with self.subTest(who=title):
                    answer = peer.ask(listener.fields(), listener.body)
                    self.assertTrue(listener.is_answered(answer), answer)
                    if open_stream:
                        self.assertFalse(peer.answers[open_stream].over)
                peer.close()
            for each in slow:
                each.peer.close()

    def slow_ones(self, listener):
        ones = {}

        def connect(name, *frames, go_on=None, **more):
            peer = listener.peer(**more)
            if more.get("greets", True):
                peer.settle()
            peer.send(*frames)
            peer.try_send = lambda *_: False  # nor does it answer to anything it receives
            ones[name] = Slow(f"{listener.name}: {name}", peer, go_on)

        with listener.peer() as other:
            head = other.head(listener.fields(), 1)
            whole = head + b"".join(other.data(listener.body, 1))
        connect("half a preface", PREFACE[:10], greets=False)
        connect("half a frame", frame(PING, 0, 0, bytes(8))[:12])
        connect("a header without an end", frame(HEADERS, 0, 1, head[9:]))
        connect("a request without its body", head)
        connect("a body that comes byte by byte", head, go_on=frame(DATA, 0, 1, b"x"))
        connect("an answer that is not taken", whole, initial_window_size=0)
        return list(ones.values())

    def calm_ones(self, listener):
        ones = [(listener, f"{listener.name}: nothing to say", listener.peer(), None)]
        if listener.name == "gRPC":
            peer = listener.peer()
            stream = peer.request(listener.fields(path=WATCH), grpc_message(b""))
            peer.settle()
            ones.append((listener, "gRPC: it watches", peer, stream))
        return ones


if __name__ == "__main__":
    unittest.main()
