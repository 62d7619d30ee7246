"""fleet and fleet_async take exactly what the limit allows, on a private Redis; without a Redis they report
an error.

Usage: fleet_test.py FLEET FLEET_ASYNC
"""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = {"fleet": sys.argv.pop(1), "fleet_async": sys.argv.pop(1)}
sys.path.insert(0, os.path.join(HERE, "..", "tests", "integration"))

from daemon import free_port  # noqa: E402
from redis_server import RedisServer  # noqa: E402


def run(program, address):
    return subprocess.run([program, address], text=True, capture_output=True, timeout=120)


class FleetExamples(unittest.TestCase):
    def test_both_examples_take_what_the_limit_allows(self):
        with RedisServer() as redis:
            for name, program in PROGRAMS.items():
                with open(os.path.join(HERE, name + ".expected.txt"), encoding="utf-8") as expected:
                    done = run(program, redis.url)
                    self.assertEqual((done.returncode, done.stdout), (0, expected.read()), done.stderr)

    def test_both_examples_say_that_there_is_no_server(self):
        address = f"redis://127.0.0.1:{free_port()}"
        for program in PROGRAMS.values():
            done = run(program, address)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, f"no answer from {address}: start one with redis-server\n")

    def test_both_examples_say_why_an_address_is_wrong(self):
        for program in PROGRAMS.values():
            done = run(program, "localhost")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("a store is memory, redis://", done.stderr)


if __name__ == "__main__":
    unittest.main()
