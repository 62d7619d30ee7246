"""The behaviour in failures that docs/operations.md promises: failures_test.py WEIR."""

import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from daemon import Daemon

WEIR = sys.argv.pop(1)
POLICIES = "policies: { p: { limits: [ { limit: 10/h, name: hourly } ] } }\n"


class FailuresTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.state = self.folder / "state"

    def daemon(self, extra=""):
        return Daemon(WEIR, POLICIES, folder=self.folder, extra=f"state: {self.state}\n{extra}")

    def left(self, daemon):
        return daemon.post("/v1/peek", policy="p", key="k")[2]["remaining"]

    def refuses_to_start(self):
        done = subprocess.run([WEIR, "serve", "--config", str(self.folder / "weir.yaml")],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_a_damaged_state_file_is_set_aside_and_a_new_one_begins(self):
        self.state.write_text("weirtab2, and the rest is missing")
        with self.daemon() as daemon:
            daemon.wait_for_log("was set aside as")
            self.assertEqual(self.left(daemon), 10)
        aside = list(self.folder.glob("state.aside-*"))
        self.assertEqual([path.read_text() for path in aside], ["weirtab2, and the rest is missing"])

    def test_a_file_of_another_program_is_not_touched(self):
        self.daemon()
        for content in ("root:x:0:0::/root:/bin/sh\n", ""):
            self.state.write_text(content)
            self.assertIn("stays as it is: give `state` the name of a file that does not exist yet",
                          self.refuses_to_start())
            self.assertEqual(self.state.read_text(), content)
            self.assertEqual([path.name for path in self.folder.glob("state*")], ["state"])

    def test_a_full_disk_is_reported_at_startup(self):
        self.daemon(extra="memory: 60TiB")
        self.assertRegex(self.refuses_to_start(), r"needs [\d.]+ MiB, but the disk has [\d.]+ MiB left")

    def test_damaged_put_policies_are_a_startup_error(self):
        self.daemon()
        (self.folder / "state.policies").write_text("{")
        self.assertIn("state.policies is damaged: move it away", self.refuses_to_start())

    # As on a full disk: a put policy cannot be written.
    def test_a_policy_that_cannot_be_written_is_refused_and_those_in_force_stay(self):
        with self.daemon() as daemon:
            (self.folder / "state.policies.new").mkdir()
            status, _, said = daemon.http("PUT", "/v1/policies/p", {"limits": ["1/s"]})
            self.assertEqual(status, 500)
            self.assertIn("state.policies.new: a file of that name exists", said["detail"])
            self.assertEqual(self.left(daemon), 10)

    def test_an_order_that_cannot_be_written_is_refused(self):
        with self.daemon() as daemon:
            (self.folder / "state.orders").mkdir()  # the temporary file cannot replace a folder
            status, _, said = daemon.post("/v1/block", policy="p", key="k", **{"for": "1h"})
            self.assertEqual(status, 500)
            self.assertIn("cannot replace", said["detail"])
            self.assertEqual(daemon.http("GET", "/v1/orders")[2]["orders"], [])
            self.assertEqual(list(self.folder.glob("*.new")), [])
            self.assertEqual(self.left(daemon), 10)

    def test_a_missing_policy_file_changes_nothing_and_is_counted_on_reload(self):
        with self.daemon() as daemon:
            daemon.config.unlink()
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for_log("the policies stay as they are")
            self.assertEqual(self.left(daemon), 10)
            metrics = daemon.http("GET", "/metrics")[2].decode()
            self.assertIn("weir_last_reload_successful 0\n", metrics)

    # Stopped, copied, started elsewhere.
    def test_the_state_file_can_be_moved(self):
        with self.daemon() as daemon:
            daemon.post("/v1/take", policy="p", key="k", permits=4)
            self.assertEqual(daemon.stop(), 0)
        shutil.copy(self.state, self.folder / "moved")
        self.state.unlink()
        self.state = self.folder / "moved"
        with self.daemon() as daemon:
            self.assertEqual(self.left(daemon), 6)

    def test_a_larger_table_takes_over_the_records_of_the_smaller_one(self):
        with self.daemon() as daemon:
            daemon.post("/v1/take", policy="p", key="k", permits=4)
            self.assertEqual(daemon.stop(), 0)
        with self.daemon(extra="memory: 128MiB") as daemon:
            self.assertEqual(self.left(daemon), 6)


if __name__ == "__main__":
    unittest.main()
