"""The gateway with HTTP/2 clients: gateway_h2_test.py WEIR."""

import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from certificates import Authority
from daemon import eventually, resident_kib, under_sanitizer
from gateway import Gateway, RawService, Service, read_all, read_head
from h2_peer import *  # noqa: F403: frames, flags and codes

WEIR = sys.argv.pop(1)
SCALE = 10 if under_sanitizer() else 1
WAIT = "client_timeouts: { header: 500ms, body: 500ms, send: 1s, idle: 2s }"
WIDE = 0x7fffffff - 65535  # opens a window to its maximum


def fields_of(method="GET", path="/", authority="shop.example.com", **others):
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority),
            *((name.replace("_", "-"), value) for name, value in others.items())]


def plain(url, more=""):
    return f"- {{ match: {{ path: /** }}, upstream: {url}{more} }}"


def run(*command, **others):
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=120, **others)


class Case(unittest.TestCase):
    def service(self, on_request=None):
        service = Service(on_request)
        service.__enter__()
        self.addCleanup(service.__exit__)
        return service

    def raw_service(self, serve):
        service = RawService(serve)
        service.__enter__()
        self.addCleanup(service.__exit__)
        return service

    def gateway(self, routes, *args, **others):
        gateway = Gateway(WEIR, routes, *args, **others)
        gateway.__enter__()
        self.addCleanup(gateway.__exit__)
        return gateway

    def peer(self, gateway, **others):
        peer = Peer(gateway.port, **others)
        self.addCleanup(peer.close)
        return peer

    def assert_served(self, gateway, path="/"):
        """Asserts that another client is served."""
        with Peer(gateway.port) as other:
            self.assertEqual(other.ask(fields_of(path=path)).status, 200)


