"""Daemons while their Redis misbehaves: fleet_faults_test.py WEIR."""

import contextlib
import socket
import sys
import unittest

from daemon import Daemon, Resp, eventually, free_port
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

POLICIES = """
policies:
  open: { limits: [ 5/h ], on_store_failure: open }
  closed: { limits: [ 5/h ], on_store_failure: closed }
  local: { limits: [ 5/h ], on_store_failure: local }
  usual: { limits: [ 5/h ] }
  node: { limits: [ { limit: 1000000/h, scope: node } ] }
"""


class FaultTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def daemon(self, store, policies=POLICIES, timeout="200ms"):
        daemon = self.stack.enter_context(
            Daemon(WEIR, policies, extra=f"store: {store}\nstore_timeout: {timeout}"))
        self.resp = daemon.resp()
        self.stack.callback(self.resp.close)
        return daemon

    def redis(self, *arguments, **options):
        return self.stack.enter_context(RedisServer(*arguments, **options))

    def passes(self, policy, key="k", calls=8):
        """The number of admitted calls, and whether they were decided without the store."""
        answers = [self.resp("WEIR.TAKE", policy, key) for _ in range(calls)]
        degraded = {answer[7] for answer in answers}
        self.assertEqual(len(degraded), 1, answers)
        return sum(answer[0] for answer in answers), bool(degraded.pop())

    def assert_degraded(self, key="away"):
        """Asserts each on_store_failure mode during an outage."""
        self.assertEqual(self.passes("open", key), (8, True))
        self.assertEqual(self.passes("closed", key), (0, True))
        self.assertEqual(self.passes("local", key), (5, True))
        self.assertEqual(self.passes("usual", key), (5, True))  # local is the default
        self.assertEqual(self.passes("node", key), (8, False))

    def assert_never_open(self, key="wrong"):
        """Asserts that a misconfiguration refuses, and is not treated as an outage."""
        self.assertEqual(self.passes("open", key), (0, True))
        self.assertEqual(self.passes("closed", key), (0, True))
        self.assertEqual(self.passes("node", key), (8, False))

    def assert_heals(self, key="healed"):
        eventually(lambda: self.resp("WEIR.PEEK", "closed", key)[7] == 0, "it heals by itself")
        eventually(lambda: self.resp("WEIR.TAKE", "closed", key)[7] == 0, "and takes")
        self.assertEqual(self.passes("closed", key)[1], False)


