"""The metrics for Prometheus: metrics_test.py WEIR PROMTOOL."""

import re
import subprocess
import sys
import time
import unittest

from daemon import Daemon

PROMTOOL = sys.argv.pop(2)
WEIR = sys.argv.pop(1)

CONFIG = """
policies:
  login: { limits: [ 3/h window, { limit: 100/h, name: hourly } ] }
  "odd \\"name\\"\\n": { shadow: true, limits: [ 1/h window ] }
gateway:
  listen: 127.0.0.1:0
  routes: [ { name: all, upstream: "http://127.0.0.1:9", limits: [ 1/s queue 1 ], key: ip } ]
"""


def samples(text):
    """{name and labels: value}"""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(WEIR, CONFIG)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def text(self):
        status, headers, body = self.daemon.http("GET", "/metrics")
        self.assertEqual(status, 200)
        return body.decode()

    def take(self, policy, times):
        with_resp = self.daemon.resp()
        for _ in range(times):
            with_resp("WEIR.TAKE", policy, "k")
        with_resp.close()

    def test_promtool_accepts_the_metrics(self):
        self.take("login", 5)
        self.take('odd "name"\n', 3)
        self.daemon.http("POST", "/v1/throttle", {"key": "k", "limit": "1/s"})
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(), text=True,
                                 capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_counters_add_up_over_listeners_and_threads(self):
        self.take("login", 5)
        for _ in range(4):
            self.daemon.http("POST", "/v1/take", {"policy": "login", "key": "k"})
        found = samples(self.text())
        self.assertEqual(found['weir_decisions_total{policy="login",outcome="allowed"}'], 3)
        self.assertEqual(found['weir_decisions_total{policy="login",outcome="limited"}'], 6)
        self.assertEqual(
            found['weir_limit_refusals_total{policy="login",limit="0",shadow="false"}'], 6)
        self.assertGreaterEqual(found['weir_request_duration_seconds_count{listener="resp"}'], 5)
        self.assertGreaterEqual(found['weir_request_duration_seconds_count{listener="http"}'], 4)
        self.assertEqual(found["weir_generation"], 1)
        self.assertGreater(found["weir_connections_total"], 5)
        self.assertGreater(found["process_start_time_seconds"], 1_700_000_000)

    def test_a_histogram_never_goes_down(self):
        self.take("login", 100)
        counts = [value for name, value in samples(self.text()).items()
                  if re.match(r'weir_request_duration_seconds_bucket\{listener="resp"', name)]
        self.assertGreater(len(counts), 10)
        self.assertEqual(counts, sorted(counts))
        self.assertGreaterEqual(counts[-1], 100)

    # The metric is updated periodically.
    def test_metrics_show_how_full_the_table_is(self):
        self.take("login", 1)
        live = 0
        until = time.monotonic() + 30
        while live == 0 and time.monotonic() < until:
            found = samples(self.text())
            live = found["weir_memory_slots_live"]
            time.sleep(0.2)
        self.assertEqual(live, 2)
        self.assertGreater(found["weir_memory_slots"], 1_000_000)


if __name__ == "__main__":
    unittest.main()
