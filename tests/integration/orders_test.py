"""What operators order for a while, over HTTP and from the command line: orders_test.py WEIR."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from datetime import datetime, timezone

from daemon import Daemon, RespError

WEIR = sys.argv.pop(1)
POLICIES = """
policies:
  login: { limits: [ { limit: 10/h, name: hourly } ] }
  api: { limits: [ { by: user, limit: 10/h } ] }
"""


def command(daemon, *words, token=None):
    """(exit code, what it printed, what it complained about)"""
    done = subprocess.run(
        [WEIR, words[0], "--url", f"http://127.0.0.1:{daemon.http_port}", *words[1:],
         *(["--token", token] if token else [])],
        capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class VerbsTest(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon(WEIR, POLICIES))

    def limit(self, key="k"):
        return self.daemon.post("/v1/peek", policy="login", key=key)[2]["limit"]

    def test_a_blocked_key_is_refused_at_both_listeners(self):
        status, _, order = self.daemon.post("/v1/block", policy="login", key="bad*", **{"for": "1h"})
        self.assertEqual((status, order["verb"], order["key"]), (200, "block", "bad*"))
        status, headers, answer = self.daemon.post("/v1/take", policy="login", key="badger")
        self.assertEqual((status, answer["allowed"], answer["limited_by"]), (429, False, "block"))
        # (It ends with a whole millisecond.)
        self.assertLessEqual(answer["retry_after_ms"], 3_600_001)
        self.assertGreater(answer["retry_after_ms"], 3_500_000)
        self.assertIn('"block";r=0', headers["RateLimit"])
        resp = self.daemon.resp()
        self.assertEqual(resp("WEIR.TAKE", "login", "badger")[6], "block")
        self.assertEqual(resp("WEIR.TAKE", "login", "good")[0], 1)
        lines = resp("WEIR.EXPLAIN", "login", "badger")
        self.assertIn('order: block of "bad*" under "login"', lines[0])
        resp.close()
        metrics = self.daemon.http("GET", "/metrics")[2].decode()
        self.assertIn('weir_blocked_decisions_total{policy="login"} 2', metrics)
        self.assertIn('weir_orders{verb="block"} 1', metrics)
        explained = self.daemon.post("/v1/explain", policy="login", key="badger")[2]
        self.assertFalse(explained["decision"]["allowed"])
        self.assertEqual(len(explained["orders"]), 1)

    def test_a_reason_is_kept_and_shown(self):
        reason = "sale, see #4711\nand more"
        self.assertEqual(command(self.daemon, "boost", "login", "--times", "2", "--for", "1h",
                                 "--reason", reason)[0], 0)
        order = self.daemon.http("GET", "/v1/orders")[2]["orders"][0]
        self.assertEqual(order["reason"], reason)
        shown = 'because "sale, see #4711\\nand more"'
        self.assertIn(shown, order["text"])
        self.assertIn(shown, command(self.daemon, "orders")[1])
        self.assertIn(shown, command(self.daemon, "policies")[1])
        self.daemon.wait_for_log(shown)
        self.assertEqual(self.daemon.post("/v1/pause", policy="login", reason="x" * 257,
                                          **{"for": "1h"})[2]["field"], "reason")

    def test_times_are_as_operators_write_them(self):
        for time, seconds in (("10m", 600), ("10min", 600), ("1d", 86400), ("2h30min", 9000), ("90s", 90),
                              ("1d 12h", 129600), ("1.5h", 5400)):
            code, _, said = command(self.daemon, "pause", "login", "--for", time)
            self.assertEqual(code, 0, (time, said))
            order = self.daemon.http("GET", "/v1/orders")[2]["orders"][-1]
            left = (datetime.fromisoformat(order["until"]) - datetime.now(timezone.utc)).total_seconds()
            self.assertLess(abs(left - seconds), 30, time)

    def test_the_advice_about_a_time_is_itself_accepted(self):
        for time in ("10", "1w", "2mo", "1y", "3months", "10sec", "2hours", "5 minutes", "soon", "-5s", "1h-",
                     "min", "10x", "1day"):
            code, _, said = command(self.daemon, "pause", "login", f"--for={time}")
            self.assertNotEqual(code, 0, time)
            advice = re.findall(r"(?<![\w\"-])\d+[a-z]+[0-9a-z]*", said.replace(f'"{time}"', ""))
            self.assertTrue(advice, said)
            for each in advice:
                self.assertEqual(command(self.daemon, "pause", "login", "--for", each)[0], 0, (said, each))

    # A boost of a prefix reaches the overrides below it, or is not given.
    def test_a_boost_says_what_it_does_not_reach(self):
        self.daemon.http("PUT", "/v1/policies/login", {
            "limits": ["10/h"], "overrides": {"vip-7": "100/h", "user=bob": "50/h",
                                              "exact": "4000/h sliding exact"}})
        self.assertEqual(command(self.daemon, "boost", "login", "vip*", "--times", "2", "--for", "1h")[0], 0)
        self.assertEqual((self.limit("vip-7"), self.limit("vip-1"), self.limit()), (200, 20, 10))
        code, said, _ = command(self.daemon, "boost", "login", "plan=gold", "--times", "2", "--for", "1h")
        self.assertEqual(code, 0)
        self.assertIn("overrides of other parts of the key are not changed: user=bob\n", said)
        for key in ([], ["ex*"]):
            code, _, said = command(self.daemon, "boost", "login", *key, "--times", "2", "--for", "1h")
            self.assertNotEqual(code, 0)
            self.assertIn('4000/h sliding exact of the override "exact" cannot be changed', said)

    def test_boost_squeeze_pause_and_lift(self):
        self.daemon.post("/v1/boost", policy="login", key="vip", add=5, **{"for": "1h"})
        self.assertEqual((self.limit("vip"), self.limit()), (15, 10))
        self.daemon.post("/v1/squeeze", times=0.5, **{"for": "1h"})
        self.assertEqual(self.limit(), 5)
        self.daemon.post("/v1/pause", policy="login", **{"for": "1h"})
        for _ in range(20):
            self.assertEqual(self.daemon.post("/v1/take", policy="login", key="k")[0], 200)
        orders = self.daemon.http("GET", "/v1/orders")[2]["orders"]
        self.assertEqual([o["verb"] for o in orders], ["boost", "squeeze", "pause"])
        for order in orders:
            self.assertEqual(self.daemon.http("DELETE", f"/v1/orders/{order['id']}")[0], 200)
        self.assertEqual(self.daemon.post("/v1/take", policy="login", key="k")[2]["limit"], 10)
        self.assertEqual(self.daemon.http("GET", "/v1/orders")[2], {"orders": []})

    def test_an_order_ends_by_itself_and_the_log_says_so(self):
        self.daemon.post("/v1/block", policy="login", key="k", **{"for": "50ms"})
        self.daemon.wait_for_log('order 1 has ended: block of "k"')
        self.assertEqual(self.daemon.post("/v1/take", policy="login", key="k")[0], 200)

    def test_every_change_is_audited(self):
        self.daemon.post("/v1/block", policy="login", key="a\nb", **{"for": "1h"})
        self.daemon.http("DELETE", "/v1/orders/1")
        self.daemon.post("/v1/reset", policy="login", key="k\x1b[2J")
        self.daemon.post("/v1/reset", policy="api", parts={"user": "7"})
        self.daemon.http("PUT", "/v1/policies/new", "limits: [ 1/s ]")
        self.daemon.http("DELETE", "/v1/policies/new")
        resp = self.daemon.resp()
        resp("WEIR.RESET", "login", "k")
        resp.close()
        for text in ('order 1: block of "a\\nb" under "login" until', "order 1 lifted",
                     '"k\\u001b[2J" reset under "login", by 127.0.0.1 over HTTP',
                     '"user"="7" reset under "api"', 'policy "new" put', 'policy "new" deleted',
                     '"k" reset under "login", by 127.0.0.1 over RESP'):
            self.daemon.wait_for_log(text)
        self.assertEqual(sum(" audit " in line for line in self.daemon.log), 7)

    def test_what_was_not_reset_is_not_audited(self):
        self.assertEqual(self.daemon.post("/v1/reset", policy="nope", key="k")[0], 404)
        self.assertEqual(self.daemon.post("/v1/reset", policy="login", key="")[0], 400)
        batch = [{"policy": "nope", "key": "k"}, {"policy": "login", "key": "k"}]
        self.assertEqual(self.daemon.http("POST", "/v1/reset", batch)[2][1], {"reset": True})
        resp = self.daemon.resp()
        self.assertIsInstance(resp("WEIR.RESET", "nope", "k"), RespError)
        self.assertEqual(resp("WEIR.RESET", "login", "last"), "OK")
        resp.close()
        self.daemon.wait_for_log('"last" reset under "login"')
        self.assertEqual(sum(" audit " in line for line in self.daemon.log), 2)

    def test_what_is_wrong_is_said(self):
        def problem(path, **fields):
            status, _, answer = self.daemon.post(path, **fields)
            return status, answer.get("field")

        hour = {"for": "1h"}
        self.assertEqual(problem("/v1/block", policy="logn", key="k", **hour), (404, "policy"))
        self.assertEqual(problem("/v1/block", policy="login", **hour), (400, "key"))
        self.assertEqual(problem("/v1/boost", policy="login", **hour), (400, "times"))
        self.assertEqual(problem("/v1/pause", policy="login"), (400, "for"))
        self.assertEqual(self.daemon.http("POST", "/v1/pause", "nonsense")[0], 400)
        self.assertEqual(self.daemon.http("POST", "/v1/pause")[0], 400)
        for path in ("/v1/orders/1", "/v1/orders/", "/v1/orders/x", "/v1/orders/-1",
                     "/v1/orders/99999999999999999999"):
            self.assertEqual(self.daemon.http("DELETE", path)[0], 404, path)
        self.assertEqual(self.daemon.http("GET", "/v1/boost")[0], 405)
        self.assertEqual(self.daemon.http("GET", "/v1/orders")[2], {"orders": []})

    def test_from_the_command_line(self):
        code, out, _ = command(self.daemon, "boost", "login", "vip", "--times", "2", "--for", "1h")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^order 1, until \d{4}-.*Z\n$")
        self.assertEqual(self.limit("vip"), 20)
        self.assertEqual(command(self.daemon, "block", "login", "bad", "--for", "1h")[0], 0)
        self.assertEqual(command(self.daemon, "pause", "api", "--for", "1h")[0], 0)
        self.assertEqual(command(self.daemon, "squeeze", "--times", "0.1", "--for", "1h")[0], 0)
        out = command(self.daemon, "orders")[1]
        self.assertEqual([line.split()[1] for line in out.splitlines()],
                         ["boost", "block", "pause", "squeeze"])
        self.assertIn("  order: block of \"bad\"", command(self.daemon, "explain", "login", "bad")[1])
        self.assertEqual(command(self.daemon, "lift", "2"), (0, "lifted\n", ""))
        self.assertEqual(command(self.daemon, "lift", "2")[0], 1)
        self.assertEqual(len(json.loads(command(self.daemon, "orders", "--json")[1])["orders"]), 3)

    def test_the_command_line_says_what_is_wrong(self):
        code, _, error = command(self.daemon, "block", "login", "k")
        self.assertEqual(code, 2)
        self.assertIn("an order needs an end: --for", error)
        self.assertIn("--times 2 or --add",
                      command(self.daemon, "boost", "login", "--for", "1h")[2])
        code, _, error = command(self.daemon, "boost", "logn", "--times", "2", "--for", "1h")
        self.assertEqual(code, 1)
        self.assertIn('there is no policy "logn" (did you mean "login"?)', error)
        self.assertEqual(command(self.daemon, "block", "login", "--for", "1h")[0], 2)
        self.assertEqual(command(self.daemon, "squeeze", "--for", "1h")[0], 2)
        both = ("--times", "2", "--add", "1", "--for", "1h")
        self.assertEqual(command(self.daemon, "boost", "login", *both)[0], 2)


class TokenTest(unittest.TestCase):
    def test_orders_need_the_admin_token(self):
        extra = "password: sesame\nadmin_token: secret"
        with Daemon(WEIR, POLICIES, extra=extra) as daemon:
            body = {"policy": "login", "key": "k", "for": "1h"}
            for method, path in (("POST", "/v1/block"), ("POST", "/v1/boost"), ("POST", "/v1/pause"),
                                 ("POST", "/v1/squeeze"), ("GET", "/v1/orders"),
                                 ("DELETE", "/v1/orders/1")):
                for token in (None, "sesame", "wrong", ""):
                    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                    self.assertEqual(daemon.http(method, path, body, headers)[0], 401, path)
            headers = {"Authorization": "Bearer secret"}
            self.assertEqual(daemon.http("POST", "/v1/block", body, headers)[0], 200)
            self.assertEqual(command(daemon, "orders", token="sesame")[0], 1)
            self.assertIn("block", command(daemon, "orders", token="secret")[1])

    def test_a_page_from_elsewhere_cannot_give_any(self):
        with Daemon(WEIR, POLICIES) as daemon:
            body = {"policy": "login", "key": "k", "for": "1h"}
            status, *_ = daemon.http("POST", "/v1/block", body, {"Host": "evil.example"})
            self.assertEqual(status, 403)


class RestartTest(unittest.TestCase):
    def test_orders_outlive_a_kill(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(WEIR, POLICIES, folder=folder, extra=f"state: {folder}/state") as daemon:
                daemon.post("/v1/block", policy="login", key="bad", **{"for": "1h"})
                daemon.post("/v1/boost", policy="login", key="vip", times=2, **{"for": "1h"})
                daemon.post("/v1/take", policy="login", key="vip", permits=15)
                daemon.kill()
                daemon.start()
                self.assertEqual(daemon.post("/v1/take", policy="login", key="bad")[0], 429)
                answer = daemon.post("/v1/peek", policy="login", key="vip")[2]
                self.assertEqual((answer["limit"], answer["remaining"]), (20, 5))
                self.assertEqual(len(daemon.http("GET", "/v1/orders")[2]["orders"]), 2)


class ReadinessTest(unittest.TestCase):
    def test_it_is_ready_when_it_answers(self):
        with Daemon(WEIR, POLICIES) as daemon:
            self.assertEqual(daemon.http("GET", "/readyz")[::2], (200, b"ready\n"))
            self.assertEqual(daemon.http("GET", "/healthz")[::2], (200, b"ok\n"))


if __name__ == "__main__":
    unittest.main()
