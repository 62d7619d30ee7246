"""The gRPC listener with unmodified clients: grpc_test.py WEIR SOURCE BUILD.

The gRPC library's C++ client (tests/grpc/client.cc), Debian's python3-grpcio, curl and h2load. (Node's client
and Envoy have their own tests.)
"""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2

from certificates import Authority
from daemon import Daemon, eventually, free_port, under_sanitizer
from grpc_messages import (DAY, NOT_SERVING, OK, OVER_LIMIT, RULES, SERVICE_UNKNOWN, SERVING,
                           SHOULD_RATE_LIMIT, Messages, dial)
from h2_peer import grpc_message
from redis_server import RedisServer

BUILD = Path(sys.argv.pop(3))
SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
CPP_CLIENT = BUILD / "tests" / "grpc" / "weir_grpc_test_client"
MESSAGES = Messages(SOURCE)


# (The gRPC library keeps some TLS data until exit: leaks of a client are not ours.)
PEER = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, env=PEER, **more)
    return done.returncode, done.stdout + done.stderr


def serving(rules=RULES, extra="", **more):
    """A daemon with these rules of Envoy's."""
    daemon = Daemon(WEIR, "", grpc="127.0.0.1:0", extra=f"envoy_ratelimit: rules.yaml\n{extra}", **more)
    (daemon.folder / "rules.yaml").write_text(rules)
    return daemon


class GrpcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = serving()
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def setUp(self):
        self.channel = dial(self.daemon.grpc_port)
        self.addCleanup(self.channel.close)
        self.ask = MESSAGES.should_rate_limit(self.channel)

    def assert_fails(self, code, text, call):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        self.assertEqual(raised.exception.code(), code, raised.exception.details())
        self.assertIn(text, raised.exception.details())


@unittest.skipUnless(CPP_CLIENT.exists(), "the C++ client was not built")
class CppTest(GrpcTest):
    def test_every_check_of_the_cpp_client_passes(self):
        checks = ["unary", "refused", "in_flight", "metadata", "too_much_metadata", "long_deadline",
                  "empty_domain", "no_descriptors", "oversized", "wrong_method", "no_message",
                  "compressed", "health", "watch_until_deadline", "watch_and_cancel"]
        code, said = run(CPP_CLIENT, f"127.0.0.1:{self.daemon.grpc_port}", *checks)
        self.assertEqual((code, said.splitlines()), (0, [f"ok {check}" for check in checks]))

    # A client that watches the health is told that the daemon ends, and then the stream ends.
    def test_a_health_watch_reports_the_shutdown(self):
        with serving() as daemon:
            client = subprocess.Popen([CPP_CLIENT, f"127.0.0.1:{daemon.grpc_port}", "watch_the_end"],
                                      stdout=subprocess.PIPE, text=True, env=PEER)
            self.assertEqual(client.stdout.readline(), "told SERVING\n")
            self.assertEqual(daemon.stop(), 0)
            said = client.communicate(timeout=20)[0]
            self.assertIn("told NOT_SERVING\n", said)
            self.assertRegex(said, r"ended (0|14)\n")


class DrainTest(unittest.TestCase):
    # Load balancers are told before the daemon ends, and are served meanwhile.
    def test_health_is_not_serving_during_a_drain(self):
        with serving(args=["--drain", "10min"]) as daemon, dial(daemon.grpc_port) as channel:
            health = MESSAGES.check_health(channel)

            def status(name):
                return health(MESSAGES.HealthCheckRequest(service=name), timeout=20).status

            self.assertEqual([status(name) for name in ("", "ratelimit")], 2 * [SERVING])
            daemon.process.send_signal(signal.SIGTERM)
            for name in ("", "ratelimit"):
                eventually(lambda: status(name) == NOT_SERVING, f"{name!r} is not serving")
            with dial(daemon.grpc_port) as another:
                answer = MESSAGES.should_rate_limit(another)(
                    MESSAGES.request("test", [("daily", "late")]), timeout=20)
                self.assertEqual(answer.overall_code, OK)
            self.assertEqual(daemon.stop(), 0)


