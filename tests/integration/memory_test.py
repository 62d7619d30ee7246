"""Clients that make the daemon hold as much memory as they can: memory_test.py WEIR [CONNECTIONS].

CONNECTIONS is how many of each kind there are; 100 unless told otherwise."""

import os
import resource
import selectors
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import hpack

import h2_peer
from certificates import Authority
from daemon import Daemon, eventually, resident_kib, under_sanitizer
from gateway import Gateway, Service

WEIR = sys.argv.pop(1)
CONNECTIONS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100
PASSWORD = "correct horse"
POLICY = "policies: { p: { limits: [ 1000000000/h ] } }"
BODY = 1_000_000  # bytes of a request, all but the last of which are sent
HEALTH = "/grpc.health.v1.Health/Check"
BUDGET = 64 << 20  # the default of connection_memory
ALLOWED = 256 << 20  # by the system, where it bounds the process


# ---- What attackers send

def http_length(path=b"/v1/take"):
    return (b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, BODY)
            + b" " * (BODY - 1))


def http_chunked(path=b"/v1/take"):
    return (b"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % path
            + b"%x\r\n" % BODY + b" " * (BODY - 1))


def http_headers():
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X-A: " + b"a" * 15_000


def h2_streams(fields, body, streams=2):
    encoder = hpack.Encoder()
    text = h2_peer.PREFACE + h2_peer.settings() + h2_peer.frame(h2_peer.SETTINGS, h2_peer.ACK)
    for stream in range(1, 2 * streams, 2):
        text += h2_peer.frame(h2_peer.HEADERS, h2_peer.END_HEADERS, stream, encoder.encode(fields))
        text += b"".join(h2_peer.Peer.data(body, stream, ends=False))
    return text


def http2(path="/v1/take"):
    return h2_streams([(":method", "POST"), (":scheme", "http"), (":authority", "a"),
                       (":path", path)], b" " * (BODY - 1))


def grpc(method):
    return h2_streams([(":method", "POST"), (":scheme", "http"), (":authority", "a"),
                       (":path", method), ("content-type", "application/grpc"),
                       ("te", "trailers")],
                      struct.pack(">BI", 0, BODY) + b" " * (BODY - 1))


def resp_bulk():
    return b"*4\r\n$9\r\nWEIR.TAKE\r\n" + b"$16000\r\n%s\r\n" % (b"k" * 16_000) * 2 + b"$16000\r\nk"


def resp_unread():
    return b"INFO\r\n" * 100_000


def http_unread():
    return b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 20_000


def tls_hello():
    """The first record of a client."""
    out = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="a")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def tls_half_hello():
    """A record with the first half of what such a record has."""
    half = tls_hello()[5:][:100]
    return b"\x16\x03\x01" + struct.pack(">H", len(half)) + half


class Attack:
    """Connections that send as much as they can, and read nothing."""

    def __init__(self, kinds, count):
        """`kinds`: (port, what to send), or (port, what to send, the context of TLS)."""
        self.selector = selectors.DefaultSelector()
        self.sockets = []
        for port, text, *tls in kinds:
            view = memoryview(text)
            for _ in range(count):
                s = self.connect_tls(port, *tls) if tls else self.connect(port)
                if s:
                    self.selector.register(s, selectors.EVENT_WRITE, [view])
                    self.sockets.append(s)

    @staticmethod
    def connect(port):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", port))
        return s

    @staticmethod
    def connect_tls(port, context):
        try:
            plain = socket.create_connection(("127.0.0.1", port), 20)
            s = context.wrap_socket(plain, server_hostname="127.0.0.1")
        except OSError:
            return None
        s.setblocking(False)
        return s

    def run(self, seconds):
        """Until all have sent everything, are stuck for a moment, or the time is up."""
        end = time.monotonic() + seconds
        moved = time.monotonic()
        while self.selector.get_map() and time.monotonic() < min(end, moved + 2):
            for key, _ in self.selector.select(0.2):
                moved = time.monotonic()
                try:
                    key.data[0] = key.data[0][key.fileobj.send(key.data[0][:1 << 18]):]
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    continue
                except OSError:
                    key.data[0] = b""
                if not key.data[0]:
                    self.selector.unregister(key.fileobj)

    def close(self):
        for s in self.sockets:
            s.close()
        self.selector.close()


