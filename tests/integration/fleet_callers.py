"""Callers of daemons that share their limits, under load while the store has faults."""

import threading
import time

from daemon import RespError, eventually, under_sanitizer

CALLS = 40 if under_sanitizer() else 200


class Callers:
    """Connections that take from daemons continuously, each in a thread, until told to stop."""

    def __init__(self, daemons, *command):
        self.admitted = 0
        self.degraded = 0
        self.answered = 0
        self.errors = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=[daemon, command])
                        for daemon in daemons for _ in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self, daemon, command):
        resp = daemon.resp()
        try:
            while not self.over.is_set():
                resp.socket.sendall(resp.encode(*command) * 4)
                for _ in range(4):
                    self.note(resp.read())
        except Exception as error:
            self.errors.append(error)
        finally:
            resp.close()

    def note(self, answer):
        if isinstance(answer, RespError):
            raise answer
        with self.lock:
            self.answered += 1
            self.admitted += answer[0]
            self.degraded += answer[7]

    def have_answers(self, more=CALLS):
        """Waits for this many more answers."""
        wanted = self.answered + more
        eventually(lambda: self.answered >= wanted or self.errors, "callers are answered")

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def use_up(daemon, *command):
    """Takes what is left, one permit at a time: until refusals persist after all lost takes were refunded."""
    resp = daemon.resp()
    # (The call may have reached a thread whose own link is not reconnected yet.)
    eventually(lambda: resp("WEIR.PEEK", *command[1:])[7] == 0, "the store is there")
    admitted = refused = 0
    while refused < 20:
        answer = resp(*command)
        assert answer[7] == 0, "degraded"
        admitted += answer[0]
        refused = 0 if answer[0] else refused + 1
        if not answer[0]:
            time.sleep(0.02)  # the node caches a refusal for a while
    resp.close()
    return admitted