class PythonTest(GrpcTest):
    def test_a_call_is_decided(self):
        answer = self.ask(MESSAGES.request("test", [("daily", "python")]))
        self.assertEqual(answer.overall_code, OK)
        (status,) = answer.statuses
        self.assertEqual((status.code, status.current_limit.requests_per_unit, status.current_limit.unit,
                          status.limit_remaining), (OK, 20, DAY, 19))
        self.assertTrue(0 <= status.duration_until_reset.seconds <= 86400)

    def test_several_descriptors_are_answered_in_their_order(self):
        answer = self.ask(MESSAGES.request("test", [("plenty", "p")], [("nobody", "p")], [("daily", "p")],
                                           hits=7))
        self.assertEqual([status.current_limit.requests_per_unit for status in answer.statuses],
                         [1_000_000, 0, 20])
        self.assertEqual([status.limit_remaining for status in answer.statuses], [999_993, 0, 13])
        self.assertFalse(answer.statuses[1].HasField("current_limit"))

    # Many threads on many channels: each permit goes to one of them.
    def test_exactly_the_limit_is_admitted_of_concurrent_calls(self):
        request = MESSAGES.request("test", [("daily", "crowd")])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            def one(_):
                with dial(self.daemon.grpc_port) as channel:
                    ask = MESSAGES.should_rate_limit(channel)
                    return [ask(request).overall_code for _ in range(10)]
            codes = [code for some in pool.map(one, range(8)) for code in some]
        self.assertEqual((codes.count(OK), codes.count(OVER_LIMIT)), (20, 60))

    def test_asynchronous_calls_are_all_counted(self):
        request = MESSAGES.request("test", [("plenty", "futures")])
        calls = [self.ask.future(request) for _ in range(500)]
        remaining = sorted(call.result(20).statuses[0].limit_remaining for call in calls)
        self.assertEqual(remaining, list(range(999_500, 1_000_000)))

    def test_bad_calls_have_the_errors_of_envoys_service(self):
        self.assert_fails(grpc.StatusCode.UNKNOWN, "rate limit domain must not be empty",
                          lambda: self.ask(MESSAGES.request("", [("a", "b")])))
        self.assert_fails(grpc.StatusCode.UNKNOWN, "rate limit descriptor list must not be empty",
                          lambda: self.ask(MESSAGES.request("test")))
        wrong = self.channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/Möglich")
        self.assert_fails(grpc.StatusCode.UNIMPLEMENTED, "", lambda: wrong(b""))

    def test_calls_without_a_rule_are_ok_and_have_no_limit(self):
        for request in (MESSAGES.request("nobody", [("daily", "x")]),
                        MESSAGES.request("test", [("daily", "x"), ("and", "more")]),
                        MESSAGES.request("test", [("nobody", "x")])):
            answer = self.ask(request)
            self.assertEqual((answer.overall_code, len(answer.statuses)), (OK, 1))
            self.assertFalse(answer.statuses[0].HasField("current_limit"))

    def test_ten_thousand_entries_are_read_and_too_many_limits_are_an_error(self):
        answer = self.ask(MESSAGES.request("test", [(f"k{i}", "v") for i in range(10_000)]))
        self.assertEqual((answer.overall_code, len(answer.statuses)), (OK, 1))
        answer = self.ask(MESSAGES.request("test", *([("nobody", "v")] for _ in range(10_000))))
        self.assertEqual((answer.overall_code, len(answer.statuses)), (OK, 10_000))
        self.assert_fails(grpc.StatusCode.UNKNOWN, "10000 descriptors of the call have limits",
                          lambda: self.ask(MESSAGES.request(
                              "test", *([("daily", f"many{i}")] for i in range(10_000)))))
        self.test_a_call_of_any_name_is_decided("after")

    def test_a_call_of_any_name_is_decided(self, name="again"):
        answer = self.ask(MESSAGES.request("test", [("daily", name)]))
        self.assertEqual(answer.statuses[0].limit_remaining, 19)

    # (Python's own client would not let it through: these are bytes.)
    def test_text_that_is_not_utf8_is_an_error(self):
        raw = self.channel.unary_unary(SHOULD_RATE_LIMIT)
        good = MESSAGES.request("test", [("daily", "utf8-????")]).SerializeToString()
        self.assert_fails(grpc.StatusCode.INTERNAL, "RateLimitRequest",
                          lambda: raw(good.replace(b"????", b"\xff\xfe\xc0\x80")))

    def test_malformed_messages_are_an_error(self):
        raw = self.channel.unary_unary(SHOULD_RATE_LIMIT)
        for junk in (b"\xff" * 100, b"\x0a\x7f", b"\x12\x05\x0a\x03abc\x00"):
            with self.assertRaises(grpc.RpcError) as raised:
                raw(junk)
            self.assertIn(raised.exception.code(),
                          (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT))

    def test_a_message_that_is_too_long_is_resource_exhausted(self):
        request = MESSAGES.request("test", [("daily", "x" * 3_000_000)])
        self.assert_fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "", lambda: self.ask(request))
        self.test_a_call_of_any_name_is_decided("after a long one")

    def test_compressed_messages_are_unimplemented(self):
        request = MESSAGES.request("test", [("daily", "x" * 1000)])
        self.assert_fails(grpc.StatusCode.UNIMPLEMENTED, "compressed",
                          lambda: self.ask(request, compression=grpc.Compression.Gzip))

    def test_health_is_checked_and_watched(self):
        check = MESSAGES.check_health(self.channel)
        for name in ("", "ratelimit"):
            self.assertEqual(check(MESSAGES.HealthCheckRequest(service=name)).status, SERVING)
        self.assert_fails(grpc.StatusCode.NOT_FOUND, "",
                          lambda: check(MESSAGES.HealthCheckRequest(service="nobody")))
        watching = MESSAGES.watch_health(self.channel)(MESSAGES.HealthCheckRequest(service="nobody"))
        self.assertEqual(next(watching).status, SERVICE_UNKNOWN)
        watching.cancel()


