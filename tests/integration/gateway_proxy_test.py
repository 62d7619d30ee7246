"""The gateway as a proxy: what is forwarded, and how: gateway_proxy_test.py WEIR."""

import http.client
import itertools
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from certificates import Authority
from daemon import eventually, free_port, resident_kib, under_sanitizer
from gateway import Gateway, RawService, Service, read_all, read_head

WEIR = sys.argv.pop(1)


def plain(url, more=""):
    return f"- {{ match: {{ path: /** }}, upstream: {url}{more} }}"


class Passing(unittest.TestCase):
    def test_requests_and_responses_pass_with_their_headers_and_bodies(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            service.on_request = lambda h: h.answer(
                201, b"made", [("X-Own", "yes"), ("Connection", "X-Hop"), ("X-Hop", "1")])
            status, headers, body = gateway.get("/a/b?x=1&y=%20", "POST", b"12345", {
                "X-Mine": "1", "Connection": "X-Drop", "X-Drop": "1", "TE": "trailers",
                "Proxy-Authorization": "secret", "traceparent": "00-ab-cd-01"})
            self.assertEqual((status, body), (201, b"made"))
            self.assertEqual(headers["X-Own"], "yes")
            self.assertIsNone(headers["X-Hop"])
            method, path, seen, size = service.seen[0]
            self.assertEqual((method, path, size), ("POST", "/a/b?x=1&y=%20", 5))
            self.assertEqual(seen["X-Mine"], "1")
            self.assertEqual(seen["traceparent"], "00-ab-cd-01")
            self.assertEqual(seen["Host"], f"127.0.0.1:{gateway.port}")
            self.assertEqual(seen["X-Forwarded-For"], "127.0.0.1")
            self.assertIn("for=127.0.0.1", seen["Forwarded"])
            for gone in ("X-Drop", "TE", "Proxy-Authorization"):
                self.assertNotIn(gone, seen)
            self.assertEqual(len(seen["X-Request-Id"]), 32)
            self.assertEqual(headers["X-Request-Id"], seen["X-Request-Id"])
            gateway.get(headers={"X-Request-Id": "mine"})
            self.assertEqual(service.seen[1][2]["X-Request-Id"], "mine")
            headers = gateway.get(headers={"X-Request-Id": "x" * 200})[1]
            self.assertEqual(service.seen[2][2]["X-Request-Id"], headers["X-Request-Id"])

    def test_connections_are_reused_on_both_sides(self):
        connections = set()
        with Service() as service, Gateway(WEIR, plain(service.url), args=["--threads", "1"]) as gateway:
            service.on_request = lambda h: (connections.add(h.client_address), h.answer())
            client = gateway.client()
            for _ in range(20):
                client.request("GET", "/")
                self.assertEqual(client.getresponse().read(), b"hello")
            client.close()
            self.assertEqual(len(connections), 1)
            self.assertEqual(sum(gateway.metric("weir_connections_total").values()), 1 + 1)

    def test_pipelined_requests_are_answered_in_order(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            service.on_request = lambda h: h.answer(body=b"<%s>" % h.path.encode())
            got = gateway.raw(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(9))
                              + b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            places = [got.index(b"</%d>" % i) for i in range(9)] + [got.index(b"</last>")]
            self.assertEqual(places, sorted(places))
            self.assertEqual(got.count(b"HTTP/1.1 200"), 10)

    def test_head_has_a_length_and_no_body(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            client = gateway.client()
            for _ in range(2):
                client.request("HEAD", "/")
                response = client.getresponse()
                self.assertEqual((response.getheader("Content-Length"), response.read()), ("5", b""))
            client.close()

    def test_chunks_and_their_trailers_pass_both_ways(self):
        def serve(connection):
            head, rest = read_head(connection)
            while b"0\r\n" not in rest or not rest.endswith(b"\r\n\r\n"):
                rest += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                               b"5;x=y\r\nhello\r\n" + b"%x\r\n%s\r\n" % (len(rest), rest)
                               + b"0\r\nX-Sum: 7\r\nContent-Length: 3\r\n\r\n")
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            got = gateway.raw(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                              b"Connection: close\r\n\r\n3\r\nabc\r\n2;q=1\r\nde\r\n0\r\nX-T: 1\r\n"
                              b"X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_Proto: https\r\nProxy-Authorization: a\r\n"
                              b"X-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n\r\n")
            self.assertIn(b"3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n", got.replace(b"5\r\nabcde", b"3\r\nabc\r\n2\r\nde"))
            self.assertTrue(got.endswith(b"0\r\nX-Sum: 7\r\n\r\n"), got)

    def test_a_trailer_cannot_replace_the_header_of_a_key(self):
        def serve(connection):
            head, rest = read_head(connection)
            while not rest.endswith(b"\r\n\r\n"):
                rest += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(rest), rest))
        with RawService(serve) as service, Gateway(WEIR, f"""
- {{ upstream: {service.url}, limits: [ 9/h ], key: 'header:X-User-Id', cost: 'header:X-Cost' }}
""") as gateway:
            got = gateway.raw(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-User-Id: eve\r\n"
                              b"X-Plan: free\r\nConnection: close\r\n\r\n0\r\nX-User-Id: bob\r\nX_Plan: paid\r\n"
                              b"X-Cost: 0\r\nX-Sum: 1\r\n\r\n")
            self.assertTrue(got.endswith(b"\r\n\r\n0\r\nX-Sum: 1\r\n\r\n"), got)

    def test_a_response_delimited_by_close_is_chunked_for_http_1_1_clients(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nall there is")
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            status, headers, body = gateway.get()
            self.assertEqual((status, headers["Transfer-Encoding"], body),
                             (200, "chunked", b"all there is"))
            old = gateway.raw(b"GET / HTTP/1.0\r\n\r\n")
            self.assertTrue(old.endswith(b"\r\n\r\nall there is"), old)
            self.assertNotIn(b"chunked", old)

    def test_expect_100_continue_is_answered_only_after_admission(self):
        routes = """
- { match: { path: /no }, upstream: %s, limits: [ 1/h ], key: const:all }
- { match: { path: /** }, upstream: %s }
"""
        with Service() as service, Gateway(WEIR, routes % (service.url, service.url)) as gateway:
            head = (b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                    b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
            with gateway.connect() as s:
                s.sendall(head % b"/yes")
                self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
                s.sendall(b"12345")
                self.assertIn(b"HTTP/1.1 200", read_all(s))
            gateway.get("/no")
            refused = gateway.raw(head % b"/no")
            self.assertTrue(refused.startswith(b"HTTP/1.1 429"), refused)
            self.assertNotIn(b"100 Continue", refused)
            self.assertNotIn("Expect", service.seen[0][2])

    def test_interim_responses_pass(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
                               b"HTTP/1.1 204 No Content\r\n\r\n")
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            got = gateway.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            self.assertTrue(got.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"))
            self.assertIn(b"HTTP/1.1 204", got)

    def test_an_upgraded_connection_is_a_tunnel_that_half_closes_each_way(self):
        def serve(connection):
            head, _ = read_head(connection)
            assert b"upgrade: echo" in head.lower(), head
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                               b"Upgrade: echo\r\n\r\nhi ")
            while piece := connection.recv(1000):
                connection.sendall(piece.upper())
            connection.sendall(b" bye")
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            with gateway.connect() as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
                head, rest = read_head(s)
                self.assertTrue(head.startswith(b"HTTP/1.1 101"))
                self.assertIn(b"upgrade: echo", head.lower())
                s.sendall(b"hello")
                while len(rest) < 8:
                    rest += s.recv(100)
                self.assertEqual(rest, b"hi HELLO")
                s.shutdown(socket.SHUT_WR)
                self.assertEqual(read_all(s), b" bye")
            self.assertEqual(gateway.metric("weir_gateway_tunnels_total"), {"": 1})

    TUNNEL = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

    # Also if the server has already sent everything.
    def test_all_bytes_of_a_client_in_a_tunnel_come_before_its_end(self):
        # (The amount in flight depends on the system. The end must come while some is in flight.)
        sizes = (500_000, 1_000_000, 3_000_000, 4_000_000, 5_000_000)
        for first, most in itertools.product(("the client", "the server"), sizes):
            reads = threading.Event()
            got = []

            def serve(connection):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
                _, rest = read_head(connection)
                connection.sendall(self.SWITCHES)
                if first == "the server":
                    connection.shutdown(socket.SHUT_WR)
                reads.wait(20)
                size = len(rest)
                while piece := connection.recv(65536):
                    size += len(piece)
                got.append(size)

            with self.subTest(ends=first, most=most), RawService(serve) as service, Gateway(
                    WEIR, plain(service.url)) as gateway, gateway.connect() as s:
                s.sendall(self.TUNNEL)
                read_head(s)
                s.settimeout(0.2)
                sent = 0
                try:
                    while sent < most:
                        sent += s.send(b"x" * 65536)
                except TimeoutError:
                    pass  # the buffers on the way are full
                s.shutdown(socket.SHUT_WR)
                time.sleep(0.2)  # for the gateway to notice it
                reads.set()
                eventually(lambda: got, "the server has seen the end")
                self.assertEqual(got, [sent])

    def test_an_h2c_upgrade_is_not_forwarded(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            for upgrade in ("h2c", "H2C", "h2c, websocket", "websocket ,\th2C", "x,h2c/1", "h2"):
                gateway.get(headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": upgrade,
                                     "HTTP2-Settings": "AAMAAABk"})
                self.assertNotIn("Upgrade", service.seen[-1][2])

    def test_a_tunnel_may_be_idle_for_the_read_timeout_of_its_service(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(self.SWITCHES)
            connection.sendall(connection.recv(100))
            connection.recv(100)
        with RawService(serve) as service, Gateway(
                WEIR, f"- {{ match: {{ path: /** }}, upstream: {service.url}, timeouts: {{ read: 3s }} }}",
                more="client_timeouts: { body: 300ms }") as gateway, gateway.connect() as s:
            s.sendall(self.TUNNEL)
            read_head(s)
            time.sleep(1)
            s.sendall(b"still here")
            self.assertEqual(s.recv(100), b"still here")
            began = time.monotonic()
            self.assertEqual(s.recv(100), b"")  # an orderly close
            self.assertGreater(time.monotonic() - began, 2)

    def test_the_end_of_the_server_passes_also_where_it_does_not_name_the_protocol(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\nbye")
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            with gateway.connect(5) as s:
                s.sendall(self.TUNNEL)
                self.assertEqual(read_all(s).split(b"\r\n\r\n", 1)[1], b"bye")

    def test_large_bodies_pass_both_ways_in_little_memory(self):
        # (A sanitizer is slow, and keeps freed memory: less is sent, and memory is not checked.)
        size, piece = 64 << 20 if under_sanitizer() else 1 << 30, b"x" * (1 << 20)
        def big(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", str(size))
            handler.end_headers()
            for _ in range(size >> 20):
                handler.wfile.write(piece)
        with Service(big) as service, Gateway(WEIR, plain(service.url)) as gateway:
            before = resident_kib(gateway.process.pid)
            with gateway.connect() as s:
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
                for _ in range(size >> 20):
                    s.sendall(piece)
                time.sleep(1)  # long enough for a careless proxy to read the whole response
                got = 0
                while data := s.recv(1 << 20):
                    got += len(data)
            self.assertGreater(got, size)
            self.assertEqual(service.seen[0][3], size)
            if not under_sanitizer():
                self.assertLess(resident_kib(gateway.process.pid) - before, 8 << 10)

    def test_the_response_of_a_server_that_closes_early_passes_whole(self):
        def serve(s):
            head, _ = read_head(s)
            size = int(head.split()[1][1:])
            s.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
            s.sendall(b"x" * size)
        with RawService(serve) as service, Gateway(WEIR, plain(service.url)) as gateway:
            for size in (s << 18 for s in range(1, 25)):
                with gateway.connect() as s:
                    s.sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % size)
                    time.sleep(0.05)  # the server has sent everything, and much of it is in flight
                    self.assertEqual(len(read_all(s).split(b"\r\n\r\n", 1)[1]), size)

    def test_curl_is_served_as_a_client(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            done = subprocess.run(["curl", "-sS", "-T", "-", "-w", "%{http_code}",
                                   f"http://127.0.0.1:{gateway.port}/up"],
                                  input=b"y" * 3_000_000, capture_output=True, timeout=60)
            self.assertEqual(done.stdout, b"hello200", done.stderr)
            self.assertEqual(service.seen[0][3], 3_000_000)


class Servers(unittest.TestCase):
    def two(self, more=""):
        a, b = Service(), Service()
        for s in (a, b):
            s.__enter__()
            self.addCleanup(s.__exit__)
        return a, b, f"- {{ match: {{ path: /** }}, upstream: [ {a.url}, {b.url} ]{more} }}"

    def test_servers_take_turns(self):
        a, b, routes = self.two()
        with Gateway(WEIR, routes) as gateway:
            for _ in range(10):
                gateway.get()
        self.assertEqual((len(a.seen), len(b.seen)), (5, 5))

    def test_least_connections_chooses_the_server_with_fewer_requests(self):
        a, b, routes = self.two(", balance: least_connections")
        go = threading.Event()
        a.on_request = lambda h: (go.wait(30), h.answer())
        # (One thread: another may see a request in progress whose answer has just been sent.)
        with Gateway(WEIR, routes, args=["--threads", "1"]) as gateway:
            threads = []
            while not a.seen:  # one of the requests reaches it and stays
                threads.append(threading.Thread(target=gateway.get))
                threads[-1].start()
                eventually(lambda: a.seen or not threads[-1].is_alive(), "one of them has it")
            before = len(b.seen)
            for _ in range(6):
                gateway.get()
            self.assertEqual((len(a.seen), len(b.seen) - before), (1, 6))
            go.set()
            for thread in threads:
                thread.join()

    def test_a_failing_server_is_ejected_and_the_others_serve(self):
        with Service() as good:
            port = free_port()
            routes = (f"- {{ match: {{ path: /** }}, upstream: [ http://127.0.0.1:{port}, {good.url} ],"
                      " health: { passive: { failures: 2, for: 1s } } }")
            with Gateway(WEIR, routes) as gateway:
                for _ in range(12):
                    self.assertEqual(gateway.get()[0], 200)
                failures = gateway.metric("weir_upstream_failures_total")
                self.assertEqual(sum(failures.values()), 2, failures)
                self.assertEqual(min(gateway.metric("weir_upstream_up").values()), 0)
                said = lambda what: sum(f"upstream http://127.0.0.1:{port} is {what}" in line for line in list(gateway.log))
                eventually(lambda: said("down") == 1, "the log says so")
                with Service(port=port) as back:
                    eventually(lambda: gateway.get()[0] == 200 and back.seen, "it serves again")
                    eventually(lambda: said("up again") == 1, "the log says that it is back")
                self.assertEqual(said("down"), 1)

    def test_active_checks_take_a_server_out_and_bring_it_back(self):
        a, b, routes = self.two(
            ", health: { active: { path: /health, every: 50ms, timeout: 5s, healthy: 2, unhealthy: 2 } }")
        ill = threading.Event()
        a.on_request = lambda h: h.answer(503 if ill.is_set() and h.path == "/health" else 200)
        with Gateway(WEIR, routes) as gateway:
            up = lambda: gateway.metric("weir_upstream_up")[f'{{server="{a.url}"}}']
            ill.set()
            eventually(lambda: up() == 0, "it is out")
            before = sum(path == "/" for _, path, *_ in a.seen)
            for _ in range(6):
                self.assertEqual(gateway.get()[0], 200)
            self.assertEqual(sum(path == "/" for _, path, *_ in a.seen), before)
            ill.clear()
            eventually(lambda: up() == 1, "it is back")

    def test_active_checks_skip_interim_responses(self):
        asked = []

        def serve(connection):
            read_head(connection)
            asked.append(1)
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 10")
            time.sleep(0.02)
            connection.sendall(b"2 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with RawService(serve) as service, Gateway(
                WEIR, f"- {{ match: {{ path: /** }}, upstream: {service.url}, health: {{ active: "
                      "{ path: /health, every: 20ms, timeout: 5s, healthy: 1, unhealthy: 1 } } }") as gateway:
            eventually(lambda: len(asked) > 5, "it was asked")
            self.assertEqual(set(gateway.metric("weir_upstream_up").values()), {1})


class Failures(unittest.TestCase):
    def one(self, serve, more=""):
        service = RawService(serve)
        service.__enter__()
        self.addCleanup(service.__exit__)
        gateway = Gateway(WEIR, plain(service.url, ", health: { passive: off }" + more))
        gateway.__enter__()
        self.addCleanup(gateway.__exit__)
        return service, gateway

    def problem(self, answer, status):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(answer[1]["Content-Type"], "application/problem+json")
        return json.loads(answer[2])["detail"]

    def test_a_server_that_refuses_is_502(self):
        with Gateway(WEIR, plain(f"http://127.0.0.1:{free_port()}")) as gateway:
            self.assertIn("Connection refused", self.problem(gateway.get(), 502))

    def test_a_server_that_resets_is_502_and_only_safe_requests_are_retried(self):
        service, gateway = self.one(lambda c: read_head(c), ", retries: 2")
        self.problem(gateway.get(), 502)
        self.assertEqual(service.count, 3)
        self.problem(gateway.get("/", "POST", b"x"), 502)
        self.assertEqual(service.count, 4)
        self.problem(gateway.get("/", "POST"), 502)
        self.assertEqual(service.count, 5)

    def test_a_server_that_hangs_is_504(self):
        service, gateway = self.one(lambda c: time.sleep(30), ", timeouts: { read: 200ms }")
        self.assertIn("in time", self.problem(gateway.get(), 504))
        self.assertEqual(service.count, 1)

    def test_an_exchange_beyond_its_total_timeout_is_504(self):
        service, gateway = self.one(lambda c: time.sleep(30), ", timeouts: { total: 200ms }")
        self.problem(gateway.get(), 504)

    def test_a_server_that_dies_during_a_response_ends_the_connection(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        _, gateway = self.one(serve)
        with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
            gateway.get()
        failures = gateway.metric("weir_upstream_failures_total")
        self.assertEqual(sum(v for k, v in failures.items() if "reset" in k), 1)

    def test_a_malformed_response_is_502(self):
        for words in (b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\nA: b\n\n",
                      b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                      b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                      b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", b"HTTP/1.1 101 X\r\nUpgrade: x\r\n\r\n",
                      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                      b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n"):
            service = RawService(lambda c: (read_head(c), c.sendall(words), c.recv(1)))
            with service, Gateway(WEIR, plain(service.url)) as gateway:
                self.problem(gateway.get(), 502)

    def test_a_closed_idle_connection_is_not_counted_as_a_failure(self):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        def serve(connection):
            read_head(connection)
            connection.sendall(answer)
            if service.count == 1:  # reads the next request, and closes
                read_head(connection)
                return
            while True:
                read_head(connection)
                connection.sendall(answer)
        service, gateway = self.one(serve)
        client = gateway.client()
        for _ in range(3):
            client.request("GET", "/")
            self.assertEqual(client.getresponse().read(), b"ok")
        client.close()
        self.assertEqual(sum(gateway.metric("weir_upstream_failures_total").values()), 0)

    def test_an_early_response_reaches_a_client_that_still_sends(self):
        def serve(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull")
            time.sleep(0.5)
        _, gateway = self.one(serve)
        with gateway.connect() as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 1000)
            self.assertIn(b"full", read_all(s))


    # The server's system discards unread data and resets the connection after the response.
    def test_the_response_of_a_server_that_closes_during_the_upload_passes(self):
        def serve(connection):
            read_head(connection)
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull")
        _, gateway = self.one(serve)
        body = b"x" * 5_000_000
        for _ in range(20):
            with gateway.connect() as s:
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
                sender = threading.Thread(target=send_what_is_taken, args=(s, body))
                sender.start()
                head, rest = read_head(s)
                self.assertIn(b" 413 ", head)
                self.assertEqual(rest + read_all(s), b"full")
                sender.join()


def send_what_is_taken(s, data):
    try:
        s.sendall(data)
    except OSError:
        pass


class Encrypted(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.ca = Authority(self.folder)
        self.cert, self.key = self.ca.sign("server")
        self.trusting = ssl.create_default_context(cafile=str(self.ca.cert))

    def connect(self, gateway):
        return self.trusting.wrap_socket(gateway.connect(), server_hostname="localhost")

    def serial(self, gateway):
        with self.connect(gateway) as s:
            return s.getpeercert()["serialNumber"]

    def test_the_listener_has_tls_and_its_certificate_can_be_renewed(self):
        files = f"tls: {{ cert: {self.cert}, key: {self.key} }}"
        with Service() as service, Gateway(WEIR, plain(service.url), more=files) as gateway:
            service.on_request = lambda h: h.answer(body=b"x" * 3_000_000)
            with self.connect(gateway) as s:
                body = b"y" * 2_000_000
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.assertGreater(len(read_all(s)), 3_000_000)
            self.assertEqual(service.seen[0][3], len(body))
            self.assertEqual(service.seen[0][2]["X-Forwarded-Proto"], "https")
            before = self.serial(gateway)
            self.ca.sign("server")
            eventually(lambda: self.serial(gateway) != before, "the new one is shown")
            # A plaintext client gets an error; half a record delays no other client and leaves nothing
            # behind.
            half = gateway.connect()
            half.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.addCleanup(half.close)
            with gateway.connect() as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertIn(b"400 Bad Request", read_all(s))
            with self.connect(gateway) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                self.assertIn(b"200 OK", read_all(s))

    def test_a_response_larger_than_any_buffer_passes_whole(self):
        answer = os.urandom(1 << 20) * 40
        files = f"tls: {{ cert: {self.cert}, key: {self.key} }}"
        with Service(lambda h: h.answer(body=answer)) as service, \
                Gateway(WEIR, plain(service.url), more=files) as gateway:
            # (A client that reads little at a time makes the gateway wait repeatedly.)
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            s.settimeout(30)
            s.connect(("127.0.0.1", gateway.port))
            with self.trusting.wrap_socket(s, server_hostname="localhost") as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                body = b"".join(iter(lambda: s.recv(1 << 16), b"")).split(b"\r\n\r\n", 1)[1]
            self.assertTrue(body == answer, f"{len(body)} bytes")

    def test_a_server_must_have_a_certificate_for_its_name(self):
        with Service() as service:
            service.on_request = lambda h: h.answer(body=b"z" * 1_000_000)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.cert, self.key)
            service.socket = context.wrap_socket(service.socket, server_side=True)
            url = service.url.replace("http:", "https:")
            with Gateway(WEIR, plain(url)) as gateway:
                status, _, body = gateway.get()
                self.assertEqual(status, 502)
                self.assertIn(b"certificate verify failed", body)
            os.environ["SSL_CERT_FILE"] = str(self.ca.cert)
            self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
            with Gateway(WEIR, plain(url)) as gateway:
                client = gateway.client()
                for _ in range(3):
                    client.request("POST", "/", b"q" * 500_000)
                    self.assertEqual(client.getresponse().read(), b"z" * 1_000_000)
                client.close()


    def test_the_connect_timeout_includes_the_tls_handshake(self):
        for more, status in ((", timeouts: { connect: 200ms }", 504),
                             (", timeouts: { connect: 200ms }, retries: 1", 200)):
            with RawService(lambda c: time.sleep(30)) as silent, Service() as good:
                both = f"[ {silent.url.replace('http:', 'https:')}, {good.url} ]"
                url = both if status == 200 else silent.url.replace("http:", "https:")
                with Gateway(WEIR, plain(url, more), args=["--threads", "1"]) as gateway:
                    for _ in range(2):  # (round robin)
                        self.assertEqual(gateway.get("/", "POST", b"x")[0], status)
                    failures = gateway.metric("weir_upstream_failures_total")
                self.assertGreater(silent.count, 0)
                self.assertGreater(sum(v for k, v in failures.items() if '"timeout"' in k), 0)


class Running(unittest.TestCase):
    def test_routes_change_while_requests_are_in_flight(self):
        with Service() as old, Service() as new, Gateway(WEIR, plain(old.url)) as gateway:
            go = threading.Event()
            old.on_request = lambda h: (go.wait(30), h.answer(body=b"old"))
            results = []
            thread = threading.Thread(target=lambda: results.append(gateway.get()[2]))
            thread.start()
            eventually(lambda: old.seen, "it is there")
            gateway.rewrite(lambda text: text.replace(old.url, new.url))
            self.assertEqual(gateway.get()[2], b"hello")
            self.assertEqual(len(new.seen), 1)
            go.set()
            thread.join()
            self.assertEqual(results, [b"old"])

    def test_a_file_with_an_unknown_host_changes_nothing(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            gateway.rewrite(lambda text: text.replace(service.url, "http://no.such.host.invalid:1"))
            gateway.wait_for_log("routes stay as they are")
            self.assertEqual(gateway.get()[0], 200)

    def test_requests_in_flight_are_finished_before_the_gateway_ends(self):
        with Service() as service, Gateway(WEIR, plain(service.url)) as gateway:
            go = threading.Event()
            service.on_request = lambda h: (go.wait(30), h.answer())
            results = []
            thread = threading.Thread(target=lambda: results.append(gateway.get()))
            thread.start()
            eventually(lambda: service.seen, "it is there")
            idle = gateway.connect()
            gateway.process.terminate()
            gateway.wait_for_log("ending")
            go.set()
            thread.join()
            self.assertEqual(results[0][0], 200)
            self.assertEqual(results[0][1]["Connection"], "close")
            self.assertEqual(gateway.end(), 0)
            idle.close()

    def test_the_access_log_has_a_line_for_each_request(self):
        with tempfile.TemporaryDirectory() as folder, Service() as service:
            path = os.path.join(folder, "access.log")
            # (One thread: two threads write their lines in any order.)
            with Gateway(WEIR, plain(service.url), args=["--threads", "1"],
                         more=f"access_log: {{ file: {path}, format: json, key: plain }}") as gateway:
                gateway.get('/a?"b', headers={"User-Agent": 'x"\\', "X-Request-Id": "r1"})
                gateway.get("/b")
                lines = lambda: Path(path).read_text().splitlines()
                eventually(lambda: len(lines()) == 2, "both are written")
                first = json.loads(lines()[0])
                self.assertEqual((first["method"], first["status"], first["id"], first["agent"],
                                  first["client"], first["upstream"], first["sent"]),
                                 ("GET", 200, "r1", 'x"\\', "127.0.0.1", service.url, 5))
                self.assertEqual((first["limit"], first["key"], first["degraded"]), ("", "", False))
                os.rename(path, path + ".1")
                time.sleep(1.2)  # the file is checked twice a second
                gateway.get("/c")
                eventually(lambda: os.path.exists(path) and lines(), "it is opened anew")
                self.assertEqual(json.loads(lines()[0])["target"], "/c")


if __name__ == "__main__":
    unittest.main()
