"""The results of h2spec, the conformance tests of HTTP/2: h2_spec_test.py WEIR H2SPEC.

Skipped where there is no h2spec (see make peers).
"""

import http.server
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree
from pathlib import Path

from certificates import Authority
from daemon import Daemon, free_port

H2SPEC = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)

RULES = "domain: d\ndescriptors: [ { key: k, rate_limit: { unit: hour, requests_per_unit: 1 } } ]\n"

# A connection that does not start as HTTP/2 gets an HTTP/1 error before it is closed, not only a close.
PREFACE = {"Sends invalid connection preface"}
# Tests that expect a body: a request that is no gRPC call is answered without one.
WITH_A_BODY = {"Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
               "Sends a PRIORITY frame on half-closed (remote) stream"}
# Requests that are answered at once never reach the limit of concurrent streams.
MANY_AT_A_TIME = {"Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded"}


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Clients reset requests: that is part of the test."""


@unittest.skipUnless(H2SPEC.exists(), "there is no h2spec here: see make peers")
class H2SpecTest(unittest.TestCase):
    maxDiff = None

    def find(self, port, path, *more):
        """The cases that failed, without those that h2spec skips itself."""
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            done = subprocess.run([H2SPEC, "-h", "127.0.0.1", "-p", str(port), "-P", path, "-o", "10",
                                   "-j", report.name, *more], capture_output=True, text=True, timeout=900)
            cases = list(xml.etree.ElementTree.parse(report.name).iter("testcase"))
        self.assertGreater(len(cases), 140, done.stdout[-2000:])
        failed = {case.get("classname") for case in cases if case.find("error") is not None}
        self.assertEqual(done.returncode != 0, bool(failed), done.stdout[-2000:])
        return failed

    def serve(self, extra="", **more):
        daemon = Daemon(WEIR, "policies: { p: { limits: [ 1000000000/h ] } }", grpc="127.0.0.1:0",
                        extra=f"envoy_ratelimit: rules.yaml\n{extra}", **more)
        (daemon.folder / "rules.yaml").write_text(RULES)
        daemon.__enter__()
        self.addCleanup(daemon.__exit__)
        return daemon

    def test_the_http_listener_passes_h2spec(self):
        self.assertLessEqual(self.find(self.serve().http_port, "/healthz"), PREFACE | MANY_AT_A_TIME)

    def test_the_grpc_listener_passes_h2spec(self):
        self.assertLessEqual(self.find(self.serve().grpc_port, "/"), PREFACE | MANY_AT_A_TIME | WITH_A_BODY)

    def test_a_listener_with_tls_passes_h2spec(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Authority(folder).sign("server")
            daemon = self.serve(f"tls: {{ cert: {cert}, key: {key} }}")
            self.assertLessEqual(self.find(daemon.http_port, "/healthz", "-t", "-k"), PREFACE | MANY_AT_A_TIME)

    def test_the_gateway_passes_h2spec(self):
        service = Server(("127.0.0.1", 0), Service)
        threading.Thread(target=service.serve_forever).start()
        self.addCleanup(service.server_close)
        self.addCleanup(service.shutdown)
        port = free_port()
        self.serve(f"""
gateway:
  listen: 127.0.0.1:{port}
  routes:
    - {{ match: {{ path: /** }}, upstream: "http://127.0.0.1:{service.server_port}", policy: p, key: ip }}
""")
        self.assertLessEqual(self.find(port, "/"), PREFACE | MANY_AT_A_TIME)


if __name__ == "__main__":
    unittest.main()
