"""Daemons that share limits on a Redis Cluster: fleet_cluster_test.py WEIR."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from certificates import Authority
from daemon import Daemon, eventually, free_port, under_sanitizer
from fleet_callers import CALLS, Callers, use_up
from redis_cluster import RedisCluster, slot_of
from redis_rights import documented_rights
from redis_server import RedisServer

WEIR = sys.argv.pop(1)
VECTORS = Path(__file__).parents[1] / "vectors"

# (Limits of a thousand hours, so that nothing comes back during a test.)
POLICIES = """
policies:
  few: { limits: [ 10 per 1000h ], on_store_failure: closed }
  one: { limits: [ 400 per 1000h ], on_store_failure: closed }
  two:
    limits: [ { limit: 400 per 1000h, name: a }, { limit: 500 per 1000h window, name: b } ]
    on_store_failure: closed
  sale:
    limits:
      - { by: user, limit: 5 per 1000h, name: user }
      - { by: sku, limit: 40 per 1000h, name: product }
    on_store_failure: closed
  rooms: { limits: [ 10 concurrent ], on_store_failure: closed }
  desks:
    limits:
      - { by: user, limit: 2 concurrent, name: own }
      - { by: room, limit: 3 concurrent, name: seats }
      - { by: room, limit: 6 per 1000h, name: entries }
    on_store_failure: closed
  lent: { limits: [ { limit: 400 per 240h, scope: leased } ], on_store_failure: closed }
  parts: { limits: [ { limit: 400/s burst 400, scope: split } ], on_store_failure: closed }
  together:
    limits: [ 1 per 1000h, 2 per 1000h, 3 per 1000h, 4 per 1000h, 5 per 1000h, 6 per 1000h,
              7 per 1000h, 8 per 1000h, 9 per 1000h, 1000/h sliding exact ]
    on_store_failure: closed
  apart:
    limits:
""" + "".join(f"      - {{ by: p{i}, limit: {i + 3} per 1000h, name: l{i} }}\n" for i in range(10)) + """
    on_store_failure: closed
