"""The busiest keys, over HTTP and in a real terminal: top_test.py WEIR."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from daemon import Daemon, free_port

WEIR = sys.argv.pop(1)

CONFIG = """
policies:
  login: { limits: [ 5/h window ] }
  api: { limits: [ 1000000/s ] }
"""
HOSTILE = b"\x1b]0;pwned\x07"


def wait_for(condition, what):
    """What `condition` says once it says something."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"never: {what() if callable(what) else what}")


class Traffic:
    """Asks again and again until it is told to stop. Lives through restarts of the daemon."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends.is_set():
            try:
                with contextlib.closing(self.daemon.resp()) as resp:
                    self.ask(resp)
            except (OSError, EOFError):
                self.ends.wait(0.05)

    def ask(self, resp):
        while not self.ends.wait(0.02):
            for policy, key in [("login", "mallory"), ("api", "alice"), ("api", "alice"),
                                ("api", HOSTILE)]:
                resp("WEIR.TAKE", policy, key)

    def stop(self):
        self.ends.set()
        self.thread.join()


class Screen:
    """A terminal in which a shell runs: tmux with a server of its own."""

    def __init__(self, columns, rows, environment):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.folder.name, "tmux")
        settings = [f"-e{name}={value}" for name, value in environment.items()]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  *settings, "sh")
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("set-option", "-g", "set-titles", "off")
        self.resize(columns, rows)

    def tmux(self, *arguments):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "screen", "TMUX": ""}
        return subprocess.run(["tmux", "-u", "-S", self.socket, *arguments], env=environment,
                              check=True, capture_output=True, text=True).stdout

    def close(self):
        """Once nothing but the shell runs there."""
        self.type("C-c")
        wait_for(lambda: self.tmux("display-message", "-p", "#{pane_current_command}") == "sh\n",
                 "the end of weir top")
        self.tmux("kill-server")
        self.folder.cleanup()

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self):
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    def text(self):
        return "\n".join(self.lines())

    def shows(self, *texts, without=()):
        """Waits until the screen has these, and none of the others."""
        def complete():
            now = self.text()
            there = all(text in now for text in texts)
            return now if there and not any(text in now for text in without) else None
        return wait_for(complete, lambda: f"{texts} without {without} in\n{self.text()}")


class TopTest(unittest.TestCase):
    def setUp(self):
        # (A port that stays the same when the daemon is started again.)
        self.daemon = Daemon(WEIR, CONFIG)
        self.daemon.config.write_text(
            f"listen: {{ resp: 127.0.0.1:{free_port()}, http: 127.0.0.1:{free_port()}, grpc: off }}\n"
            + CONFIG)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def url(self):
        return f"http://127.0.0.1:{self.daemon.http_port}"

    def top(self, *arguments, **environment):
        return subprocess.run([WEIR, "top", "--url", self.url(), *arguments], capture_output=True,
                              env={**os.environ, "LC_ALL": "C.UTF-8", **environment})

    def take(self, policy, key, times=1):
        resp = self.daemon.resp()
        for _ in range(times):
            resp("WEIR.TAKE", policy, key)
        resp.close()


class OnceTest(TopTest):
    def test_prints_one_frame(self):
        self.take("login", "mallory", 7)
        self.take("login", HOSTILE)
        done = self.top("--once", "--interval", "100ms")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = done.stdout.decode().splitlines()
        self.assertTrue(lines[0].startswith(f"weir top  {self.url()}  up "), lines)
        self.assertTrue(any(line.startswith("  mallory") and "5 ±0" in line and "2 ±0" in line
                            for line in lines), lines)
        self.assertTrue(any(line.startswith("  \\x1b]0;pwned") for line in lines), lines)
        self.assertTrue(all(byte >= 0x20 or byte == 0x0a for byte in done.stdout))

    def test_prints_one_policy(self):
        done = self.top("--once", "--interval", "100ms", "--policy", "api")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"api", done.stdout)
        self.assertNotIn(b"login", done.stdout)

    def test_is_ascii_in_other_locales(self):
        self.take("login", "Zoë")
        done = self.top("--once", "--interval", "100ms", LC_ALL="C")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.isascii())
        self.assertIn(b"Zo?", done.stdout)

    def test_says_what_is_wrong(self):
        for arguments, code, says in [(["--once", "--policy", "logn"], 1, b'did you mean "login"?'),
                                      (["--interval", "5"], 2, b"--interval"),
                                      (["--interval", "1ms"], 2, b"--interval"),
                                      ([], 2, b"--once")]:
            with self.subTest(arguments=arguments):
                done = self.top(*arguments)
                self.assertEqual((done.returncode, done.stdout), (code, b""))
                self.assertIn(says, done.stderr)
        self.daemon.stop()
        done = self.top("--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"does `weir serve` run there?", done.stderr)


class RightsTest(unittest.TestCase):
    def test_keys_are_for_the_admin(self):
        with Daemon(WEIR, CONFIG, extra="password: open\nadmin_token: secret") as daemon:
            def status(token):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                return daemon.http("GET", "/v1/top", headers=headers)[0]
            self.assertEqual([status(None), status("open"), status("secret")], [401, 401, 200])
            command = [WEIR, "top", "--once", "--interval", "100ms",
                       "--url", f"http://127.0.0.1:{daemon.http_port}", "--token"]
            self.assertEqual(subprocess.run([*command, "secret"], capture_output=True).returncode, 0)
            refused = subprocess.run([*command, "open"], capture_output=True)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(b"admin token", refused.stderr)

    def test_it_can_be_off(self):
        for option in ["--top", "--metrics"]:
            with Daemon(WEIR, CONFIG, args=[option, "off"]) as daemon:
                resp = daemon.resp()
                self.assertEqual(resp("WEIR.TAKE", "api", "k")[0], 1)
                resp.close()
                status, _, problem = daemon.http("GET", "/v1/top")
                self.assertEqual(status, 501)
                self.assertIn("--top on", problem["detail"])
                counted = b'outcome="allowed"} 1' in daemon.http("GET", "/metrics")[2]
                self.assertEqual(counted, option == "--top")


class LiveTest(TopTest):
    def setUp(self):
        super().setUp()
        traffic = Traffic(self.daemon)
        self.addCleanup(traffic.stop)

    def open(self, columns=100, rows=30, arguments="", **environment):
        screen = Screen(columns, rows, {"LC_ALL": "C.UTF-8", **environment})
        self.addCleanup(screen.close)
        screen.type("-l", f"echo before; {WEIR} top --url {self.url()} --interval 200ms {arguments}; "
                          "echo ended with $?; stty -a | grep -ow -e '-*icanon' -e '-*echo'\n")
        return screen

    def test_shows_who_is_busy_and_gives_the_terminal_back(self):
        screen = self.open()
        shown = screen.shows("weir top  " + self.url(), "policy", "api", "login", "alice", "q quit",
                             "allowed most: api", "█", "generation 1", without=["before"])
        self.assertEqual(len(screen.lines()), 30)
        self.assertIn("% refused", shown)
        screen.type("Down")
        screen.shows("> login", "mallory", "refused most: login")
        screen.type("Up")
        screen.shows("> api")
        screen.type("Tab")
        screen.shows("> login")
        screen.type("q")
        screen.shows("before", "ended with 0", "\nicanon", "\necho", without=["q quit"])

    def test_keys_cannot_command_the_terminal(self):
        screen = self.open()
        screen.shows("\\x1b]0;pwned\\x07")
        self.assertNotIn("pwned", screen.tmux("display-message", "-p", "#{pane_title}"))

    def test_follows_the_size(self):
        screen = self.open()
        screen.shows("alice", "q quit")
        for columns, rows in [(40, 10), (150, 50), (60, 20), (20, 5)]:
            screen.resize(columns, rows)

            def fits():
                lines = screen.lines()
                return (len(lines) == rows and lines[0].startswith("weir top")
                        and lines[-1].startswith("q quit"))
            wait_for(fits, lambda: f"{columns} x {rows}:\n{screen.text()}")
            if columns == 40:
                screen.shows("> api", "alice", "allowed most", "refused most")

    def test_pauses(self):
        screen = self.open()
        screen.shows("alice")
        screen.type("p")
        still = screen.shows("paused")
        before = self.asked()
        wait_for(lambda: self.asked() > before + 20, "traffic")
        self.assertEqual(screen.text(), still)
        screen.type("p")
        screen.shows("alice", without=["paused"])

    def asked(self):
        _, _, top = self.daemon.http("GET", "/v1/top")
        return sum(policy["allowed"] + policy["refused"] for policy in top["policies"])

    def test_ctrl_c_gives_the_terminal_back(self):
        screen = self.open()
        screen.shows("alice")
        screen.type("C-c")
        screen.shows("before", without=["q quit"])
        screen.type("-l", "stty -a | grep -ow -e '-*icanon'\n")
        screen.shows("\nicanon")

    def test_goes_on_when_the_daemon_comes_back(self):
        screen = self.open()
        screen.shows("alice")
        self.daemon.stop()
        screen.shows("cannot reach", "trying again", "q quit")
        self.daemon.start()
        screen.shows("alice", "% refused", without=["trying again"])

    def test_has_no_colours_where_they_are_not_wanted(self):
        for environment, coloured in [({}, True), ({"NO_COLOR": "1"}, False)]:
            screen = self.open(**environment)
            screen.shows("alice", "█")
            self.assertEqual("\x1b[32m" in screen.tmux("capture-pane", "-p", "-e"), coloured)


if __name__ == "__main__":
    unittest.main()
