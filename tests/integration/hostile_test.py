"""Hostile clients, or very many: hostile_test.py WEIR."""

import resource
import socket
import ssl
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from certificates import Authority
from daemon import Daemon, Resp, RespError, resident_kib, under_sanitizer

WEIR = sys.argv.pop(1)
SCALE = 10 if under_sanitizer() else 1


def raise_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class HostileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise_file_limit()
        cls.daemon = Daemon(WEIR, "policies: { p: { limits: [ 1000000/h ] } }")
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def still_well(self):
        resp = self.daemon.resp()
        self.assertEqual(resp("PING"), "PONG")
        resp.close()
        self.assertEqual(self.daemon.http("GET", "/healthz")[0], 200)

    def connect(self, port=None):
        connection = socket.create_connection(("127.0.0.1", port or self.daemon.resp_port), 20)
        self.addCleanup(connection.close)
        return connection

    # Ten thousand idle connections and a thousand busy ones.
    def test_many_connections_are_all_served(self):
        # (As far as the descriptor limit of the system allows.)
        allowed = raise_file_limit() - 500
        busy_count = min(1_000 // SCALE, allowed // 2)
        idle_count = min(10_000 // SCALE, allowed - busy_count)
        print(f"{idle_count} idle connections, {busy_count} busy ones")
        before = resident_kib(self.daemon.process.pid)
        idle = [self.connect() for _ in range(idle_count)]
        busy = [Resp(self.daemon.resp_port) for _ in range(busy_count)]
        for round_ in range(5):
            for i, resp in enumerate(busy):
                resp.send("WEIR.TAKE", "p", f"k{i}")
            for resp in busy:
                self.assertEqual(resp.read()[0], 1)
        grown = resident_kib(self.daemon.process.pid) - before
        if SCALE == 1:
            self.assertLess(grown, 150_000, "KiB for eleven thousand connections")
        for resp in busy:
            resp.close()
        for connection in idle:
            connection.close()
        self.still_well()

    # Backpressure: the daemon does not read from a client that does not read its answers, and others are not
    # delayed.
    def test_a_client_that_never_reads_does_not_delay_others(self):
        before = resident_kib(self.daemon.process.pid)
        greedy = self.connect()
        greedy.setblocking(False)
        request = Resp.encode("INFO") * 1000
        sent = 0
        for _ in range(2000):
            try:
                sent += greedy.send(request)
            except BlockingIOError:
                time.sleep(0.001)
        self.still_well()
        if SCALE == 1:
            self.assertLess(resident_kib(self.daemon.process.pid) - before, 20_000)

    def test_clients_that_send_byte_by_byte_are_answered(self):
        slow = [self.connect() for _ in range(50)]
        command = Resp.encode("WEIR.TAKE", "p", "slow")
        for byte in command[:-1]:
            for connection in slow:
                connection.send(bytes([byte]))
        self.still_well()
        for connection in slow:
            connection.send(command[-1:])
            self.assertTrue(connection.recv(100).startswith(b"*8\r\n:1\r\n"))

    def test_requests_beyond_the_length_limits_are_refused(self):
        for text in (b"*1\r\n$1000000000\r\n", b"*1000000\r\n", b"x" * 20_000,
                     b"*5\r\n" + (b"$16000\r\n" + b"x" * 16000 + b"\r\n") * 5):
            connection = self.connect()
            connection.sendall(text)
            self.assertIn(b"Protocol error", connection.recv(1000), text[:30])
        connection = self.connect(self.daemon.http_port)
        connection.sendall(b"POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        try:
            for _ in range(100):
                connection.sendall(chunk)
        except OSError:
            pass  # the daemon has answered and closed the connection
        self.still_well()

    def test_noise_is_harmless(self):
        import random
        noise = random.Random(3)
        for _ in range(300):
            port = noise.choice([self.daemon.resp_port, self.daemon.http_port])
            connection = socket.create_connection(("127.0.0.1", port), 20)
            try:
                connection.sendall(noise.randbytes(noise.randrange(1, 3000)))
            except OSError:
                pass
            connection.close()
        self.still_well()

    # Requests with long answers are answered piece by piece.
    def test_a_flood_of_requests_with_long_answers_is_bounded_in_memory(self):
        resp = self.daemon.resp()
        count = 20_000 // SCALE

        def ask():
            resp.socket.sendall(b"INFO\r\n" * count)

        thread = threading.Thread(target=ask)
        thread.start()
        for _ in range(count):
            self.assertIn("weir_version", resp.read())
        thread.join()
        resp.close()


class CrowdTest(unittest.TestCase):
    # As many connections as there are descriptors, beside those of the daemon's threads.
    def test_connections_beyond_the_maximum_are_refused_with_an_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            weir = Path(folder) / "weir"
            weir.write_text(f'#!/bin/sh\nulimit -n 400\nexec "{WEIR}" "$@"\n')
            weir.chmod(0o700)
            with Daemon(str(weir), args=["--threads", "32"]) as daemon:
                inside = []
                self.addCleanup(lambda: [each.close() for each in inside])
                for _ in range(400):
                    newcomer = daemon.resp()
                    inside.append(newcomer)
                    answer = newcomer("PING")
                    if isinstance(answer, RespError):
                        break
                    self.assertEqual(answer, "PONG")
                self.assertEqual(str(answer), "ERR max number of clients reached")
                with self.assertRaises((EOFError, ConnectionError)):
                    newcomer.read()
                inside.pop().close()
                self.assertGreater(len(inside), 10)

                with socket.create_connection(("127.0.0.1", daemon.http_port), 20) as caller:
                    said = caller.makefile("rb").read()
                self.assertTrue(said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n"), said)
                self.assertIn(f"connected_clients:{len(inside)}\r\n", inside[0]("INFO"))
                self.assertIn("rejected_connections:2\r\n", inside[0]("INFO"))
                for each in inside:
                    self.assertEqual(each("PING"), "PONG")

                # A closed connection makes room.
                inside.pop().close()
                for _ in range(1000):
                    if f"connected_clients:{len(inside)}\r\n" in inside[0]("INFO"):
                        break
                    time.sleep(0.01)
                self.assertEqual(daemon.http("GET", "/healthz")[0], 200)


class IdleTest(unittest.TestCase):
    def kept(self, listener, first, rest):
        """KiB for each connection that has sent this, one after the other, and is idle now."""
        with Daemon(WEIR, args=["--threads", "1"]) as daemon:
            port = daemon.http_port if listener == "HTTP" else daemon.resp_port
            before = resident_kib(daemon.process.pid)
            waiting = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(300)]
            for s in waiting:
                s.sendall(first)
                daemon.http("GET", "/healthz")  # (the daemon has read it by now)
                s.sendall(rest)
                self.assertTrue(s.recv(1))
            each = (resident_kib(daemon.process.pid) - before) / len(waiting)
            for s in waiting:
                s.close()
            return each

    @unittest.skipIf(under_sanitizer(), "what a sanitizer keeps is not flat")
    def test_idle_connections_release_their_buffers(self):
        head = b"POST /v1/take HTTP/1.1\r\nHost: a\r\nX: %b\r\n" % (b"x" * 15_000)
        head += b"Content-Length: 60000\r\n\r\n"
        half = b"x" * 30_000
        self.assertLess(self.kept("HTTP", head + half, half), 10)
        half = b"x" * 8_000
        self.assertLess(self.kept("RESP", b'PING "' + half, half + b'"\r\n'), 10)
        self.assertLess(self.kept("RESP", b"PING " + half, half + b"\r\n"), 10)


class FairTest(unittest.TestCase):
    """A client that sends many expensive requests at once does not block the event loop."""

    MANY = "policies:\n" + "".join(f"  p{i}: {{ limits: [ 10/s, 1000/day ] }}\n" for i in range(300))

    def check(self, daemon, asks, wrap=lambda s: s):
        questions = (64 << 10) // len(asks)
        with daemon.resp().socket as other, \
                wrap(socket.create_connection(("127.0.0.1", daemon.http_port), 30)) as greedy:
            greedy.sendall(asks * questions)
            answers = greedy.recv(1 << 16)  # the first answers are there
            other.sendall(b"PING\r\n")
            self.assertEqual(other.recv(7), b"+PONG\r\n")
            # Some of its answers are there now, but not all of them. All come in the end.
            greedy.settimeout(0.001)
            try:
                while piece := greedy.recv(1 << 16):
                    answers += piece
            except TimeoutError:
                pass
            self.assertLess(answers.count(b"200 OK"), questions // 2)
            greedy.settimeout(60)
            while answers.count(b"200 OK") < questions:
                piece = greedy.recv(1 << 16)
                self.assertTrue(piece)
                answers += piece

    def test_a_pipeline_of_costly_requests_does_not_starve_others(self):
        with Daemon(WEIR, self.MANY, args=["--threads", "1"]) as daemon:
            self.check(daemon, b"HEAD /v1/policies HTTP/1.1\r\nHost: a\r\n\r\n")

    def test_a_pipeline_over_tls_does_not_starve_others(self):
        with tempfile.TemporaryDirectory() as folder:
            ca = Authority(folder)
            cert, key = ca.sign("localhost")
            context = ssl.create_default_context(cafile=str(ca.cert))
            with Daemon(WEIR, self.MANY, args=["--threads", "1"], tls=context,
                        extra=f"tls: {{ cert: {cert}, key: {key} }}") as daemon:
                self.check(daemon, b"HEAD /v1/policies HTTP/1.1\r\nHost: a\r\n\r\n",
                           lambda s: context.wrap_socket(s, server_hostname="localhost"))


if __name__ == "__main__":
    unittest.main()