"""


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = RedisCluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(lambda: cls.cluster.__exit__())

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        eventually(self.cluster.is_whole, "the cluster is whole")

    def daemons(self, count, url=None, policies=POLICIES):
        extra = f"store: {url or self.cluster.url}\nstore_timeout: 10s"
        daemons = [self.stack.enter_context(Daemon(WEIR, policies, extra=extra))
                   for _ in range(count)]
        for daemon in daemons:
            resp = daemon.resp()
            eventually(lambda: resp("WEIR.PEEK", "few", "ready")[7] == 0, "the store is there")
            resp.close()
        return daemons

    def resp(self, daemon):
        resp = daemon.resp()
        self.stack.callback(resp.close)
        return resp

    def callers(self, daemons, *command):
        callers = Callers(daemons, *command)
        self.stack.callback(callers.end)
        return callers

    def metric(self, daemon, name):
        lines = daemon.http("GET", "/metrics")[2].decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


class SharedLimitTest(ClusterTest):
    def test_four_daemons_admit_as_many_as_one_on_all_cluster_nodes(self):
        daemons = self.daemons(4)
        keys = [f"key {i}" for i in range(30 if under_sanitizer() else 150)]
        owners = {self.cluster.owner_of(slot_of(f"few:{key.replace(' ', '%20')}")) for key in keys}
        self.assertEqual(len(owners), 3)
        admitted = []

        def ask(daemon):
            resp = daemon.resp()
            for _ in range(3):
                resp.socket.sendall(b"".join(resp.encode("WEIR.TAKE", "few", key) for key in keys))
                for _ in keys:
                    answer = resp.read()
                    assert answer[7] == 0, "degraded"
                    admitted.append(answer[0])
            resp.close()

        threads = [threading.Thread(target=ask, args=[daemon]) for daemon in daemons for _ in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(admitted), 3 * 8 * len(keys))
        self.assertEqual(sum(admitted), 10 * len(keys))

    def test_all_verbs_are_shared(self):
        first, second = (self.resp(daemon) for daemon in self.daemons(2))
        receipt = first("WEIR.TAKE", "few", "v", 9, "RECEIPT")[8]
        self.assertEqual(second("WEIR.PEEK", "few", "v")[2], 1)
        first("WEIR.SETTLE", "few", "v", -8, "RECEIPT", receipt)
        self.assertEqual(second("WEIR.PEEK", "few", "v")[2], 9)
        self.assertEqual(second("WEIR.RESET", "few", "v"), "OK")
        self.assertEqual(first("WEIR.PEEK", "few", "v")[2], 10)
        for i in range(10):
            self.assertEqual((first, second)[i % 2]("WEIR.ENTER", "rooms", "v", f"h{i}")[0], 1)
        self.assertEqual(second("WEIR.ENTER", "rooms", "v", "one more")[0], 0)
        self.assertEqual(second("WEIR.LEAVE", "rooms", "v", "h0"), 1)
        self.assertEqual(first("WEIR.ENTER", "rooms", "v", "one more")[0], 1)
        self.assertEqual(first("CL.THROTTLE", "v", 4, 10, 60)[2], 4)
        self.assertEqual(second("CL.THROTTLE", "v", 4, 10, 60)[2], 3)

    def test_leased_and_split_limits_admit_exactly_the_limit(self):
        daemons = self.daemons(2)
        for key in ("a", "b", "c", "d"):  # in slots of different nodes
            callers = self.callers(daemons, "WEIR.TAKE", "lent", key)
            callers.have_answers(2 * CALLS)
            callers.end()
            left = sum(use_up(daemon, "WEIR.TAKE", "lent", key) for daemon in daemons)
            self.assertEqual(callers.admitted + left, 400)
        for daemon in daemons:
            resp = self.resp(daemon)
            eventually(lambda: resp("WEIR.TAKE", "parts", "k")[1] == 200, "each has half")

    def test_a_policy_of_ten_limits_is_decided_in_one_slot_or_in_ten(self):
        resp = self.resp(self.daemons(1)[0])
        self.assertEqual(resp("WEIR.TAKE", "together", "t")[0:3], [1, 1, 0])
        self.assertEqual(resp("WEIR.TAKE", "together", "t")[0::7], [0, 0])
        parts = [word for i in range(10) for word in (f"p{i}", f"value {i}")]
        for left in (2, 1, 0):
            answer = resp("WEIR.TAKE", "apart", "PARTS", *parts)
            self.assertEqual((answer[0:3], answer[6]), ([1, 3, left], "l0"))
        refused = resp("WEIR.TAKE", "apart", "PARTS", *parts)
        self.assertEqual((refused[0], refused[6], refused[7]), (0, "l0", 0))
        # The nine other limits did not charge it.
        parts[1] = "another"
        eventually(lambda: resp("WEIR.PEEK", "apart", "PARTS", *parts)[2] == 1, "the second has one left")

    def test_all_vectors_pass_on_a_cluster(self):
        files = sorted(VECTORS.glob("*.yaml"))
        run = subprocess.run([WEIR, "test", "--store", self.cluster.url, *files],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:] + run.stderr[-1000:])
        policies = VECTORS / "policies"
        run = subprocess.run([WEIR, "test", "--store", self.cluster.url, "--config",
                              policies / "weir.yaml", policies / "overrides.yaml",
                              policies / "schedule.yaml"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:] + run.stderr[-1000:])

    def test_scripts_that_one_node_forgets_are_sent_again(self):
        resp = self.resp(self.daemons(1)[0])
        self.assertEqual(resp("WEIR.TAKE", "few", "s")[2], 9)
        for node in self.cluster.primaries():
            self.cluster.ask(node, "SCRIPT", "FLUSH")
            self.assertEqual(resp("WEIR.PEEK", "few", "s")[7], 0)
        self.assertEqual(resp("WEIR.TAKE", "few", "s")[2], 8)


class PartsTest(ClusterTest):
    """Limits by parts that lie on different nodes: all or nothing."""

    def test_a_call_refused_across_slots_gives_back_all_permits(self):
        daemons = self.daemons(4)
        taken = {}
        lock = threading.Lock()

        def ask(daemon, number):
            resp = daemon.resp()
            for i in range(CALLS // 8):
                user = f"u{(number * 7 + i) % 24}"
                answer = resp("WEIR.TAKE", "sale", "PARTS", "user", user, "sku", "42")
                assert answer[7] == 0, "degraded"
                with lock:
                    taken[user] = taken.get(user, 0) + answer[0]
            resp.close()

        threads = [threading.Thread(target=ask, args=[daemons[i % 4], i]) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(sum(taken.values()), 40)
        # (Some may be refused because of permits that others were about to refund.)
        for user in taken:
            resp = self.resp(daemons[0])
            eventually(lambda: resp("WEIR.PEEK", "sale", "PARTS", "user", user, "sku",
                                    f"of {user}")[2] == 5 - taken[user], f"{user} has all but what it got")
        late = sum(use_up(daemons[i], "WEIR.TAKE", "sale", "PARTS", "user", f"late {i} {n}",
                               "sku", "42") for i in range(2) for n in range(5))
        self.assertEqual(sum(taken.values()) + late, 40)

    def test_holders_have_all_their_permits_or_none(self):
        first, second = (self.resp(daemon) for daemon in self.daemons(2))

        def enter(resp, user, room, holder):
            return resp("WEIR.ENTER", "desks", "HOLDER", holder, "PARTS", "user", user, "room", room)

        def leave(resp, user, room, holder):
            return resp("WEIR.LEAVE", "desks", "HOLDER", holder, "PARTS", "user", user, "room", room)

        self.assertEqual([enter(first, "ann", "r", f"a{i}")[0] for i in range(3)], [1, 1, 0])
        # One permit is left, whatever the last call did.
        eventually(lambda: enter(second, "bob", "r", "b")[0] == 1, "the third seat")
        refused = enter(second, "cid", "r", "c")
        self.assertEqual(refused[0::6], [0, "seats"])
        # A holder that enters again renews, and is not charged again.
        for _ in range(5):
            self.assertEqual(enter(first, "ann", "r", "a0")[0::7], [1, 0])
        self.assertEqual(leave(first, "ann", "r", "a0"), 1)
        eventually(lambda: enter(second, "cid", "r", "c")[0] == 1, "the seat that was left")
        # Four of six have entered, and all refused permits were refunded.
        self.assertEqual(leave(first, "bob", "r", "b"), 1)
        self.assertEqual(enter(first, "dan", "r", "d")[0], 1)
        self.assertEqual(leave(first, "dan", "r", "d"), 1)
        self.assertEqual(enter(first, "eve", "r", "e")[0], 1)
        self.assertEqual(leave(first, "eve", "r", "e"), 1)
        self.assertEqual(enter(first, "eve", "r", "e")[0::6], [0, "entries"])
        # The permit taken before the refusal by the other slot is free again.
        eventually(lambda: first("WEIR.PEEK", "desks", "PARTS", "user", "eve", "room", "other")[2] == 2,
                   "eve has both seats of her own")


class MovingSlotsTest(ClusterTest):
    def moved_under_load(self, policy):
        daemons = self.daemons(4)
        key = f"moving {policy}"
        slot = slot_of(f"{policy}:{key.replace(' ', '%20')}")
        callers = self.callers(daemons, "WEIR.TAKE", policy, key)
        callers.have_answers(20)
        for i in range(4):
            source = self.cluster.owner_of(slot)
            to = next(node for node in self.cluster.primaries() if node is not source)
            self.cluster.begin_move(slot, to)
            callers.have_answers()
            self.cluster.move_keys(slot, source, to, most=1)
            callers.have_answers()
            self.cluster.end_move(slot, source, to)
            callers.have_answers()
        callers.end()
        self.assertEqual(callers.degraded, 0)
        total = callers.admitted + use_up(daemons[0], "WEIR.TAKE", policy, key)
        self.assertGreater(sum(self.metric(d, "weir_store_redirections_total") for d in daemons), 0)
        return total

    def test_totals_stay_exact_while_a_slot_moves(self):
        self.assertEqual(self.moved_under_load("one"), 400)

    def test_totals_of_two_limits_stay_exact_while_their_keys_are_on_different_nodes(self):
        self.assertEqual(self.moved_under_load("two"), 400)

    def test_a_new_key_of_two_limits_is_decided_while_a_slot_moves(self):
        [daemon] = self.daemons(1)
        resp = self.resp(daemon)
        slot = slot_of("two:newcomer")
        source = self.cluster.owner_of(slot)
        to = next(node for node in self.cluster.primaries() if node is not source)
        self.cluster.begin_move(slot, to)
        for left in (399, 398, 397):
            self.assertEqual(resp("WEIR.TAKE", "two", "newcomer")[0:3], [1, 400, left])
        self.assertEqual(resp("WEIR.PEEK", "two", "newcomer")[2::5], [397, 0])
        self.assertEqual(resp("WEIR.RESET", "two", "newcomer"), "OK")
        self.cluster.end_move(slot, source, to)
        self.assertEqual(resp("WEIR.TAKE", "two", "newcomer")[0:3], [1, 400, 399])


    def test_concurrent_permits_are_never_exceeded_and_come_back(self):
        [daemon] = self.daemons(1)
        resp = self.resp(daemon)
        slot = slot_of("rooms:moving")
        self.assertEqual([resp("WEIR.ENTER", "rooms", "moving", f"h{i}")[0] for i in range(4)], [1] * 4)
        source = self.cluster.owner_of(slot)
        to = next(node for node in self.cluster.primaries() if node is not source)
        self.cluster.begin_move(slot, to)
        # (A node runs a command on two keys only while it has both.)
        entered = 4 + sum(resp("WEIR.ENTER", "rooms", "moving", f"m{i}")[0] for i in range(10))
        self.assertLessEqual(entered, 10)
        self.cluster.end_move(slot, source, to)
        eventually(lambda: resp("WEIR.PEEK", "rooms", "moving")[7] == 0, "it is decided again")
        entered += sum(resp("WEIR.ENTER", "rooms", "moving", f"n{i}")[0] for i in range(10))
        self.assertEqual(entered, 10)


class FailoverTest(ClusterTest):
    def test_a_manual_failover_loses_nothing(self):
        daemons = self.daemons(4)
        primary = self.cluster.owner_of(slot_of("one:handed"))
        replica = self.cluster.replica_of(primary)
        callers = self.callers(daemons, "WEIR.TAKE", "one", "handed", 1)
        callers.have_answers(20)
        self.assertEqual(self.cluster.ask(replica, "CLUSTER", "FAILOVER"), "OK")
        eventually(lambda: self.cluster.ask(replica, "ROLE")[0] == "master", "the replica takes over")
        callers.have_answers()
        callers.end()
        total = callers.admitted + use_up(daemons[0], "WEIR.TAKE", "one", "handed")
        # A call without an answer may have been charged.
        self.assertLessEqual(total, 400)
        self.assertGreaterEqual(total + callers.degraded, 400)

    def test_a_killed_primary_costs_at_most_the_unreplicated_takes(self):
        daemons = self.daemons(4)
        resp = self.resp(daemons[0])
        primary = self.cluster.owner_of(slot_of("one:killed"))
        replica = self.cluster.replica_of(primary)
        before = 100
        self.assertEqual(resp("WEIR.TAKE", "one", "killed", before)[0], 1)
        self.assertEqual(self.cluster.ask(primary, "WAIT", 1, 20000), 1)
        offset = self.cluster.ask(primary, "ROLE")[1]
        eventually(lambda: self.cluster.ask(replica, "ROLE")[4] >= offset, "it is replicated")
        callers = self.callers(daemons, "WEIR.TAKE", "one", "killed")
        callers.have_answers(20)
        primary.end()
        # All permits admitted since the last replication may be forgotten with it.
        with callers.lock:
            at_most_lost = callers.admitted + 2 * 4 * len(daemons)
        eventually(lambda: self.cluster.ask(replica, "ROLE")[0] == "master", "the replica takes over")
        eventually(lambda: resp("WEIR.PEEK", "one", "killed")[7] == 0, "it heals")
        callers.have_answers()
        callers.end()
        total = before + callers.admitted + use_up(daemons[0], "WEIR.TAKE", "one", "killed")
        self.assertLessEqual(total, 400 + at_most_lost)
        self.assertGreaterEqual(total + callers.degraded, 400)
        # Keys on other primaries are not affected.
        primary.start()


class AddressTest(ClusterTest):
    def test_any_node_of_the_url_names_the_others(self):
        for node in self.cluster.alive():
            [daemon] = self.daemons(1, f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{node.port}")
            for key in range(20):
                self.assertEqual(self.resp(daemon)("WEIR.PEEK", "few", key)[7], 0)
            daemon.wait_for_log(f"redis://127.0.0.1:{node.port}: connected")

    def test_a_server_that_is_no_cluster_is_a_misconfiguration(self):
        with RedisServer() as redis:
            daemon = self.stack.enter_context(
                Daemon(WEIR, POLICIES, extra=f"store: redis+cluster://127.0.0.1:{redis.port}"))
            daemon.wait_for_log("this server is not a node of a cluster: write its address as redis://")
            self.assertEqual(self.resp(daemon)("WEIR.TAKE", "few", "k")[0::7], [0, 1])
            self.assertEqual(redis.ask("DBSIZE"), 0)

    def test_a_cluster_node_addressed_as_a_single_server_is_a_misconfiguration(self):
        daemon = self.stack.enter_context(
            Daemon(WEIR, POLICIES, extra=f"store: redis://127.0.0.1:{self.cluster.nodes[0].port}"))
        resp = self.resp(daemon)
        for key in range(20):
            resp("WEIR.TAKE", "few", key)
        daemon.wait_for_log("write its address as redis+cluster://")


class SecureClusterTest(unittest.TestCase):
    def test_an_acl_user_can_log_in_over_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(folder)
            cert, key = authority.sign("server")
            files = ["--tls-cert-file", cert, "--tls-key-file", key,
                     "--tls-ca-cert-file", authority.cert, "--tls-auth-clients", "no"]
            with RedisCluster(*files, primaries=3, replicas=0, tls=True) as cluster:
                for node in cluster.nodes:
                    cluster.ask(node, "ACL", "SETUSER", "weir", *documented_rights())
                url = f"rediss+cluster://weir:a-long-secret@127.0.0.1:{cluster.nodes[0].told_port}"
                os.environ["SSL_CERT_FILE"] = str(authority.cert)
                try:
                    with Daemon(WEIR, POLICIES,
                                extra=f"store: {url}\nstore_timeout: 10s") as daemon:
                        resp = daemon.resp()
                        for key in range(30):
                            self.assertEqual(resp("WEIR.TAKE", "few", key)[0::7], [1, 0])
                        resp.close()
                finally:
                    del os.environ["SSL_CERT_FILE"]


if __name__ == "__main__":
    unittest.main()
