"""A slow disk delays only the requests that need a write: blocking_test.py WEIR."""

import os
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from daemon import Daemon
from slow_calls import SlowCalls

WEIR = sys.argv.pop(1)
# LeakSanitizer fails while strace is attached.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
POLICIES = "policies: { p: { limits: [ 10/h ] } }\n"


class SlowDiskTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = Path(folder.name) / "state"
        # One event loop for all connections.
        self.daemon = Daemon(WEIR, POLICIES, extra=f"state: {self.state}", args=["--threads", "1"])
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def wait_for_write(self, name, thread):
        """Waits for the new file, which is not yet on the disk."""
        path = Path(f"{self.state}.{name}.new")
        while not path.exists() and thread.is_alive():
            time.sleep(0.001)
        return path

    def check_that_others_are_answered_during(self, change, name, text):
        answers = []
        thread = threading.Thread(target=lambda: answers.append((change()[0], self.kept(name, text))))
        with SlowCalls(self.daemon.process.pid, "fsync", 2):
            thread.start()
            path = self.wait_for_write(name, thread)
            self.assertEqual(self.daemon.post("/v1/peek", policy="p", key="k")[2]["limit"], 10)
            self.assertTrue(path.exists(), "answered only after the file was written")
            self.assertEqual(answers, [], "answered before the file was written")
            thread.join()
        self.assertEqual(answers, [(200, True)])

    def kept(self, name, text):
        path = Path(f"{self.state}.{name}")
        return path.exists() and text in path.read_text()

    def test_putting_a_policy_does_not_block_other_requests(self):
        self.check_that_others_are_answered_during(
            lambda: self.daemon.http("PUT", "/v1/policies/q", {"limits": ["7/min"]}), "policies",
            "7/min")
        self.assertEqual(self.daemon.post("/v1/peek", policy="q", key="k")[2]["limit"], 7)

    def test_giving_an_order_does_not_block_other_requests(self):
        self.check_that_others_are_answered_during(
            lambda: self.daemon.post("/v1/boost", policy="p", times=2, **{"for": "1h"}), "orders",
            "boost")
        self.assertEqual(self.daemon.post("/v1/peek", policy="p", key="k")[2]["limit"], 20)

    def test_a_pending_write_is_finished_when_the_daemon_ends(self):
        thread = threading.Thread(
            target=lambda: self.daemon.http("PUT", "/v1/policies/q", {"limits": ["7/min"]}))
        with SlowCalls(self.daemon.process.pid, "fsync", 0.5):
            thread.start()
            self.wait_for_write("policies", thread)
            self.assertEqual(self.daemon.stop(), 0)
            thread.join()
        self.assertTrue(self.kept("policies", "7/min"))


if __name__ == "__main__":
    unittest.main()
