"""Notifications for a supervisor such as systemd: notify_test.py WEIR."""

import os
import re
import signal
import socket
import sys
import tempfile
import unittest
from unittest import mock

from daemon import Daemon
from slow_calls import SlowCalls

WEIR = sys.argv.pop(1)
POLICIES = "policies: { p: { limits: [ 10/h ] } }\n"


class Supervisor:
    """The socket of a supervisor."""

    def __init__(self, name):
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(30)

    def hear(self):
        """The next datagram, as {name: value}."""
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))

    def hear_until(self, name):
        """All datagrams up to the one with the name."""
        heard = [self.hear()]
        while name not in heard[-1]:
            heard.append(self.hear())
        return heard


class NotifyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name + "/notify"

    def supervisor(self, name=None, **environment):
        supervisor = Supervisor(name or self.path)
        self.addCleanup(supervisor.socket.close)
        patch = mock.patch.dict(os.environ, {"NOTIFY_SOCKET": supervisor.name, **environment})
        patch.start()
        self.addCleanup(patch.stop)
        return supervisor

    def test_ready_is_sent_when_all_listeners_are_open_and_stopping_at_the_end(self):
        supervisor = self.supervisor()
        with Daemon(WEIR, POLICIES) as daemon:
            self.assertEqual(supervisor.hear(), {"READY": "1", "STATUS": "serving generation 1"})
            self.assertEqual(daemon.http("GET", "/readyz")[0], 200)
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual(supervisor.hear()["STOPPING"], "1")

    def test_an_abstract_socket_is_notified(self):
        supervisor = self.supervisor(f"@weir-test-{os.getpid()}")
        with Daemon(WEIR, POLICIES):
            self.assertEqual(supervisor.hear()["READY"], "1")

    def test_sighup_sends_reloading_and_then_ready(self):
        supervisor = self.supervisor()
        with Daemon(WEIR, POLICIES) as daemon:
            supervisor.hear_until("READY")
            daemon.process.send_signal(signal.SIGHUP)
            reloading, ready = supervisor.hear(), supervisor.hear()
            self.assertEqual(reloading["RELOADING"], "1")
            self.assertRegex(reloading["MONOTONIC_USEC"], r"^[1-9]\d*$")
            self.assertEqual(ready, {"READY": "1", "STATUS": "serving generation 2"})

    def test_a_file_with_errors_is_reported_and_the_daemon_is_ready_again(self):
        supervisor = self.supervisor()
        with Daemon(WEIR, POLICIES) as daemon:
            supervisor.hear_until("READY")
            daemon.config.write_text("policies: { p: { limits: [ 10/hr ] } }\n")
            ready = supervisor.hear_until("READY")[-1]
            self.assertEqual(ready["READY"], "1")
            self.assertRegex(ready["STATUS"], r"^serving generation 1: .*weir\.yaml has mistakes")

    def test_the_watchdog_is_notified_in_time(self):
        supervisor = self.supervisor(WATCHDOG_USEC="1000000")
        with Daemon(WEIR, POLICIES):
            supervisor.hear_until("READY")
            for _ in range(3):
                self.assertEqual(supervisor.hear(), {"WATCHDOG": "1"})

    def test_the_watchdog_is_notified_while_a_name_is_resolved(self):
        supervisor = self.supervisor(WATCHDOG_USEC="400000")
        gateway = "gateway: {{ listen: 127.0.0.1:0, routes: [ {{ match: {{ path: /** }}, upstream: {} }} ] }}\n"
        with Daemon(WEIR, POLICIES + gateway.format("http://127.0.0.1:9")) as daemon:
            supervisor.hear_until("READY")
            # The file that a resolver reads first.
            with SlowCalls(daemon.process.pid, "openat", 3, path="/etc/hosts"):
                daemon.config.write_text(daemon.config.read_text().replace("127.0.0.1:9", "localhost:9"))
                supervisor.hear_until("RELOADING")
                heard = supervisor.hear_until("READY")
            self.assertGreater(len([each for each in heard if "WATCHDOG" in each]), 3)
            self.assertEqual(heard[-1]["STATUS"], "serving generation 2")

    def test_a_watchdog_of_another_process_is_not_notified(self):
        supervisor = self.supervisor(WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid()))
        with Daemon(WEIR, POLICIES) as daemon:
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for_log("generation 2")
            self.assertEqual(daemon.stop(), 0)
            heard = supervisor.hear_until("STOPPING")
            self.assertFalse([each for each in heard if "WATCHDOG" in each])

    def test_a_missing_supervisor_is_reported_and_the_daemon_serves(self):
        for name, why in ((self.path, "No such file"), ("nonsense", "neither a path nor @name")):
            with mock.patch.dict(os.environ, {"NOTIFY_SOCKET": name}):
                with Daemon(WEIR, POLICIES) as daemon:
                    daemon.wait_for_log(why)
                    self.assertEqual(daemon.http("GET", "/readyz")[0], 200)
                    self.assertEqual(daemon.stop(), 0)
                    told = [line for line in daemon.log if re.search("NOTIFY_SOCKET", line)]
                    self.assertEqual(len(told), 1, told)


if __name__ == "__main__":
    unittest.main()
