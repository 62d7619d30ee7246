"""Slow clients and the timeouts of the daemon: patience_test.py WEIR.

All of them run concurrently, so that the test takes as long as the daemon's longest timeout.
"""

import http.client
import json
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from certificates import Authority
from daemon import Daemon, Resp, resident_kib, under_sanitizer

WEIR = sys.argv.pop(1)
EACH = 5 if under_sanitizer() else 50
PERMITS = 1_000_000
LONG_ENOUGH = 180  # seconds; the end of a test that waits in vain


class Slow:
    """Sends a byte at a time, and keeps the answer."""

    def __init__(self, port, begin, then):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(begin)
        self.then = then
        self.told = b""
        self.ended = False

    def go_on(self):
        try:
            self.socket.send(self.then)
            if select.select([self.socket], [], [], 0)[0]:
                piece = self.socket.recv(4096)
                self.told += piece
                self.ended = not piece
        except ConnectionError:
            self.ended = True


class Greedy:
    """Sends requests continuously, and reads a byte at a time."""

    QUESTIONS = b"COMMAND\r\n" * 20_000

    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.ended = False

    def go_on(self):
        for step in (lambda: self.socket.send(self.QUESTIONS), lambda: self.socket.recv(1)):
            try:
                step()
            except BlockingIOError:
                pass
            except ConnectionError:
                self.ended = True


class Good(threading.Thread):
    """Takes, one call after the other, and counts the answers."""

    def __init__(self, take):
        super().__init__()
        self.take = take
        self.enough = threading.Event()
        self.taken = 0

    def run(self):
        while not self.enough.is_set():
            if self.take():
                self.taken += 1
            time.sleep(0.001)  # leaves this process time for the other threads


class TimeoutTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(WEIR, f"policies: {{ p: {{ limits: [ {PERMITS} per 1000h window ] }} }}")
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def over_resp(self):
        resp = self.daemon.resp()
        self.addCleanup(resp.close)
        return Good(lambda: resp("WEIR.TAKE", "p", "resp")[0] == 1)

    def over_http(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=20)
        self.addCleanup(connection.close)

        def take():
            connection.request("POST", "/v1/take", '{"policy":"p","key":"http"}')
            return json.loads(connection.getresponse().read())["allowed"]

        return Good(take)

    def remaining(self, key):
        return self.daemon.post("/v1/peek", policy="p", key=key)[2]["remaining"]

    # All other clients are answered, each slow one gets an error and is closed, and no memory of them is
    # kept.
    def test_slow_clients_do_not_delay_others(self):
        resp_port, http_port = self.daemon.resp_port, self.daemon.http_port
        idle = self.daemon.resp()
        self.addCleanup(idle.close)
        good = [self.over_resp(), self.over_http()]
        for each in good:
            each.start()
        before = resident_kib(self.daemon.process.pid)

        post = b"POST /v1/take HTTP/1.1\r\nHost: a\r\n"
        headers = [Slow(http_port, post + b"X-Slow: ", b"x") for _ in range(EACH)]
        bodies = [Slow(http_port, post + b"Content-Length: 1000\r\n\r\n", b" ") for _ in range(EACH)]
        chunks = [Slow(http_port, post + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")
                  for _ in range(EACH)]
        commands = [Slow(resp_port, b"*2\r\n$4\r\nECHO\r\n$1000\r\n", b"x") for _ in range(EACH)]
        lines = [Slow(resp_port, b"ECHO ", b"x") for _ in range(EACH)]
        greedy = [Greedy(resp_port) for _ in range(EACH)]
        slow = headers + bodies + chunks + commands + lines + greedy
        most = before
        until = time.monotonic() + LONG_ENOUGH
        while waiting := [each for each in slow if not each.ended]:
            self.assertLess(time.monotonic(), until, f"{len(waiting)} have not ended")
            for each in waiting:
                each.go_on()
            most = max(most, resident_kib(self.daemon.process.pid))
            time.sleep(1)

        for each in headers + bodies + chunks:
            self.assertTrue(each.told.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), each.told)
            self.assertIn(b"\r\nConnection: close\r\n", each.told)
        for each in commands + lines:
            self.assertEqual(each.told, b"-ERR the command was not finished in time\r\n")
        for each in good:
            each.enough.set()
            each.join()
            self.assertGreater(each.taken, 0)
        self.assertEqual(self.remaining("resp"), PERMITS - good[0].taken)
        self.assertEqual(self.remaining("http"), PERMITS - good[1].taken)
        # Idle connections are not slow.
        self.assertEqual(idle("PING"), "PONG")
        print(f"{len(slow)} slow connections took {most - before} KiB")
        if not under_sanitizer():
            # One buffer for its input and one for its output, each of about 64 KiB.
            self.assertLess(most - before, len(slow) * 200, "KiB for the slow")
        for each in slow:
            each.socket.close()


class NewKeysTest(unittest.TestCase):
    def test_tls_key_updates_do_not_extend_the_request_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Authority(folder).sign("localhost")
            with Daemon(WEIR, extra=f"tls: {{ cert: {cert}, key: {key} }}") as daemon:
                slow = subprocess.Popen(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.http_port}", "-tls1_3",
                     "-brief", "-crlf"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                slow.stdin.write(b"GET / HTTP/1.1\n")
                slow.stdin.flush()
                began = time.monotonic()
                while slow.poll() is None and time.monotonic() - began < 40:
                    time.sleep(1)
                    try:
                        slow.stdin.write(b"K\n")  # requests a TLS key update, and gets it
                        slow.stdin.flush()
                    except BrokenPipeError:
                        pass
                slow.kill()
                said = slow.stdout.read()
                slow.stdout.close()
                slow.wait()
            self.assertGreater(said.count(b"KEYUPDATE"), 10)
            self.assertIn(b"408 Request Timeout", said)


if __name__ == "__main__":
    unittest.main()
