"""Daemons that share limits on one Redis: fleet_test.py WEIR."""

import contextlib
import os
import ssl
import sys
import tempfile
import threading
import unittest

from certificates import Authority
from daemon import Daemon, RespError, eventually, under_sanitizer
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

POLICIES = """
policies:
  fleet: { limits: [ 1000 per 1000h ], on_store_failure: closed }
  sliding: { limits: [ 500/h sliding exact ], on_store_failure: closed }
  mixed:
    limits:
      - { by: user, limit: 1/h, scope: node, name: user }
      - { by: sku, limit: 100/h, name: product }
  both: { limits: [ 300/h, 200/day in Asia/Shanghai ], on_store_failure: closed }
  rooms: { limits: [ 10 concurrent ] }
  llm: { limits: [ { limit: 1000 per 1000h, name: tokens } ] }
  search: { limits: [ 100/s warmup 10s ] }
"""


def nodes_of(redis, count, stack, policies=POLICIES, clocks=()):
    """Starts this many daemons on one store, optionally with clock offsets in seconds."""
    daemons = []
    for i in range(count):
        daemon = Daemon(WEIR, policies, extra=f"store: {redis.url}\nstore_timeout: 5s")
        with faked_clock(clocks[i] if clocks else 0):
            daemons.append(stack.enter_context(daemon))
    return daemons


@contextlib.contextmanager
def faked_clock(seconds):
    """Daemons started inside have a wall clock with an offset."""
    if not seconds:
        yield
        return
    names = {"LD_PRELOAD": faketime_library(), "FAKETIME": f"{seconds:+d}",
             "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def faketime_library():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"):
        path = f"{folder}/faketime/libfaketimeMT.so.1"
        if os.path.exists(path):
            return path
    return None


