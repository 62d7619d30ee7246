"""Daemons that split their limits, with a real Redis: fleet_split_test.py WEIR."""

import contextlib
import json
import subprocess
import sys
import threading
import time
import unittest

from daemon import Daemon, eventually, free_port
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

RATE, BURST = 60, 30

POLICIES = f"""
policies:
  api:
    limits: [ {{ limit: {RATE}/s burst {BURST}, scope: split, name: rate }} ]
    on_store_failure: closed
  open: {{ limits: [ {{ limit: 5/s, scope: split }} ], on_store_failure: open }}
  closed: {{ limits: [ {{ limit: 5/s, scope: split }} ], on_store_failure: closed }}
  local: {{ limits: [ {{ limit: 5/s, scope: split }} ] }}
"""


class Load:
    """Takes from a daemon until told to stop, or until the daemon is gone."""

    def __init__(self, daemon):
        self.admitted = []  # (before, after) for each admitted call
        self.stopped = False
        self.resp = daemon.resp()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stopped:
                before = time.monotonic()
                answer = self.resp("WEIR.TAKE", "api", "k")
                after = time.monotonic()
                if isinstance(answer, list) and answer[0]:
                    self.admitted.append((before, after))
                else:
                    time.sleep(0.002)
        except (OSError, EOFError):
            pass

    def stop(self):
        self.stopped = True
        self.thread.join()
        self.resp.close()


def most_over(admitted):
    """The largest number of permits by which an interval exceeds the limit. A call was decided between its
    request and its answer, so that a late clock cannot make this wrong."""
    admitted = sorted(admitted)
    worst = -BURST
    for i, (start, _) in enumerate(admitted):
        for count, end in enumerate(sorted(after for _, after in admitted[i:]), 1):
            worst = max(worst, count - BURST - RATE * (end - start))
    return worst


class SplitTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def redis(self, *arguments, **options):
        return self.stack.enter_context(RedisServer(*arguments, **options))

    def daemon(self, store, policies=POLICIES):
        return self.stack.enter_context(
            Daemon(WEIR, policies, extra=f"store: {store}\nstore_timeout: 200ms"))

    def load(self, daemon):
        load = Load(daemon)
        self.stack.callback(load.stop)
        return load

    @staticmethod
    def fleet(daemon):
        return daemon.http("GET", "/v1/fleet")[2]

    def share(self, daemon, policy="api"):
        return next(each["share"] for each in self.fleet(daemon)["split"]
                    if each["policy"] == policy)

    def wait_for_shares(self, *shares):
        """Waits for the shares of daemons, in any order."""
        daemons, expected = [d for d, _ in shares], sorted(share for _, share in shares)
        eventually(lambda: sorted(self.share(d) for d in daemons) == expected,
                   f"they have {expected}")


class MembershipTest(SplitTest):
    def test_nodes_come_and_go_under_load(self):
        redis = self.redis()
        a, b = self.daemon(redis.url), self.daemon(redis.url)
        self.wait_for_shares((a, 15), (b, 15))
        loads = [self.load(a), self.load(b)]
        eventually(lambda: all(load.admitted for load in loads), "both admit")

        c = self.daemon(redis.url)
        loads.append(self.load(c))
        self.wait_for_shares((a, 10), (b, 10), (c, 10))
        eventually(lambda: loads[2].admitted, "the newcomer admits")

        b.kill()
        self.wait_for_shares((a, 15), (c, 15))

        self.assertEqual(a.stop(), 0)
        self.wait_for_shares((c, 30))
        before = len(loads[2].admitted)
        eventually(lambda: len(loads[2].admitted) > before + BURST, "one has all of it")

        for load in loads:
            load.stop()
        # (One for rounding: the clocks of the daemons and of the test differ.)
        self.assertLessEqual(most_over(sum((load.admitted for load in loads), [])), 1)

    def test_a_limit_smaller_than_the_fleet_leaves_some_nodes_without_a_share(self):
        redis = self.redis()
        policies = "policies: { api: { limits: [ { limit: 2/s, scope: split, name: few } ] } }"
        daemons = [self.daemon(redis.url, policies) for _ in range(3)]
        self.wait_for_shares(*zip(daemons, (0, 1, 1)))
        for daemon in daemons:
            daemon.wait_for_log('the split limit "few" has 2 permits for 3 nodes')
        last = next(d for d in daemons if self.share(d) == 0)
        status, _, body = last.post("/v1/take", policy="api", key="k")
        self.assertEqual((status, body["limit"], body["limited_by"], body["degraded"]),
                         (429, 0, "few", False))

    def test_a_restarted_store_begins_a_new_list(self):
        redis = self.redis()
        a, b = self.daemon(redis.url), self.daemon(redis.url)
        self.wait_for_shares((a, 15), (b, 15))
        redis.end()
        eventually(lambda: not self.fleet(a)["member"] and not self.fleet(b)["member"],
                   "both are cut off")
        redis.start()
        eventually(lambda: self.fleet(a)["member"] and self.fleet(b)["member"], "both are back")
        self.wait_for_shares((a, 15), (b, 15))


