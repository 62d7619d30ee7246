"""`weir test` as a user or a script calls it: output, errors, exit codes.

Usage: test_command.py WEIR [unittest arguments]
"""

import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

WEIR = os.path.abspath(sys.argv.pop(1))

PASSES = "- { name: one, limit: 2/s, steps: [ { at: 0, n: 3, allowed: 2 } ] }\n"
FAILS = """\
- name: a burst, then one per interval
  limit: 20/s burst 30
  steps:
    - { at: 0, n: 50, allowed: 30 }
    - { at: 0.04, allowed: 1, remaining: 0, retry_after: 0 }
"""
# Covers every verb, several limits in one decision, parts, and a limit that changes.
EVERYTHING = """\
- name: everything
  limits: [ { limit: 10/s, name: calls, cost: 1 }, { limit: 20/min, by: user, name: tokens } ]
  steps:
    - { at: 0, parts: { user: a, sku: x }, permits: 8, n: 3, allowed: 2, limited_by: tokens }
    - { at: 0, op: peek, parts: { user: a, sku: y }, permits: 4, allowed: 1, remaining: 4 }
    - { at: 0, op: settle, parts: { user: a, sku: x }, permits: -8, remaining: 8 }
    - { at: 0, op: set_limit, limit: { limit: 40/min, name: tokens } }
    - { at: 0, op: peek, parts: { user: a, sku: y }, permits: 33, outcome: limited }
    - { at: 0, op: reset, parts: { user: a, sku: x } }
    - { at: 0, op: peek, parts: { user: a, sku: x }, permits: 40, allowed: 1 }
"""


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        return path

    def weir(self, *arguments, **options):
        return subprocess.run([WEIR, *arguments], capture_output=True, text=True,
                              cwd=self.folder.name, timeout=120, **options)


