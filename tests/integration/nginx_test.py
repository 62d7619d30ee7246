"""A real nginx with the configuration of docs/recipes/nginx.md: nginx_test.py WEIR SOURCE."""

import http.client
import http.server
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from daemon import Daemon, free_port

SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
PAGE = (SOURCE / "docs/recipes/nginx.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def block(language):
    return blocks(language)[0]


class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


class NginxTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.start_daemon(block("yaml").replace("10/s burst 5", "1/h burst 5"))
        self.service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=self.service.serve_forever).start()
        self.addCleanup(self.service.server_close)
        self.addCleanup(self.service.shutdown)

    def start_daemon(self, policies):
        self.daemon = Daemon(WEIR, policies)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def start_nginx(self, server):
        self.port = free_port()
        for written, used in [("7380", self.daemon.http_port),
                              ("listen 8080", f"listen 127.0.0.1:{self.port}"),
                              ("9000", self.service.server_port)]:
            self.assertIn(written, server)
            server = server.replace(written, str(used))
        # (Not 50 ms: no test may depend on a fast machine.)
        server = server.replace("50ms", "30s")
        paths = "".join(f"{kind}_temp_path {self.folder.name}/{kind};\n" for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = Path(self.folder.name) / "nginx.conf"
        config.write_text(f"daemon off;\nmaster_process off;\npid {self.folder.name}/pid;\n"
                          f"error_log {self.folder.name}/error.log;\nevents {{}}\n"
                          f"http {{ access_log off;\n{paths}{server} }}\n")
        self.nginx = subprocess.Popen(["/usr/sbin/nginx", "-p", self.folder.name, "-c", str(config)],
                                      stderr=subprocess.DEVNULL)
        self.addCleanup(self.nginx.wait)
        self.addCleanup(self.nginx.terminate)
        for _ in range(1000):
            try:
                with socket.create_connection(("127.0.0.1", self.port)):
                    return
            except OSError:
                time.sleep(0.01)
        raise AssertionError(Path(self.folder.name, "error.log").read_text())

    def get(self, path="/", **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {name.replace("_", "-"): text for name, text in fields.items()}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.headers, body

    def test_nginx_passes_the_requests_that_weir_allows(self):
        self.start_nginx(block("nginx"))
        for left in (4, 3, 2, 1, 0):
            status, headers, body = self.get()
            self.assertEqual((status, body), (200, b"hello"))
            self.assertTrue(headers["RateLimit"].startswith(f'"rate";r={left};t='), headers)
        status, headers, body = self.get()
        self.assertEqual(status, 429)
        self.assertTrue(3500 < int(headers["Retry-After"]) <= 3600)
        self.assertIn(b"Too Many Requests", body)
        # By default no request passes without a decision.
        self.daemon.stop()
        self.assertEqual(self.get()[0], 500)

    def test_nginx_can_pass_requests_while_weir_is_down(self):
        instead, allowed = (re.search(rf"`({start}.*?)`", PAGE)[1]
                            for start in ("error_page 500", "location @allowed"))
        server = block("nginx").replace("internal;", f"internal; {instead}")
        self.start_nginx(server.replace("location @limited", f"{allowed}\n  location @limited"))
        for _ in range(5):
            self.assertEqual(self.get()[0], 200)
        self.assertEqual(self.get()[0], 429)
        self.daemon.stop()
        self.assertEqual(self.get()[::2], (200, b"hello"))

    # The policy, the query and the header that `weir import nginx` suggests, in the configuration of the
    # page.
    def test_nginx_can_use_imported_policies(self):
        theirs = Path(self.folder.name) / "theirs.conf"
        theirs.write_text("limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;\n"
                          "limit_req_status 429;\nserver { limit_req zone=one burst=2; }\n")
        imported = subprocess.run([WEIR, "import", "nginx", theirs], capture_output=True, text=True, check=True).stdout
        self.start_daemon(imported)
        query = re.search(r"proxy_pass http://127.0.0.1:7380(/v1/auth\S*);", imported)[1].replace("NAME", "one")
        header = re.search(r"X-Weir-Part-\w+ \$\w+;", imported)[0]
        server = block("nginx")
        for written, advised in [("/v1/auth?policy=api&deny=403", query), ("X-Weir-Key $remote_addr;", header)]:
            self.assertIn(written, server)
            server = server.replace(written, advised)
        self.start_nginx(server)
        self.assertEqual([self.get()[0] for _ in range(5)], [200, 200, 200, 429, 429])

    # A client's headers cannot choose the key, the policy or the permits, and weir never sees them.
    def test_clients_cannot_choose_their_key(self):
        self.start_nginx(block("nginx"))
        fields = dict(X_Weir_Policy="none", Authorization="Bearer x", Cookie="a=" + 7000 * "b",
                      Filler=7000 * "c", More=7000 * "d")
        for attempt in range(5):
            self.assertEqual(self.get(X_Weir_Key=f"made up {attempt}", **fields)[0], 200)
        self.assertEqual(self.get(X_Weir_Key="another", **fields)[0], 429)
        self.assertEqual(self.get("/?policy=none&key=another&permits=0", **fields)[0], 429)

    def test_a_hostile_key_is_limited_like_any_other(self):
        server, keys = blocks("nginx")
        written = "X-Weir-Key $remote_addr;"
        self.assertIn(written, server)
        self.start_nginx(keys + server.replace(written, "X-Weir-Key $weir_key;"))
        for session in ("evil&permits=0", "a b&deny=200#", "%00&key=somebody", "ip 127.0.0.1"):
            for _ in range(5):
                self.assertEqual(self.get(Cookie=f"session={session}")[0], 200, session)
            self.assertEqual(self.get(Cookie=f"session={session}")[0], 429, session)
        # Without the header, by address.
        for _ in range(5):
            self.assertEqual(self.get()[0], 200)
        self.assertEqual(self.get()[0], 429)


if __name__ == "__main__":
    unittest.main()