class CutOffTest(SplitTest):
    def passes(self, daemon, policy, calls=20):
        resp = daemon.resp()
        answers = [resp("WEIR.TAKE", policy, "away") for _ in range(calls)]
        resp.close()
        self.assertEqual({answer[7] for answer in answers}, {1}, answers)
        return sum(answer[0] for answer in answers)

    def assert_goes_by_on_store_failure(self, daemon):
        self.assertEqual(self.passes(daemon, "open"), 20)
        self.assertEqual(self.passes(daemon, "closed"), 0)
        self.assertIn(self.passes(daemon, "local"), range(5, 20))
        status, headers, body = daemon.post("/v1/take", policy="closed", key="k")
        self.assertEqual((status, headers["Weir-Degraded"], body["degraded"]), (503, "1", True))
        self.assertEqual(daemon.post("/v1/take", policy="open", key="k")[0], 200)

    def test_a_frozen_store_cuts_the_node_off_until_it_answers(self):
        redis = self.redis()
        daemon = self.daemon(redis.url)
        self.wait_for_shares((daemon, 30))
        generation = self.fleet(daemon)["generation"]
        redis.freeze()
        eventually(lambda: not self.fleet(daemon)["member"], "it notices")
        self.assert_goes_by_on_store_failure(daemon)
        redis.thaw()
        eventually(lambda: self.fleet(daemon)["member"], "it is back")
        # No other node has noticed its absence, so it keeps its share.
        self.assertEqual(self.fleet(daemon)["generation"], generation)
        self.assertEqual(self.share(daemon), 30)
        eventually(lambda: daemon.post("/v1/take", policy="closed", key="k")[0] == 200, "takes")

    def test_the_store_failure_mode_applies_without_the_store(self):
        daemon = self.daemon(f"redis://127.0.0.1:{free_port()}")
        self.assert_goes_by_on_store_failure(daemon)
        self.assertEqual(self.fleet(daemon)["nodes"], [])

    def test_a_misconfiguration_never_opens_a_limit(self):
        redis = self.redis("--requirepass", "right")
        daemon = self.daemon(f"redis://:wrong@127.0.0.1:{redis.port}")
        eventually(lambda: not daemon.post("/v1/take", policy="open", key="k")[2]["allowed"],
                   "open is closed")
        self.assertEqual(self.passes(daemon, "open"), 0)


class CommandTest(SplitTest):
    def weir(self, daemon, *arguments):
        ran = subprocess.run(
            [WEIR, "fleet", "--url", f"http://127.0.0.1:{daemon.http_port}", *arguments],
            capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def test_the_fleet_command_shows_the_nodes_and_their_shares(self):
        redis = self.redis()
        a, b = self.daemon(redis.url), self.daemon(redis.url)
        self.wait_for_shares((a, 15), (b, 15))
        table = self.weir(a)
        self.assertRegex(table, r"^generation \d+: 2 nodes\n")
        self.assertEqual(table.count("this one"), 1)
        self.assertRegex(table, r"api +rate +60/s burst 30 +15 +30\n")
        self.assertRegex(table, r"\nstore: \d+ of \d+ links connected, 0 circuit breakers open; ")
        told = json.loads(self.weir(a, "--json"))
        self.assertEqual([node["rank"] for node in told["nodes"]], [0, 1])
        self.assertEqual([node["self"] for node in told["nodes"]].count(True), 1)
        self.assertEqual(told["fleet"], True)
        metrics = a.http("GET", "/metrics")[2].decode()
        self.assertIn("weir_fleet_nodes 2\n", metrics)
        self.assertIn("weir_fleet_member 1\n", metrics)
        self.assertIn('weir_split_share{policy="api",limit="rate"} 15\n', metrics)
        self.assertIn('weir_split_whole{policy="api",limit="rate"} 30\n', metrics)

    def test_a_daemon_without_a_store_counts_alone(self):
        with Daemon(WEIR) as daemon:
            self.assertEqual(self.weir(daemon),
                             "this daemon counts on its own: it has no store that it shares with other nodes\n")
            self.assertEqual(json.loads(self.weir(daemon, "--json")), {"fleet": False})

    def test_explain_shows_the_share_of_the_node(self):
        redis = self.redis()
        daemon = self.daemon(redis.url)
        self.wait_for_shares((daemon, 30))
        limit = daemon.post("/v1/explain", policy="api", key="k")[2]["limits"][0]
        self.assertEqual((limit["share"], limit["whole"]), (30, 30))
        self.assertIn("60/s burst 30, this node's part 30 of 30: 30 of 30 left", limit["text"])


if __name__ == "__main__":
    unittest.main()
