"""Makes system calls of a running process slow, by strace."""

import subprocess
import unittest


class SlowCalls:
    """with SlowCalls(pid, "fsync", 1.5): every fsync of the process takes that many seconds longer. With
    `path`, only calls on that file."""

    def __init__(self, pid, name, seconds, path=None):
        self.command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={name}", "-e",
                        f"inject={name}:delay_enter={int(seconds * 1e6)}", "-p", str(pid)]
        if path:
            self.command += ["-P", path]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "attached" in line:
                return self
            if "not permitted" in line or "inject" in line:
                self.__exit__()
                raise unittest.SkipTest("strace cannot slow this process down: " + line.strip())
        raise AssertionError("strace has ended")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait()
