"""The tarball of make dist: unpacked anywhere, its command serves with the libraries in the tarball.

Usage: dist_test.py BUILD SOURCE SCRATCH.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SCRATCH = Path(sys.argv.pop(3)).absolute()
SOURCE = Path(sys.argv.pop(2)).absolute()
BUILD = Path(sys.argv.pop(1)).absolute()
sys.path.insert(0, str(SOURCE / "tests" / "integration"))

from daemon import Daemon  # noqa: E402

# The C library belongs to the system, and the vDSO to the kernel.
SYSTEM = re.compile(r"linux-vdso|ld-linux|lib(c|m|pthread|dl|rt|resolv)\.so")


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, text=True, timeout=300,
                          stdout=subprocess.PIPE, **more).stdout


class DistTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        (SCRATCH / "somewhere else").mkdir(parents=True)
        tarball = run(SOURCE / "tools" / "make-dist", BUILD, SCRATCH).strip()
        run("tar", "--extract", "--file", tarball, "--directory", SCRATCH / "somewhere else")
        [cls.root] = (SCRATCH / "somewhere else").iterdir()
        cls.weir = cls.root / "bin" / "weir"

    def test_every_library_but_the_systems_own_is_in_the_tarball(self):
        loaded = [line.split("=>")[-1].strip() for line in run("ldd", self.weir).splitlines()]
        others = [line for line in loaded if not SYSTEM.search(line)]
        self.assertGreater(len(others), 3)
        for line in others:
            path = os.path.realpath(line.rsplit(" (", 1)[0])
            self.assertTrue(path.startswith(f"{self.root}/lib/weir/"), line)

    def test_the_command_is_stripped(self):
        self.assertNotIn(".debug_info", run("readelf", "--section-headers", "--wide", self.weir))

    def test_the_command_serves(self):
        with Daemon(str(self.weir)) as daemon:
            answer = run(self.weir, "take", "login", "alice", "--url", f"http://127.0.0.1:{daemon.http_port}")
            self.assertRegex(answer, r"allowed +yes")

    def test_the_tarball_contains_the_library(self):
        names = {path.name for path in self.root.rglob("*")}
        self.assertLessEqual({"limiter.h", "libweir_limiter.a", "libweir_redis.a", "LICENSE", "weir.1"}, names)


if __name__ == "__main__":
    unittest.main()
