"""Listeners with TLS, and the clients that they accept and refuse: tls_test.py WEIR."""

import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path

from certificates import Authority
from daemon import Daemon, resident_kib, under_sanitizer

WEIR = sys.argv.pop(1)
TAKE = '{"policy":"llm","key":"k"}'


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=60, **more)
    return done.returncode, done.stdout + done.stderr


def trusting(authority, cert=None):
    context = ssl.create_default_context(cafile=str(authority.cert))
    if cert:
        context.load_cert_chain(*cert)
    return context


def replace(target, source):
    """Atomically, as tools that renew certificates do."""
    fresh = target.with_suffix(".new")
    shutil.copy(source, fresh)
    fresh.rename(target)


def open_descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class TlsTest(unittest.TestCase):
    """A folder with a CA, a certificate of the daemon and its files."""

    asks_clients = False

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.ca = Authority(self.folder)
        self.sign("server")
        files = f"cert: {self.folder}/used.pem, key: {self.folder}/used.key"
        if self.asks_clients:
            files += f", ca: {self.ca.cert}"
        self.client = self.ca.sign("client") if self.asks_clients else None
        self.tls = trusting(self.ca, self.client)
        self.daemon = Daemon(WEIR, folder=self.folder, extra=f"tls: {{ {files} }}", tls=self.tls)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def sign(self, name, **more):
        """Makes the daemon's next certificate."""
        cert, key = self.ca.sign(name, **more)
        replace(self.folder / "used.key", key)
        replace(self.folder / "used.pem", cert)

    def name_shown(self, port=None):
        """The common name in the certificate that a new connection sees."""
        with self.connect(port=port) as connection:
            return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]

    def connect(self, context=None, port=None):
        plain = socket.create_connection(("127.0.0.1", port or self.daemon.resp_port), 20)
        try:
            return (context or self.tls).wrap_socket(plain, server_hostname="127.0.0.1")
        except OSError:
            plain.close()
            raise

    def still_well(self):
        resp = self.daemon.resp()
        self.assertEqual(resp("PING"), "PONG")
        resp.close()
        self.assertEqual(self.daemon.http("GET", "/healthz")[0], 200)