class TestCommand(Folder):
    def test_counts_passed_cases(self):
        self.file("a.yaml", PASSES)
        self.file("b.yaml", PASSES + PASSES)
        run = self.weir("test", "a.yaml", "b.yaml")
        self.assertEqual(run.stdout, "a.yaml: 1 passed, 0 failed\n"
                                     "b.yaml: 2 passed, 0 failed\n"
                                     "3 passed, 0 failed\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_reports_failed_expectations(self):
        self.file("a.yaml", FAILS + PASSES)
        run = self.weir("test", "a.yaml")
        self.assertEqual(run.stdout, """\
FAILED a.yaml:1: a burst, then one per interval
  step 2 (a.yaml:5): - { at: 0.04, allowed: 1, remaining: 0, retry_after: 0 }
    allowed      expected 1
                 got      0
    retry_after  expected 0 s
                 got      0.01 s
a.yaml: 1 passed, 1 failed
1 passed, 1 failed
""")
        self.assertEqual(run.returncode, 1)

    def test_json_lists_failures_and_problems(self):
        self.file("a.yaml", FAILS)
        self.file("b.yaml", "- { limit: 5/sec, steps: [] }")
        run = self.weir("test", "a.yaml", "b.yaml", "--json")
        report = json.loads(run.stdout)
        self.assertEqual(run.returncode, 1)
        self.assertEqual((report["passed"], report["failed"]), (0, 1))
        first, second = report["files"]
        self.assertEqual(first["failures"][0],
                         {"case": "a burst, then one per interval", "step": 2, "line": 5,
                          "field": "allowed", "expected": "1", "actual": "0"})
        self.assertEqual(second["problems"], [{"line": 1, "column": 14,
                         "message": 'unknown unit "sec": did you mean "5/s"?'}])

    def test_json_replaces_bytes_that_are_not_utf8(self):
        self.file("a.yaml", b'- { name: "\xff\xfe", limit: 1/s, steps: [ { at: 0, allowed: 0 } ] }')
        run = subprocess.run([WEIR, "test", "a.yaml", "--json"], capture_output=True,
                             cwd=self.folder.name, timeout=60)
        self.assertIn(run.returncode, (0, 1))
        json.loads(run.stdout)

    def test_reports_mistakes_with_their_position(self):
        self.file("a.yaml", "- name: oops\n  limit: 100/sec\n  steps: [ { att: 0 } ]\n")
        run = self.weir("test", "a.yaml")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, """\
a.yaml:2:14: unknown unit "sec": did you mean "100/s"?
    limit: 100/sec
               ^
""")

    def test_runs_cases_that_name_policies_of_a_policy_file(self):
        self.file("weir.yaml", "policies:\n  login: { limits: [ 5/min sliding ] }\n")
        self.file("a.yaml", "- { policy: login, steps: [ { at: 0, n: 6, allowed: 5 } ] }\n")
        self.assertEqual(self.weir("test", "a.yaml", "--config", "weir.yaml").returncode, 0)
        without = self.weir("test", "a.yaml")
        self.assertEqual(without.returncode, 1)
        self.assertIn("--config weir.yaml", without.stderr)

    def test_reports_a_broken_policy_file(self):
        self.file("weir.yaml", "policies:\n  login: { limits: [ 5/minute ] }\n")
        self.file("a.yaml", PASSES)
        run = self.weir("test", "a.yaml", "--config", "weir.yaml")
        self.assertEqual(run.returncode, 1)
        self.assertIn('weir.yaml:2:24: unknown unit "minute": did you mean "5/min"?', run.stderr)

    def test_runs_on_the_memory_store(self):
        self.file("a.yaml", PASSES + EVERYTHING)
        for arguments in (["--store", "memory"], ["--store=memory"]):
            run = self.weir("test", *arguments, "a.yaml")
            self.assertEqual((run.stdout, run.stderr, run.returncode),
                             ("a.yaml: 2 passed, 0 failed\n2 passed, 0 failed\n", "", 0))

    def test_reports_the_same_with_and_without_the_memory_store(self):
        self.file("weir.yaml", "policies:\n  login: { limits: [ 5/min sliding ] }\n")
        self.file("a.yaml", FAILS + EVERYTHING.replace("allowed: 2", "allowed: 3")
                  + "- { policy: login, steps: [ { at: 0, n: 6, allowed: 6 } ] }\n")
        for extra in ([], ["--json"]):
            arguments = ["test", "a.yaml", "--config", "weir.yaml", *extra]
            bare = self.weir(*arguments)
            memory = self.weir(*arguments, "--store", "memory")
            self.assertEqual(bare.returncode, 1)
            self.assertEqual((bare.stdout, bare.stderr, bare.returncode),
                             (memory.stdout, memory.stderr, memory.returncode))

    def test_unknown_stores_exit_with_2(self):
        self.file("a.yaml", PASSES)
        for store in ("memroy", "MEMORY", "core"):
            run = self.weir("test", "a.yaml", "--store", store)
            self.assertEqual((run.stdout, run.returncode), ("", 2))
            self.assertEqual(run.stderr,
                             f'weir test: unknown store "{store}": write --store memory, or --store '
                             "redis://127.0.0.1:6379\n")
        nothing = self.weir("test", "a.yaml", "--store")
        self.assertEqual((nothing.stdout, nothing.returncode), ("", 2))

    def test_usage_errors_exit_with_2(self):
        self.assertEqual(self.weir().returncode, 2)
        self.assertEqual(self.weir("tset").returncode, 2)
        self.assertEqual(self.weir("test").returncode, 2)
        self.assertEqual(self.weir("test", "--jsn", "a.yaml").returncode, 2)
        missing = self.weir("test", "gone.yaml")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("cannot open gone.yaml: No such file or directory", missing.stderr)

    def test_help_and_version_are_printed(self):
        self.assertRegex(self.weir("--version").stdout, r"^weir \d+\.\d+\.\d+\n$")
        for arguments in (["--help"], ["test", "--help"]):
            run = self.weir(*arguments)
            self.assertEqual(run.returncode, 0)
            self.assertIn("Usage", run.stdout)

    def test_hostile_files_end_with_a_clear_error(self):
        hostile = {
            "empty": "",
            "a megabyte of one line": "x" * (1 << 20),
            "a megabyte of a limit": "- { limit: \"" + "9" * (1 << 20) + "/s\", steps: [] }",
            "deep": "[" * 200_000,
            "binary": bytes(range(256)) * 64,
            "many unknown fields": "- {" + ",".join(f"f{i}: 1" for i in range(50_000)) + "}",
        }
        for name, text in hostile.items():
            with self.subTest(name):
                path = self.file("hostile.yaml", text)
                run = subprocess.run([WEIR, "test", path], capture_output=True, timeout=120)
                self.assertEqual(run.returncode, 1)
                self.assertLess(len(run.stderr), 20_000)
                self.assertIn(b"hostile.yaml:", run.stderr)

    def test_long_files_show_progress_on_a_terminal_only(self):
        case = "- { limit: 1000/s sliding exact, steps: [ { at: 0, n: 20000, allowed: 1000 } ] }\n"
        path = self.file("long.yaml", case * 60)
        piped = subprocess.run([WEIR, "test", path], capture_output=True, text=True, timeout=300)
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))

        terminal, other_end = pty.openpty()
        process = subprocess.Popen([WEIR, "test", path], stderr=other_end,
                                   stdout=subprocess.DEVNULL)
        os.close(other_end)
        seen = b""
        try:
            while chunk := os.read(terminal, 4096):
                seen += chunk
        except OSError:  # EIO: the other end of the terminal is closed
            pass
        os.close(terminal)
        self.assertEqual(process.wait(timeout=300), 0)
        self.assertRegex(seen.decode(), r"long\.yaml: \d+ of 60 cases")


if __name__ == "__main__":
    unittest.main()
