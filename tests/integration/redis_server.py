"""A private redis-server on a free port, which can be stopped, frozen and started again."""

import os
import signal
import subprocess
import tempfile
import time

from daemon import Resp, free_port


class RedisServer:
    """with RedisServer() as redis: …"""

    READY = "eady to accept connections"

    def __init__(self, *arguments, port=None):
        self.port = port or free_port()
        self.arguments = [str(argument) for argument in arguments]
        self.folder = tempfile.TemporaryDirectory()
        self.process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end()
        self.folder.cleanup()

    def start(self):
        """Starts empty, whatever data it had before."""
        with open(os.path.join(self.folder.name, "log"), "w") as log:
            self.process = subprocess.Popen(self.command(), stdout=log)
        # (By its own log: another server may answer on a port that it could not bind.)
        for _ in range(3000):
            if self.process.poll() is not None:
                raise AssertionError(f"redis-server ended with {self.process.returncode}:\n"
                                     + self.log())
            if self.READY in self.log():
                return
            time.sleep(0.01)
        raise AssertionError("redis-server did not start:\n" + self.log())

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "no", "--dir", self.folder.name, *self.arguments]

    def log(self):
        with open(os.path.join(self.folder.name, "log")) as log:
            return log.read()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def ask(self, *words, password=None):
        """One command on a new connection."""
        connection = Resp(self.port)
        try:
            if password:
                connection("AUTH", password)
            return connection(*words)
        finally:
            connection.close()
