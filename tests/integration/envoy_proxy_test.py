"""A real Envoy with the configuration of docs/recipes/envoy.md: envoy_proxy_test.py WEIR SOURCE ENVOY.

Skipped where there is no Envoy (see make peers)."""

import collections
import concurrent.futures
import http.client
import http.server
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import yaml

from certificates import Authority
from daemon import Daemon, eventually, free_port

ENVOY = Path(sys.argv.pop(3))
SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
PAGE = (SOURCE / "docs/recipes/envoy.md").read_text()
YEAR = 365 * 24 * 3600


def block(name):
    return re.search(rf"```yaml\n# {re.escape(name)}\n(.*?)```", PAGE, re.S)[1]


# (A year: it does not end within a test.)
RULES = block("rules.yaml").replace("unit: hour", "unit: year")
SETTINGS = block("weir.yaml")


def only(found):
    [one] = found
    return one


def get(port, path="/", **fields):
    """(status, fields) of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): str(value) for name, value in fields.items()})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


class Service(http.server.BaseHTTPRequestHandler):
    """The protected service. Returns the cost of its answer in a header, if told to."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        if cost := self.headers.get("x-cost"):
            self.send_header("x-tokens", cost)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


class Envoy:
    """Envoy with the configuration of the recipe, between a service and these daemons."""

    def __init__(self, folder, service, weirs):
        self.folder = Path(folder)
        self.port, self.admin_port = free_port(), free_port()
        self.config = yaml.safe_load(block("envoy.yaml"))
        self.config["admin"] = {"address": self.socket_address(self.admin_port)}
        self.listener["address"] = self.socket_address(self.port)
        # (No test may depend on a fast machine.)
        self.asking["timeout"] = "30s"
        self.weir["connect_timeout"] = "10s"
        only(self.weir["health_checks"]).update(timeout="10s", interval="0.1s", no_traffic_interval="0.1s")
        self.use_ports("service", [service])
        self.use_ports("weir", weirs)
        self.process = None

    @staticmethod
    def socket_address(port):
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    def cluster(self, name):
        return only(each for each in self.config["static_resources"]["clusters"] if each["name"] == name)

    def use_ports(self, name, ports):
        endpoints = only(self.cluster(name)["load_assignment"]["endpoints"])
        endpoints["lb_endpoints"] = [{"endpoint": {"address": self.socket_address(port)}} for port in ports]

    # The part of the configuration that tests change before the start.
    @property
    def weir(self):
        return self.cluster("weir")

    @property
    def listener(self):
        return only(self.config["static_resources"]["listeners"])

    @property
    def manager(self):
        return only(only(self.listener["filter_chains"])["filters"])["typed_config"]

    @property
    def host(self):
        return only(self.manager["route_config"]["virtual_hosts"])

    @property
    def asking(self):
        return self.manager["http_filters"][0]["typed_config"]

    def __enter__(self):
        file = self.folder / "envoy.yaml"
        file.write_text(yaml.safe_dump(self.config))
        self.log = open(self.folder / "envoy.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([ENVOY, "-c", file, "--concurrency", "1", "--disable-hot-restart",
                                         "-l", "warning"], stderr=self.log)
        eventually(self.is_ready, "Envoy is ready")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def is_ready(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError("Envoy did not start:\n" + self.log.read())
        try:
            return get(self.admin_port, "/ready")[0] == 200
        except OSError:
            return False

    def admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=60)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def statistic(self, name):
        """(Some statistics are missing until they count something.)"""
        found = re.search(rf"^{re.escape(name)}: (\d+)$", self.admin("/stats"), re.M)
        return int(found[1]) if found else 0

    def wait_until_healthy(self, weirs=1):
        eventually(lambda: self.statistic("cluster.weir.membership_healthy") == weirs,
                   f"{weirs} of weir are healthy for Envoy")