class ClientsTest(TlsTest):
    def test_both_listeners_answer(self):
        resp = self.daemon.resp()
        self.assertEqual(resp("WEIR.TAKE", "llm", "k")[:3], [1, 1000, 999])
        resp.close()
        self.assertEqual(self.daemon.post("/v1/take", policy="llm", key="k")[2]["remaining"], 998)
        self.assertTrue(any("RESP on rediss://127" in line for line in self.daemon.log))
        self.assertTrue(any("HTTP on https://127" in line for line in self.daemon.log))

    def test_curl_is_served_over_tls(self):
        url = f"https://localhost:{self.daemon.http_port}/v1/take"
        code, said = run("curl", "-s", "--noproxy", "*", "--cacert", self.ca.cert, "--json", TAKE,
                         url)
        self.assertEqual((code, json.loads(said)["remaining"]), (0, 999), said)
        # An unknown authority is not trusted.
        self.assertEqual(run("curl", "-s", "--noproxy", "*", "--json", TAKE, url)[0], 60)

    def test_redis_cli_is_served_over_tls(self):
        tls = ["--tls", "--cacert", self.ca.cert, "-h", "127.0.0.1", "-p", self.daemon.resp_port]
        self.assertEqual(run("redis-cli", *tls, "PING"), (0, "PONG\n"))
        code, said = run("redis-cli", *tls, input="WEIR.TAKE llm cli\n" * 50)
        self.assertEqual((code, said.split()[-6]), (0, "950"), said[-200:])

    def test_tls_1_2_and_1_3_are_accepted_and_older_versions_refused(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.tls.minimum_version = self.tls.maximum_version = version
            resp = self.daemon.resp()
            self.assertEqual(resp.socket.version(), version.name.replace("_", "."))
            self.assertEqual(resp("PING"), "PONG")
            resp.close()
        old = trusting(self.ca)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python refuses old versions as well
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        for port in (self.daemon.resp_port, self.daemon.http_port):
            with self.assertRaisesRegex(ssl.SSLError, "(?i)protocol.version"):
                self.connect(old, port)
        self.daemon.wait_for_log("TLS with 127.0.0.1 failed: unsupported protocol")

    def test_alpn_selects_http_only_on_the_http_listener(self):
        self.tls.set_alpn_protocols(["h2", "http/1.1"])
        with self.connect(port=self.daemon.http_port) as connection:
            self.assertEqual(connection.selected_alpn_protocol(), "h2")
        with self.connect(port=self.daemon.resp_port) as connection:
            self.assertIsNone(connection.selected_alpn_protocol())
        self.tls.set_alpn_protocols(["http/1.1"])
        with self.connect(port=self.daemon.http_port) as connection:
            self.assertEqual(connection.selected_alpn_protocol(), "http/1.1")
        self.tls.set_alpn_protocols(["h3"])
        with self.assertRaises(ssl.SSLError):
            self.connect(port=self.daemon.http_port)

    def test_sessions_are_resumed(self):
        self.tls.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.connect() as first:
            session = first.session
        self.assertEqual(session.ticket_lifetime_hint, 3600)
        plain = socket.create_connection(("127.0.0.1", self.daemon.resp_port), 20)
        with self.tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as again:
            self.assertTrue(again.session_reused)

    def test_long_answers_pass_whole(self):
        resp = self.daemon.resp()
        resp.socket.sendall(b"INFO\r\n" * 2000)
        for _ in range(2000):
            self.assertIn("weir_version", resp.read())
        resp.close()

    def test_long_requests_pass_whole(self):
        batch = [{"policy": "llm", "key": "k" * 900, "permits": 0}] * 1000
        status, _, answers = self.daemon.http("POST", "/v1/peek", batch)
        self.assertEqual((status, len(answers)), (200, 1000))

    def test_requests_sent_before_the_stop_are_answered_and_close_notify_is_sent(self):
        callers = [self.daemon.resp() for _ in range(20)]
        for each in callers:
            self.assertEqual(each("PING"), "PONG")
        for each in callers:
            each.socket.sendall(each.encode("WEIR.TAKE", "llm", "k") * 10)
        silent = socket.create_connection(("127.0.0.1", self.daemon.resp_port), 20)
        self.assertEqual(self.daemon.stop(), 0)
        for each in callers:
            for _ in range(10):
                self.assertEqual(each.read()[0], 1)
            # (Python raises an error without a close_notify.)
            self.assertEqual(each.socket.recv(1), b"")
            each.close()
        self.assertEqual(silent.recv(1), b"")
        silent.close()

    def test_an_http_connection_that_closes_sends_close_notify(self):
        with self.connect(port=self.daemon.http_port) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            said = b""
            while piece := connection.recv(4096):
                said += piece
        self.assertTrue(said.startswith(b"HTTP/1.1 200 OK"))


class UntrustedClientsTest(TlsTest):
    def test_plaintext_clients_get_an_answer(self):
        for port, said, answer in (
                (self.daemon.resp_port, b"PING\r\n", b"-ERR this port speaks TLS only"),
                (self.daemon.resp_port, b"*1\r\n$4\r\nPING\r\n", b"-ERR this port speaks TLS only"),
                (self.daemon.http_port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                 b"HTTP/1.1 400 Bad Request\r\n")):
            with socket.create_connection(("127.0.0.1", port), 20) as plain:
                plain.sendall(said)
                with plain.makefile("rb") as file:
                    self.assertTrue(file.read().startswith(answer), said)
        self.daemon.wait_for_log("TLS with 127.0.0.1 failed: it does not speak TLS", times=3)
        code, said = run("curl", "-s", "--noproxy", "*",
                         f"http://127.0.0.1:{self.daemon.http_port}/healthz")
        self.assertEqual((code, said), (0, "This port speaks TLS only: ask it by https://\n"))

    def test_handshake_failures_are_logged_at_a_bounded_rate(self):
        begin = time.monotonic()
        for _ in range(300):
            with socket.create_connection(("127.0.0.1", self.daemon.resp_port), 20) as plain:
                plain.sendall(b"PING\r\n")
                plain.recv(1)
        metrics = self.daemon.http("GET", "/metrics")[2].decode()
        self.assertIn("\nweir_tls_failures_total 300\n", metrics)
        self.daemon.stop()
        lines = sum("TLS with" in line and "failed" in line for line in self.daemon.log)
        self.assertGreater(lines, 0)
        # A few at first, then one a second, however long that took.
        self.assertLess(lines, 12 + time.monotonic() - begin)

    def test_noise_and_unfinished_handshakes_do_not_delay_others(self):
        noise = random.Random(5)
        hello = ssl.MemoryBIO()
        outgoing = ssl.MemoryBIO()
        with self.assertRaises(ssl.SSLWantReadError):
            self.tls.wrap_bio(hello, outgoing, server_hostname="127.0.0.1").do_handshake()
        greeting = outgoing.read()
        for i in range(200):
            port = noise.choice([self.daemon.resp_port, self.daemon.http_port])
            with socket.create_connection(("127.0.0.1", port), 20) as connection:
                damaged = bytearray(greeting)
                damaged[noise.randrange(len(damaged))] ^= 1 << noise.randrange(8)
                connection.sendall([greeting[:noise.randrange(len(greeting))], bytes(damaged),
                                    b"\x16\x03\x01" + noise.randbytes(500)][i % 3])
        self.still_well()

    def test_a_handshake_that_breaks_off_leaves_nothing_behind(self):
        for _ in range(20):
            connection = self.connect()
            connection.sendall(b"*2\r\n$4\r\nECHO\r\n")
            connection.close()  # without close_notify
        self.still_well()

    def test_many_handshakes_leave_nothing_behind(self):
        def many(count):
            for i in range(count):
                with self.connect() as connection:
                    connection.sendall(b"PING\r\n")
                    self.assertEqual(connection.recv(7), b"+PONG\r\n")
                    if i % 2:
                        connection.unwrap()
            self.still_well()

        many(200)
        pid = self.daemon.process.pid
        descriptors, memory = open_descriptors(pid), resident_kib(pid)
        many(200 if under_sanitizer() else 2000)
        # (Connections that have just closed may still be counted.)
        self.assertLess(open_descriptors(pid), descriptors + 20)
        if not under_sanitizer():
            self.assertLess(resident_kib(pid) - memory, 4_000, "KiB more after 2000 handshakes")

    def test_idle_connections_need_little_memory(self):
        count = 50 if under_sanitizer() else 400
        idle = [self.connect() for _ in range(count)]
        before = resident_kib(self.daemon.process.pid)
        more = [self.connect() for _ in range(count)]
        for connection in more:
            connection.sendall(b"PING\r\n")
            self.assertEqual(connection.recv(7), b"+PONG\r\n")
        if not under_sanitizer():
            each = (resident_kib(self.daemon.process.pid) - before) / count
            self.assertLess(each, 64, "KiB for each connection with TLS that waits")
        for connection in idle + more:
            connection.close()

    def test_a_client_that_never_reads_does_not_delay_others(self):
        before = resident_kib(self.daemon.process.pid)
        greedy = self.connect()
        greedy.setblocking(False)
        for _ in range(2000):
            try:
                greedy.send(b"INFO\r\n" * 1000)
            except (ssl.SSLWantWriteError, BlockingIOError):
                pass
        self.still_well()
        if not under_sanitizer():
            self.assertLess(resident_kib(self.daemon.process.pid) - before, 20_000)
        greedy.close()


class MutualTest(TlsTest):
    asks_clients = True

    def refused(self, context, why):
        """(With TLS 1.3 a client gets the error at its first read.)"""
        for port, word in ((self.daemon.resp_port, b"PING\r\n"),
                           (self.daemon.http_port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context.maximum_version = version
                with self.assertRaises((ssl.SSLError, ConnectionError)):
                    with self.connect(context, port) as connection:
                        connection.sendall(word)
                        connection.recv(100)
        self.daemon.wait_for_log(why, times=4)

    def test_a_client_with_a_certificate_is_accepted(self):
        self.still_well()
        self.assertEqual(
            run("redis-cli", "--tls", "--cacert", self.ca.cert, "--cert", self.client[0], "--key",
                self.client[1], "-h", "127.0.0.1", "-p", self.daemon.resp_port, "PING"),
            (0, "PONG\n"))
        code, said = run("curl", "-s", "--noproxy", "*", "--cacert", self.ca.cert, "--cert",
                         self.client[0], "--key", self.client[1],
                         f"https://127.0.0.1:{self.daemon.http_port}/healthz")
        self.assertEqual((code, said), (0, "ok\n"))

    def test_a_client_without_a_certificate_is_refused(self):
        self.refused(trusting(self.ca), "peer did not return a certificate")
        self.still_well()

    def test_a_certificate_of_another_authority_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Authority(folder)  # an authority of the same name
            self.refused(trusting(self.ca, other.sign("client")), "certificate verify failed")
        self.still_well()

    def test_an_expired_certificate_is_refused(self):
        self.refused(trusting(self.ca, self.ca.sign("late", days=-1)), "certificate has expired")
        self.still_well()

    # A session ticket does not bypass the check: it was given to a client with a certificate.
    def test_sessions_are_resumed(self):
        self.tls.maximum_version = ssl.TLSVersion.TLSv1_2
        with self.connect() as first:
            session = first.session
        plain = socket.create_connection(("127.0.0.1", self.daemon.resp_port), 20)
        with self.tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as again:
            self.assertTrue(again.session_reused)
            again.sendall(b"PING\r\n")
            self.assertEqual(again.recv(7), b"+PONG\r\n")

    def test_the_weir_command_shows_its_certificate(self):
        url = ["--url", f"https://127.0.0.1:{self.daemon.http_port}", "--ca", self.ca.cert]
        mine = ["--cert", self.client[0], "--key", self.client[1]]
        code, said = run(WEIR, "take", "llm", "cli", *url, *mine)
        self.assertEqual(code, 0, said)
        code, said = run(WEIR, "take", "llm", "cli", *url)
        self.assertEqual(code, 1)
        self.assertIn("cannot reach https://", said)
        self.assertEqual(run(WEIR, "take", "llm", "cli", *url, *mine[:2])[0], 2)


class ReloadTest(TlsTest):
    def test_a_new_certificate_is_shown_to_new_connections_and_open_ones_stay(self):
        resp = self.daemon.resp()
        self.assertEqual(self.name_shown(), "server")
        self.sign("renewed")
        self.daemon.wait_for_log("is used by new connections")
        self.assertEqual(self.name_shown(), "renewed")
        self.assertEqual(self.name_shown(self.daemon.http_port), "renewed")
        self.assertEqual(resp("PING"), "PONG")
        resp.close()

    # A renewal writes one file first. Until the other follows, the old certificate stays.
    def test_a_certificate_without_its_key_is_not_used_until_the_key_arrives(self):
        cert, key = self.ca.sign("renewed")
        replace(self.folder / "used.pem", cert)
        self.daemon.wait_for_log("does not belong to the certificate")
        self.daemon.wait_for_log("the certificate in use stays")
        self.assertEqual(self.name_shown(), "server")
        replace(self.folder / "used.key", key)
        self.daemon.wait_for_log("is used by new connections")
        self.assertEqual(self.name_shown(), "renewed")

    def test_a_broken_file_changes_nothing(self):
        used = self.folder / "used.pem"
        before = used.read_text()
        used.write_text("nonsense")
        self.daemon.wait_for_log(f"cannot use the certificate {used}")
        self.assertEqual(self.name_shown(), "server")
        used.unlink()
        self.daemon.wait_for_log("No such file or directory; the certificate in use stays")
        self.assertEqual(self.name_shown(), "server")
        metrics = self.daemon.http("GET", "/metrics")[2].decode()
        self.assertRegex(metrics, r'weir_reloads_total{result="failed"} [2-9]')
        used.write_text(before)
        self.daemon.wait_for_log("is used by new connections")
        self.assertEqual(self.name_shown(), "server")

    def test_sighup_reloads_the_certificate(self):
        self.daemon.process.send_signal(1)
        self.daemon.wait_for_log("generation 2")
        self.daemon.wait_for_log("is used by new connections")
        self.still_well()

    def write(self, find, instead):
        text = self.daemon.config.read_text()
        self.assertIn(find, text)
        fresh = self.daemon.config.with_suffix(".fresh")
        fresh.write_text(text.replace(find, instead))
        fresh.rename(self.daemon.config)

    def test_changed_file_names_are_reloaded(self):
        cert, key = self.ca.sign("other")
        self.write(f"cert: {self.folder}/used.pem, key: {self.folder}/used.key",
                   f"cert: {cert}, key: {key}, ca: {self.ca.cert}")
        self.daemon.wait_for_log("is used by new connections")
        self.daemon.tls = self.tls = trusting(self.ca, self.ca.sign("client"))
        self.assertEqual(self.name_shown(), "other")
        self.still_well()

    def test_removing_tls_needs_a_restart(self):
        line = next(line for line in self.daemon.config.read_text().splitlines() if "tls" in line)
        self.write(line, "")
        self.daemon.wait_for_log("needs a restart to change: tls")
        self.still_well()


class StartTest(unittest.TestCase):
    def test_an_unusable_tls_file_is_reported_before_a_port_is_bound(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            ca = Authority(folder)
            cert, key = ca.sign("server")
            other_cert, other_key = ca.sign("other")
            for tls, why in (
                    (f"cert: {folder}/none.pem, key: {key}",
                     f"tls: cannot use the certificate {folder}/none.pem: No such file"),
                    (f"cert: {cert}, key: {folder}/none.key",
                     f"tls: cannot use the key {folder}/none.key: No such file"),
                    (f"cert: {cert}, key: {cert}",
                     f"tls: cannot use the key {cert}: it holds none in PEM format"),
                    (f"cert: {cert}, key: {other_key}",
                     f"tls: cannot use the key {other_key}: it does not belong to the "
                     f"certificate {cert}"),
                    (f"cert: {cert}, key: {key}, ca: {key}",
                     f"tls: cannot use the ca {key}: it holds none in PEM format")):
                config = Path(folder) / "weir.yaml"
                config.write_text(f"listen: {{ resp: '127.0.0.1:{port}', http: off, grpc: off }}\n"
                                  f"tls: {{ {tls} }}\n")
                code, said = run(WEIR, "serve", "--config", config)
                self.assertEqual(code, 1)
                self.assertIn(why, said)
                self.assertNotIn("cannot listen", said)

    # It is used anyway, for clients that do not check; the log warns that others will refuse it.
    def test_a_certificate_that_has_expired_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Authority(folder).sign("late", days=-1)
            with Daemon(WEIR, folder=folder, extra=f"tls: {{ cert: {cert}, key: {key} }}") as daemon:
                daemon.wait_for_log("clients will not trust it: it expired 2")

    def test_adding_tls_needs_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Authority(folder).sign("server")
            with Daemon(WEIR, folder=folder) as daemon:
                text = daemon.config.read_text()
                fresh = daemon.config.with_suffix(".fresh")
                fresh.write_text(f"tls: {{ cert: {cert}, key: {key} }}\n" + text)
                fresh.rename(daemon.config)
                daemon.wait_for_log("needs a restart to change: tls")
                self.assertEqual(daemon.http("GET", "/healthz")[0], 200)


class CommandLineTest(TlsTest):
    def ask(self, *args, host="127.0.0.1", **env):
        return run(WEIR, "take", "llm", "cli", "--url",
                   f"https://{host}:{self.daemon.http_port}", *args, env=env)

    def test_the_weir_command_connects_by_https(self):
        code, said = self.ask("--ca", self.ca.cert)
        self.assertEqual(code, 0, said)
        self.assertIn("remaining    999", said)
        self.assertEqual(self.ask("--ca", self.ca.cert, host="localhost")[0], 0)
        self.assertEqual(self.ask(WEIR_CA=str(self.ca.cert))[0], 0)

    def test_the_weir_command_refuses_an_unknown_authority(self):
        code, said = self.ask()
        self.assertEqual(code, 1)
        self.assertIn("its certificate is not trusted", said)
        self.assertIn("--ca FILE", said)

    def test_the_weir_command_checks_the_host_name(self):
        self.sign("elsewhere", names="DNS:elsewhere.example")
        self.daemon.wait_for_log("is used by new connections")
        code, said = self.ask("--ca", self.ca.cert)
        self.assertEqual(code, 1)
        self.assertIn("its certificate is not trusted", said)

    def test_the_weir_command_names_an_unusable_file(self):
        code, said = self.ask("--ca", self.folder / "none.pem")
        self.assertEqual(code, 1)
        self.assertIn(f"cannot use the ca {self.folder}/none.pem: No such file", said)

    def test_the_weir_command_suggests_https_for_a_tls_listener(self):
        code, said = run(WEIR, "take", "llm", "cli", "--url",
                         f"http://127.0.0.1:{self.daemon.http_port}")
        self.assertEqual(code, 1)
        self.assertIn("status 400", said)


if __name__ == "__main__":
    unittest.main()