class ReflectionTest(GrpcTest):
    def reflect(self, *questions, version="v1alpha"):
        asked = [MESSAGES.ServerReflectionRequest(**question) for question in questions]
        return list(MESSAGES.reflect(self.channel, version)(iter(asked)))

    def test_services_are_listed(self):
        for version in ("v1", "v1alpha"):
            (answer,) = self.reflect({"list_services": "*"}, version=version)
            names = [service.name for service in answer.list_services_response.service]
            self.assertIn("envoy.service.ratelimit.v3.RateLimitService", names)
            self.assertIn("grpc.health.v1.Health", names)

    # Enough to call the service without any of our files.
    def test_a_client_learns_the_files_it_needs(self):
        (answer,) = self.reflect(
            {"file_containing_symbol": "envoy.service.ratelimit.v3.RateLimitService"})
        known, wanted = {}, list(answer.file_descriptor_response.file_descriptor_proto)
        while wanted:
            file = descriptor_pb2.FileDescriptorProto.FromString(wanted.pop())
            known[file.name] = file
            for name in file.dependency:
                if name not in known:
                    (more,) = self.reflect({"file_by_filename": name})
                    self.assertTrue(more.HasField("file_descriptor_response"), name)
                    wanted += more.file_descriptor_response.file_descriptor_proto
        service = known["envoy/service/ratelimit/v3/rls.proto"].service[0]
        self.assertEqual([method.name for method in service.method], ["ShouldRateLimit"])
        self.assertIn("google/protobuf/duration.proto", known)
        answer = next(message for message in known["envoy/service/ratelimit/v3/rls.proto"].message_type
                      if message.name == "RateLimitResponse")
        self.assertIn("overallCode", [field.json_name for field in answer.field])

    def test_several_requests_on_one_stream_are_answered_also_for_unknown_names(self):
        answers = self.reflect({"file_containing_symbol": "no.such.Thing"}, {"list_services": ""},
                               {"file_by_filename": "nothing.proto"},
                               {"file_containing_symbol": "grpc.health.v1.Health.Check"})
        self.assertEqual([answer.WhichOneof("message_response") for answer in answers],
                         ["error_response", "list_services_response", "error_response",
                          "file_descriptor_response"])
        self.assertEqual(answers[0].error_response.error_code, 5)
        self.assertEqual(answers[0].original_request.file_containing_symbol, "no.such.Thing")


