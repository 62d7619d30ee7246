"""Starting, changing and stopping a daemon: operation_test.py WEIR."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from daemon import DEMO, Daemon, RespError, eventually, free_port

WEIR = sys.argv.pop(1)
HOURLY = "policies: { p: { limits: [ { limit: LIMIT, name: hourly } ] } }\n"


class ReloadTest(unittest.TestCase):
    def write(self, daemon, policies):
        head = daemon.config.read_text().splitlines()[0]
        fresh = daemon.config.with_suffix(".new")
        fresh.write_text(head + "\n" + policies)
        fresh.rename(daemon.config)

    def test_a_changed_file_is_loaded_and_usage_is_kept(self):
        with Daemon(WEIR, HOURLY.replace("LIMIT", "10/h")) as daemon:
            resp = daemon.resp()
            self.assertEqual(resp("WEIR.TAKE", "p", "k", 10)[2], 0)
            self.write(daemon, HOURLY.replace("LIMIT", "20/h"))
            daemon.wait_for_log("generation 2")
            self.assertEqual(resp("WEIR.PEEK", "p", "k")[1:3], [20, 10])
            resp.close()

    def test_a_broken_file_changes_nothing_and_is_reported(self):
        with Daemon(WEIR, HOURLY.replace("LIMIT", "10/h")) as daemon:
            resp = daemon.resp()
            self.write(daemon, HOURLY.replace("LIMIT", "20/hr"))
            daemon.wait_for_log("the policies stay as they are")
            daemon.wait_for_log('did you mean "20/h"')
            self.assertEqual(resp("WEIR.PEEK", "p", "k")[1], 10)
            metrics = daemon.http("GET", "/metrics")[2].decode()
            self.assertIn("weir_last_reload_successful 0\n", metrics)
            self.write(daemon, HOURLY.replace("LIMIT", "30/h"))
            daemon.wait_for_log("generation 2")
            self.assertEqual(resp("WEIR.PEEK", "p", "k")[1], 30)
            resp.close()
            metrics = daemon.http("GET", "/metrics")[2].decode()
            self.assertIn("weir_last_reload_successful 1\n", metrics)
            for result in ("failed", "succeeded"):
                self.assertRegex(metrics, rf'weir_reloads_total{{result="{result}"}} [1-9]')

    def test_a_file_that_becomes_a_pipe_blocks_no_request(self):
        with Daemon(WEIR, HOURLY.replace("LIMIT", "10/h")) as daemon:
            text = daemon.config.read_text()
            daemon.config.unlink()
            os.mkfifo(daemon.config)
            daemon.wait_for_log("it is not a regular file")
            daemon.config.unlink()
            daemon.config.write_text(text)
            daemon.wait_for_log("generation 2")
            daemon.config.unlink()
            os.mkfifo(daemon.config)
            daemon.wait_for_log("it is not a regular file", times=2)
            self.assertEqual(daemon.stop(), 0)

    def test_policies_from_a_pipe_are_not_reloaded(self):
        with Daemon(WEIR) as daemon:
            text = daemon.config.read_text()
        piped = subprocess.Popen([WEIR, "serve", "--config", "/dev/stdin"], stdin=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        piped.stdin.write(text)
        piped.stdin.close()
        log = []
        while not any("ready, with 6 policies" in line for line in log):
            log.append(piped.stderr.readline())
            self.assertTrue(log[-1], log)
        piped.send_signal(signal.SIGHUP)
        while not any("no policy file to read again" in line for line in log):
            log.append(piped.stderr.readline())
            self.assertTrue(log[-1], log)
        piped.terminate()
        self.assertEqual(piped.wait(20), 0)
        piped.stderr.close()

    def test_sighup_reloads_the_file(self):
        with Daemon(WEIR, HOURLY.replace("LIMIT", "10/h")) as daemon:
            daemon.process.send_signal(1)
            daemon.wait_for_log("generation 2")

    def test_a_change_that_needs_a_restart_is_reported(self):
        with Daemon(WEIR, HOURLY.replace("LIMIT", "10/h")) as daemon:
            self.write(daemon, "memory: 1MiB\n" + HOURLY.replace("LIMIT", "10/h"))
            daemon.wait_for_log("needs a restart to change: memory")


class StateTest(unittest.TestCase):
    def test_a_restart_keeps_every_count(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(WEIR, folder=folder, extra=f"state: {folder}/state")
            with daemon:
                resp = daemon.resp()
                for permits in (100, 20):
                    resp("WEIR.TAKE", "llm", "k", permits)
                resp("WEIR.ENTER", "report", "k", "me")
                resp.close()
                self.assertEqual(daemon.stop(), 0)
                daemon.start()
                resp = daemon.resp()
                self.assertEqual(resp("WEIR.PEEK", "llm", "k")[2], 880)
                self.assertEqual(resp("WEIR.LEAVE", "report", "k", "me"), 1)
                resp.close()

    def test_policies_that_were_put_survive(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(WEIR, folder=folder, extra=f"state: {folder}/state")
            with daemon:
                daemon.http("PUT", "/v1/policies/mine", {"limits": ["7/min"]})
                daemon.stop()
                daemon.start()
                listed = daemon.http("GET", "/v1/policies")[2]["policies"]
                self.assertEqual((listed["mine"]["limits"], listed["mine"]["source"]), (["7/min"], "put"))

    def test_a_missing_state_file_is_logged_once(self):
        with Daemon(WEIR) as daemon:
            daemon.stop()
            self.assertEqual(sum("no state file" in line for line in daemon.log), 1)

    def test_the_json_log_has_an_object_in_each_line(self):
        with Daemon(WEIR, args=("--log", "json")) as daemon:
            self.assertEqual(daemon.http("GET", "/healthz")[0], 200)
            daemon.stop()
            lines = [json.loads(line) for line in daemon.log]
            self.assertEqual(lines[-1]["message"], "ending")
            for line in lines:
                self.assertEqual(sorted(line), ["level", "message", "time"])

    def test_a_second_daemon_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(WEIR, folder=folder, extra=f"state: {folder}/state"):
                second = subprocess.run([WEIR, "serve", "--config", f"{folder}/weir.yaml"],
                                        capture_output=True, text=True, timeout=20)
                self.assertEqual(second.returncode, 1)
                self.assertIn("in use", second.stderr)


class StopTest(unittest.TestCase):
    def test_commands_sent_before_the_stop_are_answered(self):
        with Daemon(WEIR) as daemon:
            resp = [daemon.resp() for _ in range(20)]
            for each in resp:
                self.assertEqual(each("PING"), "PONG")
            for each in resp:
                each.socket.sendall(each.encode("WEIR.TAKE", "llm", "k") * 10)
            self.assertEqual(daemon.stop(), 0)
            for each in resp:
                for _ in range(10):
                    self.assertEqual(each.read()[0], 1)
                with self.assertRaises(EOFError):
                    each.read()
                each.close()

    def test_http_requests_sent_before_the_stop_are_answered(self):
        request = b"GET /v1/auth?policy=llm&key=h HTTP/1.1\r\nHost: a\r\n\r\n"
        with Daemon(WEIR) as daemon:
            callers = [socket.create_connection(("127.0.0.1", daemon.http_port), 20)
                       for _ in range(20)]
            for caller in callers:
                caller.sendall(request * 10)
            self.assertEqual(daemon.stop(), 0)
            for caller in callers:
                with caller, caller.makefile("rb") as answers:
                    self.assertEqual(answers.read().count(b"HTTP/1.1 200 OK\r\n"), 10)

    def test_idle_and_half_finished_clients_do_not_delay_the_stop(self):
        with Daemon(WEIR) as daemon:
            idle, half = daemon.resp(), daemon.resp()
            half.socket.sendall(b"*2\r\n$4\r\nECHO\r\n")
            idle("PING")
            begin = time.monotonic()
            self.assertEqual(daemon.stop(), 0)
            # (The promise is five seconds; a test must not depend on a fast machine.)
            self.assertLess(time.monotonic() - begin, 30)
            idle.close()
            half.close()

    def test_a_draining_daemon_serves_until_balancers_have_noticed(self):
        with Daemon(WEIR, args=["--drain", "10min"]) as daemon:
            self.assertEqual(daemon.http("GET", "/readyz")[0], 200)
            daemon.process.send_signal(signal.SIGTERM)
            eventually(lambda: daemon.http("GET", "/readyz")[0] == 503, "it says that it ends")
            self.assertEqual(daemon.http("GET", "/healthcheck")[::2], (500, b""))
            resp = daemon.resp()  # new clients are served
            self.assertEqual(resp("WEIR.TAKE", "llm", "k")[0], 1)
            resp.close()
            self.assertEqual(daemon.post("/v1/take", policy="llm", key="k")[0], 200)
            self.assertEqual(daemon.stop(), 0)  # a second signal

    def test_a_draining_daemon_ends_by_itself(self):
        with Daemon(WEIR, args=["--drain", "1s"]) as daemon:
            began = time.monotonic()
            self.assertEqual(daemon.stop(), 0)
            self.assertGreaterEqual(time.monotonic() - began, 1)


class StartTest(unittest.TestCase):
    def serve(self, config):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weir.yaml"
            path.write_text(config)
            done = subprocess.run([WEIR, "serve", "--config", str(path)], capture_output=True,
                                  text=True, timeout=20)
            return done.returncode, done.stderr

    def test_a_port_in_use_is_reported(self):
        with Daemon(WEIR) as daemon:
            code, said = self.serve(
                f"listen: {{ resp: '127.0.0.1:{daemon.resp_port}', http: off, grpc: off }}")
            self.assertEqual(code, 1)
            self.assertIn(f"cannot listen on 127.0.0.1:{daemon.resp_port}: Address already in use",
                          said)
            # Nothing was touched: the state file may belong to the process that listens there.
            with tempfile.TemporaryDirectory() as folder:
                state = Path(folder) / "state"
                state.write_text("somebody's")
                code, _ = self.serve(f"state: {state}\nlisten: {{ resp: off, http: off, "
                                     f"grpc: '127.0.0.1:{daemon.resp_port}' }}")
                self.assertEqual((code, os.listdir(folder), state.read_text()),
                                 (1, ["state"], "somebody's"))

    def test_all_errors_of_the_file_are_reported_at_once(self):
        code, said = self.serve("polices: {}\nmemory: much\n")
        self.assertEqual(code, 1)
        self.assertIn('did you mean "policies"', said)
        self.assertIn(":2:9:", said)

    def test_a_missing_file_is_reported(self):
        done = subprocess.run([WEIR, "serve", "--config", "/nowhere/weir.yaml"],
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "weir: cannot open /nowhere/weir.yaml: No such file or directory\n")


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@unittest.skipUnless(has_ipv6(), "no IPv6 here")
class Ipv6Test(unittest.TestCase):
    def test_addresses_are_in_brackets(self):
        with Daemon(WEIR, listener="'[::1]:0'", grpc="'[::1]:0'") as daemon:
            log = "".join(daemon.log)
            self.assertRegex(log, r" RESP on \[::1\]:\d+\n")
            self.assertRegex(log, r" HTTP on http://\[::1\]:\d+\n")
            self.assertRegex(log, r" gRPC on \[::1\]:\d+\n")

    def test_addresses_in_the_log_can_be_used_as_they_are(self):
        with Daemon(WEIR, listener="'[::1]:0'") as daemon:
            url = next(line.split()[-1] for line in daemon.log if " HTTP on " in line)
            # (A verb for this machine only: the daemon is given its address too.)
            done = subprocess.run([WEIR, "reset", "llm", "k", "--url", url], capture_output=True,
                                  text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "usage reset\n", ""))


class AccessTest(unittest.TestCase):
    def test_a_password_is_required(self):
        with Daemon(WEIR, extra="password: sesame") as daemon:
            resp = daemon.resp()
            self.assertIn("NOAUTH", str(resp("WEIR.TAKE", "llm", "k")))
            self.assertIn("NOAUTH", str(resp("PING")))
            self.assertIn("WRONGPASS", str(resp("AUTH", "sesam")))
            self.assertIn("NOAUTH", str(resp("HELLO", 3)))
            self.assertEqual(resp("AUTH", "sesame"), "OK")
            self.assertEqual(resp("WEIR.TAKE", "llm", "k")[0], 1)
            other = daemon.resp()
            self.assertEqual(other("HELLO", 3, "AUTH", "default", "sesame")["proto"], 3)
            self.assertEqual(daemon.post("/v1/take", policy="llm", key="k")[0], 401)
            bearer = {"Authorization": "Bearer sesame"}
            self.assertEqual(daemon.http("POST", "/v1/take", {"policy": "llm", "key": "k"},
                                         bearer)[0], 200)
            self.assertEqual(daemon.http("GET", "/healthz")[0], 200)
            resp.close()
            other.close()

    def test_a_token_is_required_for_changes(self):
        with Daemon(WEIR, extra="admin_token: root") as daemon:
            resp = daemon.resp()
            self.assertEqual(resp("WEIR.TAKE", "llm", "k")[0], 1)
            for command in (("WEIR.RESET", "llm", "k"), ("WEIR.SETTLE", "llm", "k", 1)):
                self.assertIn("NOPERM", str(resp(*command)))
            self.assertEqual(resp("AUTH", "admin", "root"), "OK")
            self.assertEqual(resp("WEIR.RESET", "llm", "k"), "OK")
            reset = {"policy": "llm", "key": "k"}
            self.assertEqual(daemon.http("POST", "/v1/reset", reset)[0], 401)
            self.assertEqual(daemon.http("PUT", "/v1/policies/p", {"limits": ["1/s"]})[0], 401)
            bearer = {"Authorization": "Bearer root"}
            self.assertEqual(daemon.http("POST", "/v1/reset", reset, bearer)[0], 200)
            resp.close()

    def test_a_page_of_another_origin_has_no_rights_of_this_host(self):
        with Daemon(WEIR) as daemon:
            reset = {"policy": "llm", "key": "k"}
            for elsewhere in ({"Host": "evil.example"}, {"Host": "127.evil.example"},
                              {"Origin": "https://evil.example"}):
                self.assertEqual(daemon.http("POST", "/v1/reset", reset, elsewhere)[0], 403)
            for here in ({}, {"Host": "LOCALHOST"}, {"Host": "weir"}, {"Host": socket.gethostname()}):
                self.assertEqual(daemon.http("POST", "/v1/reset", reset, here)[0], 200)
            # Nor by sending a request to the other listener.
            with socket.create_connection(("127.0.0.1", daemon.resp_port), 20) as browser:
                browser.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nWEIR.RESET llm k\r\n")
                with browser.makefile("rb") as answer:
                    self.assertEqual(answer.read(), b"-ERR this is HTTP: ask the HTTP listener\r\n")


class ExactnessTest(unittest.TestCase):
    def test_concurrent_clients_of_both_listeners_get_exactly_the_limit(self):
        with Daemon(WEIR, "policies: { p: { limits: [ 10000 per 1h window ] } }") as daemon:
            admitted = [0] * 8

            def over_resp(i):
                resp = daemon.resp()
                for _ in range(20):
                    resp.socket.sendall(resp.encode("WEIR.TAKE", "p", "k") * 100)
                    admitted[i] += sum(resp.read()[0] for _ in range(100))
                resp.close()

            def over_http(i):
                for _ in range(20):
                    batch = [{"policy": "p", "key": "k"}] * 100
                    answers = daemon.http("POST", "/v1/take", batch)[2]
                    admitted[i] += sum(answer["allowed"] for answer in answers)

            threads = [threading.Thread(target=over_resp if i % 2 else over_http, args=(i,))
                       for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sum(admitted), 10000)


class CommandLineTest(unittest.TestCase):
    def weir(self, daemon, *args):
        done = subprocess.run([WEIR, *args], capture_output=True, text=True, timeout=20,
                              env={"WEIR_URL": f"http://127.0.0.1:{daemon.http_port}"})
        return done.returncode, done.stdout + done.stderr

    def test_commands_call_a_running_daemon(self):
        with Daemon(WEIR) as daemon:
            code, said = self.weir(daemon, "take", "llm", "cli", "--permits", "400")
            self.assertEqual(code, 0, said)
            self.assertIn("remaining    600", said)
            code, said = self.weir(daemon, "take", "llm", "cli", "--permits", "700")
            self.assertEqual(code, 1)
            self.assertRegex(said, r"retry after  4 days")
            self.assertEqual(self.weir(daemon, "peek", "llm", "cli")[0], 0)
            code, said = self.weir(daemon, "explain", "llm", "cli", "--permits", "700")
            self.assertEqual(code, 1)
            self.assertIn("would be refused", said)
            self.assertIn("tokens: 1000/1000h: 600 of 1000 left", said)
            self.assertEqual(self.weir(daemon, "reset", "llm", "cli"), (0, "usage reset\n"))
            code, said = self.weir(daemon, "take", "seckill", "--part", "user=a", "--part",
                                   "sku=1", "--json")
            self.assertEqual(code, 0, said)
            self.assertIn('"limited_by": "user"', said)
            code, said = self.weir(daemon, "policies")
            self.assertIn("api      rate: 10/s burst 100, quota: 1000/day\n", said)

    def test_errors_of_the_daemon_are_shown(self):
        with Daemon(WEIR) as daemon:
            self.assertEqual(self.weir(daemon, "take", "llm")[0], 2)
            self.assertEqual(self.weir(daemon, "take", "llm", "k", "--part", "a=b")[0], 2)
            code, said = self.weir(daemon, "take", "nobody", "k")
            self.assertEqual(code, 1)
            self.assertIn("there is no policy", said)
        nobody = subprocess.run([WEIR, "take", "p", "k", "--url", f"http://127.0.0.1:{free_port()}"],
                                capture_output=True, text=True, timeout=20)
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("does `weir serve` run there?", nobody.stderr)

    def usage(self, *args):
        """The errors of invalid command lines."""
        done = subprocess.run([WEIR, *args], capture_output=True, timeout=20, env={})
        said = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, 2, said)
        return said

    def test_a_key_that_is_not_utf8_is_refused_over_http(self):
        with Daemon(WEIR) as daemon:
            url = f"--url=http://127.0.0.1:{daemon.http_port}"
            for args in ((b"k\xff",), (b"--part", b"user=k\xff"), (b"--part", b"u\xff=k")):
                self.assertIn("use RESP", self.usage("take", "llm", *args, url))
            self.assertIn("use RESP", self.usage("reset", "llm", b"\xffk", url))
            # The key must not be sent with U+FFFD in its place, which is the key of another caller.
            self.assertEqual(self.weir(daemon, "peek", "llm", "k\ufffd", "--permits", "1000")[0], 0)

    def test_an_invalid_address_is_an_error(self):
        with Daemon(WEIR) as daemon:
            beyond = daemon.http_port + 65536
            for url in (f"http://127.0.0.1:{beyond}", "http://127.0.0.1:0", "http://127.0.0.1:x",
                        "http://127.0.0.1:-1", "http://127.0.0.1:", "127.0.0.1:7380", "http://",
                        "ftp://127.0.0.1:7380"):
                for command in (("take", "llm", "k"), ("policies",), ("top", "--once"), ("orders",)):
                    said = self.usage(*command, "--url", url)
                    self.assertIn("write it as http://127.0.0.1:7380", said)
            self.assertIn("cannot parse the address", self.usage("bench", f"http://127.0.0.1:{beyond}"))

    def test_invalid_numbers_and_parts_are_errors(self):
        for many in ("99999999999999999999", "-1", "1.5", "x"):
            for command in ("take", "peek", "explain"):
                self.assertIn("whole number", self.usage(command, "llm", "k", f"--permits={many}"))
        self.assertIn("whole number", self.usage("lift", "99999999999999999999"))
        self.assertIn("whole number", self.usage("boost", "p", "--add", "99999999999999999999"))
        self.assertIn("given twice", self.usage("take", "p", "--part", "u=1", "--part", "u=2"))
        with Daemon(WEIR) as daemon:
            self.assertIn("remaining    990", self.weir(daemon, "take", "llm", "k",
                                                        "--permits", "010")[1])

    def test_an_unknown_command_is_an_error(self):
        self.assertIn('unknown command "tak" (did you mean "take"?)', self.usage("tak", "p", "k"))
        self.assertIn('unknown command "xyzzy": ', self.usage("xyzzy"))
        self.assertIn("Subcommands:", self.usage())
        self.assertEqual(subprocess.run([WEIR, "help"], capture_output=True).returncode, 0)
        self.assertIn(b"weir take", subprocess.run([WEIR, "help", "take"], capture_output=True).stdout)
        self.assertIn('unknown option --confg (did you mean "--config"?)',
                      self.usage("serve", "--confg", "f"))
        self.assertIn('unexpected "f.yaml"', self.usage("serve", "f.yaml"))

    def test_the_environment_affects_only_client_commands(self):
        run = lambda *words: subprocess.run([WEIR, *words], capture_output=True, text=True,
                                            env={**os.environ, "WEIR_URL": "foo", "WEIR_KEY": "f"})
        self.assertEqual(run("serve", "--help").returncode, 0)
        self.assertIn("cannot parse the address foo", run("policies").stderr)
        self.assertIn("--cert and --key", run("policies", "--url", "http://127.0.0.1:1").stderr)


if __name__ == "__main__":
    unittest.main()
