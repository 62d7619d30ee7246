"""The HTTP listener of a running daemon: http_test.py WEIR."""

import http.client
import json
import re
import socket
import sys
import time
import unittest

from daemon import Daemon

WEIR = sys.argv.pop(1)


class Raw:
    """A raw connection: bytes in, bytes out."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rb")

    def __call__(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())
        return self

    def response(self):
        """The next response: (status, headers, body)."""
        status = int(self.file.readline().split()[1])
        headers = http.client.parse_headers(self.file)
        return status, headers, self.file.read(int(headers["Content-Length"]))

    def rest(self):
        return self.file.read()


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR)
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def raw(self, text):
        connection = Raw(self.daemon.http_port)
        self.addCleanup(connection.socket.close)
        self.addCleanup(connection.file.close)
        return connection(text)

    def status(self, text):
        return self.raw(text).response()[0]

    # ---- Decisions

    def test_take_answers_with_a_body_and_headers(self):
        status, headers, body = self.daemon.post("/v1/take", policy="llm", key="a", permits=400)
        self.assertEqual(status, 200)
        self.assertEqual(body, {"allowed": True, "limit": 1000, "remaining": 600,
                                "retry_after_ms": 0, "reset_after_ms": 1440000000, "wait_ms": 0,
                                "limited_by": "tokens", "degraded": False})
        self.assertEqual(headers["RateLimit-Policy"], '"tokens";q=1000;w=3600000')
        self.assertEqual(headers["RateLimit"], '"tokens";r=600;t=1440000')
        self.assertIsNone(headers["Retry-After"])

        status, headers, body = self.daemon.post("/v1/take", policy="llm", key="a", permits=700)
        self.assertEqual(status, 429)
        self.assertEqual((body["allowed"], body["remaining"]), (False, 600))
        self.assertTrue(359_940 < int(headers["Retry-After"]) <= 360_000)

    def test_requests_with_a_foreign_host_are_refused(self):
        with Daemon(WEIR, "server_names: weir.example.com\npolicies: { p: { limits: [ 1/s ] } }\n") as daemon:
            for path in ("/metrics", "/v1/policies", "/"):
                self.assertEqual(daemon.http("GET", path, headers={"Host": "evil.example:7380"})[0], 403)
                for host in ("localhost:7380", "127.0.0.1", "weir.local", "weir.example.com"):
                    self.assertEqual(daemon.http("GET", path, headers={"Host": host})[0], 200)

    def test_a_cost_above_the_burst_has_no_retry_time(self):
        status, headers, body = self.daemon.post("/v1/take", policy="llm", key="b", permits=1001)
        self.assertEqual((status, body["retry_after_ms"]), (429, None))
        self.assertIsNone(headers["Retry-After"])

    def test_parts_are_counted_by_several_limits(self):
        parts = {"user": "u", "sku": "s"}
        _, headers, body = self.daemon.post("/v1/take", policy="seckill", parts=parts)
        self.assertEqual((body["allowed"], body["limited_by"]), (True, "user"))
        self.assertEqual(headers["RateLimit-Policy"], '"user";q=1;w=5, "product";q=3;w=1')
        status, _, body = self.daemon.post("/v1/take", policy="seckill", parts=parts)
        self.assertEqual((status, body["limited_by"]), (429, "user"))

    def test_a_batch_is_answered_in_order_and_item_by_item(self):
        status, _, body = self.daemon.http("POST", "/v1/take", [
            {"policy": "llm", "key": "batch", "permits": 900},
            {"policy": "llm", "key": "batch", "permits": 900},
            {"policy": "nobody", "key": "batch"},
            {"policy": "llm", "keys": "batch"},
            {"policy": "llm", "key": "batch", "permits": 100}])
        self.assertEqual(status, 200)
        self.assertEqual([item.get("allowed") for item in body], [True, False, None, None, True])
        self.assertIn("no policy", body[2]["error"])
        self.assertIn('did you mean "key"', body[3]["error"])

    def test_peek_takes_nothing_and_is_always_answered(self):
        for _ in range(2):
            status, _, body = self.daemon.post("/v1/peek", policy="llm", key="p", permits=1000)
            self.assertEqual((status, body["allowed"], body["remaining"]), (200, True, 1000))
        status, _, body = self.daemon.post("/v1/peek", policy="llm", key="p", permits=2000)
        self.assertEqual((status, body["allowed"]), (200, False))

    def test_settle_needs_a_valid_receipt(self):
        _, _, taken = self.daemon.post("/v1/take", policy="llm", key="s", permits=500, receipt=True)
        _, _, settled = self.daemon.post("/v1/settle", policy="llm", key="s", delta=-300,
                                         receipt=taken["receipt"])
        self.assertEqual(settled["remaining"], 800)
        status, _, problem = self.daemon.post("/v1/settle", policy="llm", key="s", delta=-300)
        self.assertEqual((status, problem["field"]), (400, "receipt"))
        status, _, problem = self.daemon.post("/v1/settle", policy="llm", key="s", delta=-300,
                                              receipt="f" * 32)
        self.assertEqual((status, problem["field"]), (404, "receipt"))

    def test_the_usage_changes_with_reset_enter_and_leave(self):
        self.daemon.post("/v1/take", policy="llm", key="r", permits=1000)
        self.assertEqual(self.daemon.post("/v1/reset", policy="llm", key="r")[2], {"reset": True})
        self.assertEqual(self.daemon.post("/v1/peek", policy="llm", key="r")[2]["remaining"], 1000)
        entered = self.daemon.post("/v1/enter", policy="report", key="e")[2]
        self.assertTrue(entered["allowed"] and entered["holder"])
        self.daemon.post("/v1/enter", policy="report", key="e", holder="b")
        self.assertEqual(self.daemon.post("/v1/enter", policy="report", key="e", holder="c")[0], 429)
        leave = lambda: self.daemon.post("/v1/leave", policy="report", key="e", holder="b")[2]
        self.assertEqual([leave(), leave()], [{"left": True}, {"left": False}])

    def test_explain_describes_each_limit(self):
        status, _, body = self.daemon.post("/v1/explain", policy="api", key="x", permits=101)
        self.assertEqual(status, 200)
        self.assertFalse(body["decision"]["allowed"])
        self.assertEqual([limit["name"] for limit in body["limits"]], ["rate", "quota"])
        self.assertEqual([limit["state"]["allowed"] for limit in body["limits"]], [False, True])
        self.assertIn("can never pass", body["limits"][0]["text"])

    def test_throttle_is_limited_by_the_limit_in_the_request(self):
        throttle = lambda limit: self.daemon.post("/v1/throttle", key="t", limit=limit, permits=5)
        self.assertEqual(throttle("10/h burst 10")[2]["remaining"], 5)
        self.assertEqual(throttle("10/h burst 10")[2]["remaining"], 0)
        self.assertEqual(throttle("10/h burst 10")[0], 429)
        self.assertEqual(throttle("20/h burst 20")[2]["remaining"], 5)
        status, _, problem = throttle("10/sec")
        self.assertEqual((status, problem["field"]), (400, "limit"))
        self.assertIn('did you mean "10/s"', problem["detail"])
        status, _, problem = throttle("10 concurrent")
        self.assertEqual((status, problem["field"]), (400, "limit"))

    def test_all_routes_describe_a_limit_alike(self):
        for limit, told in (("10/s burst 20", "q=20;w=2"), ("5/min window", "q=5;w=60"),
                            ("5/s queue 4", "q=5;w=1"), ("5/h sliding", "q=5;w=3600"),
                            ("100000/day in Asia/Shanghai", "q=100000;w=86400"),
                            ("70/week", "q=70;w=604800"), ("30/month", "q=30"), ("9/year", "q=9")):
            with self.subTest(limit):
                self.daemon.http("PUT", "/v1/policies/told", {"limits": [limit]})
                auth = "/v1/auth?policy=told&key=told"
                answers = (self.daemon.post("/v1/take", policy="told", key="told"),
                           self.daemon.post("/v1/take", policy="told", key="told", receipt=True),
                           self.daemon.post("/v1/peek", policy="told", key="told"),
                           self.daemon.http("GET", auth),
                           self.daemon.post("/v1/throttle", key="told", limit=limit))
                self.assertEqual([headers["RateLimit-Policy"] for _, headers, _ in answers],
                                 ['"0";' + told] * len(answers))
        self.daemon.http("DELETE", "/v1/policies/told")

    def test_errors_name_the_field(self):
        for body, status, field in [
                ({"policy": "nobody", "key": "k"}, 404, "policy"),
                ({"policy": "llm", "key": ""}, 400, "key"),
                ({"policy": "llm", "key": "x" * 4097}, 400, "key"),
                ({"policy": "seckill", "parts": {"user": "a"}}, 400, "parts"),
                ({"policy": "report", "key": "k"}, 400, "policy"),
                ({"policy": "llm"}, 400, "key"),
                ({"policy": "llm", "key": "k", "permits": "1"}, 400, "permits"),
                ({"policy": "llm", "key": "k", "permits": -1}, 400, "permits"),
                ({"policy": "llm", "key": "k", "permit": 1}, 400, "permit")]:
            got, headers, problem = self.daemon.http("POST", "/v1/take", body)
            self.assertEqual((got, problem.get("field")), (status, field), body)
            self.assertEqual(headers["Content-Type"], "application/problem+json")
            self.assertEqual(problem["status"], status)

    def test_refusals_are_not_cacheable(self):
        ask = lambda path, **fields: self.daemon.post(path, key="kept", **fields)[:2]
        status, headers = ask("/v1/take", policy="llm", permits=600)
        self.assertEqual((status, headers["Cache-Control"]), (200, None))
        status, headers = ask("/v1/peek", policy="llm", permits=600)
        self.assertEqual((status, headers["Cache-Control"]), (200, None))
        for path, fields in (("/v1/take", {"policy": "llm", "permits": 600}),
                             ("/v1/enter", {"policy": "report", "permits": 3}),
                             ("/v1/throttle", {"limit": "1/h", "permits": 2})):
            status, headers = ask(path, **fields)
            self.assertEqual((status, headers["Cache-Control"]), (429, "no-store"), path)
        for deny in (429, 403):
            status, headers, _ = self.daemon.http(
                "GET", f"/v1/auth?policy=llm&key=kept&permits=600&deny={deny}")
            self.assertEqual((status, headers["Cache-Control"]), (deny, "no-store"))

    def test_a_concurrent_limit_says_what_it_counts(self):
        headers = self.daemon.post("/v1/enter", policy="report", key="fields")[1]
        self.assertEqual(headers["RateLimit-Policy"], '"0";q=2;qu="concurrent-requests"')
        # Also where limits differ between keys.
        policy = {"limits": [{"limit": "3 concurrent", "name": "slots"}, "100/s"],
                  "overrides": {"big": [{"limit": "9 concurrent", "name": "slots"}]}}
        self.daemon.http("PUT", "/v1/policies/slots", policy)
        headers = self.daemon.post("/v1/enter", policy="slots", key="big")[1]
        self.assertEqual(headers["RateLimit-Policy"], '"slots";q=9;qu="concurrent-requests"')
        headers = self.daemon.post("/v1/enter", policy="slots", key="small", permits=3)[1]
        self.assertEqual(headers["RateLimit-Policy"], '"slots";q=3;qu="concurrent-requests"')
        self.daemon.http("DELETE", "/v1/policies/slots")

    # ---- For proxies

    def test_auth_decides_by_query_and_headers(self):
        path = "/v1/auth?policy=llm&key=au%20th"
        self.assertEqual(self.daemon.http("GET", path + "&permits=600")[0], 200)
        status, headers, _ = self.daemon.http("GET", path + "&permits=600")
        self.assertEqual(status, 429)
        self.assertTrue(int(headers["Retry-After"]) > 0)
        self.assertEqual(self.daemon.http("POST", path + "&permits=600&deny=403")[0], 403)
        self.assertEqual(self.status(f"POST {path}&permits=600 HTTP/1.1\r\nHost: a\r\n\r\n"), 429)
        headers = {"X-Weir-Policy": "llm", "X-Weir-Key": "au th"}
        self.assertEqual(self.daemon.http("GET", "/v1/auth", headers=headers)[1]["RateLimit"][:13],
                         '"tokens";r=39')
        # A client's header does not choose the key if the query has it.
        headers = {"X-Weir-Key": "somebody else"}
        self.assertEqual(self.daemon.http("GET", path + "&permits=600", headers=headers)[0], 429)

    def test_auth_decides_by_parts(self):
        ask = lambda **parts: self.daemon.http(
            "GET", "/v1/auth?policy=seckill",
            headers={"X-Weir-Part-" + name: value for name, value in parts.items()})
        answers = [ask(user="a&permits=0 b", sku="9")[0] for _ in range(6)]
        self.assertEqual(sorted(set(answers)), [200, 429])
        self.assertEqual(ask(user="another", sku="9")[0], 200)
        status, _, problem = ask(user="alone")
        self.assertEqual((status, problem["field"]), (400, "parts"))
        self.assertIn("the part \"sku\" is missing", problem["detail"])
        twice = ("GET /v1/auth?policy=seckill HTTP/1.1\r\nHost: a\r\nX-Weir-Part-sku: 9\r\n"
                 "X-Weir-Part-user: a\r\nx-weir-part-USER: b\r\n\r\n")
        self.assertEqual(self.status(twice), 400)

    def test_skip_missing_leaves_out_limits_whose_part_is_missing(self):
        def ask(query="&missing=skip", **parts):
            return self.daemon.http("GET", "/v1/auth?policy=seckill" + query,
                                    headers={"X-Weir-Part-" + name: value for name, value in parts.items()})
        self.assertEqual([ask(user="someone")[0] for _ in range(2)], [200, 429])
        self.assertEqual(ask(user="someone")[2]["limited_by"], "user")
        self.assertEqual(ask(sku="rare")[2]["limited_by"], "product")
        self.assertEqual(ask()[0], 200)
        self.assertEqual(ask("", sku="rare")[0], 400)
        status, _, problem = ask("&missing=ignore", sku="rare")
        self.assertEqual((status, problem["field"]), (400, "missing"))
        take = lambda **more: self.daemon.post("/v1/take", policy="seckill", parts={"sku": "", "user": "b"}, **more)
        self.assertEqual(take()[0], 400)
        self.assertEqual([take(skip_missing=True)[0] for _ in range(2)], [200, 429])

    # The answer comes at once: it tells the proxy the wait of the request.
    def test_auth_tells_the_wait_of_a_queue_in_a_header(self):
        answers = [self.daemon.http("GET", "/v1/auth?policy=batch&key=auth") for _ in range(5)]
        self.assertEqual([status for status, _, _ in answers], [200] * 4 + [429])
        self.assertIsNone(answers[0][1]["Weir-Wait-Ms"])
        self.assertIsNone(answers[4][1]["Weir-Wait-Ms"])
        for _, headers, decision in answers[1:4]:
            self.assertEqual(int(headers["Weir-Wait-Ms"]), decision["wait_ms"])
            self.assertGreater(decision["wait_ms"], 0)

    def test_auth_errors_name_the_field(self):
        for query, field in [("key=k", "policy"), ("policy=llm", "key"),
                             ("policy=llm&key=k&permits=x", "permits"),
                             ("policy=llm&key=k&permits=0", "permits"),
                             ("policy=llm&key=k&deny=200", "deny"),
                             ("policy=llm&key=%zz", "key"),
                             ("policy=llm&key=a&key=b", "key")]:
            status, _, problem = self.daemon.http("GET", "/v1/auth?" + query)
            self.assertEqual((status, problem["field"]), (400, field), query)

    def test_auth_headers_are_not_repeated(self):
        ask = "GET /v1/auth?{} HTTP/1.1\r\nHost: a\r\nX-Weir-Policy: llm\r\n{}\r\n"
        twice = "X-Weir-Key: alice\r\nx-weir-key: bob\r\n"
        self.assertEqual(self.status(ask.format("", "X-Weir-Key: alice\r\n")), 200)
        self.assertEqual(self.status(ask.format("", twice)), 400)
        self.assertEqual(self.status(ask.format("key=k", "X-Weir-Policy: login\r\n")), 400)
        # If the query has the key, the client's headers do not matter.
        self.assertEqual(self.status(ask.format("key=k", twice)), 200)

    # ---- Policies

    def test_policies_can_be_put_and_deleted(self):
        _, _, before = self.daemon.http("GET", "/v1/policies")
        login = before["policies"]["login"]
        self.assertEqual((login["limits"], login["source"]), (["5/min sliding exact"], "file"))
        status, _, answer = self.daemon.http("PUT", "/v1/policies/login", {"limits": ["2/min"]})
        self.assertEqual((status, answer["generation"]), (200, before["generation"] + 1))
        self.assertEqual(self.daemon.post("/v1/peek", policy="login", key="p")[2]["limit"], 2)
        status, _, problem = self.daemon.http("PUT", "/v1/policies/login", {"limits": ["2/sec"]})
        self.assertEqual(status, 400)
        self.assertIn('did you mean "2/s"', problem["detail"])
        self.assertEqual(self.daemon.http("DELETE", "/v1/policies/login")[0], 200)
        self.assertEqual(self.daemon.http("DELETE", "/v1/policies/login")[0], 404)
        self.assertEqual(self.daemon.post("/v1/peek", policy="login", key="p")[2]["limit"], 5)

    def test_a_policy_is_shown_with_all_its_fields(self):
        path = "/v1/policies/shown"
        self.assertEqual(self.daemon.http("GET", path)[0], 404)
        status, _, problem = self.daemon.http("GET", "/v1/policies/logn")
        self.assertEqual((status, problem["field"]), (404, "name"))
        self.assertIn('did you mean "login"?', problem["detail"])
        self.daemon.http("PUT", path, {
            "limits": [{"limit": "10/s", "name": "rate", "by": ["ip", "user"], "cost": 2, "shadow": True},
                       "5/h"],
            "when_full": "deny",
            "overrides": {"user=42": "100/s"},
            "schedule": [{"hours": "09:00-18:00", "limits": ["5/s"]}]})
        self.daemon.post("/v1/boost", policy="shown", times=2, reason="sale", **{"for": "1h"})
        status, _, shown = self.daemon.http("GET", path)
        self.assertEqual((status, shown["name"], shown["source"], shown["when_full"]),
                         (200, "shown", "put", "deny"))
        self.assertEqual(shown["limits"], ["10/s", "5/h"])
        self.assertEqual(shown["limit_details"],
                         [{"limit": "10/s", "text": "rate: 10/s by ip+user, cost 2, shadow", "name": "rate",
                           "by": ["ip", "user"], "cost": 2, "shadow": True},
                          {"limit": "5/h", "text": "5/h"}])
        self.assertEqual([(each["key"], each["limits"]) for each in shown["overrides"]],
                         [("user=42", ["100/s"])])
        self.assertEqual([(each["hours"], each["limits"]) for each in shown["schedule"]],
                         [("09:00-18:00", ["5/s"])])
        self.assertRegex(shown["orders"][0]["text"], '^boost ×2 under "shown" until .*, because "sale"$')
        listed = self.daemon.http("GET", "/v1/policies")[2]["policies"]["shown"]
        self.assertEqual(listed, {name: shown[name] for name in shown if name not in ("name", "generation")})
        top = {each["policy"]: each for each in self.daemon.http("GET", "/v1/top")[2]["policies"]}["shown"]
        self.assertEqual(top["limits"], ["rate: 10/s by ip+user, cost 2, shadow", "5/h"])
        self.assertEqual(top["orders"], [shown["orders"][0]["text"]])
        self.daemon.http("DELETE", f"/v1/orders/{shown['orders'][0]['id']}")
        self.daemon.http("DELETE", path)

    def test_the_field_of_a_policy_that_is_wrong_is_named(self):
        for body, field in ((b'{"limits":["3/mn"]}', "limits"),
                            (b'{"shadow":true,"limits":[{"limit":"3/s","cost":"x"}]}', "limits"),
                            (b'{"limits":["3/s"],"shadow":"x"}', "shadow"),
                            (b'{"limits":["3/s"],"overrides":{"limits":"3/mn"}}', "overrides"),
                            (b"limits: [ 3/s ]\nschedule:\n  - { days: mon, limits: [ 3/mn ] }", "schedule"),
                            (b'{"limits":["3/s"],"limit":["3/s"]}', "limit"),
                            (b'{"shadow":true}', "limits"), (b"shadow: true", "limits"), (b"{}", "limits"),
                            (b"[]", None), (b"{", None), (b"", None)):
            with self.subTest(body):
                status, _, problem = self.daemon.http("PUT", "/v1/policies/bad", body)
                self.assertEqual((status, problem.get("field")), (400, field), problem)
        status, _, problem = self.daemon.http("DELETE", "/v1/policies/bad")
        self.assertEqual((status, problem["field"]), (404, "name"))

    # A policy that cannot be stored exactly would be another policy after a restart.
    def test_policies_are_in_utf8(self):
        for text in [b"limits: [ 1/s ] # \xff", "limits: [ 1/s ]".encode("utf-16")]:
            status, _, problem = self.daemon.http("PUT", "/v1/policies/utf", text)
            self.assertEqual((status, problem["detail"]), (400, "the policy is not UTF-8"))
        for name in ["%ff", "a%c3", "%ed%a0%80"]:
            for method in ["PUT", "DELETE"]:
                status, _, problem = self.daemon.http(method, f"/v1/policies/{name}", "limits: [ 1/s ]")
                self.assertEqual((status, problem["field"]), (400, "name"), name)
        path = "/v1/policies/%c3%a4%00"
        self.assertEqual(self.daemon.http("PUT", path, "limits: [ 1/s ]")[0], 200)
        self.assertIn("\u00e4\0", self.daemon.http("GET", "/v1/policies")[2]["policies"])
        self.assertEqual(self.daemon.http("DELETE", path)[0], 200)

    # ---- The protocol

    def test_health_metrics_and_the_start_page_are_served(self):
        self.assertEqual(self.daemon.http("GET", "/healthz")[2], b"ok\n")
        self.assertEqual(self.daemon.http("GET", "/readyz")[0], 200)
        self.assertEqual(self.daemon.http("GET", "/healthcheck")[::2], (200, b"OK"))
        self.assertIn(b"weir_generation", self.daemon.http("GET", "/metrics")[2])
        self.assertIn(b"<!doctype html>", self.daemon.http("GET", "/")[2])

    def test_unknown_paths_are_404_and_unknown_methods_405(self):
        self.assertEqual(self.daemon.http("GET", "/v1/nothing")[0], 404)
        status, headers, _ = self.daemon.http("GET", "/v1/take")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        status, headers, _ = self.daemon.http("DELETE", "/v1/auth")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD, POST"))

    def test_head_has_everything_but_the_body(self):
        answer = self.raw("HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").rest()
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertIn(b"Content-Length: 3\r\n", answer)
        self.assertTrue(answer.endswith(b"\r\n\r\n"))

    def test_pipelined_requests_are_answered_on_one_connection(self):
        body = '{"policy":"llm","key":"keep"}'
        one = f"POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        connection = self.raw(one)
        self.assertEqual(json.loads(connection.response()[2])["remaining"], 999)
        connection(one * 20)
        for i in range(20):
            self.assertEqual(json.loads(connection.response()[2])["remaining"], 998 - i)
        chunked = ("POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   f"5\r\n{body[:5]}\r\n{len(body) - 5:x};x=y\r\n{body[5:]}\r\n0\r\n\r\n")
        self.assertEqual(json.loads(connection(chunked).response()[2])["remaining"], 978)

    def test_an_http_1_0_connection_is_closed_without_keep_alive(self):
        self.assertIn(b"200 OK", self.raw("GET /healthz HTTP/1.0\r\n\r\n").rest())
        stays = self.raw("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        self.assertEqual(stays.response()[1]["Connection"].lower(), "keep-alive")

    def test_expect_100_continue_is_answered(self):
        body = '{"policy":"llm","key":"expect"}'
        connection = self.raw("POST /v1/take HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n")
        self.assertEqual(connection.socket.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertEqual(connection(body).response()[0], 200)

    def test_protocol_errors_have_their_status(self):
        post = "POST /v1/take HTTP/1.1\r\nHost: a\r\n"
        for text, status in [
                ("nonsense\r\n\r\n", 400),
                ("GET / HTTP/1.1\r\n\r\n", 400),
                ("GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n", 404),
                ("GET /v1/take HTTP/1.1\r\nHost: a\r\n\r\n", 405),
                (post + "\r\n", 411),
                (post + "Content-Length: 2000000\r\n\r\n", 413),
                (f"GET /{'x' * 9000} HTTP/1.1\r\nHost: a\r\n\r\n", 414),
                (post + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415),
                (post + "Expect: coffee\r\nContent-Length: 2\r\n\r\n{}", 417),
                (f"GET / HTTP/1.1\r\nHost: a\r\nX: {'x' * 20000}\r\n\r\n", 431),
                ("GET / HTTP/1.1\r\nHost: a\r\n" + "X:\r\n" * 100 + "\r\n", 431),
                (post + "Transfer-Encoding: gzip\r\n\r\n", 501),
                ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
                (post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
                (post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
                (post + "Content-Length: 3\r\n\r\n{{}", 400)]:
            self.assertEqual(self.status(text), status, text[:80])

    def test_the_largest_request_is_accepted_and_a_larger_one_refused(self):
        def post(path, size, start="POST %s HTTP/1.1\r\nHost: a\r\n"):
            """A request header for a body of that size, padded to 16 KiB."""
            head = start % path + f"Content-Length: {size}\r\n"
            return head + "X: " + "x" * (16384 - len(head) - 7) + "\r\n\r\n"

        path = "/v1/take?" + "x" * (8192 - len("/v1/take?"))
        body = json.dumps({"policy": "llm", "key": "k" * 4096}).ljust(1 << 20)
        head = post(path, len(body))
        self.assertEqual((len(path), len(head)), (8192, 16384))
        connection = self.raw(head + body)
        self.assertEqual(json.loads(connection.response()[2])["remaining"], 999)
        # And again on the same connection, chunked.
        chunks = "".join(f"400\r\n{body[i:i + 1024]}\r\n" for i in range(0, len(body), 1024))
        connection("POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   f"{chunks}0\r\n\r\n")
        self.assertEqual(json.loads(connection.response()[2])["remaining"], 998)
        self.assertEqual(self.status(post(path + "x", 0)), 414)
        self.assertEqual(self.status(post("/v1/take", len(body) + 1)), 413)

    def test_the_largest_batch_is_accepted_and_a_larger_one_refused(self):
        item = {"policy": "llm", "key": "batches"}
        status, _, answers = self.daemon.http("POST", "/v1/peek", [item] * 1000)
        self.assertEqual((status, len(answers)), (200, 1000))
        self.assertEqual({answer["remaining"] for answer in answers}, {1000})
        status, _, problem = self.daemon.http("POST", "/v1/peek", [item] * 1001)
        self.assertEqual((status, problem["detail"]), (400, "a batch has at most 1000 items"))

    def test_every_answer_has_a_date(self):
        date = self.daemon.http("GET", "/healthz")[1]["Date"]
        self.assertTrue(re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", date), date)


class HeaderStyleTest(unittest.TestCase):
    def fields(self, style):
        with Daemon(WEIR, extra=f"headers: {style}") as daemon:
            headers = daemon.post("/v1/take", policy="llm", key="a", permits=400)[1]
            return {name: value for name, value in headers.items() if "atelimit" in name.lower()}

    def test_each_style_has_its_headers(self):
        ietf = {"RateLimit-Policy": '"tokens";q=1000;w=3600000', "RateLimit": '"tokens";r=600;t=1440000'}
        legacy = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "600",
                  "X-RateLimit-Reset": "1440000"}
        self.assertEqual(self.fields("ietf"), ietf)
        self.assertEqual(self.fields("legacy"), legacy)
        self.assertEqual(self.fields("both"), {**ietf, **legacy})
        self.assertEqual(self.fields("off"), {})

    def test_names_and_reset_times_of_legacy_headers_are_configurable(self):
        named = self.fields("{ style: both, limit: RateLimit-Limit, reset_as: epoch }")
        self.assertEqual(list(named), ["RateLimit-Policy", "RateLimit", "RateLimit-Limit",
                                       "X-RateLimit-Remaining", "X-RateLimit-Reset"])
        at_rest = int(named["X-RateLimit-Reset"]) - time.time()
        self.assertTrue(1_440_000 - 60 < at_rest <= 1_440_001, at_rest)


if __name__ == "__main__":
    unittest.main()
