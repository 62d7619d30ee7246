"""Unmodified Redis clients against a running daemon: clients_test.py WEIR."""

import subprocess
import sys
import unittest

from daemon import Daemon

WEIR = sys.argv.pop(1)

# With the redis module of the interpreter that runs this.
PYTHON_CLIENT = """
import redis, sys
client = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
assert client.ping()
taken = client.execute_command("WEIR.TAKE", "llm", "python", 400)
assert taken[:4] == [1, 1000, 600, 0] and taken[6] == "tokens", taken
with client.pipeline(transaction=False) as pipeline:
    for _ in range(100):
        pipeline.execute_command("WEIR.TAKE", "llm", "python")
    assert [answer[2] for answer in pipeline.execute()] == list(range(599, 499, -1))
try:
    client.execute_command("WEIR.TAKE", "nobody", "python")
except redis.ResponseError as error:
    assert "there is no policy" in str(error), error
else:
    raise AssertionError("no error")
assert client.execute_command("CL.THROTTLE", "python", 4, 1, 1)[:3] == [0, 5, 4]
print("python3-redis is content")
"""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, **more)
    return done.returncode, done.stdout + done.stderr


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR)
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def test_redis_cli_takes_permits(self):
        cli = ("redis-cli", "-p", self.daemon.resp_port)
        self.assertEqual(run(*cli, "PING"), (0, "PONG\n"))
        code, said = run(*cli, "WEIR.TAKE", "llm", "cli", "400")
        self.assertEqual(said.split(), ["1", "1000", "600", "0", "1440000000", "0", "tokens", "0"])
        code, said = run(*cli, "-3", "--json", "WEIR.TAKE", "llm", "cli", "100")
        self.assertIn('"remaining":500', said)
        code, said = run(*cli, "-e", "WEIR.TAKE", "nobody", "cli")
        self.assertEqual(code, 1)
        self.assertIn('there is no policy "nobody"', said)
        code, said = run(*cli, input="WEIR.TAKE llm 'from a pipe' 10\nWEIR.POLICIES\n")
        self.assertIn("990", said)
        self.assertIn("seckill", said)

    def test_redis_benchmark_runs_without_errors(self):
        code, said = run("redis-benchmark", "-p", self.daemon.resp_port, "-n", 20000, "-c", 20,
                         "-P", 16, "-r", 1000, "-q", "WEIR.TAKE", "llm", "key:__rand_int__")
        self.assertEqual(code, 0, said)
        self.assertIn("requests per second", said)
        self.assertNotIn("rror", said)

    def test_python3_redis_runs_all_its_checks(self):
        code, said = run(sys.executable, "-c", PYTHON_CLIENT, self.daemon.resp_port)
        self.assertEqual((code, said), (0, "python3-redis is content\n"))


if __name__ == "__main__":
    unittest.main()