class OutageTest(FaultTest):
    def test_corrections_are_applied_where_the_take_was_counted(self):
        redis = self.redis()
        daemon = self.daemon(redis.url, timeout="2s")
        there = self.resp("WEIR.TAKE", "local", "k", 4, "RECEIPT")[8]
        redis.end()
        left = lambda: self.resp("WEIR.PEEK", "local", "k")[2]
        eventually(lambda: left() == 5, "this node has its own count")
        here = self.resp("WEIR.TAKE", "local", "k", 3, "RECEIPT")
        self.assertEqual(here[0:3], [1, 5, 2])
        settle = lambda delta, *more: self.resp("WEIR.SETTLE", "local", "k", delta, *more)
        debited = settle(1)
        self.assertEqual((debited[0:3], debited[7]), ([1, 5, 1], 1))
        self.assertEqual(left(), 1)
        self.assertEqual(settle(-2, "RECEIPT", here[8])[1:3], [5, 3])
        self.assertEqual(left(), 3)
        # Permits admitted by the fleet are refunded to the fleet, or not at all.
        self.assertEqual(settle(-4, "RECEIPT", there)[1:3], [5, 3])
        self.assertEqual(settle(7)[2], 0)
        self.assertEqual((left(), self.resp("WEIR.TAKE", "local", "k")[0]), (0, 0))
        status, _, body = daemon.post("/v1/settle", policy="local", key="other", delta=2)
        self.assertEqual((status, body["remaining"], body["degraded"]), (200, 3, True))

    def test_a_store_absent_at_startup_is_an_outage_that_heals(self):
        port = free_port()
        daemon = self.daemon(f"redis://127.0.0.1:{port}")
        daemon.wait_for_log("the store does not answer")
        self.assertEqual(daemon.http("GET", "/readyz")[0], 200)
        self.assert_degraded()
        status, headers, body = daemon.post("/v1/take", policy="closed", key="k")
        self.assertEqual((status, body["degraded"], headers["Weir-Degraded"]), (503, True, "1"))
        status, headers, body = daemon.post("/v1/take", policy="open", key="k")
        self.assertEqual((status, body["degraded"], headers["Weir-Degraded"]), (200, True, "1"))
        self.assertEqual(daemon.post("/v1/take", policy="local", key="away")[0], 429)
        metrics = daemon.http("GET", "/metrics")[2].decode()
        self.assertIn('weir_degraded_decisions_total{policy="open"} 9\n', metrics)
        self.assertIn("weir_store_links_connected 0\n", metrics)
        self.redis(port=port)
        self.assert_heals()
        self.assertEqual(self.passes("open", "back"), (5, False))

    def test_a_store_that_restarts_empty_is_an_outage_that_heals(self):
        redis = self.redis()
        daemon = self.daemon(redis.url)
        self.assertEqual(self.passes("closed"), (5, False))
        redis.end()
        eventually(lambda: self.resp("WEIR.PEEK", "closed", "k")[7] == 1, "it is noticed")
        self.assert_degraded()
        redis.start()
        self.assert_heals()
        # The usage is lost with it, and so are the scripts, which are sent again.
        self.assertEqual(self.passes("closed"), (5, False))
        daemon.wait_for_log("the connection is lost")

    def test_a_frozen_store_is_an_outage_that_heals(self):
        redis = self.redis()
        daemon = self.daemon(redis.url)
        self.assertEqual(self.passes("open"), (5, False))
        redis.freeze()
        # Every call is answered while it hangs: those in flight, and those that came after the outage was
        # detected.
        self.assert_degraded()
        eventually(lambda: "weir_store_breakers_open 0\n" not in
                   daemon.http("GET", "/metrics")[2].decode(), "the breaker opens")
        self.assert_degraded("later")
        redis.thaw()
        self.assert_heals()
        eventually(lambda: "weir_store_breakers_open 0\n" in
                   daemon.http("GET", "/metrics")[2].decode(), "and closes")

    def test_a_store_slower_than_the_timeout_is_an_outage_that_heals(self):
        """It answers PING at once, and scripts long after the timeout."""
        redis = self.redis()
        self.daemon(redis.url)
        self.assertEqual(self.passes("closed", "a", 1), (1, False))
        redis.ask("CLIENT", "PAUSE", 600_000, "WRITE")
        self.assertEqual(self.passes("closed", "late", 2), (0, True))
        self.assert_degraded()
        self.assertEqual(redis.ask("CLIENT", "UNPAUSE"), "OK")
        self.assert_heals()
        # Calls after the timeout may have been charged, each once, and their answers are dropped.
        passed, degraded = self.passes("closed", "late")
        self.assertFalse(degraded)
        self.assertLessEqual(passed, 5)
        self.assertGreaterEqual(passed, 3)

    def test_clients_that_disconnect_during_an_outage_leave_nothing_behind(self):
        redis = self.redis()
        daemon = self.daemon(redis.url, timeout="2s")
        self.assertEqual(self.passes("closed", "a", 1), (1, False))
        redis.freeze()
        for _ in range(200):
            caller = daemon.resp()
            caller.socket.sendall(caller.encode("WEIR.TAKE", "closed", "k") * 20)
            caller.close()
        asking = daemon.resp()
        asking.send("WEIR.TAKE", "closed", "k")
        # Other clients are served meanwhile, and a client that stays is answered.
        self.assertEqual(daemon.http("GET", "/healthz")[0], 200)
        asking.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(asking.read()[0::7], [0, 1])
        asking.close()
        redis.thaw()
        self.assert_heals()
        eventually(lambda: "weir_connections_open 2\n" in
                   daemon.http("GET", "/metrics")[2].decode(), "those who left are gone")

    def test_a_port_that_accepts_and_never_answers_is_an_outage(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            self.daemon(f"redis://127.0.0.1:{silent.getsockname()[1]}")
            self.assert_degraded()

    def test_disconnected_nodes_keep_to_their_share(self):
        redis = self.redis()
        policies = "policies: { p: { limits: [ 10/h ] } }"
        daemons = [self.daemon(redis.url, policies), self.daemon(redis.url, policies)]
        for daemon in daemons:
            eventually(lambda: "weir_store_nodes 2\n" in
                       daemon.http("GET", "/metrics")[2].decode(), "they know of each other")
        redis.end()
        for daemon in daemons:
            self.resp = daemon.resp()
            eventually(lambda: self.resp("WEIR.PEEK", "p", "k")[7] == 1, "it is noticed")
            self.assertEqual(self.passes("p", "k", 9), (5, True))
            self.resp.close()

    def test_flushed_scripts_are_sent_again(self):
        redis = self.redis()
        self.daemon(redis.url)
        self.assertEqual(self.passes("closed", calls=3), (3, False))
        self.assertEqual(redis.ask("SCRIPT", "FLUSH"), "OK")
        self.assertEqual(self.passes("closed"), (2, False))

    def test_a_store_out_of_memory_is_an_outage_that_heals(self):
        redis = self.redis()
        self.daemon(redis.url)
        self.assertEqual(self.passes("closed", "a", 1), (1, False))
        redis.ask("CONFIG", "SET", "maxmemory", "1")
        self.assert_degraded()
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        self.assert_heals()

    def test_a_read_only_replica_is_an_outage_that_heals(self):
        redis = self.redis()
        self.daemon(redis.url)
        self.assertEqual(self.passes("closed", "a", 1), (1, False))
        primary = self.redis()
        redis.ask("REPLICAOF", "127.0.0.1", primary.port)
        eventually(lambda: self.resp("WEIR.TAKE", "closed", "b")[7] == 1, "it is noticed")
        self.assert_degraded()
        redis.ask("REPLICAOF", "NO", "ONE")
        self.assert_heals()

    def test_a_store_busy_with_a_foreign_script_is_an_outage_that_heals(self):
        redis = self.redis("--busy-reply-threshold", "100")
        self.daemon(redis.url)
        self.assertEqual(self.passes("closed", "a", 1), (1, False))
        endless = Resp(redis.port)
        endless.send("EVAL", "while true do end", "0")
        eventually(lambda: self.resp("WEIR.TAKE", "closed", "b")[7] == 1, "it is noticed")
        self.assert_degraded()
        eventually(lambda: redis.ask("SCRIPT", "KILL") == "OK", "the script ends")
        endless.close()
        self.assert_heals()


class MisconfigurationTest(FaultTest):
    def test_a_wrong_password_is_a_misconfiguration_that_heals(self):
        redis = self.redis("--requirepass", "right")
        daemon = self.daemon(f"redis://:wrong@127.0.0.1:{redis.port}")
        self.assert_never_open()
        daemon.wait_for_log("WRONGPASS")
        self.assertNotIn("wrong@", "".join(daemon.log))
        redis.ask("CONFIG", "SET", "requirepass", "wrong", password="right")
        self.assert_heals()

    def test_a_missing_password_is_a_misconfiguration(self):
        redis = self.redis("--requirepass", "right")
        daemon = self.daemon(redis.url)
        self.assert_never_open()
        daemon.wait_for_log("NOAUTH")

    def test_a_user_without_rights_is_a_misconfiguration_that_heals(self):
        redis = self.redis()
        redis.ask("ACL", "SETUSER", "weir", "on", ">secret", "~*", "+@all", "-set", "-@scripting")
        daemon = self.daemon(f"redis://weir:secret@127.0.0.1:{redis.port}")
        self.assert_never_open()
        daemon.wait_for_log("NOPERM")
        redis.ask("ACL", "SETUSER", "weir", "+@scripting", "+set")
        self.assert_heals()

    def test_a_key_of_another_type_affects_only_its_own_calls(self):
        redis = self.redis()
        daemon = self.daemon(redis.url)
        redis.ask("LPUSH", "weir1:{open:list}:bucket/1h", "x")
        self.assertEqual(self.passes("open", "list"), (0, True))
        daemon.wait_for_log("WRONGTYPE")
        self.assertEqual(self.passes("open", "other"), (5, False))

    def test_a_cluster_addressed_as_a_single_server_is_a_misconfiguration(self):
        redis = self.redis("--cluster-enabled", "yes")
        daemon = self.daemon(redis.url)
        slots = Resp(redis.port)
        slots("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        slots.close()
        self.assertEqual(self.passes("closed")[0], 0)
        del daemon


if __name__ == "__main__":
    unittest.main()