def admitted_by_all(daemons, clients, commands, key="k", policy="fleet", permits=1):
    """The permits granted to `clients` concurrent connections to each daemon, each with the same number of
    calls."""
    admitted = []
    start = threading.Barrier(len(daemons) * clients)

    def ask(daemon):
        resp = daemon.resp()
        start.wait()
        passed = 0
        for first in range(0, commands, 50):
            some = min(50, commands - first)
            resp.socket.sendall(resp.encode("WEIR.TAKE", policy, key, permits) * some)
            for _ in range(some):
                answer = resp.read()
                if isinstance(answer, RespError):
                    raise answer
                assert answer[7] == 0, "degraded"
                passed += answer[0]
        admitted.append(passed)
        resp.close()

    threads = [threading.Thread(target=ask, args=[daemon])
               for daemon in daemons for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == len(threads), "some could not ask"
    return sum(admitted)


class SharedLimitTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.redis = self.stack.enter_context(RedisServer())

    def test_four_daemons_admit_as_many_as_one(self):
        daemons = nodes_of(self.redis, 4, self.stack)
        self.assertEqual(admitted_by_all(daemons, clients=8, commands=100), 1000)
        self.assertEqual(admitted_by_all(daemons, 8, 50, policy="sliding"), 500)
        self.assertEqual(admitted_by_all(daemons, 8, 20, policy="both"), 200)
        self.assertEqual(admitted_by_all(daemons, 8, 20, key="threes", permits=3), 333)

    @unittest.skipIf(under_sanitizer(), "the sanitizer and libfaketime both want to be first")
    @unittest.skipUnless(faketime_library(), "there is no libfaketime")
    def test_clocks_that_are_an_hour_off_change_nothing(self):
        daemons = nodes_of(self.redis, 4, self.stack, clocks=[3600, -3600, 0, 1800])
        self.assertEqual(admitted_by_all(daemons, clients=8, commands=100), 1000)
        self.assertEqual(admitted_by_all(daemons, 8, 50, policy="sliding"), 500)
        self.assertEqual(admitted_by_all(daemons, 8, 20, policy="both"), 200)
        # Refusals have the same retry time on every node.
        told = set()
        for daemon in daemons:
            resp = daemon.resp()
            told.add(resp("WEIR.PEEK", "fleet", "k", 1000)[3] // 60_000)
            resp.close()
        self.assertLessEqual(max(told) - min(told), 1)

    def test_a_policy_combines_a_node_limit_and_a_fleet_limit(self):
        daemons = nodes_of(self.redis, 2, self.stack)
        first, second = (daemon.resp() for daemon in daemons)
        take = ("WEIR.TAKE", "mixed", "PARTS", "sku", "42", "user")
        self.assertEqual(first(*take, "ann")[0], 1)
        self.assertEqual(first(*take, "ann")[0::6], [0, "user"])
        self.assertEqual(second(*take, "ann")[0], 1)  # the other node has its own count
        self.assertEqual(second("WEIR.PEEK", "mixed", "PARTS", "sku", "42", "user", "bob")[0], 1)
        for user in range(98):
            self.assertEqual((first, second)[user % 2](*take, user)[0], 1)
        for resp in (first, second):
            refused = resp(*take, "zoe")
            self.assertEqual(refused[0::6], [0, "product"])
        # A call refused by the product limit took nothing from the user.
        self.redis.ask("DEL", "weir1:{mixed:sku=42}:bucket=product")
        # (A node caches a refusal for a tenth of a second.)
        eventually(lambda: first(*take, "zoe")[0] == 1, "zoe's only try of the hour")
        first.close()
        second.close()

    def test_all_verbs_are_shared(self):
        daemons = nodes_of(self.redis, 2, self.stack)
        first, second = (daemon.resp() for daemon in daemons)
        receipt = first("WEIR.TAKE", "llm", "k", 900, "RECEIPT")[8]
        self.assertEqual(second("WEIR.PEEK", "llm", "k")[2], 100)
        first("WEIR.SETTLE", "llm", "k", -800, "RECEIPT", receipt)
        self.assertEqual(second("WEIR.PEEK", "llm", "k")[2], 900)
        second("WEIR.SETTLE", "llm", "k", 100)
        self.assertIn("800 of 1000", first("WEIR.EXPLAIN", "llm", "k")[0])
        self.assertEqual(second("WEIR.RESET", "llm", "k"), "OK")
        self.assertEqual(first("WEIR.PEEK", "llm", "k")[2], 1000)
        for i in range(10):
            self.assertEqual((first, second)[i % 2]("WEIR.ENTER", "rooms", "k", f"h{i}")[0], 1)
        self.assertEqual(second("WEIR.ENTER", "rooms", "k", "one more")[0], 0)
        self.assertEqual(second("WEIR.LEAVE", "rooms", "k", "h0"), 1)
        self.assertEqual(first("WEIR.ENTER", "rooms", "k", "one more")[0], 1)
        self.assertEqual(first("CL.THROTTLE", "k", 4, 10, 60)[2], 4)
        self.assertEqual(second("CL.THROTTLE", "k", 4, 10, 60)[2], 3)
        # A refund of more than was taken is an error, and leaves no debt.
        self.assertIsInstance(first("CL.THROTTLE", "k", 4, 10, 60, -5), RespError)
        self.assertEqual(second("CL.THROTTLE", "k", 4, 10, 60, 0), [0, 5, 5, -1, 0])
        status, headers, body = daemons[0].post("/v1/take", policy="search", key="k")
        self.assertEqual((status, body["allowed"], body["degraded"]), (200, True, False))
        self.assertIsNone(headers["Weir-Degraded"])
        first.close()
        second.close()

    def test_a_changed_limit_keeps_the_used_permits(self):
        with Daemon(WEIR, "policies: { p: { limits: [ { limit: 10/h, name: n } ] } }",
                    extra=f"store: {self.redis.url}\nstore_timeout: 5s") as before:
            resp = before.resp()
            self.assertEqual(resp("WEIR.TAKE", "p", "k", 10)[2], 0)
            resp.close()
        with Daemon(WEIR, "policies: { p: { limits: [ { limit: 20/h, name: n } ] } }",
                    extra=f"store: {self.redis.url}\nstore_timeout: 5s") as after:
            resp = after.resp()
            self.assertEqual(resp("WEIR.PEEK", "p", "k")[1:3], [20, 10])
            self.assertEqual(resp("WEIR.TAKE", "p", "k", 10)[0:3], [1, 20, 0])
            resp.close()

    # (A refusal is cached for a tenth of a second, for equal calls only.)
    def test_a_refusal_describes_its_own_call(self):
        policies = """
policies:
  p: { limits: [ 10 per 10h ] }
  both: { limits: [ { limit: 10 per 10h, name: slow }, { limit: 8 per 1h, name: fast } ] }
  line: { limits: [ 1/h queue 3 ] }
"""
        [daemon] = nodes_of(self.redis, 1, self.stack, policies)
        resp = daemon.resp()
        hours = lambda told: -(-told[3] // 3_600_000)
        resp("WEIR.TAKE", "p", "k", 10)
        self.assertEqual([hours(resp("WEIR.TAKE", "p", "k", cost)) for cost in (1, 3, 10, 2)],
                         [1, 3, 10, 2])
        resp("WEIR.TAKE", "both", "k", 8)
        self.assertEqual([resp("WEIR.TAKE", "both", "k", cost)[6] for cost in (1, 8, 1)],
                         ["fast", "slow", "fast"])
        for _ in range(4):
            resp("WEIR.TAKE", "line", "k", 1, "WAIT", 100 * 3_600_000)
        waits = [hours(resp("WEIR.TAKE", "line", "k", 1, "WAIT", hour * 3_600_000)) for hour in (2, 0, 1)]
        self.assertEqual(waits, [2, 4, 3])
        resp.close()

    def test_records_of_another_version_are_refused_and_reported(self):
        [daemon] = nodes_of(self.redis, 1, self.stack)
        resp = daemon.resp()
        resp("WEIR.TAKE", "fleet", "k")
        [name] = self.redis.ask("KEYS", "weir1:{*:*}:*")
        text = self.redis.ask("GET", name)
        self.assertTrue(text.startswith("1"), text)
        self.redis.ask("SET", name, "9" + text[1:])
        self.assertEqual(resp("WEIR.TAKE", "fleet", "k")[0::7], [0, 1])
        daemon.wait_for_log("WEIRFORMAT")
        # Records written by this version are read again.
        self.redis.ask("SET", name, text)
        self.assertEqual(resp("WEIR.TAKE", "fleet", "k")[0:3], [1, 1000, 998])
        resp.close()

    def test_deferred_answers_keep_their_order_also_over_tls(self):
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        authority = Authority(folder)
        cert, key = authority.sign("server")
        daemon = self.stack.enter_context(Daemon(
            WEIR, POLICIES, tls=ssl.create_default_context(cafile=str(authority.cert)),
            extra=f"store: {self.redis.url}\nstore_timeout: 5s\ntls: {{ cert: {cert}, key: {key} }}"))
        resp = daemon.resp()
        asked = b"".join(resp.encode("WEIR.TAKE", "fleet", "k") + resp.encode("ECHO", i)
                         for i in range(200))
        resp.socket.sendall(asked)
        for i in range(200):
            self.assertEqual(resp.read()[0:3], [1, 1000, 999 - i])
            self.assertEqual(resp.read(), str(i))
        resp.close()
        for i in range(3):
            self.assertEqual(daemon.post("/v1/take", policy="fleet", key="h")[2]["remaining"], 999 - i)

    def test_keys_expire_when_they_are_at_rest(self):
        [daemon] = nodes_of(self.redis, 1, self.stack,
                            "policies: { p: { limits: [ 100/s, 100/s sliding exact ] } }")
        resp = daemon.resp()
        self.assertEqual(resp("WEIR.TAKE", "p", "k", 20)[0], 1)
        self.assertEqual(len(self.redis.ask("KEYS", "weir1:{*:*}:*")), 2)
        for name in self.redis.ask("KEYS", "weir1:{*:*}:*"):
            self.assertGreater(self.redis.ask("PTTL", name), -1)
        eventually(lambda: self.redis.ask("KEYS", "weir1:{*:*}:*") == [], "no key is left")
        resp.close()

    def test_metrics_describe_the_store(self):
        [daemon] = nodes_of(self.redis, 1, self.stack)
        admitted_by_all([daemon], 2, 200, key="m", permits=100)
        metrics = daemon.http("GET", "/metrics")[2].decode()
        value = {line.split()[0]: float(line.split()[1]) for line in metrics.splitlines()
                 if line.startswith("weir_store")}
        self.assertGreater(value["weir_store_links_connected"], 0)
        self.assertGreater(value["weir_store_calls_total"], 0)
        self.assertGreater(value["weir_store_refused_without_asking_total"], 0)
        self.assertEqual(value["weir_store_breakers_open"], 0)
        self.assertLessEqual(value["weir_store_round_trips_total"],
                             value["weir_store_sent_calls_total"])


if __name__ == "__main__":
    unittest.main()
