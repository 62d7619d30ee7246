#!/usr/bin/env python3
"""Daemons on one Redis that fails in every possible way, for a while: fleet_soak_test.py WEIR [SECONDS].

Callers take under a limit that is closed without the store. For any failure of the store, no more calls pass
than the limit allows; all permits pass in the end, except those charged without an answer; every call is
answered; and after the faults the daemons heal by themselves.
"""

import contextlib
import random
import sys
import threading
import time
import unittest

from daemon import Daemon, Resp, eventually
from redis_server import RedisServer

WEIR = sys.argv.pop(1)
SECONDS = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 12
LIMIT = 50_000
POLICIES = f"""
policies:
  closed: {{ limits: [ {{ limit: {LIMIT} per 8760h, name: total }} ], on_store_failure: closed }}
  mixed:
    limits:
      - {{ limit: 1000000/s, scope: node, name: here }}
      - {{ limit: {LIMIT} per 8760h, name: total }}
    on_store_failure: closed
  open: {{ limits: [ 1000/s ], on_store_failure: open }}
  local: {{ limits: [ 100/s sliding ] }}
"""
COUNTED = ("closed", "mixed")


class Tally:
    def __init__(self):
        self.mutex = threading.Lock()
        self.passed = dict.fromkeys(COUNTED, 0)
        self.unanswered = dict.fromkeys(COUNTED, 0)  # permits that may have been charged
        self.answers = 0
        self.degraded = 0
        self.slowest = 0.0

    def add(self, policy, permits, answer, took):
        with self.mutex:
            self.answers += 1
            self.slowest = max(self.slowest, took)
            self.degraded += answer[7]
            if policy in COUNTED:
                self.passed[policy] += permits * answer[0]
                self.unanswered[policy] += permits * answer[7]


class Faults:
    """The possible faults of a Redis."""

    def __init__(self, redis, chance):
        self.redis = redis
        self.chance = chance
        self.done = {}

    def one(self):
        fault = self.chance.choice([self.hang, self.hang, self.die, self.cut, self.flush_scripts,
                                    self.fill, self.make_read_only])
        with contextlib.suppress(OSError, EOFError):  # two at a time
            fault()
        self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1

    def pause(self, longest=0.5):
        time.sleep(self.chance.uniform(0.01, longest))

    def hang(self):
        self.redis.freeze()
        self.pause()
        self.redis.thaw()

    def die(self):
        """Restarts it; acknowledged writes are on the disk."""
        self.redis.end()
        self.pause()
        self.redis.start()

    def cut(self):
        self.redis.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def flush_scripts(self):
        self.redis.ask("SCRIPT", "FLUSH")

    def fill(self):
        self.redis.ask("CONFIG", "SET", "maxmemory", "1")
        self.pause()
        self.redis.ask("CONFIG", "SET", "maxmemory", "0")

    def make_read_only(self):
        self.redis.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        self.pause()
        self.redis.ask("CONFIG", "SET", "min-replicas-to-write", "0")

    def end(self):
        """Switches all faults off."""
        self.redis.thaw()
        self.redis.ask("CONFIG", "SET", "maxmemory", "0")
        self.redis.ask("CONFIG", "SET", "min-replicas-to-write", "0")


class FleetSoakTest(unittest.TestCase):
    def test_no_fault_of_the_store_mints_permits(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        tally, failures = Tally(), []
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(RedisServer("--appendonly", "yes", "--appendfsync", "always"))
            daemons = [stack.enter_context(
                Daemon(WEIR, POLICIES, extra=f"store: {redis.url}\nstore_timeout: 50ms"))
                for _ in range(2)]
            ends = time.monotonic() + SECONDS

            def call(number):
                chance = random.Random(seed + number)
                resp = daemons[number % 2].resp()
                try:
                    while time.monotonic() < ends:
                        policy = chance.choice(["closed", "mixed", "open", "local"])
                        permits = chance.choice([1, 1, 1, 5])
                        asked = time.monotonic()
                        answer = resp("WEIR.TAKE", policy, "k", permits)
                        tally.add(policy, permits, answer, time.monotonic() - asked)
                except Exception as error:  # noqa: BLE001
                    failures.append(repr(error))
                    raise
                finally:
                    resp.close()

            callers = [threading.Thread(target=call, args=[number]) for number in range(8)]
            for caller in callers:
                caller.start()
            faults = Faults(redis, random.Random(seed))
            while time.monotonic() < ends - 1 and not failures:
                faults.one()
                faults.pause(0.3)
            faults.end()
            for caller in callers:
                caller.join()
            self.assertEqual(failures, [])
            self.assert_healed(daemons)
            self.use_up(daemons[0], tally)
            self.assertTrue(all(daemon.process.poll() is None for daemon in daemons))
        print(f"{tally.answers} answers, {tally.degraded} without the store, "
              f"the slowest after {tally.slowest * 1000:.0f} ms; faults: {faults.done}; "
              f"passed {tally.passed} of {LIMIT}, perhaps lost {tally.unanswered}")
        for policy in COUNTED:
            self.assertLessEqual(tally.passed[policy], LIMIT)
            self.assertGreaterEqual(tally.passed[policy] + tally.unanswered[policy], LIMIT)

    def assert_healed(self, daemons):
        for daemon in daemons:
            resp = daemon.resp()
            for policy in ("closed", "mixed", "open", "local"):
                eventually(lambda: resp("WEIR.TAKE", policy, "another")[7] == 0, "it heals")
            resp.close()

    def use_up(self, daemon, tally):
        """Takes what is left, so that no excess stays hidden."""
        resp = daemon.resp()
        for policy in COUNTED:
            for permits in (1000, 100, 10, 1):
                while True:
                    answer = resp("WEIR.TAKE", policy, "k", permits)
                    tally.add(policy, permits, answer, 0)
                    if not answer[0]:
                        break
        resp.close()


if __name__ == "__main__":
    unittest.main()
