"""Hostile clients, and others that must not be affected: gateway_hostile_test.py WEIR."""

import re
import resource
import socket
import sys
import threading
import time
import unittest

from daemon import eventually, resident_kib, under_sanitizer
from gateway import Gateway, RawService, Service, read_all, read_head

WEIR = sys.argv.pop(1)
WAIT = "client_timeouts: { header: 500ms, body: 500ms, send: 1s, idle: 2s }"

# Requests that two parsers may interpret differently (request smuggling): each is refused, and no byte of it
# is forwarded. (Each header has GET /evil behind it, for parsers that stop reading too early.)
H = b"Host: a\r\n"
BODY = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
SMUGGLING = {
    "two lengths": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 0\r\nContent-Length: 31\r\n\r\n"),
    "the same length twice": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 31\r\nContent-Length: 31\r\n\r\n"),
    "a list of lengths": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 31, 31\r\n\r\n"),
    "a length with a sign": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: +31\r\n\r\n"),
    "a negative length": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: -1\r\n\r\n"),
    "a hexadecimal length": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 0x1f\r\n\r\n"),
    "an empty length": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length:\r\n\r\n"),
    "a length of more than 64 bits": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 18446744073709551647\r\n\r\n"),
    "a length of more than 63 bits": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 9223372036854775808\r\n\r\n"),
    "a method in small letters": (400, b"post / HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n"),
    "HEAD in another case": (400, b"Head / HTTP/1.1\r\n" + H + b"\r\n"),
    "CONNECT in small letters": (400, b"connect a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    "chunks and a length": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a length and chunks": (400, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "chunks of HTTP/1.0": (400, b"POST / HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked twice": (501, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "two codings fields": (400, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    "an unknown coding": (501, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "identity": (501, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: identity\r\n\r\n"),
    "a blank before the colon": (400, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "a tab before the colon": (400, b"POST / HTTP/1.1\r\n" + H + b"Content-Length\t: 5\r\n\r\n"),
    "a blank before the name": (400, b"POST / HTTP/1.1\r\n Host: a\r\n\r\n"),
    "a folded field": (400, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    "a line without CR": (400, b"POST / HTTP/1.1\r\n" + H + b"X: y\nContent-Length: 31\r\n\r\n"),
    "a CR inside a value": (400, b"GET / HTTP/1.1\r\n" + H + b"X: a\rContent-Length: 31\r\n\r\n"),
    "a NUL inside a value": (400, b"GET / HTTP/1.1\r\n" + H + b"X: a\0b\r\n\r\n"),
    "a name with a control": (400, b"GET / HTTP/1.1\r\n" + H + b"X\x0b: a\r\n\r\n"),
    "no name": (400, b"GET / HTTP/1.1\r\n" + H + b": a\r\n\r\n"),
    "no colon": (400, b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding chunked\r\n\r\n"),
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two Hosts": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "a Host with a path": (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "a Host with a user": (400, b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    "another Host than the target's": (400, b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a target with a space": (400, b"GET /a b HTTP/1.1\r\n" + H + b"\r\n"),
    "a target with a fragment": (400, b"GET /a#b HTTP/1.1\r\n" + H + b"\r\n"),
    "a path that ends above": (400, b"GET /a/..;/b%00 HTTP/1.1\r\n" + H + b"\r\n"),
    "a malformed escape": (400, b"GET /%zz HTTP/1.1\r\n" + H + b"\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "HTTP/2.0": (505, b"GET / HTTP/2.0\r\n" + H + b"\r\n"),
    "almost the preface of HTTP/2": (505, b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n"),
    "CONNECT": (405, b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    "TRACE": (405, b"TRACE / HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n"),
    "another expectation": (417, b"POST / HTTP/1.1\r\n" + H + b"Expect: magic\r\nContent-Length: 1\r\n\r\n"),
    "a head of nothing but one field": (431, b"GET / HTTP/1.1\r\n" + H + b"X: " + b"x" * 40_000),
    "a thousand fields": (431, b"GET / HTTP/1.1\r\n" + H + b"X: y\r\n" * 1000 + b"\r\n"),
    "a long target": (414, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n" + H + b"\r\n"),
    "noise": (400, bytes(range(1, 255)) + b"\r\n\r\n"),
}
# The same for bodies, of which a part may have been forwarded.
BROKEN_CHUNKS = {
    "no number": b"x\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a blank before": b" 5\r\nhello\r\n0\r\n\r\n",
    "too long": b"11111111111111111\r\n",
    "more data than said": b"5\r\nhello!\r\n0\r\n\r\n",
    "no CR behind the size": b"5\nhello\r\n0\r\n\r\n",
    "no CR behind the data": b"5\r\nhello\n0\r\n\r\n",
    "CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "an open quote": b'5;a="b\r\nhello\r\n0\r\n\r\n',
    "a long extension": b"5;" + b"a" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "a folded trailer": b"0\r\nA: b\r\n c\r\n\r\n",
    "a trailer that is none": b"0\r\nGET /evil HTTP/1.1\r\n\r\n",
    "large trailers": b"0\r\n" + b"A: " + b"x" * 20_000 + b"\r\n\r\n",
}


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        cls.service.__enter__()
        cls.addClassCleanup(cls.service.__exit__)
        cls.gateway = Gateway(WEIR, f"- {{ match: {{ path: /** }}, upstream: {cls.service.url} }}", more=WAIT)
        cls.gateway.__enter__()
        cls.addClassCleanup(cls.gateway.__exit__)

    def tearDown(self):
        self.assertEqual(self.gateway.get()[0], 200, "others are served")
        self.assertFalse([path for _, path, *_ in self.service.seen if "evil" in path])

    def status(self, data):
        got = self.gateway.raw(data)
        self.assertTrue(got.startswith(b"HTTP/1.1 "), got[:100])
        return int(got.split()[1])

    def test_ambiguous_requests_are_refused_against_request_smuggling(self):
        for name, (status, request) in SMUGGLING.items():
            with self.subTest(name):
                before = len(self.service.seen)
                answers = self.gateway.raw(request + BODY if request.endswith(b"\r\n\r\n") else request)
                self.assertEqual(int(answers.split()[1]), status, answers[:200])
                self.assertEqual(len(re.findall(rb"HTTP/1.1 \d", answers)), 1, answers)
                self.assertEqual(len(self.service.seen), before)

    def test_malformed_chunks_end_the_request_and_the_connection(self):
        for name, chunks in BROKEN_CHUNKS.items():
            with self.subTest(name):
                got = self.gateway.raw(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                       + chunks + BODY)
                self.assertIn(int(got.split()[1]), (400, 431), got[:200])
                self.assertEqual(got.count(b"HTTP/1.1 "), 1)

    def test_a_slowloris_header_times_out(self):
        with self.gateway.connect() as s:
            s.settimeout(0.1)
            got = b""
            for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 1000:
                try:
                    s.sendall(bytes([byte]))
                    got += s.recv(1000)
                    break
                except TimeoutError:
                    continue
                except OSError:
                    break
            self.assertTrue(got.startswith(b"HTTP/1.1 408"), got)

    def test_a_silent_connection_is_closed(self):
        with self.gateway.connect() as s:
            self.assertEqual(read_all(s), b"")

    def test_a_missing_body_is_408(self):
        with self.gateway.connect() as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123")
            self.assertTrue(read_all(s).startswith(b"HTTP/1.1 408"))

    def test_aborted_uploads_leave_nothing_behind(self):
        for _ in range(50):
            with self.gateway.connect() as s:
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
        flight = lambda: self.gateway.metric("weir_gateway_in_flight")['{route="0"}']
        eventually(lambda: flight() == 0, "nothing is under way")

    def test_half_closed_connections_are_closed(self):
        sockets = []
        for _ in range(20):
            s = self.gateway.connect()
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
            s.shutdown(socket.SHUT_WR)
            sockets.append(s)
        for s in sockets:
            self.assertEqual(read_all(s), b"")
            s.close()

    def test_a_client_that_does_not_read_its_response_is_disconnected(self):
        with Service(lambda h: h.answer(body=b"x" * 50_000_000)) as service, Gateway(
                WEIR, f"- {{ match: {{ path: /** }}, upstream: {service.url} }}", more=WAIT) as gateway:
            before = resident_kib(gateway.process.pid)
            sockets = []
            for _ in range(8):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", gateway.port))
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                sockets.append(s)
            flight = lambda: gateway.metric("weir_gateway_in_flight")['{route="0"}']
            eventually(lambda: flight() == 8, "all are served")
            eventually(lambda: flight() == 0, "all are given up")
            if not under_sanitizer():
                self.assertLess(resident_kib(gateway.process.pid) - before, 20 << 10)
            for s in sockets:
                s.close()

    def test_a_pipelining_client_that_reads_nothing_is_not_read_and_is_disconnected(self):
        with Gateway(WEIR, f"- {{ match: {{ path: /x }}, upstream: {self.service.url} }}", more=WAIT) as gateway:
            before = resident_kib(gateway.process.pid)
            began = time.monotonic()
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", gateway.port))
                s.settimeout(0.2)
                sent = 0
                with self.assertRaises(ConnectionError):  # and not by TimeoutError for ever
                    while time.monotonic() - began < 15 and sent < 100_000_000:
                        try:
                            sent += s.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2000)
                        except TimeoutError:
                            continue
                if not under_sanitizer():
                    self.assertLess(resident_kib(gateway.process.pid) - before, 8 << 10)

    def test_all_pipelined_requests_are_answered_as_responses_are_read(self):
        count = 20_000
        with Gateway(WEIR, f"- {{ match: {{ path: /x }}, upstream: {self.service.url} }}", more=WAIT) as gateway:
            with gateway.connect() as s:
                asks = threading.Thread(target=s.sendall, args=(
                    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * (count - 1)
                    + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",))
                asks.start()
                time.sleep(0.3)  # it stops reading meanwhile
                got = read_all(s)
                asks.join()
        self.assertEqual(got.count(b"HTTP/1.1 404"), count)

    def test_thousands_of_idle_connections_do_not_delay_others(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # (Each may need a second descriptor for its server, so a daemon uses half of its descriptors.)
        count = min(10_000, hard // 2 - 500)
        if under_sanitizer():
            count = min(count, 1000)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 500), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        patient = WAIT.replace("500ms", "60s").replace("2s", "60s")
        with Gateway(WEIR, f"- {{ match: {{ path: /** }}, upstream: {self.service.url} }}",
                     more=patient) as gateway:
            sockets = [gateway.connect() for _ in range(count)]
            for s in sockets[::10]:
                s.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(5):
                self.assertEqual(gateway.get()[0], 200)
            for s in sockets:
                s.close()
            opened = lambda: sum(gateway.metric("weir_connections_open").values())
            eventually(lambda: opened() < 10, "all have left")

    def test_a_path_is_matched_and_forwarded_in_the_same_form(self):
        with Service() as service, Gateway(WEIR, f"""
- {{ match: {{ path: /admin/** }}, upstream: {service.url}, limits: [ 1/h ], key: const:all }}
- {{ match: {{ path: /** }}, upstream: {service.url} }}
""") as gateway:
            self.assertEqual(gateway.get("/admin/x")[0], 200)
            for path in ("/admin/x", "/%61dmin/x", "//admin/x", "/a/../admin/x", "/./admin/./x",
                         "/%2e/admin/x", "/ADMIN/../admin/x"):
                self.assertEqual(gateway.get(path)[0], 429, path)
            for path in ("/admin%2Fx", "/x/..%2Fadmin/x", "/admin;a=b/x", "/x\\..\\admin/y"):
                self.assertIn(gateway.get(path)[0], (400, 429), path)
            self.assertEqual(len(service.seen), 1)

    def test_a_path_forwarded_as_sent_has_the_same_route_for_every_server(self):
        with Service() as service, Gateway(WEIR, f"""
- {{ match: {{ path: /pub/** }}, upstream: {service.url} }}
- {{ match: {{ path: /** }}, upstream: {service.url}, limits: [ 1/h ], key: const:all }}
""", more="upstream_path: as_sent") as gateway:
            for path in ("/pub/b/..;/../admin/x", "/pub/b/..%2f../admin/x", "/pub/..%5cadmin/x",
                         "/pub/%2e%2e%3b/admin/x", "/pub/;/../admin/x", "/pub/%252e%252e/admin/x"):
                self.assertEqual(gateway.get(path)[0], 400, path)
            for path in ("/pub//a%2Fb;v=1", "/pub/%7euser"):
                self.assertEqual(gateway.get(path)[0], 200, path)
            self.assertEqual([path for _, path, *_ in service.seen], ["/pub//a%2Fb;v=1", "/pub/%7euser"])


if __name__ == "__main__":
    unittest.main()