class CurlTest(GrpcTest):
    def test_curl_makes_a_call(self):
        message = grpc_message(MESSAGES.request("test", [("daily", "curl")]).SerializeToString())
        with tempfile.TemporaryDirectory() as folder:
            sent, got, head = (Path(folder) / name for name in ("sent", "got", "head"))
            sent.write_bytes(message)
            code, said = run("curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "-o", got, "-D",
                             head, "-H", "content-type: application/grpc", "-H", "te: trailers",
                             "--data-binary", f"@{sent}",
                             f"http://127.0.0.1:{self.daemon.grpc_port}{SHOULD_RATE_LIMIT}")
            self.assertEqual((code, said), (0, ""))
            answer = MESSAGES.RateLimitResponse.FromString(got.read_bytes()[5:])
            self.assertEqual(answer.statuses[0].limit_remaining, 19)
            fields = head.read_text()
            self.assertTrue(fields.startswith("HTTP/2 200"), fields)
            self.assertIn("content-type: application/grpc", fields)
            self.assertIn("grpc-status: 0", fields)

    def test_curl_asks_the_http_listener_by_http2(self):
        base = f"http://127.0.0.1:{self.daemon.http_port}"
        h2 = ("curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}")
        self.assertEqual(run(*h2, f"{base}/healthz"), (0, "ok\n\n2 200"))
        code, said = run(*h2, "--json", json.dumps({"domain": "test", "descriptors": [
            {"entries": [{"key": "daily", "value": "curl json"}]}]}), f"{base}/json")
        body, _, rest = said.rpartition("\n")
        self.assertEqual((code, rest, json.loads(body)["overallCode"]), (0, "2 200", "OK"))
        # (Debian's curl cannot use such a connection twice.)
        for path, status in (("/metrics", 200), ("/nothing", 404)):
            code, said = run(*h2, base + path)
            self.assertTrue(said.endswith(f"\n2 {status}"), said[-300:])
        # A client that prefers HTTP/2 asks by ALPN; HTTP/1.1 works too.
        code, said = run("curl", "-sS", "--noproxy", "*", "--http2", "-w", "%{http_code}", f"{base}/healthz")
        self.assertEqual((code, said), (0, "ok\n200"))

    @unittest.skipUnless(shutil.which("h2load"), "there is no h2load")
    def test_h2load_is_served_without_errors(self):
        count = 2_000 if under_sanitizer() else 20_000
        before = self.spent()
        with tempfile.NamedTemporaryFile() as sent:
            sent.write(grpc_message(MESSAGES.request("test", [("plenty", "h2load")]).SerializeToString()))
            sent.flush()
            code, said = run("h2load", "-c", 4, "-m", 16, "-n", count, "-d", sent.name, "-H",
                             "content-type: application/grpc", "-H", "te: trailers",
                             f"http://127.0.0.1:{self.daemon.grpc_port}{SHOULD_RATE_LIMIT}")
        self.assertEqual(code, 0, said)
        self.assertIn(f"{count} succeeded, 0 failed, 0 errored, 0 timeout", said)
        self.assertEqual(self.spent() - before, count + 1)
        code, said = run("h2load", "-c", 4, "-m", 16, "-n", count,
                         f"http://127.0.0.1:{self.daemon.http_port}/healthz")
        self.assertIn(f"{count} succeeded, 0 failed, 0 errored, 0 timeout", said)

    def spent(self):
        """The usage of the key, this call included."""
        answer = self.ask(MESSAGES.request("test", [("plenty", "h2load")]))
        return 1_000_000 - answer.statuses[0].limit_remaining


class DeadlineTest(unittest.TestCase):
    # A store that does not answer: the call ends at the client's deadline, before the store's timeout.
    @unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
    def test_the_callers_deadline_is_kept(self):
        with RedisServer() as redis, serving(extra=(
                f"store: redis://127.0.0.1:{redis.port}\nstore_timeout: 10s\n")) as daemon, \
                dial(daemon.grpc_port) as channel:
            ask = MESSAGES.should_rate_limit(channel)
            request = MESSAGES.request("test", [("daily", "late")])
            self.assertEqual(ask(request, timeout=20).overall_code, OK)
            redis.process.send_signal(19)  # SIGSTOP
            try:
                begin = time.monotonic()
                with self.assertRaises(grpc.RpcError) as raised:
                    ask(request, timeout=0.3)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
                self.assertLess(time.monotonic() - begin, 5)
            finally:
                redis.process.send_signal(18)  # SIGCONT
            self.assertEqual(ask(request, timeout=20).overall_code, OK)


class TlsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.ca = Authority(self.folder)
        self.cert, self.key = self.ca.sign("server")

    def serve(self, ca=""):
        daemon = serving(folder=self.folder,
                         extra=f"tls: {{ cert: {self.cert}, key: {self.key}{ca} }}")
        daemon.__enter__()
        self.addCleanup(daemon.__exit__)
        return daemon

    def ask(self, daemon, cert=None):
        files = [self.ca.cert.read_bytes()]
        if cert:
            files += [cert[1].read_bytes(), cert[0].read_bytes()]
        with dial(daemon.grpc_port, grpc.ssl_channel_credentials(*files)) as channel:
            ask = MESSAGES.should_rate_limit(channel)
            return ask(MESSAGES.request("test", [("daily", "tls")]), timeout=20)

    def test_python_and_cpp_clients_connect_over_tls(self):
        daemon = self.serve()
        self.assertEqual(self.ask(daemon).overall_code, OK)
        if CPP_CLIENT.exists():
            checks = ["unary", "in_flight", "oversized", "watch_and_cancel"]
            code, said = run(CPP_CLIENT, f"localhost:{daemon.grpc_port}", "--ca", self.ca.cert, *checks)
            self.assertEqual((code, said.splitlines()), (0, [f"ok {check}" for check in checks]))
        with self.assertRaises(grpc.RpcError) as raised, dial(daemon.grpc_port) as channel:
            MESSAGES.should_rate_limit(channel)(MESSAGES.request("test", [("a", "b")]), timeout=1)
        # (The clients get GOAWAY, and some retry until their deadline.)
        self.assertIn(raised.exception.code(),
                      (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))

    def test_curl_chooses_http2_by_alpn(self):
        daemon = self.serve()
        for options, version in ((["--http2"], "2"), (["--http1.1"], "1.1")):
            code, said = run("curl", "-sS", "--noproxy", "*", *options, "--cacert", self.ca.cert, "-w",
                             "%{http_version}", f"https://localhost:{daemon.http_port}/healthz")
            self.assertEqual((code, said), (0, f"ok\n{version}"))

    def test_mutual_tls_requires_a_client_certificate(self):
        daemon = self.serve(ca=f", ca: {self.ca.cert}")
        mine = self.ca.sign("client")
        self.assertEqual(self.ask(daemon, mine).overall_code, OK)
        if CPP_CLIENT.exists():
            code, said = run(CPP_CLIENT, f"localhost:{daemon.grpc_port}", "--ca", self.ca.cert, "--cert",
                             mine[0], "--key", mine[1], "unary", "health")
            self.assertEqual((code, said), (0, "ok unary\nok health\n"))
        with self.assertRaises(grpc.RpcError) as raised:
            self.ask(daemon)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_a_renewed_certificate_is_shown_to_new_connections(self):
        daemon = self.serve()
        self.assertEqual(self.ask(daemon).overall_code, OK)
        other = Authority(self.folder, "other")
        cert, key = other.sign("renewed")
        shutil.copy(key, self.key)
        shutil.copy(cert, self.cert)
        daemon.wait_for_log("is used by new connections")
        with self.assertRaises(grpc.RpcError):
            self.ask(daemon)
        self.ca = other
        self.assertEqual(self.ask(daemon).overall_code, OK)


class ReloadTest(unittest.TestCase):
    def test_changed_rules_apply_and_wrong_ones_are_ignored(self):
        with serving() as daemon, dial(daemon.grpc_port) as channel:
            ask = MESSAGES.should_rate_limit(channel)
            request = MESSAGES.request("test", [("daily", "reload")])

            def limit():
                return ask(request).statuses[0].current_limit.requests_per_unit

            self.assertEqual(limit(), 20)
            rules = daemon.folder / "rules.yaml"

            def write(text):
                fresh = daemon.folder / "rules.fresh"
                fresh.write_text(text)
                fresh.rename(rules)

            write(RULES.replace("requests_per_unit: 20 }", "requests_per_unit: 30 }"))
            eventually(lambda: limit() == 30, "the new limit")
            write("domain: test\ndescriptors:\n  - key: daily\n    rate_limit: { unit: never, requests_per_unit: 5 }\n")
            daemon.wait_for_log("invalid rate limit unit 'never'")
            self.assertEqual(limit(), 30)

    def test_a_channel_outlives_a_restart(self):
        port = free_port()
        daemon = serving()
        daemon.config.write_text(daemon.config.read_text().replace("grpc: 127.0.0.1:0",
                                                                   f"grpc: 127.0.0.1:{port}"))
        with daemon, dial(port) as channel:
            ask = MESSAGES.should_rate_limit(channel)
            request = MESSAGES.request("test", [("plenty", "restart")])
            self.assertEqual(ask(request, timeout=20).overall_code, OK)
            self.assertEqual(daemon.stop(), 0)
            with self.assertRaises(grpc.RpcError) as raised:
                ask(request, timeout=20)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
            daemon.start()
            self.assertEqual(ask(request, timeout=20, wait_for_ready=True).overall_code, OK)

    # Calls in flight at the stop are answered.
    def test_a_busy_daemon_ends_without_losing_a_call(self):
        with serving() as daemon, dial(daemon.grpc_port) as channel:
            ask = MESSAGES.should_rate_limit(channel)
            request = MESSAGES.request("test", [("plenty", "busy")])
            ask(request)
            lost, answered, over = [], 0, threading.Event()

            def keep_asking():
                nonlocal answered
                while not over.is_set():
                    try:
                        ask(request, timeout=20)
                        answered += 1
                    except grpc.RpcError as error:
                        lost.append(error)
                        return

            threads = [threading.Thread(target=keep_asking) for _ in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            self.assertEqual(daemon.stop(), 0)
            over.set()
            for thread in threads:
                thread.join()
            self.assertGreater(answered, 8)
            # Only calls that could not be sent fail: the daemon is gone.
            for error in lost:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error.details())
                self.assertRegex(error.details(), "(?i)connect|GOAWAY|closed|reset")


if __name__ == "__main__":
    unittest.main()