@unittest.skipUnless(ENVOY.exists(), "there is no Envoy here: see make peers")
class EnvoyProxyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=self.service.serve_forever).start()
        self.addCleanup(self.service.server_close)
        self.addCleanup(self.service.shutdown)

    def start_weir(self, settings=SETTINGS, rules=RULES, args=()):
        """Starts weir on a port that stays the same over a restart."""
        daemon = Daemon(WEIR, "", grpc=f"127.0.0.1:{free_port()}", extra=settings, args=args)
        daemon.cwd = daemon.folder
        (daemon.folder / "rules.yaml").write_text(rules)
        daemon.__enter__()
        self.addCleanup(daemon.__exit__)
        return daemon

    def envoy(self, *weirs):
        return Envoy(self.folder, self.service.server_port, [weir.grpc_port for weir in weirs])

    def start(self, envoy, healthy=1):
        envoy.__enter__()
        self.addCleanup(envoy.__exit__)
        envoy.wait_until_healthy(healthy)
        return envoy

    def test_envoy_limits_requests_as_the_recipe_says(self):
        envoy = self.start(self.envoy(self.start_weir()))
        alice = [get(envoy.port, "/buy", x_user="alice") for _ in range(6)]
        self.assertEqual([status for status, _ in alice], 5 * [200] + [429])
        for left, (_, fields) in zip(range(4, -1, -1), alice):
            self.assertEqual((fields["x-ratelimit-remaining"], fields["ratelimit-remaining"]), (str(left),) * 2)
        refused = alice[-1][1]
        self.assertEqual(refused["x-envoy-ratelimited"], "true")
        self.assertEqual(refused["x-ratelimit-limit"], f'5, 20;w={YEAR}, 5;w={YEAR};name="buying"')
        self.assertEqual((refused["ratelimit-limit"], refused["ratelimit-remaining"]), ("5", "0"))
        self.assertEqual(refused["ratelimit-reset"], refused["x-ratelimit-reset"])
        self.assertTrue(0 < int(refused["ratelimit-reset"]) <= YEAR)
        # Refused requests took nothing from the twenty.
        elsewhere = [get(envoy.port, x_user="alice") for _ in range(16)]
        self.assertEqual([status for status, _ in elsewhere], 15 * [200] + [429])
        self.assertEqual(elsewhere[0][1]["x-ratelimit-remaining"], "14")
        # Other users have their own limit; a request without a user has none.
        self.assertEqual(get(envoy.port, x_user="bob")[0], 200)
        status, fields = get(envoy.port)
        self.assertEqual((status, fields["x-ratelimit-limit"]), (200, None))
        self.assertEqual(envoy.statistic("cluster.service.ratelimit.over_limit"), 2)
        self.assertEqual(envoy.statistic("cluster.service.ratelimit.error"), 0)
        self.assertEqual(envoy.statistic("cluster.weir.upstream_cx_protocol_error"), 0)

    def test_concurrent_requests_get_exactly_the_limit(self):
        envoy = self.start(self.envoy(self.start_weir()))
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = collections.Counter(
                status for status, _ in pool.map(lambda _: get(envoy.port, x_user="crowd"), range(200)))
        self.assertEqual(answers, {200: 20, 429: 180})

    def test_envoy_follows_its_failure_mode_while_weir_is_down_and_usage_is_kept(self):
        weir = self.start_weir()
        open_to_all, strict = self.envoy(weir), Envoy(self.folder, self.service.server_port, [weir.grpc_port])
        strict.asking["failure_mode_deny"] = True
        self.start(open_to_all)
        self.start(strict)
        for left in (4, 3):
            self.assertEqual(get(open_to_all.port, "/buy", x_user="a")[1]["x-ratelimit-remaining"], str(left))
        weir.kill()
        status, fields = get(open_to_all.port, "/buy", x_user="a")
        self.assertEqual((status, fields["x-ratelimit-remaining"]), (200, None))
        self.assertEqual(get(strict.port, "/buy", x_user="a")[0], 500)
        weir.start()
        for envoy, left in ((open_to_all, 2), (strict, 1)):
            envoy.wait_until_healthy()
            status, fields = get(envoy.port, "/buy", x_user="a")
            self.assertEqual((status, fields["x-ratelimit-remaining"]), (200, str(left)))

    def test_no_call_is_lost_when_one_of_two_daemons_stops(self):
        plenty = RULES.replace("requests_per_unit: 20", "requests_per_unit: 100000000")
        weirs = [self.start_weir(rules=plenty, args=["--drain", "10min"]) for _ in range(2)]
        envoy = self.envoy(*weirs)
        envoy.asking["failure_mode_deny"] = True  # a missing answer shows as a denial
        self.start(envoy, 2)
        answers, over = collections.Counter(), threading.Event()

        def keep_asking(number):
            while not over.is_set():
                answers[get(envoy.port, x_user=f"user{number}")[0]] += 1

        threads = [threading.Thread(target=keep_asking, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        try:
            for weir in weirs:
                before = answers[200]
                eventually(lambda: answers[200] > before + 200, "calls are answered")
                weir.process.send_signal(signal.SIGTERM)
                envoy.wait_until_healthy(1)
                self.assertEqual(weir.stop(), 0)
                before = answers[200]
                eventually(lambda: answers[200] > before + 200, "calls are answered by the other")
                weir.start()
                envoy.wait_until_healthy(2)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(set(answers), {200}, answers)
        self.assertEqual(envoy.statistic("cluster.service.ratelimit.error"), 0)

    TOKENS = """
domain: shop
descriptors:
  - { key: tokens, rate_limit: { unit: year, requests_per_unit: 100 } }
"""

    def ask_for_tokens(self, compat):
        """The status of a third request, after two that cost 60 each."""
        weir = self.start_weir(f"{compat}\n{SETTINGS}", self.TOKENS)
        envoy = self.envoy(weir)
        del envoy.host["rate_limits"]
        envoy.host.update(yaml.safe_load(block("costs.yaml")))
        self.start(envoy)
        for spent in (60, 120):
            self.assertEqual(get(envoy.port, x_user="a", x_cost=60)[0], 200)
            # (Envoy reports the cost after the response, and does not wait for an answer.)
            eventually(lambda: f'weir_envoy_hits_total{{rule="shop.tokens"}} {spent}\n'
                       in weir.http("GET", "/metrics")[2].decode(), f"{spent} hits have come")
        return get(envoy.port, x_user="a", x_cost=60)[0]

    def test_costs_from_the_response_are_charged_under_envoyproxy_compat(self):
        self.assertEqual(self.ask_for_tokens("compat: envoyproxy"), 429)

    def test_costs_from_the_response_are_not_charged_without_envoyproxy_compat(self):
        self.assertEqual(self.ask_for_tokens(""), 200)  # as the recipe warns

    def test_metadata_of_rules_reaches_envoy(self):
        rules = RULES.replace("- key: user ", "- metadata: { plan: gold }\n    key: user ")
        envoy = self.envoy(self.start_weir(SETTINGS.replace("response_headers", "dynamic_metadata"), rules))
        envoy.host["response_headers_to_add"] = [
            {"header": {"key": key, "value": f"%DYNAMIC_METADATA(envoy.filters.http.ratelimit:{path})%"}}
            for key, path in (("x-domain", "domain"), ("x-plan", "metadata:plan"))]
        self.start(envoy)
        status, fields = get(envoy.port, x_user="a")
        self.assertEqual((status, fields["x-domain"], fields["x-plan"]), (200, "shop", "gold"))

    def test_mutual_tls_is_used_between_envoy_and_weir(self):
        authority = Authority(self.folder)
        server_cert, server_key = authority.sign("server")
        client_cert, client_key = authority.sign("client")
        weir = self.start_weir(
            f"{SETTINGS}\ntls: {{ cert: {server_cert}, key: {server_key}, ca: {authority.cert} }}")
        written = block("socket.yaml")
        for name, file in (("client.pem", client_cert), ("client.key", client_key), ("ca.pem", authority.cert)):
            self.assertIn(name, written)
            written = written.replace(name, str(file))
        known = self.envoy(weir)
        known.weir.update(yaml.safe_load(written))
        self.start(known)
        status, fields = get(known.port, x_user="a")
        self.assertEqual((status, fields["x-ratelimit-remaining"]), (200, "19"))
        # A client without a certificate is refused.
        stranger = self.envoy(weir)
        stranger.weir.update(yaml.safe_load(written))
        del stranger.weir["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificates"]
        stranger.asking["failure_mode_deny"] = True
        self.start(stranger, 0)
        self.assertEqual(get(stranger.port, x_user="a")[0], 500)


if __name__ == "__main__":
    unittest.main()
