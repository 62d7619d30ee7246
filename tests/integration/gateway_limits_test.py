"""The gateway's limits: admission, queues, refusals and costs: gateway_limits_test.py WEIR."""

import json
import socket
import sys
import threading
import time
import unittest

from daemon import Resp, eventually
from gateway import Gateway, Handler, Service, read_all
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

ISSUE = """
- match: { host: shop.example.com, path: /seckill/**, method: POST }
  upstream: [ %(a)s, %(b)s ]
  policy: seckill
  parts: { user: header:X-User-Id, sku: query:sku_id }
  empty_key: deny 403
  refused: { status: 429, body: '{"error":"sold out, try later"}', content_type: application/json }
- match: { path: /admin/** }
  upstream: %(b)s
  policy: admin
  key: path
- match: { path: /** }
  upstream: %(b)s
  limits: [ 50/h burst 3, 20 concurrent ]
  key: ip
"""
POLICIES = """
policies:
  seckill:
    limits:
      - { by: user, limit: 1/1h, name: user }
      - { by: sku, limit: 2/h, name: product }
  admin: { limits: [ 2/h ] }
"""


class Limits(unittest.TestCase):
    def gateway(self, routes, service=None, **others):
        self.service = service or Service()
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)
        gateway = Gateway(WEIR, routes.replace("SERVICE", self.service.url), **others)
        gateway.__enter__()
        self.addCleanup(gateway.__exit__)
        return gateway

    def limited(self, more, **others):
        return self.gateway(f"- {{ match: {{ path: /** }}, upstream: SERVICE, {more} }}", **others)

    def test_the_example_of_a_shop_limits_its_three_routes(self):
        with Service() as a, Service() as b, Gateway(WEIR, ISSUE % {"a": a.url, "b": b.url},
                                                     POLICIES) as gateway:
            def buy(user, sku):
                headers = {"Host": "shop.example.com", **({"X-User-Id": user} if user else {})}
                return gateway.get(f"/seckill/now?sku_id={sku}", "POST", b"", headers)
            self.assertEqual(buy("u1", 1)[0], 200)
            status, headers, body = buy("u1", 1)
            self.assertEqual((status, body, headers["Content-Type"]),
                             (429, b'{"error":"sold out, try later"}', "application/json"))
            self.assertIn('"user";r=0', headers["RateLimit"])
            self.assertEqual(buy("u2", 1)[0], 200)
            self.assertIn('"product";r=0', buy("u3", 1)[1]["RateLimit"])
            self.assertEqual(buy("u3", 2)[0], 200)  # a refusal took nothing
            self.assertEqual(buy("", 2)[0], 403)
            self.assertEqual(len(a.seen) + len(b.seen), 3)
            self.assertEqual([gateway.get("/admin/x")[0] for _ in range(3)], [200, 200, 429])
            self.assertEqual(gateway.get("/admin/y")[0], 200)
            self.assertEqual([gateway.get("/z")[0] for _ in range(4)], [200] * 3 + [429])
            decisions = gateway.metric("weir_gateway_decisions_total")
            self.assertEqual(decisions['{route="0",decision="empty_key"}'], 1)
            self.assertEqual(decisions['{route="0",decision="refused"}'], 2)
            self.assertEqual(decisions['{route="0",decision="allowed"}'], 3)

    def test_a_missing_part_skips_only_the_limits_by_that_part(self):
        policies = "policies: { p: { limits: [ { by: user, limit: 1/h, name: user }, { by: sku, limit: 2/h, name: sku } ] } }"
        with Service() as service, Gateway(WEIR, f"""
- {{ upstream: {service.url}, policy: p, empty_key: allow, parts: {{ user: 'header:X-User', sku: 'query:sku' }} }}
""", policies=policies) as gateway:
            def status(path, **headers):
                return gateway.get(path, headers=headers)[0]
            self.assertEqual([status("/?sku=1") for _ in range(3)], [200, 200, 429])
            self.assertEqual([status("/", **{"X-User": "a"}) for _ in range(2)], [200, 429])
            answers = [gateway.get("/") for _ in range(3)]
            self.assertEqual([answer[0] for answer in answers], [200] * 3)
            self.assertNotIn("RateLimit", answers[0][1])
            decisions = gateway.metric("weir_gateway_decisions_total")
            self.assertEqual(decisions['{route="0",decision="unlimited"}'], 3)

    def test_each_limit_can_have_its_own_refusal(self):
        gateway = self.limited("""limits: [ { limit: 9/h, cost: 1, name: calls }, { limit: 3/h, name: units } ], key: ip,
  cost: 'header:X-Cost', refused: { status: 503, body: '{"by":"{limited_by}"}', limits: { units: { status: 200,
  body: '<i>{policy} {retry_after}</i>', content_type: text/html } } }""")
        self.assertEqual(gateway.get(headers={"X-Cost": "3"})[0], 200)
        status, headers, body = gateway.get()
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html"))
        self.assertRegex(body, rb"^<i>gateway/\w+ 1[12]\d\d</i>$")

    def test_admitted_and_refused_requests_have_rate_limit_headers(self):
        gateway = self.limited("limits: [ 2/h ], key: ip")
        first = gateway.get()[1]
        self.assertEqual(first["RateLimit-Policy"], '"0";q=2;w=3600')
        self.assertTrue(first["RateLimit"].startswith('"0";r=1;t='))
        gateway.get()
        status, headers, body = gateway.get()
        self.assertEqual((status, headers["Content-Type"]), (429, "application/problem+json"))
        self.assertIn("r=0", headers["RateLimit"])
        self.assertGreater(int(headers["Retry-After"]), 0)
        self.assertEqual(json.loads(body)["status"], 429)

    def test_a_day_is_written_in_seconds(self):
        gateway = self.limited("limits: [ 100000/day in Asia/Shanghai, 30/month ], key: ip")
        self.assertEqual(gateway.get()[1]["RateLimit-Policy"], '"0";q=100000;w=86400, "1";q=30')

    def test_refusals_keep_the_connection_open_also_after_small_bodies(self):
        gateway = self.limited("limits: [ 1/h ], key: ip")
        client = gateway.client()
        statuses = []
        for _ in range(4):
            client.request("POST", "/", b"x" * 1000)
            response = client.getresponse()
            response.read()
            statuses.append(response.status)
            self.assertFalse(response.will_close)
        client.close()
        self.assertEqual(statuses, [200, 429, 429, 429])

    def test_a_refusal_is_counted_also_if_the_client_leaves_before_the_rest_of_its_body(self):
        gateway = self.limited("limits: [ 1/h ], key: ip")
        gateway.get()
        before = gateway.metric("weir_gateway_requests_total")
        for ends in ("at once", "politely"):
            with gateway.connect() as s:
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx")
                self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 429"))
                if ends == "politely":
                    s.shutdown(socket.SHUT_WR)
                    read_all(s)
        refused = '{route="0",status="4xx"}'
        eventually(lambda: gateway.metric("weir_gateway_requests_total")[refused] == before[refused] + 2,
                   "both are refusals")
        self.assertEqual(gateway.metric("weir_gateway_abandoned_total"), {'{route="0"}': 0})

    def test_refused_requests_are_redirected_or_sent_to_a_fallback(self):
        with Service(lambda h: h.answer(body=b"instead")) as other:
            gateway = self.gateway(f"""
- {{ match: {{ path: /r }}, upstream: SERVICE, limits: [ 1/h ], key: ip, refused: {{ redirect: https://a.example/busy }} }}
- {{ match: {{ path: /f }}, upstream: SERVICE, limits: [ 1/h ], key: ip, refused: {{ fallback: {other.url} }} }}
""")
            gateway.get("/r")
            status, headers, _ = gateway.get("/r")
            self.assertEqual((status, headers["Location"]), (302, "https://a.example/busy"))
            self.assertEqual([gateway.get("/f")[2] for _ in range(3)], [b"hello", b"instead", b"instead"])

    # ---- Queues

    def test_a_queue_spaces_requests_and_refuses_those_that_do_not_fit(self):
        gateway = self.limited("limits: [ 10/s queue 3 ], key: ip")
        starts = []
        self.service.on_request = lambda h: (starts.append(time.monotonic()), h.answer())
        results = []
        threads = [threading.Thread(target=lambda: results.append(gateway.get()[0])) for _ in range(8)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # (On a slow machine the first has drained when the last one comes.)
        self.assertGreaterEqual(results.count(200), 4)
        self.assertLessEqual(results.count(200), 4 + (time.monotonic() - began) * 10)
        for before, after in zip(starts, starts[1:]):
            self.assertGreater(after - before, 0.05)
        waits = gateway.metric("weir_gateway_wait_seconds_count")
        self.assertGreaterEqual(waits['{route="0"}'], 3)
        self.assertEqual(gateway.metric("weir_gateway_queued"), {'{route="0"}': 0})

    def test_a_client_that_leaves_the_queue_refunds_its_permit(self):
        gateway = self.limited("limits: [ 6/min queue 2 ], key: ip", args=["--threads", "1"])
        self.assertEqual(gateway.get()[0], 200)
        ask = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        waiting = [gateway.connect() for _ in range(2)]
        for s in waiting:
            s.sendall(ask)
        queued = lambda: gateway.metric("weir_gateway_queued")['{route="0"}']
        eventually(lambda: queued() == 2, "both wait")
        self.assertEqual(gateway.get()[0], 429)
        waiting[1].close()
        eventually(lambda: queued() == 1, "one has left")
        with gateway.connect() as s:
            s.sendall(ask)
            eventually(lambda: queued() == 2, "its place is free")
        waiting[0].close()
        eventually(lambda: queued() == 0, "all have left")
        self.assertEqual(len(self.service.seen), 1)

    def test_a_queue_is_bounded_by_length_and_by_time(self):
        gateway = self.limited("limits: [ 1/min queue 50 ], key: ip, queue: { most: 1, longest: 10min }",
                               args=["--threads", "1"])
        gateway.get()
        with gateway.connect() as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            eventually(lambda: gateway.metric("weir_gateway_queued")['{route="0"}'] == 1, "it waits")
            self.assertEqual(gateway.get()[0], 429)
            self.assertEqual(gateway.metric("weir_gateway_queue_overflows_total"), {'{route="0"}': 1})
        late = self.limited("limits: [ 1/min queue 50 ], key: ip, queue: { longest: 5s }")
        self.assertEqual([late.get()[0] for _ in range(3)], [200, 429, 429])

    def test_a_request_that_times_out_in_the_queue_refunds_its_permit(self):
        gateway = self.limited("limits: [ 1/min queue 2 ], key: ip, timeouts: { total: 300ms }, "
                               "queue: { most: 1, longest: 10min }", args=["--threads", "1"])
        self.assertEqual(gateway.get()[0], 200)
        # (Each would be refused if the one before it were still there.)
        self.assertEqual([gateway.get()[0] for _ in range(4)], [504] * 4)
        self.assertEqual(gateway.metric("weir_gateway_queued"), {'{route="0"}': 0})
        self.assertEqual(gateway.metric("weir_gateway_queue_overflows_total"), {'{route="0"}': 0})

    # ---- Concurrent requests

    def test_concurrent_requests_are_counted_until_they_end_or_die(self):
        gateway = self.limited("limits: [ 2 concurrent ], key: ip")
        go = threading.Event()
        self.service.on_request = lambda h: (go.wait(30), h.answer())
        dying = gateway.connect()
        dying.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        results = []
        thread = threading.Thread(target=lambda: results.append(gateway.get()[0]))
        thread.start()
        eventually(lambda: len(self.service.seen) == 2, "both are there")
        self.assertEqual(gateway.get()[0], 429)
        dying.close()
        eventually(lambda: gateway.metric("weir_gateway_in_flight")['{route="0"}'] == 1, "it has died")
        go.set()
        self.assertEqual(gateway.get()[0], 200)
        thread.join()
        self.assertEqual(results, [200])
        self.assertEqual([gateway.get()[0] for _ in range(5)], [200] * 5)

    def test_a_long_request_keeps_its_permit_beyond_the_lease(self):
        gateway = self.limited("limits: [ 1 concurrent lease 1s ], key: ip")
        go = threading.Event()
        self.service.on_request = lambda h: (go.wait(30), h.answer())
        thread = threading.Thread(target=gateway.get)
        thread.start()
        eventually(lambda: self.service.seen, "it is there")
        until = time.monotonic() + 2.5  # more than two leases
        while time.monotonic() < until:
            self.assertEqual(gateway.get()[0], 429)
            time.sleep(0.1)
        go.set()
        thread.join()

    # ---- Costs

    def test_a_cost_is_fixed_or_read_from_a_header(self):
        gateway = self.limited("limits: [ 10 per 1h ], key: ip, cost: 4")
        self.assertEqual([gateway.get()[0] for _ in range(3)], [200, 200, 429])
        told = self.limited("limits: [ 10 per 1h ], key: ip, cost: header:X-Cost")
        self.assertEqual([told.get(headers={"X-Cost": c})[0] for c in ("7", "4", "3", "1")],
                         [200, 429, 200, 429])

    def test_bytes_are_settled_when_the_body_has_ended(self):
        gateway = self.limited("limits: [ 1000 per 1h ], key: ip, cost: bytes")
        self.service.on_request = lambda h: h.answer(body=b"x" * 300)
        # (One connection: its next request is decided when the exchange before it is settled.)
        client = gateway.client()
        left = []
        for method, body in (("POST", b"y" * 100), ("GET", None)):
            client.request(method, "/", body)
            with client.getresponse() as response:
                response.read()
                left.append(int(response.headers["RateLimit"].split("r=")[1].split(";")[0]))
        client.close()
        # 100 were taken and 300 more came: 599 are left when the next request takes one.
        self.assertEqual(left, [900, 599])

    def test_bandwidth_paces_bodies(self):
        gateway = self.limited("bandwidth: 1MB/s")
        self.service.on_request = lambda h: h.answer(body=b"x" * 2_500_000)
        began = time.monotonic()
        self.assertEqual(len(gateway.get()[2]), 2_500_000)
        # One second's worth at once, the rest at its rate, apart from bytes read ahead.
        self.assertGreater(time.monotonic() - began, 1.0)
        began = time.monotonic()
        gateway.get("/", "POST", b"x" * 1_000_000)
        self.assertGreater(time.monotonic() - began, 0.5)

    # Bytes that are paid for must pass at once.
    def test_bandwidth_does_not_change_bodies(self):
        gateway = self.limited("bandwidth: 1GB/s")
        body = bytes(i * i % 251 for i in range(300_000))
        seen = []

        def keep(handler):
            seen.append(handler.body)
            handler.answer(body=handler.body)

        class Keeping(Handler):
            def read_body(self):
                self.body = self.rfile.read(int(self.headers["Content-Length"]))
                return len(self.body)

        self.service.RequestHandlerClass = Keeping
        self.service.on_request = keep
        # (Header and body in one write, so that the body is there when it is needed.)
        for size in (1, 1000, 60_000, 300_000):
            with gateway.connect() as s:
                s.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
                          + body[:size])
                self.assertEqual(read_all(s).split(b"\r\n\r\n", 1)[1], body[:size])
        self.assertEqual([len(one) for one in seen], [1, 1000, 60_000, 300_000])

    # ---- Policies that change

    def test_a_put_policy_applies_at_once(self):
        gateway = self.limited("policy: p, key: ip", policies="policies: { p: { limits: [ 1/h ] } }")
        self.assertEqual([gateway.get()[0] for _ in range(2)], [200, 429])
        gateway.http("PUT", "/v1/policies/p", {"limits": ["3/h"]})
        self.assertEqual([gateway.get()[0] for _ in range(3)], [200, 200, 429])
        gateway.http("PUT", "/v1/policies/p", {"limits": ["1 concurrent"]})
        self.assertEqual(gateway.get()[0], 200, "it is entered, not taken")

    # The policy changes between take and enter: routes apply the change a moment later.
    def test_a_policy_that_becomes_concurrent_applies_at_once(self):
        gateway = self.limited("policy: p, key: ip", policies="policies: { p: { limits: [ 1000/s ] } }")
        for limit in ("2 concurrent", "1000/s", "1 concurrent"):
            gateway.http("PUT", "/v1/policies/p", {"limits": [limit]})
            began = time.monotonic()
            while time.monotonic() - began < 0.5:
                self.assertEqual(gateway.get()[0], 200)

    def test_bandwidth_put_with_a_queue_still_paces_bodies(self):
        gateway = self.limited("name: a, bandwidth: 1MB/s")
        self.service.on_request = lambda h: h.answer(body=b"x" * 1_000_000)
        self.assertEqual(gateway.http("PUT", "/v1/policies/gateway%2Fa%2Fbandwidth",
                                      {"limits": ["1MB/s queue 2000000"]})[0], 200)
        for _ in range(2):
            self.assertEqual(len(gateway.get()[2]), 1_000_000)

    # ---- Redis

    def test_the_store_failure_mode_applies_without_the_store(self):
        with RedisServer() as redis:
            routes = """
- { match: { path: /open }, upstream: SERVICE, policy: open, key: ip }
- { match: { path: /closed }, upstream: SERVICE, policy: closed, key: ip }
- { match: { path: /local }, upstream: SERVICE, policy: local, key: ip }
"""
            policies = f"""
store: redis://127.0.0.1:{redis.port}
policies:
  open: {{ limits: [ 2/h ], on_store_failure: open }}
  closed: {{ limits: [ 2/h ], on_store_failure: closed }}
  local: {{ limits: [ 2/h ], on_store_failure: local }}
"""
            gateway = self.gateway(routes, policies=policies, extra="store_timeout: 2s")
            for path in ("/open", "/closed", "/local"):
                self.assertEqual([gateway.get(path)[0] for _ in range(3)], [200, 200, 429], path)
            redis.end()
            self.assertEqual([gateway.get("/open")[0] for _ in range(3)], [200] * 3)
            self.assertEqual(gateway.get("/closed")[0], 503)
            self.assertEqual([gateway.get("/local")[0] for _ in range(3)].count(200), 2)
            degraded = gateway.metric("weir_gateway_decisions_total")
            self.assertEqual(degraded['{route="0",decision="degraded"}'], 3)

    def test_a_permit_entered_after_the_timeout_is_given_back(self):
        for mode in ("closed", "local"):
            with self.subTest(mode), RedisServer() as redis, SlowAnswers(redis.port) as slow:
                policies = f"""
store: redis://127.0.0.1:{slow.port}
policies:
  p: {{ limits: [ 3 concurrent lease 10min ], on_store_failure: {mode} }}
"""
                gateway = self.limited("policy: p, key: const:x", policies=policies,
                                       extra="store_timeout: 100ms")
                self.assertEqual(gateway.get()[0], 200)
                slow.seconds = 0.2
                for _ in range(4):
                    gateway.get()
                degraded = gateway.metric("weir_gateway_decisions_total")['{route="0",decision="degraded"}']
                self.assertGreater(degraded, 2)
                slow.seconds = 0
                resp = Resp(redis.port)
                self.addCleanup(resp.close)
                seats = lambda: resp("ZCARD", "weir1:{p:x}:concurrent")
                eventually(lambda: seats() == 0, "all have left")
                # (So many were late that the store is used only after it has answered a PING.)
                eventually(lambda: gateway.get()[0] == 200, "the store is asked again")
                eventually(lambda: seats() == 0, "and whoever asked has left")


class SlowAnswers:
    """A proxy before a redis-server that delays its answers by `seconds`."""

    def __init__(self, port):
        self.behind = port
        self.seconds = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.behind))
                threading.Thread(target=self.pass_on, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self.pass_on, args=(server, client, True), daemon=True).start()
        except OSError:
            pass

    def pass_on(self, from_, to, late):
        try:
            while data := from_.recv(65536):
                if late:
                    time.sleep(self.seconds)
                to.sendall(data)
        except OSError:
            pass
        for s in (from_, to):
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


if __name__ == "__main__":
    unittest.main()
