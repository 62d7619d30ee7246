"""The samples of docs/clients.md against a daemon: client_samples_test.py WEIR SOURCE BUILD CLIENT.

The driver of a sample in tests/integration/clients calls it from many threads at once, and prints the number
of admitted calls and the seconds of the longest one. CLIENT is one of CLIENTS below. Clients that are not
installed, or cannot be fetched from their registry, are skipped.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from daemon import Daemon

CLIENT = sys.argv.pop(4)
BUILD = Path(sys.argv.pop(3)) / "client_samples" / CLIENT
SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
SAMPLES = SOURCE / "examples" / "clients"
DRIVERS = SOURCE / "tests" / "integration" / "clients"

LIMIT = 300
POLICIES = f"policies: {{ counted: {{ limits: [ {LIMIT} per 1000h ] }} }}"
# No test may depend on a fast machine: this is the time for an answer.
PATIENT = "60"


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)


def fetch(*command, **more):
    """Skips the test if the registry cannot be reached."""
    done = run(*command, **more)
    if done.returncode != 0:
        raise unittest.SkipTest(f"{' '.join(map(str, command))}: {done.stderr[-300:]}")


def need(program):
    if not shutil.which(program):
        raise unittest.SkipTest(f"there is no {program} here")


class Sample:
    """A file of examples/clients, and the command of its driver. `deadline`: its text in the sample, and
    the text for PATIENT."""

    def __init__(self, file, driver, deadline, threads=200):
        self.file = file
        self.driver = driver
        self.deadline = deadline
        self.threads = threads

    def write(self, folder, daemon, patient):
        text = (SAMPLES / self.file).read_text()
        assert "7379" in text or "7380" in text, self.file
        text = text.replace("7379", str(daemon.resp_port)).replace("7380", str(daemon.http_port))
        assert self.deadline[0] in text, (self.file, self.deadline)
        if patient:
            text = text.replace(*self.deadline)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.file).write_text(text)
        shutil.copy(DRIVERS / self.driver, folder)

    # ---- One class for each language

    def prepare(self):
        """Fetches the client; skips the test if it is unavailable."""

    def build(self, folder):
        """Compiles the sample and its driver."""

    def command(self, folder):
        raise NotImplementedError


class Python(Sample):
    def __init__(self, file, driver="drive.py"):
        super().__init__(file, driver, ("DEADLINE = 0.1", f"DEADLINE = {PATIENT}"))
        self.environment = dict(os.environ)

    def command(self, folder):
        return [sys.executable, folder / self.driver, self.file.removesuffix(".py")]


class NewestPython(Python):
    def prepare(self):
        packages = BUILD / "packages"
        if not packages.exists():
            fetch(sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", f"{packages}.new", "redis")
            os.rename(f"{packages}.new", packages)
        self.environment["PYTHONPATH"] = str(packages)


class Node(Sample):
    packages = ["ci"]

    def __init__(self):
        super().__init__("take.mjs", "drive.mjs", ("DEADLINE = 100;", f"DEADLINE = {PATIENT}_000;"))

    def prepare(self):
        need("npm")
        folder = BUILD / "packages"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "node_modules").exists():
            self.list_packages(folder)
            fetch("npm", *self.packages, "--no-audit", "--no-fund", cwd=folder)
        # (Modules are found in the parent folders of a program.)
        (BUILD / "node_modules").exists() or (BUILD / "node_modules").symlink_to(folder / "node_modules")

    def list_packages(self, folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / "tests" / "integration" / "node" / name, folder)

    def command(self, folder):
        return ["node", folder / self.driver, "take"]


class NewestNode(Node):
    packages = ["install", "redis@latest"]

    def list_packages(self, folder):
        (folder / "package.json").write_text("{}\n")


class Go(Sample):
    def __init__(self, file):
        super().__init__(file, "drive.go", ("100 * time.Millisecond", f"{PATIENT} * time.Second"))

    def prepare(self):
        need("go")

    def build(self, folder):
        (folder / "go.mod").write_text("module sample\n\ngo 1.18\n")
        self.tidy(folder)
        done = run("go", "build", "-buildvcs=false", "-o", "sample", ".", cwd=folder)
        assert done.returncode == 0, done.stderr

    def tidy(self, folder):
        """The imports outside the standard library."""

    def command(self, folder):
        return [folder / "sample", "take"]


class NewestGo(Go):
    def tidy(self, folder):
        fetch("go", "get", "github.com/redis/go-redis/v9@latest", cwd=folder)


class Java(Sample):
    def __init__(self):
        super().__init__("Take.java", "Drive.java", ("Duration.ofMillis(100)", f"Duration.ofSeconds({PATIENT})"))

    def prepare(self):
        need("javac")

    def build(self, folder):
        done = run("javac", "Take.java", "Drive.java", cwd=folder)
        assert done.returncode == 0, done.stderr

    def command(self, folder):
        return ["java", "-Xmx128m", "-cp", folder, "Drive", "Take"]


class Php(Sample):
    def __init__(self):
        super().__init__("take.php", "drive.php", ("DEADLINE = 0.1", f"DEADLINE = {PATIENT}"), threads=1)

    def prepare(self):
        need("php")
        if "redis" not in run("php", "-m").stdout.split():
            raise unittest.SkipTest("php has no extension redis here")

    def command(self, folder):
        return ["php", folder / self.driver, "take"]


CLIENTS = {
    "python": [Python("take_redis.py"), Python("take_asyncio.py", "drive_asyncio.py"), Python("take_http.py")],
    "newest_python": [NewestPython("take_redis.py"), NewestPython("take_asyncio.py", "drive_asyncio.py")],
    "node": [Node()],
    "newest_node": [NewestNode()],
    "go": [Go("take_http.go")],
    "newest_go": [NewestGo("take_redis.go")],
    "java": [Java()],
    "php": [Php()],
}


class SamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR, POLICIES).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)

    def ready(self, daemon, patient):
        """Writes the samples of this client, each into a folder with its driver."""
        folders = []
        for sample in CLIENTS[CLIENT]:
            sample.prepare()
            folder = BUILD / f"{sample.file.replace('.', '_')}_{'patient' if patient else 'as_documented'}"
            sample.write(folder, daemon, patient)
            sample.build(folder)
            folders.append((sample, folder))
        return folders

    def drive(self, sample, folder, policy, key, calls):
        return run(*sample.command(folder), policy, key, sample.threads, calls,
                   env=getattr(sample, "environment", None))

    # Exactly: no concurrent call is admitted for lack of a connection.
    def test_concurrent_callers_get_exactly_the_limit(self):
        for sample, folder in self.ready(self.daemon, patient=True):
            done = self.drive(sample, folder, "counted", sample.file, calls=2 * LIMIT // sample.threads)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["admitted"], LIMIT, done.stderr)

    def test_a_misspelled_policy_is_an_error(self):
        for sample, folder in self.ready(self.daemon, patient=True):
            done = self.drive(sample, folder, "countd", "key", calls=1)
            self.assertIn("there is no policy", done.stderr)
            self.assertNotIn("admitted", done.stdout)

    # A daemon that accepts connections and never answers, then one that is gone.
    def test_calls_return_soon_and_are_admitted_while_weir_does_not_answer(self):
        with Daemon(WEIR, POLICIES) as daemon:
            ready = self.ready(daemon, patient=False)
            daemon.process.send_signal(signal.SIGSTOP)
            for sample, folder in ready:
                self.check_outage(sample, folder, "hangs")
        for sample, folder in ready:
            self.check_outage(sample, folder, "is gone")

    def check_outage(self, sample, folder, state):
        start = time.monotonic()
        calls = 1 if sample.threads > 1 else 20
        done = self.drive(sample, folder, "counted", "key", calls)
        took = time.monotonic() - start
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["admitted"], sample.threads * calls)
        print(f"{CLIENT} {sample.file}, weir {state}: longest of {said['admitted']} calls {said['longest']:.3f} s, "
              f"all of them and their start {took:.1f} s")
        # (With a wide margin: the deadline is a tenth of a second, and a machine may be busy.)
        self.assertLess(took, 30)


if __name__ == "__main__":
    unittest.main()
