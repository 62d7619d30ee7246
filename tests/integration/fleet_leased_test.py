"""Daemons that lease permits of one limit from one Redis: fleet_leased_test.py WEIR."""

import contextlib
import re
import sys
import threading
import time
import unittest

from daemon import Daemon, eventually, under_sanitizer
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

POLICIES = """
policies:
  total: { limits: [ { limit: 2000 per 240h, scope: leased } ], on_store_failure: closed }
  day: { limits: [ { limit: 3000/day, scope: leased } ], on_store_failure: closed }
  burst: { limits: [ { limit: 100/s burst 100, scope: leased } ], on_store_failure: closed }
  hot: { limits: [ { limit: 20000/s burst 20000, scope: leased } ], on_store_failure: closed }
  sale:
    limits:
      - { by: user, limit: 1/h, scope: node, name: user }
      - { by: sku, limit: 100 per 240h, scope: leased, name: product }
  open: { limits: [ { limit: 2000 per 240h, scope: leased } ], on_store_failure: open }
  local: { limits: [ { limit: 2000 per 240h, scope: leased } ], on_store_failure: local }
"""


class Caller:
    """A connection that sends calls in batches, and records when they were admitted."""

    def __init__(self, daemon, policy, key="k"):
        self.resp = daemon.resp()
        self.command = self.resp.encode("WEIR.TAKE", policy, key)
        self.passed = []  # (before the request, after the answer, count)
        self.degraded = 0

    def total(self):
        return sum(count for _, _, count in self.passed)

    def call(self, calls):
        """The number of these calls that are admitted."""
        before = time.monotonic()
        self.resp.socket.sendall(self.command * calls)
        answers = [self.resp.read() for _ in range(calls)]
        count = sum(answer[0] for answer in answers)
        self.degraded += sum(answer[7] for answer in answers)
        self.passed.append((before, time.monotonic(), count))
        return count


def held_by(daemon):
    """The permits that a daemon reports as leased and not spent."""
    text = daemon.http("GET", "/metrics")[2].decode()
    return int(re.search(r"^weir_lease_permits_held (\d+)", text, re.M)[1])


def questions_of(daemon):
    text = daemon.http("GET", "/metrics")[2].decode()
    return int(re.search(r"^weir_lease_questions_total (\d+)", text, re.M)[1])


def most_above(passed, burst, rate):
    """The largest excess of any interval over its allowance. A call sent and answered within an interval
    was decided within it."""
    passed = sorted((entry for entry in passed if entry[2]), key=lambda entry: entry[1])
    worst = -burst
    for first, _, _ in passed:
        inside = 0
        for before, behind, count in passed:
            if before < first:
                continue
            inside += count
            worst = max(worst, inside - burst - rate * (behind - first))
    return worst


class LeasedTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.redis = self.stack.enter_context(RedisServer())

    def daemons(self, count, timeout="5s"):
        return [self.stack.enter_context(
            Daemon(WEIR, POLICIES, extra=f"store: {self.redis.url}\nstore_timeout: {timeout}"))
            for _ in range(count)]

    def caller(self, daemon, policy, key="k"):
        caller = Caller(daemon, policy, key)
        self.stack.callback(caller.resp.close)
        return caller

    def use_up(self, callers):
        """Waits until no call is admitted for a while: until all leases have been returned."""
        quiet = 0
        while quiet < 20:
            got = sum(caller.call(50) for caller in callers)
            quiet = 0 if got else quiet + 1
            time.sleep(0.03)  # the node does not repeat a request that the store has just refused

    def at_once(self, callers, run):
        threads = [threading.Thread(target=run, args=[caller]) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def hammer(self, callers, seconds, calls=50):
        """Runs all callers concurrently, each as fast as it can."""
        end = time.monotonic() + seconds

        def run(caller):
            while time.monotonic() < end:
                caller.call(calls)

        self.at_once(callers, run)

    def test_four_daemons_use_up_a_limit_and_no_more(self):
        daemons = self.daemons(4)
        for policy, limit in (("total", 2000), ("day", 3000)):
            callers = [self.caller(daemon, policy) for daemon in daemons for _ in range(3)]
            self.hammer(callers, seconds=0.2)
            self.use_up(callers)
            self.assertEqual(sum(caller.total() for caller in callers), limit)
            self.assertEqual(sum(caller.degraded for caller in callers), 0)

    def test_no_interval_exceeds_the_burst_plus_its_refill(self):
        daemons = self.daemons(4)
        # One daemon has most of the callers.
        uneven = [daemons[0]] * 5 + daemons[1:]
        callers = [self.caller(daemon, "hot") for daemon in uneven]
        self.hammer(callers, seconds=1 if under_sanitizer() else 2.5)
        passed = [entry for caller in callers for entry in caller.passed]
        self.assertLessEqual(most_above(passed, 20000, 20000), 0)
        total = sum(count for _, _, count in passed)
        self.assertGreater(total, 0)
        # (Far fewer; the number depends on the speed of the machine.)
        self.assertLess(sum(questions_of(daemon) for daemon in daemons), total / 10)

    def test_bursts_admit_no_more_than_the_limit(self):
        for count in (1, 2):
            daemons = self.daemons(count)
            key = f"{count} nodes"
            callers = [self.caller(daemon, "burst", key) for daemon in daemons for _ in range(2)]
            before = sum(questions_of(daemon) for daemon in daemons)
            for _ in range(3):
                self.at_once(callers, lambda caller: caller.call(200 // len(callers)))
                time.sleep(1.3)
            questions = sum(questions_of(daemon) for daemon in daemons) - before
            passed = [entry for caller in callers for entry in caller.passed]
            self.assertLessEqual(most_above(passed, 100, 100), 0)
            # (The amount depends on the speed of the machine.)
            total = sum(caller.total() for caller in callers)
            print(f"{key}: {total / 300:.2f} of what bursts ideally admit, {questions} questions")

    def test_a_stopping_daemon_gives_its_leases_back(self):
        first, second = self.daemons(2)
        one = self.caller(first, "total")
        self.hammer([one], seconds=0.3, calls=3)
        used = one.total()
        self.assertEqual(first.stop(), 0)
        other = self.caller(second, "total")
        self.use_up([other])
        self.assertEqual(used + other.total(), 2000)

    def test_a_killed_daemon_costs_at_most_its_leases(self):
        first, second = self.daemons(2)
        one = self.caller(first, "total")
        self.hammer([one], seconds=0.3, calls=3)
        first.kill()
        other = self.caller(second, "total")
        self.use_up([other])
        total = one.total() + other.total()
        self.assertLessEqual(total, 2000)
        # At most a fourth of a limit is leased to one of two nodes.
        self.assertGreaterEqual(total, 2000 - 2000 // 4)

    def test_unused_permits_are_given_back(self):
        first, second = self.daemons(2)
        one = self.caller(first, "total")
        self.hammer([one], seconds=0.3, calls=3)
        eventually(lambda: held_by(first) == 0, "nothing is held by who has no callers")
        other = self.caller(second, "total")
        self.use_up([other])
        self.assertEqual(one.total() + other.total(), 2000)

    def test_a_policy_combines_a_node_limit_and_a_leased_limit(self):
        daemons = self.daemons(2)
        sold = 0
        for i in range(300):
            resp = daemons[i % 2].resp()
            words = ("WEIR.TAKE", "sale", "PARTS", "sku", "42", "user", f"user {i}")
            sold += resp(*words)[0]
            self.assertEqual(resp(*words)[0], 0)  # once each, or not at all
            resp.close()
            if sold == 100:
                break
        self.assertEqual(sold, 100)

    def test_the_store_failure_mode_applies_when_the_lease_is_used_up(self):
        daemon, = self.daemons(1, timeout="50ms")
        callers = {policy: self.caller(daemon, policy) for policy in ("total", "open", "local")}
        for caller in callers.values():
            self.assertEqual(caller.call(10), 10)
        self.redis.freeze()
        for policy, caller in callers.items():
            # The lease is spent first, then the failure mode of the policy applies.
            eventually(lambda: caller.call(1) is not None and caller.degraded > 0,
                       f"{policy} is degraded")
        before = {policy: caller.total() for policy, caller in callers.items()}
        self.assertEqual(callers["total"].call(20), 0)
        self.assertEqual(callers["open"].call(20), 20)
        self.assertEqual(callers["local"].call(20), 20)
        self.redis.thaw()
        for policy, caller in callers.items():
            def heals():
                degraded = caller.degraded
                return caller.call(1) == 1 and caller.degraded == degraded

            eventually(heals, f"{policy} heals")
        self.assertGreaterEqual(callers["total"].total(), before["total"])

    def test_a_store_that_lost_its_data_learns_the_held_leases(self):
        daemon, = self.daemons(1)
        caller = self.caller(daemon, "total")
        self.hammer([caller], seconds=0.2, calls=3)
        used = caller.total()
        held = held_by(daemon)
        self.redis.ask("FLUSHALL")
        self.use_up([caller])
        # (Spent permits are forgotten, as the operator wanted.)
        self.assertLessEqual(caller.total(), used + 2000 + held)
        self.assertGreaterEqual(caller.total(), 2000)


if __name__ == "__main__":
    unittest.main()