class Passing(Case):
    def test_requests_and_responses_pass_with_their_headers_and_bodies(self):
        service = self.service(lambda h: h.answer(
            201, b"made", [("X-Own", "yes"), ("Connection", "X-Hop"), ("X-Hop", "1"),
                           ("Keep-Alive", "timeout=5"), ("Set-Cookie", "a=1")]))
        log = tempfile.NamedTemporaryFile("r")
        gateway = self.gateway(plain(service.url), more=f"access_log: {log.name}")
        peer = self.peer(gateway)
        fields = fields_of("POST", "/a/b?x=1&y=%20", x_mine="1", te="trailers", content_length="5",
                           proxy_authorization="secret", traceparent="00-ab-cd-01",
                           x_forwarded_for="6.6.6.6")
        fields[6:6] = [("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]
        answer = peer.ask(fields, b"12345")
        self.assertEqual((answer.status, answer.body), (201, b"made"))
        self.assertEqual(answer.fields["x-own"], "yes")
        self.assertEqual(answer.fields["set-cookie"], "a=1")
        self.assertEqual(answer.fields["content-length"], "4")
        for gone in ("connection", "x-hop", "keep-alive", "transfer-encoding"):
            self.assertNotIn(gone, answer.fields)
        method, path, seen, size = service.seen[0]
        self.assertEqual((method, path, size), ("POST", "/a/b?x=1&y=%20", 5))
        self.assertEqual(seen["Host"], "shop.example.com")
        self.assertEqual(seen["x-mine"], "1")
        self.assertEqual(seen["cookie"], "a=1; b=2; c=3")
        self.assertEqual(seen["traceparent"], "00-ab-cd-01")
        self.assertEqual(seen["Content-Length"], "5")
        self.assertEqual(seen["X-Forwarded-For"], "127.0.0.1")
        self.assertEqual(seen["X-Forwarded-Host"], "shop.example.com")
        self.assertEqual(seen["Forwarded"], 'for=127.0.0.1;host="shop.example.com";proto=http')
        for gone in ("te", "proxy-authorization", "Transfer-Encoding"):
            self.assertNotIn(gone, seen)
        self.assertEqual(answer.fields["x-request-id"], seen["X-Request-Id"])
        eventually(lambda: '"POST /a/b?x=1&y=%20 HTTP/2.0" 201 4' in Path(log.name).read_text(),
                   "a line in the log")

    def test_responses_without_a_body_end_with_their_headers(self):
        service = self.service(lambda h: (h.send_response(int(h.path[1:])), h.end_headers())
                               if h.path != "/" else h.answer())
        gateway = self.gateway(plain(service.url))
        peer = self.peer(gateway)
        head = peer.ask(fields_of("HEAD"))
        self.assertEqual((head.status, head.fields["content-length"], head.body), (200, "5", b""))
        for status in (204, 304):
            answer = peer.ask(fields_of(path=f"/{status}"))
            self.assertEqual((answer.status, answer.body, answer.frames), (status, b"", []))
            self.assertNotIn("content-length", answer.fields)

    def test_a_complete_body_has_a_length_and_a_streamed_one_is_chunked(self):
        service = self.service()
        gateway = self.gateway(plain(service.url))
        peer = self.peer(gateway)
        self.assertEqual(peer.ask(fields_of("POST"), b"x" * 1000).status, 200)
        self.assertEqual(service.seen[0][2]["Content-Length"], "1000")
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream))
        peer.pong()
        peer.send(*peer.data(b"y" * 1000, stream))
        self.assertEqual(peer.answer(stream).status, 200)
        self.assertEqual(service.seen[1][2]["Transfer-Encoding"], "chunked")
        self.assertEqual([seen[3] for seen in service.seen], [1000, 1000])

    def test_streams_do_not_wait_for_each_other(self):
        go = threading.Event()
        self.addCleanup(go.set)
        service = self.service(lambda h: (h.path.startswith("/slow") and go.wait(60),
                                          h.answer(body=h.path.encode())))
        gateway = self.gateway(plain(service.url))
        peer = self.peer(gateway)
        slow = [peer.request(fields_of(path=f"/slow{i}")) for i in range(40)]
        fast = [peer.request(fields_of(path=f"/fast{i}")) for i in range(40)]
        for i, stream in enumerate(fast):
            self.assertEqual(peer.answer(stream).body, b"/fast%d" % i)
        self.assertFalse(any(stream in peer.answers for stream in slow))
        go.set()
        for i, stream in enumerate(slow):
            self.assertEqual(peer.answer(stream).body, b"/slow%d" % i)

    def test_trailers_pass_both_ways(self):
        heads = []

        def serve(s):
            head, rest = read_head(s)
            while not rest.endswith(b"\r\n\r\n"):
                rest += s.recv(65536)
            heads.append((head, rest))
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                      b"5\r\nhello\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n")
        gateway = self.gateway(plain(self.raw_service(serve).url))
        peer = self.peer(gateway)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream), *peer.data(b"abc", stream, ends=False),
                  peer.head([("x-check", "42"), ("authorization", "x"), ("x-forwarded-for", "1.2.3.4"),
                             ("x_real_ip", "1.2.3.4"), ("proxy-authorization", "x")], stream,
                            END_HEADERS | END_STREAM))
        answer = peer.answer(stream)
        self.assertEqual((answer.status, answer.body), (200, b"hello"))
        self.assertEqual(answer.trailers, {"x-sum": "7"})
        self.assertIn(b"Transfer-Encoding: chunked", heads[0][0])
        self.assertEqual(heads[0][1], b"3\r\nabc\r\n0\r\nx-check: 42\r\n\r\n")

    def test_interim_responses_come_before_the_final_one(self):
        def serve(s):
            read_head(s)
            s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\n\r\n"
                      b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        gateway = self.gateway(plain(self.raw_service(serve).url))
        answer = self.peer(gateway).ask(fields_of())
        self.assertEqual(answer.hints, [{":status": "103", "link": "</a.css>"}])
        self.assertEqual((answer.status, answer.body), (200, b"hi"))

    def test_expect_100_continue_is_answered_after_admission(self):
        service = self.service()
        gateway = self.gateway(plain(service.url, ", limits: [ 1/h ], key: ip"))
        peer = self.peer(gateway)
        fields = fields_of("POST", expect="100-continue", content_length="3")
        stream = peer.new_stream()
        peer.send(peer.head(fields, stream))
        while not (stream in peer.answers and peer.answers[stream].hints):
            peer.hear()
        self.assertEqual(peer.answers[stream].hints, [{":status": "100"}])
        peer.send(*peer.data(b"abc", stream))
        self.assertEqual(peer.answer(stream).status, 200)
        self.assertNotIn("expect", service.seen[0][2])
        refused = peer.new_stream()
        peer.send(peer.head(fields, refused))
        answer = peer.answer(refused)
        self.assertEqual((answer.status, answer.hints), (429, []))

    def test_a_server_that_dies_during_a_response_ends_only_its_stream(self):
        def serve(s):
            head, _ = read_head(s)
            if b"/dies" in head:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
            else:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        gateway = self.gateway(plain(self.raw_service(serve).url))
        peer = self.peer(gateway)
        self.assertEqual(peer.ask(fields_of(path="/dies")).reset, INTERNAL_ERROR)
        self.assertEqual(peer.ask(fields_of(path="/lives")).body, b"hi")
        self.assertIsNone(peer.goaway)

    def test_an_early_response_ends_the_upload(self):
        def serve(s):
            read_head(s)
            s.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            read_all(s)
        gateway = self.gateway(plain(self.raw_service(serve).url))
        peer = self.peer(gateway)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream), *peer.data(b"x" * 30_000, stream, ends=False))
        self.assertEqual(peer.answer(stream).status, 403)
        self.assertEqual(peer.answers[stream].body, b"no")
        peer.send(*peer.data(b"x" * 16_384, stream))  # late DATA does no harm
        self.assertEqual(peer.ask(fields_of(path="/again")).status, 403)

    def test_curl_and_h2load_are_served_as_clients(self):
        service = self.service()
        gateway = self.gateway(plain(service.url))
        url = f"http://127.0.0.1:{gateway.port}/up"
        curl = ("curl", "-sS", "-w", "%{http_version} %{http_code}", "--http2-prior-knowledge")
        self.assertEqual(run(*curl, url).stdout, b"hello2 200")
        self.assertIn(b"HTTP/2 200", run(*curl, "-I", url).stdout)
        self.assertEqual(run(*curl, "-T", "-", url, input=b"y" * 3_000_000).stdout, b"hello2 200")
        self.assertEqual(service.seen[-1][3], 3_000_000)
        self.assertEqual(run("curl", "-sS", "-w", "%{http_version}", url).stdout, b"hello1.1")
        # A client that asks for h2c by Upgrade continues with HTTP/1.1.
        self.assertEqual(run("curl", "-sS", "-w", "%{http_version}", "--http2", url).stdout, b"hello1.1")
        done = run("h2load", "-n", 2000 // SCALE, "-c", 5, "-m", 4, url).stdout.decode()
        self.assertIn(f"{2000 // SCALE} succeeded, 0 failed", done)

    def tls(self):
        """A context that trusts an authority, and the gateway options for its certificate."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        authority = Authority(folder.name)
        cert, key = authority.sign("gateway")
        return authority, f"tls: {{ cert: {cert}, key: {key} }}"

    def test_alpn_selects_http2_or_http1(self):
        authority, tls = self.tls()
        service = self.service()
        both = self.gateway(plain(service.url), more=tls)
        one = self.gateway(plain(service.url), more=tls + "\nhttp2: false")
        curl = ("curl", "-sS", "--cacert", authority.cert, "-w", "%{http_version}")
        self.assertEqual(run(*curl, f"https://127.0.0.1:{both.port}/").stdout, b"hello2")
        self.assertEqual(run(*curl, "--http1.1", f"https://127.0.0.1:{both.port}/").stdout, b"hello1.1")
        self.assertEqual(run(*curl, f"https://127.0.0.1:{one.port}/").stdout, b"hello1.1")
        self.assertEqual(service.seen[0][2]["X-Forwarded-Proto"], "https")
        context = ssl.create_default_context(cafile=authority.cert)
        context.set_alpn_protocols(["h2"])
        peer = self.peer(both, tls=context)
        self.assertEqual(peer.socket.selected_alpn_protocol(), "h2")
        self.assertEqual(peer.ask(fields_of("POST"), b"x" * 60_000).status, 200)

    def test_a_response_larger_than_any_buffer_passes_whole_over_tls(self):
        authority, tls = self.tls()
        answer = os.urandom(1 << 20) * 40
        gateway = self.gateway(plain(self.service(lambda h: h.answer(body=answer)).url), more=tls)
        context = ssl.create_default_context(cafile=authority.cert)
        context.set_alpn_protocols(["h2"])
        # (Windows are wide open; the socket limits the flow.)
        peer = self.peer(gateway, tls=context, opens_windows=False, initial_window_size=0x7fffffff)
        peer.send(window_update(0, WIDE))
        got = peer.ask(fields_of())
        self.assertTrue(got.body == answer, f"{len(got.body)} bytes, reset: {got.reset}")

    def test_http2_can_be_turned_off(self):
        service = self.service()
        gateway = self.gateway(plain(service.url), more="http2: false")
        self.assertTrue(gateway.raw(PREFACE).startswith(b"HTTP/1.1 505 "))


class Flow(Case):
    @unittest.skipIf(under_sanitizer(), "what a sanitizer keeps is not flat")
    def test_large_bodies_pass_both_ways_at_once_in_little_memory(self):
        def echo(s):
            """Sends its request body back, as it arrives."""
            while True:
                head, rest = read_head(s)
                length = left = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                while left > 0:
                    s.sendall(rest)
                    left -= len(rest)
                    rest = s.recv(1 << 18) if left else b""
        gateway = self.gateway(plain(self.raw_service(echo).url))
        before = resident_kib(gateway.process.pid)
        with tempfile.NamedTemporaryFile() as big:
            big.write(os.urandom(1 << 20) * 60)
            big.flush()
            done = run("h2load", "-n", 6, "-c", 1, "-m", 6, "-d", big.name,
                       f"http://127.0.0.1:{gateway.port}/").stdout.decode()
        self.assertIn("6 succeeded, 0 failed", done)
        self.assertRegex(done, rf"\({6 * 60 << 20}\) data")
        self.assertLess(resident_kib(gateway.process.pid) - before, 8 << 10, "KiB")

    def test_a_closed_stream_window_stops_only_its_own_stream(self):
        size = 40 << 20  # larger than socket buffers
        sent = []

        def serve(handler):
            if handler.path == "/small":
                return handler.answer()
            handler.send_response(200)
            handler.send_header("Content-Length", str(size))
            handler.end_headers()
            for _ in range(size >> 16):
                handler.wfile.write(b"x" * (1 << 16))
                sent.append(1 << 16)
        gateway = self.gateway(plain(self.service(serve).url), args=["--threads", "1"])
        before = resident_kib(gateway.process.pid)
        peer = self.peer(gateway, opens_windows=False)
        peer.send(window_update(0, WIDE))
        big = [peer.request(fields_of(path="/big")) for _ in range(3)]
        while not all(len(peer.answers.get(stream, Answer()).body) == 65535 for stream in big):
            peer.hear()
        for _ in range(20):
            self.assertEqual(peer.ask(fields_of(path="/small")).body, b"hello")
        if SCALE == 1:
            self.assertLess(resident_kib(gateway.process.pid) - before, 4 << 10, "KiB")
        # The service could not send more than the gateway buffers.
        self.assertLess(sum(sent), 3 * size)
        for stream in big:
            peer.send(window_update(stream, WIDE))
        for stream in big:
            self.assertEqual(len(peer.answer(stream).body), size)
        if SCALE == 1:
            self.assertLess(resident_kib(gateway.process.pid) - before, 8 << 10, "KiB")

    def test_backpressure_of_the_service_reaches_the_client(self):
        go = threading.Event()
        self.addCleanup(go.set)
        got = []

        def serve(s):
            head, rest = read_head(s)
            if b"/small" not in head:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                go.wait(60)
                left = size - len(rest)
                while left > 0:
                    left -= len(s.recv(1 << 16))
                got.append(size - left)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        size = 40 << 20  # larger than socket buffers
        gateway = self.gateway(plain(self.raw_service(serve).url), args=["--threads", "1"])
        before = resident_kib(gateway.process.pid)
        peer = self.peer(gateway)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST", content_length=str(size)), stream))
        peer.settle()
        window = peer.settings[INITIAL_WINDOW_SIZE]
        self.assertLessEqual(window, 128 << 10)
        sent = 0

        def sendable():
            return min(65535 + peer.opened[0], window + peer.opened[stream]) - sent

        def upload():
            """Sends as much as the windows allow for now."""
            nonlocal sent
            while sent < size:
                some = min(size - sent, 16384, sendable())
                if some == 0:
                    peer.pong()
                    if sendable() == 0:
                        return
                    continue
                sent += some
                peer.send(frame(DATA, END_STREAM if sent == size else 0, stream, b"x" * some))
        upload()
        self.assertLess(sent, size)
        self.assertEqual(peer.ask(fields_of("POST", "/small"), b"").status, 200)
        if SCALE == 1:
            self.assertLess(resident_kib(gateway.process.pid) - before, 4 << 10, "KiB")
        go.set()
        while sent < size:
            if sendable() == 0:
                peer.hear()
            upload()
        self.assertEqual(peer.answer(stream).status, 200)
        self.assertEqual(got, [size])

    def test_a_long_response_does_not_block_short_ones_on_a_slow_connection(self):
        size = 40 << 20  # larger than socket buffers

        def serve(handler):
            handler.answer(body=b"x" * size if handler.path == "/big" else b"hello")
        gateway = self.gateway(plain(self.service(serve).url))
        peer = self.peer(gateway, initial_window_size=0x7fffffff)
        peer.send(window_update(0, WIDE))
        big = peer.request(fields_of(path="/big"))
        while len(peer.answers.get(big, Answer()).body) < 1 << 20:
            peer.hear()
        small = peer.request(fields_of(path="/small"))
        self.assertEqual(peer.answer(small).body, b"hello")
        self.assertFalse(peer.answers[big].ended)
        self.assertEqual(len(peer.answer(big).body), size)


class Limits(Case):
    def test_a_stream_is_refused_like_an_http1_request(self):
        service = self.service()
        gateway = self.gateway(plain(service.url, ", name: shop, limits: [ 2/h ], key: header:X-User"))
        peer = self.peer(gateway)
        first, second, third = (peer.ask(fields_of(x_user="u1")) for _ in range(3))
        self.assertEqual([first.status, second.status, third.status], [200, 200, 429])
        self.assertEqual(first.fields["ratelimit"], '"0";r=1;t=1800')
        self.assertEqual(first.fields["ratelimit-policy"], '"0";q=2;w=3600')
        self.assertEqual(third.fields["content-type"], "application/problem+json")
        self.assertIn("retry-after", third.fields)
        self.assertEqual(len(third.fields["x-request-id"]), 32)
        self.assertIn(b"Quota exceeded", third.body)
        self.assertEqual(peer.ask(fields_of("HEAD", x_user="u1")).body, b"")
        self.assertEqual(peer.ask(fields_of(x_user="u2")).status, 200)
        self.assertEqual(peer.ask(fields_of()).status, 403)
        self.assertEqual(len(service.seen), 3)
        decisions = gateway.metric("weir_gateway_decisions_total")
        self.assertEqual(decisions['{route="shop",decision="allowed"}'], 3)
        self.assertEqual(decisions['{route="shop",decision="refused"}'], 2)

    def test_streams_of_one_connection_are_counted_together(self):
        service = self.service()
        gateway = self.gateway(plain(service.url, ", limits: [ 10/h ], key: ip"))
        peer = self.peer(gateway)
        streams = [peer.request(fields_of()) for _ in range(50)]
        statuses = [peer.answer(stream).status for stream in streams]
        self.assertEqual((statuses.count(200), statuses.count(429)), (10, 40))

    def test_a_fallback_service_answers_refused_requests(self):
        service, other = self.service(), self.service(lambda h: h.answer(body=b"later"))
        gateway = self.gateway(plain(
            service.url, f", limits: [ 1/h ], key: ip, refused: {{ fallback: {other.url} }}"))
        peer = self.peer(gateway)
        self.assertEqual([peer.ask(fields_of()).body for _ in range(2)], [b"hello", b"later"])

    def test_bodies_too_large_for_a_route_are_refused_with_413(self):
        service = self.service()
        gateway = self.gateway(plain(service.url, ", max_body: 20000"))
        peer = self.peer(gateway)
        self.assertEqual(peer.ask(fields_of("POST", content_length="20001"), b"x" * 20001).status, 413)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream))
        peer.pong()
        for _ in range(2):
            peer.send(*peer.data(b"x" * 12_000, stream, ends=False))
        self.assertEqual(peer.answer(stream).status, 413)
        self.assertEqual(peer.ask(fields_of("POST"), b"x" * 20000).status, 200)
        self.assertEqual([seen[3] for seen in service.seen], [20000])

    def test_a_reset_stream_releases_its_concurrency_permit(self):
        go = threading.Event()
        self.addCleanup(go.set)
        service = self.service(lambda h: (h.path == "/slow" and go.wait(60), h.answer()))
        gateway = self.gateway(plain(service.url, ", name: r, limits: [ 1 concurrent ], key: ip"))
        peer = self.peer(gateway)
        held = peer.request(fields_of(path="/slow"))
        eventually(lambda: len(service.seen) == 1, "a request under way")
        self.assertEqual(peer.ask(fields_of()).status, 429)
        peer.send(reset(held))
        eventually(lambda: peer.ask(fields_of()).status == 200, "a free permit")
        self.assertEqual(gateway.metric("weir_gateway_abandoned_total")['{route="r"}'], 1)

    def test_a_stream_reset_in_the_queue_refunds_its_permit(self):
        service = self.service()
        gateway = self.gateway(plain(service.url, ", name: r, limits: [ 6/min queue 3 ], key: ip"))
        peer = self.peer(gateway)
        self.assertEqual(peer.ask(fields_of()).status, 200)
        waiting = [peer.request(fields_of()) for _ in range(3)]
        self.assertEqual(peer.ask(fields_of()).status, 429)
        queued = lambda: gateway.metric("weir_gateway_queued")['{route="r"}']
        eventually(lambda: queued() == 3, "three in the queue")
        peer.send(*(reset(stream) for stream in waiting))
        eventually(lambda: queued() == 0, "nobody in the queue")
        again = peer.request(fields_of())
        eventually(lambda: queued() == 1, "room in the queue")
        self.assertNotIn(again, peer.answers)
        self.assertEqual(len(service.seen), 1)

    def test_bandwidth_is_shared_by_all_streams_of_a_key(self):
        service = self.service(lambda h: h.answer(body=b"x" * 300_000))
        gateway = self.gateway(plain(service.url, ', bandwidth: { limit: "400KB/s", of: responses }'))
        peer = self.peer(gateway)
        began = time.monotonic()
        streams = [peer.request(fields_of()) for _ in range(4)]
        for stream in streams:
            self.assertEqual(len(peer.answer(stream).body), 300_000)
        # 1.2 MB: a burst plus the bytes read ahead are free.
        self.assertGreater(time.monotonic() - began, 1)


class ProtocolErrors(Case):
    """Errors that have no equal in HTTP/1, or are reported differently."""

    BAD = {
        "capital letters": [("X-Upper", "1")],
        "the end of a line in a value": [("x", "a\r\nevil: 1")],
        "a CR in a value": [("x", "a\rb")],
        "a LF in a value": [("x", "a\nb")],
        "a NUL in a value": [("x", "a\0b")],
        "a space before a value": [("x", " a")],
        "a space in a name": [("x y", "1")],
        "a colon in a name": [("x:y", "1")],
        "the end of a line in a name": [("x\r\nevil", "1")],
        "no name": [("", "1")],
        "connection": [("connection", "close")],
        "keep-alive": [("keep-alive", "timeout=5")],
        "proxy-connection": [("proxy-connection", "close")],
        "transfer-encoding": [("transfer-encoding", "chunked")],
        "upgrade": [("upgrade", "websocket")],
        "te other than trailers": [("te", "gzip")],
        "two lengths": [("content-length", "0"), ("content-length", "1")],
        "a list of lengths": [("content-length", "0, 0")],
        "a length with a sign": [("content-length", "+1")],
        "an unknown pseudo field": [(":other", "x")],
        "a second path": [(":path", "/evil")],
        "an extended CONNECT": [(":protocol", "websocket")],
    }
    # Valid in HTTP/2, but not in the HTTP/1.1 request to the service.
    FLAWS = {
        "two hosts": (400, fields_of(host="elsewhere")),
        "a host with a path": (400, fields_of(authority="a/b")),
        "a host with a user": (400, fields_of(authority="u@a")),
        "a path that is none": (400, fields_of(path="evil")),
        "a path with a fragment": (400, fields_of(path="/a#b")),
        "an absolute path": (400, fields_of(path="http://b/")),
        "a malformed escape": (400, fields_of(path="/%zz")),
        "TRACE": (405, fields_of("TRACE")),
        "CONNECT": (405, [(":method", "CONNECT"), (":authority", "a:443")]),
        "a header that is too long": (431, fields_of() + [("x", "y" * 5_000)] * 3),
        "too many fields": (431, fields_of() + [("x", "y")] * 150),
    }

    def test_an_invalid_header_field_ends_the_stream(self):
        service = self.service()
        gateway = self.gateway(plain(service.url))
        peer = self.peer(gateway)
        for name, fields in self.BAD.items():
            with self.subTest(name):
                answer = peer.ask(fields_of() + fields)
                self.assertEqual((answer.reset, answer.fields), (PROTOCOL_ERROR, {}))
        self.assertEqual(service.seen, [])
        self.assertEqual(peer.ask(fields_of()).status, 200)

    def test_an_invalid_request_is_answered_with_its_status_or_reset(self):
        service = self.service()
        gateway = self.gateway(plain(service.url), more="max_header: 12KiB")
        peer = self.peer(gateway)
        for name, (status, fields) in self.FLAWS.items():
            with self.subTest(name):
                answer = peer.ask(fields)
                self.assertTrue(answer.reset == PROTOCOL_ERROR or answer.status == status, answer)
        self.assertEqual(service.seen, [])
        self.assertEqual(peer.ask(fields_of()).status, 200)

    def test_a_body_that_contradicts_its_content_length_ends_the_stream(self):
        seen = []

        def serve(s):
            head, rest = read_head(s)
            seen.append(rest + read_all(s))
        gateway = self.gateway(plain(self.raw_service(serve).url))
        peer = self.peer(gateway)
        for body in (b"x" * 31, b"x" * 10):
            self.assertEqual(peer.ask(fields_of("POST", content_length="20"), body).reset,
                             PROTOCOL_ERROR)
        # A service that received any of it sees that it is incomplete.
        peer.settle()
        self.assertTrue(all(len(body) < 20 for body in seen), seen)

    def test_a_drain_finishes_the_open_streams(self):
        go = threading.Event()
        self.addCleanup(go.set)
        service = self.service(lambda h: (h.path == "/slow" and go.wait(60), h.answer()))
        gateway = self.gateway(plain(service.url))
        peer, idle = self.peer(gateway), self.peer(gateway)
        idle.settle()
        stream = peer.request(fields_of(path="/slow"))
        eventually(lambda: len(service.seen) == 1, "a request under way")
        gateway.process.send_signal(signal.SIGTERM)
        self.assertEqual(idle.end(), NO_ERROR)
        while peer.goaway is None:
            peer.hear()
        go.set()
        self.assertEqual(peer.answer(stream).body, b"hello")
        self.assertEqual(peer.end(), NO_ERROR)
        self.assertEqual(peer.goaway[0], stream)
        self.assertEqual(gateway.end(), 0)

    def test_routes_change_under_open_connections(self):
        service, other = self.service(), self.service(lambda h: h.answer(body=b"other"))
        gateway = self.gateway(plain(service.url))
        peer = self.peer(gateway)
        self.assertEqual(peer.ask(fields_of()).body, b"hello")
        gateway.rewrite(lambda text: text.replace(service.url, other.url))
        self.assertEqual(peer.ask(fields_of()).body, b"other")


class Hostile(Case):
    def setUp(self):
        self.behind = self.service()
        self.listener = self.gateway(plain(self.behind.url), more=WAIT, args=["--threads", "1"])
        self.before = resident_kib(self.listener.process.pid)

    def tearDown(self):
        self.assert_served(self.listener)
        if SCALE == 1:
            self.assertLess(resident_kib(self.listener.process.pid) - self.before, 16 << 10, "KiB")

    def flood(self, frames, codes=(ENHANCE_YOUR_CALM, None)):
        peer = self.peer(self.listener)
        peer.settle()
        frames = iter(frames(peer))
        while batch := b"".join(piece for _, piece in zip(range(500), frames)):
            if not peer.try_send(batch):
                break
            self.assert_served(self.listener)
        self.assertIn(peer.end(), codes)

    def test_a_flood_of_reset_requests_ends_the_connection(self):
        def frames(peer):
            for _ in range(20_000 // SCALE):
                stream = peer.new_stream()
                yield peer.head(fields_of(), stream, END_HEADERS | END_STREAM) + reset(stream)
        self.flood(frames)
        # The service never saw requests that were opened and reset in one batch.
        self.assertLess(len(self.behind.seen), 2_000)

    def test_a_flood_of_requests_that_the_gateway_resets_ends_the_connection(self):
        def frames(peer):
            for _ in range(5_000):
                stream = peer.new_stream()
                yield peer.head(fields_of(te="gzip"), stream, END_HEADERS | END_STREAM)
        # (Or because more are open than the maximum, which the client may not know yet.)
        self.flood(frames, (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, None))

    def test_a_flood_of_pings_ends_the_connection(self):
        self.flood(lambda peer: (frame(PING, 0, 0, b"12345678") for _ in range(20_000)))

    def test_a_flood_of_settings_ends_the_connection(self):
        self.flood(lambda peer: (settings(initial_window_size=i) for i in range(20_000)))

    def test_a_flood_of_continuations_ends_the_connection(self):
        def frames(peer):
            yield frame(HEADERS, 0, peer.new_stream(), peer.encoder.encode(fields_of()))
            for i in range(20_000):
                yield frame(CONTINUATION, 0, 1, peer.encoder.encode([(f"x-{i}", "y" * 100)]))
        peer = self.peer(self.listener)
        for piece in frames(peer):
            if not peer.try_send(piece):
                break
        self.assertIn(peer.end(), (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, INTERNAL_ERROR, None))

    def test_a_flood_of_empty_data_ends_the_connection(self):
        def frames(peer):
            stream = peer.new_stream()
            yield peer.head(fields_of("POST"), stream)
            for _ in range(20_000):
                yield frame(DATA, 0, stream)
        self.flood(frames)

    def test_an_unfinished_header_block_times_out(self):
        peer = self.peer(self.listener)
        peer.settle()
        peer.send(frame(HEADERS, 0, 1, peer.encoder.encode(fields_of())))
        self.assertEqual(peer.end(), NO_ERROR)
        slow = self.peer(self.listener, greets=False)
        slow.send(PREFACE[:10])
        self.assertIn(b"408", read_all(slow.socket))

    def test_an_idle_connection_is_closed_with_goaway(self):
        peer = self.peer(self.listener)
        self.assertEqual(peer.ask(fields_of()).status, 200)
        self.assertEqual(peer.end(), NO_ERROR)

    def test_a_missing_body_is_408_for_its_stream(self):
        peer = self.peer(self.listener)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream), *peer.data(b"x", stream, ends=False))
        self.assertEqual(peer.answer(stream).status, 408)
        # The client may not hold the stream for ever.
        while peer.answers[stream].reset is None:
            peer.hear()
        self.assertEqual(peer.answers[stream].reset, NO_ERROR)
        self.assertEqual(peer.ask(fields_of()).status, 200)

    def test_a_byte_at_a_time_is_waited_for(self):
        peer = self.peer(self.listener)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream))
        for i in range(8):
            time.sleep(0.1)
            peer.send(*peer.data(b"x", stream, ends=i == 7))
        self.assertEqual(peer.answer(stream).status, 200)
        self.assertEqual(self.behind.seen[0][3], 8)

    def test_closed_windows_cost_only_their_own_streams(self):
        self.behind.on_request = lambda h: h.answer(body=b"x" * (1 << 20) if h.path == "/big" else b"hello")
        peer = self.peer(self.listener, opens_windows=False, initial_window_size=0)
        peer.send(window_update(0, WIDE))
        stuck = [peer.request(fields_of(path="/big")) for _ in range(90)]
        peer.send(settings(initial_window_size=0))
        for _ in range(5):
            stream = peer.request(fields_of())
            peer.send(window_update(stream, 100))
            self.assertEqual(peer.answer(stream).body, b"hello")
        for stream in stuck:
            self.assertEqual(peer.answer(stream).reset, INTERNAL_ERROR)
        self.assertIsNone(peer.goaway)

    def test_a_stream_whose_response_is_never_read_is_reset(self):
        def serve(s):
            read_head(s)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345")
            while s.recv(100):
                pass
        gateway = self.gateway(plain(self.raw_service(serve).url), more=WAIT)
        peer = self.peer(gateway, opens_windows=False, initial_window_size=0)
        stream = peer.new_stream()
        peer.send(peer.head(fields_of("POST"), stream))
        flight = lambda: sum(gateway.metric("weir_gateway_in_flight").values())
        eventually(lambda: flight() == 1, "it is under way")
        for _ in range(40):
            peer.send(*peer.data(b"x", stream, ends=False))
            time.sleep(0.1)
            if flight() == 0:
                break
        else:
            self.fail("it was waited for as long as it said something")
        self.assertEqual(peer.answer(stream).reset, INTERNAL_ERROR)

    def test_a_connection_that_reads_nothing_is_closed(self):
        self.behind.on_request = lambda h: h.answer(body=b"x" * (20 << 20))
        peer = self.peer(self.listener, initial_window_size=0x7fffffff)
        peer.send(window_update(0, WIDE))
        for _ in range(4):
            peer.request(fields_of())
        eventually(lambda: self.listener.metric("weir_gateway_in_flight") and
                   sum(self.listener.metric("weir_gateway_in_flight").values()) == 0, "nothing under way")

    def test_streams_above_the_maximum_are_refused(self):
        go = threading.Event()
        self.addCleanup(go.set)
        self.behind.on_request = lambda h: (h.path == "/slow" and go.wait(60), h.answer())
        peer = self.peer(self.listener)
        most = 100  # the client does not know the maximum yet
        streams = [peer.request(fields_of(path="/slow")) for _ in range(most + 5)]
        for stream in streams[most:]:
            self.assertEqual(peer.answer(stream).reset, REFUSED_STREAM)
        self.assertEqual(peer.settings[MAX_CONCURRENT_STREAMS], most)
        go.set()
        for stream in streams[:most]:
            self.assertEqual(peer.answer(stream).status, 200)

    def test_protocol_errors_end_the_connection(self):
        for bad in (frame(DATA, 0, 0, b"x"), frame(HEADERS, END_HEADERS, 2, b""),
                    frame(PUSH_PROMISE, 0, 1, b"\0\0\0\2"), frame(SETTINGS, 0, 0, b"odd"),
                    frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), window_update(0, 0)):
            peer = self.peer(self.listener)
            peer.send(bad)
            self.assertNotIn(peer.end(), (NO_ERROR,))
        garbled = self.peer(self.listener, greets=False)
        garbled.send(PREFACE[:16] + b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(read_all(garbled.socket), b"")


if __name__ == "__main__":
    unittest.main()
