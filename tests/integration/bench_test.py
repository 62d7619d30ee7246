"""`weir bench` against a running daemon: bench_test.py WEIR."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from daemon import Daemon, Resp, free_port

WEIR = sys.argv.pop(1)
# Limits so slow that no permit comes back within a test.
POLICIES = """
policies:
  thousand: { limits: [ { limit: 1000 per 100000h, name: rate } ] }
  ten: { limits: [ 10 per 100000h ] }
  wide: { limits: [ 1000000/s ] }
  two: { limits: [ 100 per 100000h, { limit: 30 per 100000h, name: second } ] }
  shadowed: { limits: [ 100 per 100000h, { limit: 30 per 100000h, name: s, shadow: true } ] }
  sliding: { limits: [ 5/min sliding ] }
  parts: { limits: [ { by: user, limit: 1/s } ] }
"""
THOUSAND = "1000 per 100000h"


def bench(*args, timeout=120, **more):
    return subprocess.run([WEIR, "bench", *map(str, args)], capture_output=True, text=True,
                          timeout=timeout, **more)


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR, POLICIES)
        cls.daemon.__enter__()
        cls.resp = f"127.0.0.1:{cls.daemon.resp_port}"
        cls.http = f"http://127.0.0.1:{cls.daemon.http_port}"

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def report(self, *args, code=0):
        """The JSON report of a run, which is the whole standard output."""
        run = bench(*args, "--json")
        self.assertEqual(run.returncode, code, run.stderr + run.stdout)
        self.assertEqual(run.stderr, "")
        return json.loads(run.stdout)

    # ---- Admitted permits

    def test_a_limit_of_a_thousand_admits_a_thousand(self):
        for address in (self.resp, self.http):
            for what in (("--policy", "thousand"), ("--limit", THOUSAND)):
                for loop in ((), ("--rate", 20000)):
                    report = self.report(address, *what, *loop, "--keys", 1, "--requests", 3000,
                                         "--pipeline", 4)
                    self.assertEqual((report["requests"], report["admitted"], report["refused"]),
                                     (3000, 1000, 2000), (address, what, loop))
                    self.assertEqual(report["ideal"],
                                     {"requests": 1000, "admitted": 1000, "ratio": 1.0})
                    self.assertEqual(report["latency_us"]["count"], 3000)

    def test_threads_share_the_work(self):
        report = self.report(self.resp, "--policy", "ten", "--keys", 7, "--requests", 2001,
                             "--threads", 3, "--connections", 7, "--pipeline", 5)
        self.assertEqual((report["requests"], report["admitted"]), (2001, 70))
        self.assertEqual(report["ideal"]["ratio"], 1.0)

    def test_each_request_takes_the_given_number_of_permits(self):
        report = self.report(self.http, "--policy", "ten", "--keys", 3, "--requests", 500,
                             "--permits", 3)
        self.assertEqual((report["admitted"], report["ideal"]["requests"]), (9, 9))
        report = self.report(self.resp, "--limit", "10 per 100000h", "--keys", 1, "--requests", 50,
                             "--permits", 11)
        self.assertEqual((report["admitted"], report["ideal"]["requests"]), (0, 0))

    def test_the_ideal_is_that_of_the_tightest_limit_that_is_not_a_shadow(self):
        for address in (self.resp, self.http):
            for policy, most in (("two", 30), ("shadowed", 100)):
                report = self.report(address, "--policy", policy, "--keys", 1, "--requests", 300)
                self.assertEqual((report["admitted"], report["ideal"]["requests"]), (most, most))

    def test_the_ideal_is_at_most_the_number_of_requested_permits(self):
        report = self.report(self.resp, "--policy", "thousand", "--keys", 50, "--requests", 500)
        self.assertEqual((report["admitted"], report["ideal"]["requests"]), (500, 500))

    def test_permits_taken_during_warmup_are_part_of_the_ideal(self):
        report = self.report(self.resp, "--policy", "ten", "--keys", 1, "--requests", 100,
                             "--rate", 1000, "--warmup", "200ms")
        self.assertEqual((report["requests"], report["admitted"]), (100, 0))
        self.assertEqual(report["ideal"], {"requests": 10, "admitted": 10, "ratio": 1.0})
        self.assertEqual(report["latency_us"]["count"], 100)

    def test_a_missing_ideal_is_explained(self):
        ideal = self.report(self.http, "--policy", "sliding", "--requests", 100)["ideal"]
        self.assertIsNone(ideal["ratio"])
        self.assertIn("5/min sliding", ideal["reason"])
        ideal = self.report(self.resp, "--policy", "ten", "--mix", "take,settle",
                            "--requests", 100)["ideal"]
        self.assertIn("settle", ideal["reason"])

    # ---- Requests

    def test_a_mix_sends_the_verbs_that_it_names(self):
        for address in (self.resp, self.http):
            report = self.report(address, "--policy", "ten", "--keys", 1, "--requests", 2000,
                                 "--mix", "take=50,peek=50", "--seed", 5, "--prefix", address)
            take, peek = report["verbs"]["take"], report["verbs"]["peek"]
            self.assertEqual(take["allowed"], 10)
            self.assertEqual(sum(take.values()) + sum(peek.values()), 2000)
            self.assertTrue(800 < sum(peek.values()) < 1200, peek)
            self.assertGreater(peek["refused"], 700)  # the bucket is used up early
            self.assertEqual(report["admitted"], 10)

    def test_settling_takes_keys_into_debt(self):
        self.report(self.resp, "--policy", "ten", "--keys", 1, "--requests", 25, "--mix", "settle",
                    "--prefix", "debt:", "--connections", 1)
        resp = self.daemon.resp()
        self.assertEqual(resp("WEIR.PEEK", "ten", "debt:0")[0], 0)
        resp.close()

    def test_the_same_seed_draws_the_same_keys(self):
        first = self.report(self.resp, "--policy", "ten", "--keys", 20, "--requests", 400,
                            "--seed", 77, "--connections", 1)
        self.assertEqual(first["plan"]["seed"], 77)
        self.assertEqual(first["admitted"], first["ideal"]["requests"])
        # These buckets are empty now; those of another seed are not.
        again = self.report(self.resp, "--policy", "ten", "--keys", 20, "--requests", 400,
                            "--seed", 77, "--connections", 1)
        self.assertLess(again["admitted"], 40)
        other = self.report(self.resp, "--policy", "ten", "--keys", 20, "--requests", 400)
        self.assertGreater(other["admitted"], 100)

    def test_a_zipf_spread_prefers_a_few_keys(self):
        uniform = self.report(self.resp, "--policy", "ten", "--keys", 500, "--requests", 4000,
                              "--seed", 1)
        zipf = self.report(self.resp, "--policy", "ten", "--keys", 500, "--requests", 4000,
                           "--seed", 2, "--spread", "zipf:1.2")
        self.assertLess(zipf["admitted"], uniform["admitted"])
        self.assertEqual(zipf["ideal"]["ratio"], 1.0)
        self.assertEqual((zipf["plan"]["zipf"], uniform["plan"]["zipf"]), (1.2, None))

    def test_a_duration_ends_the_run(self):
        report = self.report(self.resp, "--policy", "wide", "--duration", "300ms")
        self.assertGreater(report["requests"], 0)
        self.assertGreaterEqual(report["seconds"], 0.29)

    # ---- Reports

    def test_the_report_has_all_fields(self):
        report = self.report(self.http, "--policy", "wide", "--rate", 2000, "--requests", 500)
        self.assertEqual(sorted(report), [
            "admitted", "bytes_received", "bytes_sent", "errors", "ideal", "interrupted",
            "latency_us", "plan", "rate", "refused", "requests", "seconds", "unanswered", "unsent",
            "verbs"])
        latency = report["latency_us"]
        ordered = [latency[name] for name in ("p50", "p90", "p99", "p99_9", "max")]
        self.assertEqual(ordered, sorted(ordered))
        self.assertGreater(latency["p50"], 0)
        self.assertTrue(0 < latency["mean"] <= latency["max"])
        self.assertAlmostEqual(report["rate"], report["requests"] / report["seconds"], 3)
        self.assertEqual(report["errors"], {"count": 0, "kinds": {}})
        self.assertEqual((report["interrupted"], report["unanswered"], report["unsent"]),
                         (False, 0, 0))
        self.assertGreater(report["bytes_sent"], 500 * 50)
        plan = report["plan"]
        self.assertEqual((plan["protocol"], plan["loop"], plan["asked_rate"], plan["limits"],
                          plan["mix"]), ("http", "open", 2000, "1000000/s", {"take": 1}))

    def test_the_text_report_has_counts_shares_and_quantiles(self):
        run = bench(self.resp, "--policy", "thousand", "--keys", 1, "--requests", 1500)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for text in ("requests   1,500 in", "admitted   1,000 (66.7 %)", "refused    500 (33.3 %)",
                     "admitted / ideal 1.0000: 1,000 of at most 1,000", "p99.9", "errors     none",
                     "closed loop: latency counts from sending"):
            self.assertIn(text, run.stdout)
        run = bench(self.resp, "--policy", "sliding", "--rate", 2000, "--requests", 100)
        self.assertIn("open loop, 2,000/s: latency counts from when a request was due", run.stdout)
        self.assertIn("/s of 2,000/s requested", run.stdout)
        self.assertIn("ideal      n/a: ", run.stdout)

    def test_a_terminal_shows_progress_on_one_line(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([WEIR, "bench", self.resp, "--policy", "wide", "--rate", "500"],
                                   stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        shown = b""
        while shown.count(b"p99") < 2:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        with open(ours, "rb", 0, closefd=True) as rest:
            try:
                shown += rest.read(1 << 16) or b""
            except OSError:
                pass  # the peer has closed the connection
        self.assertNotIn(b"\n", shown)
        self.assertRegex(shown.decode(), r"\r[\d.]+ s   [\d,.]+/s   refused [\d.]+ %   p99 ")
        self.assertIn(b"interrupted: these are the figures up to then", out)
        self.assertEqual(process.returncode, 0)

    # ---- Errors

    def test_bad_options_are_explained(self):
        for args, text in ((("--mix", "tak=1"), 'did you mean "take"'),
                           (("--spread", "zip"), "uniform, zipf"),
                           (("--limit", "5/sec"), 'did you mean "5/s"'),
                           (("--limit", "5/min sliding"), "token bucket"),
                           (("--duration", "10"), "--duration"),
                           (("--duration", "10s", "--requests", 5), "excludes"),
                           (("--keys", 0), "--keys"),
                           (("--rate", 0), "--rate"),
                           (("--threads", 20), "--connections is 16"),
                           (("--mix", "peek"), "--policy"),
                           (("localhost",), "no port"),
                           (("--nonsense",), "nonsense")):
            run = bench(*args)
            self.assertEqual(run.returncode, 2, (args, run.stderr))
            self.assertIn(text, run.stderr, args)
            self.assertEqual(run.stdout, "")

    def test_a_missing_daemon_is_reported(self):
        port = free_port()
        for address in (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
            run = bench(address, "--requests", 5)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            self.assertRegex(run.stderr, r"(?s)refused.*does `weir serve` run there")

    def test_a_wrong_listener_and_an_unknown_policy_are_explained(self):
        for args, text in (((f"127.0.0.1:{self.daemon.http_port}",), "http://"),
                           ((self.resp, "--policy", "tne"), "there is no policy"),
                           ((self.http, "--policy", "tenn"), 'did you mean "ten"'),
                           ((self.resp, "--policy", "parts"), "user")):
            run = bench(*args, "--requests", 5)
            self.assertEqual((run.returncode, run.stdout), (1, ""), run.stderr)
            self.assertIn(text, run.stderr)

    def test_ctrl_c_ends_the_run_and_prints_the_measurements(self):
        process = subprocess.Popen([WEIR, "bench", self.resp, "--policy", "wide", "--json",
                                    "--prefix", "stopped:", "--keys", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until_taken(self.daemon, "wide", "stopped:0")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        report = json.loads(out)
        self.assertEqual((process.returncode, err, report["interrupted"]), (0, "", True))
        self.assertGreater(report["requests"], 0)


def wait_until_taken(daemon, policy, key, count=1):
    """Waits until there were this many calls."""
    before = f'weir_decisions_total{{policy="{policy}",outcome="allowed"}}'
    first = None
    for _ in range(3000):
        metrics = daemon.http("GET", "/metrics")[2].decode()
        line = next((line for line in metrics.splitlines() if line.startswith(before)), "0")
        now = float(line.split()[-1])
        first = now if first is None else first
        if now >= first + count:
            return
        time.sleep(0.01)
    raise AssertionError(f"nobody asked for {key}")


class FailureTest(unittest.TestCase):
    def start(self, address, *args):
        return subprocess.Popen([WEIR, "bench", address, "--policy", "wide", "--json", *map(str, args)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(err, "")
        return json.loads(out)

    def test_a_daemon_that_is_killed_is_an_error_of_each_request_in_flight(self):
        for listener in ("resp", "http"):
            for loop in ((), ("--rate", 2000)):
                with Daemon(WEIR, POLICIES) as daemon:
                    port = daemon.resp_port if listener == "resp" else daemon.http_port
                    address = f"127.0.0.1:{port}" if listener == "resp" else f"http://127.0.0.1:{port}"
                    process = self.start(address, "--connections", 4, "--duration", "60s", *loop)
                    # (More than can be in flight: some have been answered.)
                    wait_until_taken(daemon, "wide", "any", 2000)
                    daemon.kill()
                    report = self.end(process)
                self.assertEqual(process.returncode, 1)
                self.assertGreaterEqual(report["errors"]["count"], 4)
                self.assertLessEqual(set(report["errors"]["kinds"]), {"closed", "connect"})
                self.assertGreater(report["requests"], 0)
                self.assertLess(report["seconds"], 59)  # the run ended early

    # The daemon is frozen for one second of five: requests due in that second have waited.
    def test_a_stall_shows_in_an_open_loop(self):
        with Daemon(WEIR, POLICIES) as daemon:
            process = self.start(f"127.0.0.1:{daemon.resp_port}", "--rate", 1000, "--requests", 5000,
                                 "--timeout", "60s")
            wait_until_taken(daemon, "wide", "any")
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            daemon.process.send_signal(signal.SIGCONT)
            report = self.end(process)
        self.assertEqual((process.returncode, report["requests"]), (0, 5000))
        self.assertGreaterEqual(report["latency_us"]["max"], 900_000)
        self.assertGreaterEqual(report["latency_us"]["p99"], 500_000)

    def test_missing_answers_are_timeouts(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            done = threading.Event()
            threading.Thread(target=play, args=(listener, [b"+PONG\r\n"], done), daemon=True).start()
            run = bench(f"127.0.0.1:{listener.getsockname()[1]}", "--requests", 4, "--connections", 2,
                        "--timeout", "300ms", "--json")
            done.set()
        report = json.loads(run.stdout)
        self.assertEqual((run.returncode, report["requests"]), (1, 0))
        self.assertEqual(report["errors"]["kinds"]["timeout"]["count"], 2)
        self.assertGreaterEqual(report["latency_us"]["max"], 300_000)

    def test_an_unparsable_answer_is_a_protocol_error(self):
        for babble, text in ((b"HTTP/1.1 200 OK\r\n\r\n", "RESP"), (b"$" + b"9" * 30 + b"\r\n", "number"),
                             (b"*1000000\r\n", "length"), (b"+OK\r\n", "decision"),
                             (b"*2\r\n:1\r\n:1\r\n" * 50, "without a request")):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                done = threading.Event()
                threading.Thread(target=play, args=(listener, [b"+PONG\r\n", babble], done),
                                 daemon=True).start()
                run = bench(f"127.0.0.1:{listener.getsockname()[1]}", "--requests", 1,
                            "--connections", 1, "--json")
                done.set()
            errors = json.loads(run.stdout)["errors"]["kinds"]
            self.assertEqual((run.returncode, list(errors)), (1, ["protocol"]), babble)
            self.assertIn(text, errors["protocol"]["example"])

    def test_a_password_is_sent_and_its_absence_is_an_error(self):
        with Daemon(WEIR, POLICIES, extra="password: open sesame") as daemon:
            for address in (f"127.0.0.1:{daemon.resp_port}", f"http://127.0.0.1:{daemon.http_port}"):
                run = bench(address, "--policy", "ten", "--keys", 1, "--requests", 50,
                            "--password", "open sesame", "--json")
                self.assertEqual(run.returncode, 0, run.stderr)
                report = json.loads(run.stdout)
                self.assertEqual((report["requests"], report["admitted"]), (50, 10))
                for args in ((), ("--password", "wrong")):
                    run = bench(address, "--policy", "ten", "--requests", 5, *args)
                    self.assertEqual((run.returncode, run.stdout), (1, ""))
                    self.assertIn("says: ", run.stderr)

    def test_a_deleted_policy_is_counted_by_kind_of_error(self):
        with Daemon(WEIR, POLICIES) as daemon:
            daemon.http("PUT", "/v1/policies/gone", {"limits": ["1000000/s"]})
            for address, kind in ((f"127.0.0.1:{daemon.resp_port}", "ERR"),
                                  (f"http://127.0.0.1:{daemon.http_port}", "status 404")):
                daemon.http("PUT", "/v1/policies/gone", {"limits": ["1000000/s"]})
                process = subprocess.Popen([WEIR, "bench", address, "--policy", "gone", "--json",
                                            "--duration", "60s", "--rate", "1000"],
                                           stdout=subprocess.PIPE, text=True)
                wait_until_taken(daemon, "gone", "any")
                daemon.http("DELETE", "/v1/policies/gone")
                resp = daemon.resp()
                wait_until_asked_in_vain(daemon)
                resp.close()
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=60)
                report = json.loads(out)
                self.assertEqual((process.returncode, list(report["errors"]["kinds"])), (1, [kind]))
                self.assertIn("gone", report["errors"]["kinds"][kind]["example"])


def wait_until_asked_in_vain(daemon):
    """Waits until some hundred requests more have been read, which come after the policy was deleted."""
    def requests():
        metrics = daemon.http("GET", "/metrics")[2].decode()
        return sum(float(line.split()[-1]) for line in metrics.splitlines()
                   if line.startswith("weir_request_duration_seconds_count"))
    first = requests()
    for _ in range(3000):
        if requests() > first + 200:
            return
        time.sleep(0.01)
    raise AssertionError("nobody asked")


def play(listener, answers, done):
    """A server with one fixed answer for each connection; the last one serves all further connections."""
    held = []
    while not done.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        held.append(connection)
        answer = answers.pop(0) if answers else None
        if answer is not None:
            connection.recv(4096)
            connection.sendall(answer)


if __name__ == "__main__":
    unittest.main()
