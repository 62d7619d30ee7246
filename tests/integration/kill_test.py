"""A daemon with a state file, killed repeatedly under load: kill_test.py WEIR."""

import random
import sys
import tempfile
import threading
import time
import unittest

from daemon import Daemon, under_sanitizer

WEIR = sys.argv.pop(1)
ROUNDS = 5 if under_sanitizer() else 50
KEYS = 20
LIMIT = 10_000_000
POLICIES = f"policies: {{ p: {{ limits: [ {LIMIT} per 8760h window ] }} }}"


class Client(threading.Thread):
    """Takes as fast as it can until the daemon dies; counts the admitted takes, and those without an
    answer."""

    IN_FLIGHT = 16

    def __init__(self, daemon, seed):
        super().__init__()
        self.resp = daemon.resp()
        self.random = random.Random(seed)
        self.granted = [0] * KEYS
        self.unknown = [0] * KEYS

    def run(self):
        while True:
            keys = [self.random.randrange(KEYS) for _ in range(self.IN_FLIGHT)]
            answered = 0
            try:
                self.resp.socket.sendall(
                    b"".join(self.resp.encode("WEIR.TAKE", "p", f"k{key}") for key in keys))
                for key in keys:
                    self.granted[key] += self.resp.read()[0]
                    answered += 1
            except (OSError, EOFError):
                for key in keys[answered:]:
                    self.unknown[key] += 1
                self.resp.close()
                return


class KillTest(unittest.TestCase):
    def test_no_admitted_take_is_forgotten_and_none_minted(self):
        pauses = random.Random(7)
        granted = [0] * KEYS
        unknown = [0] * KEYS
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(WEIR, POLICIES, folder=folder,
                            extra=f"state: {folder}/state\nmemory: 1MiB")
            with daemon:
                for round_ in range(ROUNDS):
                    clients = [Client(daemon, round_ * 10 + i) for i in range(3)]
                    for client in clients:
                        client.start()
                    time.sleep(pauses.random() * 0.05)
                    daemon.kill()
                    for client in clients:
                        client.join()
                    daemon.start()
                    resp = daemon.resp()
                    for key in range(KEYS):
                        granted[key] += sum(client.granted[key] for client in clients)
                        unknown[key] += sum(client.unknown[key] for client in clients)
                        used = LIMIT - resp("WEIR.PEEK", "p", f"k{key}")[2]
                        self.assertGreaterEqual(used, granted[key], f"lost in round {round_}")
                        self.assertLessEqual(used, granted[key] + unknown[key])
                        # The usage now is known exactly.
                        granted[key], unknown[key] = used, 0
                    resp.close()
        self.assertGreater(sum(granted), ROUNDS, "there must have been some load")
        print(f"{ROUNDS} daemons killed, {sum(granted)} takes")


if __name__ == "__main__":
    unittest.main()