class Honest:
    """Small clients that ask one by one, on connections that stay and on new ones."""

    def __init__(self, daemon, password):
        self.daemon = daemon
        self.headers = {"Authorization": f"Bearer {PASSWORD}"} if password else {}
        self.password = password
        self.resp = self.connect()
        self.took = []
        self.wrong = []
        self.peak = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def connect(self):
        resp = self.daemon.resp()
        if self.password and resp("AUTH", PASSWORD) != "OK":
            raise AssertionError("AUTH")
        return resp

    def ask(self):
        answers = [self.resp("WEIR.TAKE", "p", "honest")[0]]
        fresh = self.connect()
        answers.append(fresh("WEIR.TAKE", "p", "honest")[0])
        fresh.close()
        status, _, body = self.daemon.http("POST", "/v1/take", {"policy": "p", "key": "honest"},
                                           self.headers)
        answers.append(int(status == 200 and body["allowed"]))
        return answers

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            try:
                answers = self.ask()
            except (OSError, EOFError, TypeError, ValueError) as error:
                answers = repr(error)
            self.took.append(time.monotonic() - began)
            if answers != [1, 1, 1]:
                self.wrong.append(answers)
                if self.daemon.process.poll() is not None:
                    return
                self.resp = self.connect()
            self.peak = max(self.peak, resident_kib(self.daemon.process.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.resp.close()

    def quantile(self, q):
        return sorted(self.took)[int(q * (len(self.took) - 1))] * 1000


def metric(daemon, name, headers):
    text = daemon.http("GET", "/metrics", headers=headers)[2].decode()
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                if line.startswith(name))


def wrapped(folder, *commands):
    """A script that does something to itself and becomes weir."""
    script = Path(folder) / "weir"
    script.write_text("#!/bin/sh\nset -e\n" + "\n".join(commands) + f'\nexec "{WEIR}" "$@"\n')
    script.chmod(0o700)
    return str(script)


def new_cgroup():
    """A folder of cgroups (version 1 or 2) in which memory is bounded, or None."""
    for parent, limit in (("/sys/fs/cgroup", "memory.max"),
                          ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        folder = Path(parent) / f"weir-memory-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / limit).exists():
            (folder / limit).write_text(str(ALLOWED))
            return folder
        folder.rmdir()
    return None


class MemoryTest(unittest.TestCase):
    def setUp(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def kinds(self, daemon):
        limit = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        return [(daemon.http_port, http_length()), (daemon.http_port, http_length(b"/healthz")),
                (daemon.http_port, http_chunked()), (daemon.http_port, http_headers()),
                (daemon.http_port, http2()), (daemon.http_port, http2("/healthz")),
                (daemon.grpc_port, grpc(limit)), (daemon.grpc_port, grpc(HEALTH)),
                (daemon.resp_port, resp_bulk()), (daemon.resp_port, resp_unread()),
                (daemon.http_port, http_unread())]

    def warm_up(self, daemon, headers):
        """Whole requests of each kind, so that their code is in memory before it is measured."""
        fields = [(name.lower(), value) for name, value in headers.items()]
        start = [(":method", "POST"), (":scheme", "http"), (":authority", "a")]
        body = b'{"policy":"p","key":"k"}'
        self.assertEqual(daemon.http("POST", "/v1/take", body, headers)[0], 200)
        with h2_peer.Peer(daemon.http_port) as peer:
            stream = peer.request([*start, (":path", "/v1/take"), *fields], body)
            self.assertEqual(peer.answer(stream).status, 200)
        with h2_peer.Peer(daemon.grpc_port) as peer:
            stream = peer.request([*start, (":path", HEALTH), ("content-type", "application/grpc"),
                                   ("te", "trailers")], h2_peer.grpc_message(b""))
            self.assertEqual(peer.answer(stream).grpc_status, 0)
        self.assertEqual(daemon.http("GET", "/metrics", headers=headers)[0], 200)

    def tls_kinds(self, daemon):
        h2 = ssl.create_default_context(cafile=str(daemon.folder / "ca.pem"))
        h2.set_alpn_protocols(["h2"])
        return [(daemon.http_port, http_length(), daemon.tls),
                (daemon.http_port, http_chunked(), daemon.tls),
                (daemon.http_port, http2(), h2), (daemon.grpc_port, grpc(HEALTH), h2),
                (daemon.resp_port, resp_bulk(), daemon.tls),
                (daemon.http_port, tls_hello()), (daemon.resp_port, tls_hello()),
                (daemon.resp_port, tls_half_hello())]

    @staticmethod
    def warm_up_tls(kinds):
        """The same by a few connections of each kind. Their memory is given back in four seconds."""
        for kind in kinds:
            few = Attack([kind], 10)
            few.run(10)
            few.close()
        time.sleep(4)

    def attack(self, title, weir=WEIR, password=False, **more):
        """The daemon survives it, honest clients are answered, and memory is given back."""
        extra = more.pop("extra", "") + (f"\npassword: {PASSWORD}" if password else "")
        with Daemon(weir, POLICY, extra=extra, grpc="127.0.0.1:0", **more) as daemon:
            pid = daemon.process.pid
            kinds = self.tls_kinds(daemon) if daemon.tls else self.kinds(daemon)
            with Honest(daemon, password) as honest:
                if daemon.tls:
                    self.warm_up_tls(kinds)
                else:
                    for _ in range(10):  # (for each thread some)
                        self.warm_up(daemon, honest.headers)
                eventually(lambda: len(honest.took) >= 50, "fifty answers")
                before = honest.peak = resident_kib(pid)
                for kind in kinds:
                    attack = Attack([kind], CONNECTIONS)
                    attack.run(30)
                    attack.close()
                attack = Attack(kinds, max(CONNECTIONS // 10, 1))
                attack.run(30)
                attack.close()
                limit = before * 1.1
                if not under_sanitizer():
                    eventually(lambda: resident_kib(pid) < limit,
                               f"resident memory is back to {before} KiB")
                after = resident_kib(pid)
            self.assertIsNone(daemon.process.poll(), "".join(daemon.log))
            shed = [metric(daemon, f'weir_connections_shed_total{{reason="{reason}"}}',
                           honest.headers) for reason in ("limit", "out_of_memory")]
            print(f"{title}: {CONNECTIONS} of each kind, RSS {before} KiB before, {honest.peak} at "
                  f"most, {after} after; {len(honest.took)} honest rounds, {len(honest.wrong)} "
                  f"wrong, p50 {honest.quantile(0.5):.1f} ms, p99 {honest.quantile(0.99):.1f} ms; "
                  f"shed {shed[0]:.0f}, out of memory {shed[1]:.0f}", flush=True)
            self.assertEqual(honest.wrong, [])
            if not under_sanitizer():
                self.assertLess(honest.peak - before, 2 * BUDGET / 1024)
            if not password:  # all bodies take more than connections may hold
                self.assertGreater(shed[0], 0)
            self.assertEqual(daemon.stop(), 0)

    def test_clients_without_a_password_where_none_is_needed(self):
        self.attack("no password")

    def test_clients_that_do_not_have_the_password(self):
        self.attack("password", password=True)

    # glibc keeps up to seven freed pieces of each small size for each thread. Those that sessions of TLS leave behind
    # keep up to 1.8 MB of pages per thread from going back, however many sessions there were, which is more than a
    # tenth of a daemon without keys. So this is measured without those caches.
    def attack_over_tls(self, title, *commands):
        with tempfile.TemporaryDirectory() as folder:
            ca = Authority(folder)
            cert, key = ca.sign("server")
            weir = wrapped(folder, "export GLIBC_TUNABLES=glibc.malloc.tcache_count=0", *commands)
            self.attack(title, weir, folder=folder, extra=f"tls: {{ cert: {cert}, key: {key} }}",
                        tls=ssl.create_default_context(cafile=str(ca.cert)))

    def test_clients_with_tls(self):
        self.attack_over_tls("TLS")

    def attack_limited(self, title, *commands):
        """With each kind of access, on a daemon whose shell ran some commands before."""
        with tempfile.TemporaryDirectory() as folder:
            weir = wrapped(folder, *commands)
            self.attack(title, weir)
            self.attack(f"{title}, password", weir, password=True)
        self.attack_over_tls(f"{title}, TLS", *commands)

    @unittest.skipIf(under_sanitizer(), "a sanitizer needs more address space")
    def test_a_process_that_may_have_little_address_space(self):
        self.attack_limited("ulimit -v", f"ulimit -v {ALLOWED >> 10}")

    @unittest.skipIf(under_sanitizer(), "a sanitizer needs more address space")
    def test_a_process_that_may_have_little_data(self):
        self.attack_limited("ulimit -d", f"ulimit -d {ALLOWED >> 10}")

    @unittest.skipIf(under_sanitizer(), "a sanitizer needs more memory")
    def test_a_cgroup_with_little_memory(self):
        group = new_cgroup()
        if group is None:
            self.skipTest("no cgroup can be made here")
        self.addCleanup(group.rmdir)
        self.attack_limited("cgroup", f"echo $$ > {group}/cgroup.procs")

    # Connections may hold more than the process gets: allocations fail.
    @unittest.skipIf(under_sanitizer(), "a sanitizer needs more address space")
    def test_allocations_that_fail_end_connections_and_not_the_process(self):
        with tempfile.TemporaryDirectory() as folder:
            weir = wrapped(folder, f"ulimit -v {ALLOWED >> 10}")
            with Daemon(weir, POLICY, extra="connection_memory: 1GiB", grpc="127.0.0.1:0") as daemon:
                for kind in self.kinds(daemon):
                    attack = Attack([kind], max(CONNECTIONS, 300))
                    attack.run(30)
                    attack.close()
                self.assertIsNone(daemon.process.poll(), "".join(daemon.log))
                failed = metric(daemon, 'weir_connections_shed_total{reason="out_of_memory"}', {})
                self.assertGreater(failed, 0)
                resp = daemon.resp()
                self.assertEqual(resp("WEIR.TAKE", "p", "k")[0], 1)
                resp.close()
                daemon.wait_for_log("for which there was no memory")
                self.assertEqual(daemon.stop(), 0)


class GatewayMemoryTest(unittest.TestCase):
    # Bodies wait for a server that never accepts the connection.
    def test_bodies_that_wait_are_bounded(self):
        body = b" " * 60_000
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a"),
                  (":path", "/stuck")]
        text = h2_streams(fields, body, streams=100)
        http1 = b"POST /stuck HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + body
        with socket.socket() as stuck, Service() as service:
            stuck.bind(("127.0.0.1", 0))
            stuck.listen(0)
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(stuck.getsockname())
                self.addCleanup(filler.close)
            nowhere = f"http://127.0.0.1:{stuck.getsockname()[1]}"
            routes = (f"- {{ match: {{ path: /ok }}, upstream: {service.url} }}\n"
                      f"- {{ match: {{ path: /stuck }}, upstream: {nowhere} }}\n")
            with Gateway(WEIR, routes, extra="connection_memory: 8MiB") as gateway:
                attack = Attack([(gateway.port, text), (gateway.port, http1)], 20)
                statuses = []
                thread = threading.Thread(target=attack.run, args=(10,))
                thread.start()
                while thread.is_alive():
                    statuses.append(gateway.get("/ok")[0])
                    held = gateway.metric("weir_connection_memory_bytes")[""]
                    self.assertLess(held, 16 << 20)
                thread.join()
                self.assertEqual(set(statuses), {200})
                shed = gateway.metric("weir_connections_shed_total")
                self.assertGreater(shed['{reason="limit"}'], 0)
                attack.close()
                eventually(lambda: gateway.metric("weir_connection_memory_bytes")[""] < 1 << 20,
                           "nothing is held for clients that have gone")
                self.assertEqual(gateway.get("/ok")[0], 200)
                self.assertEqual(gateway.stop(), 0)

    # Connections become HTTP/2, and upstream ones are kept, while allocations fail.
    @unittest.skipIf(under_sanitizer(), "a sanitizer needs more address space")
    def test_allocations_that_fail_do_not_end_a_gateway(self):
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/stuck")]
        text = h2_streams(fields, b" " * 60_000, streams=100)
        http1 = b"POST /stuck HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b" " * 60_000
        with socket.socket() as stuck, Service() as service, tempfile.TemporaryDirectory() as folder:
            stuck.bind(("127.0.0.1", 0))
            stuck.listen(0)
            nowhere = f"http://127.0.0.1:{stuck.getsockname()[1]}"
            routes = (f"- {{ match: {{ path: /ok }}, upstream: {service.url} }}\n"
                      f"- {{ match: {{ path: /stuck }}, upstream: {nowhere} }}\n")
            weir = wrapped(folder, f"ulimit -v {ALLOWED >> 10}")
            with Gateway(weir, routes, extra="connection_memory: 1GiB") as gateway:
                attack = Attack([(gateway.port, text), (gateway.port, http1)], max(CONNECTIONS, 500))
                attack.run(20)
                attack.close()
                self.assertIsNone(gateway.process.poll(), "".join(gateway.log))
                shed = gateway.metric("weir_connections_shed_total")
                self.assertGreater(shed['{reason="out_of_memory"}'], 0)
                self.assertEqual(gateway.get("/ok")[0], 200)
                self.assertEqual(gateway.stop(), 0)


if __name__ == "__main__":
    unittest.main()
