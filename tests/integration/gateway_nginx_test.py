"""The same arrivals at a real nginx, at a gateway with the same limits (`like: nginx`), and at one whose
configuration `weir import nginx --gateway` made from nginx's: equal statuses, and equal delays except for
the load of the machine: gateway_nginx_test.py WEIR."""

import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from daemon import Daemon, free_port
from gateway import Gateway, Service

WEIR = sys.argv.pop(1)

# The maximum lateness of an answer on a busy machine: less than half of the interval between two requests, 1
# s. An arrival with a later answer is inconclusive, and is repeated.
TOLERANCE = 0.45
ATTEMPTS = 6

# The nginx configuration, and the route for each location.
CASES = {
    "plain": ("", "[ { limit: 1/s queue 0, like: nginx } ]"),
    "burst": ("burst=3", "[ { limit: 1/s queue 3, like: nginx } ]"),
    "nodelay": ("burst=3 nodelay", "[ { limit: 1/s queue 3 nodelay, like: nginx } ]"),
    "delay": ("burst=4 delay=2", "[ { limit: 1/s queue 4 delay 2, like: nginx } ]"),
    "minute": ("burst=2", "[ { limit: 40/min queue 2, like: nginx } ]"),
    "minutes": ("burst=1 nodelay", "[ { limit: 50/min queue 1 nodelay, like: nginx } ]"),
}
RATES = {"minute": "40r/m", "minutes": "50r/m"}
UPSTREAM_TIME = 1.0
REFUSED = None


def nginx_config(port, upstream_port, slow):
    zones = "".join(f"limit_req_zone $http_x_user zone={name}:1m rate={RATES.get(name, '1r/s')};\n"
                    for name in CASES)
    upstream = f"proxy_pass http://127.0.0.1:{upstream_port};"
    places = "".join(f"location /{name} {{ limit_req zone={name} {limit}; {upstream} }}\n"
                     for name, (limit, _) in CASES.items())
    return f"""
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path body; proxy_temp_path proxy;
  limit_req_status 429; limit_conn_status 429;
  {zones}
  limit_req_zone $http_x_user zone=user:1m rate=1r/s;
  limit_req_zone $http_x_all zone=all:1m rate=1r/s;
  limit_req_zone $http_x_user zone=slow_user:1m rate=1r/s;
  limit_req_zone $http_x_all zone=fast_all:1m rate=2r/s;
  limit_conn_zone $http_x_user zone=under_way:1m;
  server {{
    listen 127.0.0.1:{port};
    {places}
    location /zones {{ limit_req zone=user burst=1 nodelay; limit_req zone=all burst=3 nodelay; {upstream} }}
    location /slowest {{ limit_req zone=slow_user burst=2; limit_req zone=fast_all burst=9; {upstream} }}
    location /conn {{ limit_conn under_way 3; proxy_pass {slow}; }}
  }}
  server {{
    listen 127.0.0.1:{upstream_port};
    location / {{ return 200 "hello"; }}
  }}
}}
"""


def routes(upstream, slow):
    lines = [f"- {{ name: {name}, match: {{ path: /{name} }}, upstream: {upstream}, limits: {limits}, "
             f"key: header:X-User }}" for name, (_, limits) in CASES.items()]
    parts = "parts: { user: header:X-User, all: header:X-All }"
    lines.append(f"- {{ match: {{ path: /zones }}, upstream: {upstream}, {parts}, limits: [ "
                 "{ limit: 1/s queue 1 nodelay, by: user, like: nginx }, "
                 "{ limit: 1/s queue 3 nodelay, by: all, like: nginx } ] }")
    lines.append(f"- {{ match: {{ path: /slowest }}, upstream: {upstream}, {parts}, limits: [ "
                 "{ limit: 1/s queue 2, by: user, like: nginx }, "
                 "{ limit: 2/s queue 9, by: all, like: nginx } ] }")
    lines.append(f"- {{ match: {{ path: /conn }}, upstream: {slow}, limits: [ 3 concurrent ], "
                 "key: header:X-User }")
    return "\n".join(lines)


class ImportedGateway(Gateway):
    """With the configuration of an nginx, on a free port."""

    def __init__(self, weir, config):
        imported = subprocess.run([weir, "import", "nginx", "--gateway", config], capture_output=True, text=True,
                                  check=True).stdout
        Daemon.__init__(self, weir, re.sub(r"^  listen: .*$", "  listen: 127.0.0.1:0", imported, flags=re.M))


class Exchange:
    """One request at one server."""

    def __init__(self, port, path, user, attempt):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.request = (f"GET {path} HTTP/1.1\r\nHost: a\r\nX-User: {user}-{attempt}\r\n"
                        f"X-All: {attempt}\r\nConnection: close\r\n\r\n").encode()
        self.status = self.planned = self.took = None

    def send(self, planned):
        self.planned = planned
        self.socket.sendall(self.request)

    def receive(self):
        head = self.socket.recv(65536)
        self.took = time.monotonic() - self.planned
        self.status = int(head.split(b" ", 2)[1])
        self.socket.close()


def arrive(ports, path, arrivals, attempt):
    """Sends [(at, user), …] to each of the ports at the same time: for each port the exchanges."""
    every = [[Exchange(port, path, user, attempt) for _, user in arrivals] for port in ports]
    waiting = selectors.DefaultSelector()
    start = time.monotonic() + 0.05
    upcoming = [(start + at, i) for i, (at, _) in enumerate(arrivals)]
    while upcoming or waiting.get_map():
        now = time.monotonic()
        while upcoming and upcoming[0][0] <= now:
            planned, i = upcoming.pop(0)
            for exchanges in every:
                exchanges[i].send(planned)
                waiting.register(exchanges[i].socket, selectors.EVENT_READ, exchanges[i])
        pause = max(0, upcoming[0][0] - time.monotonic()) if upcoming else 20
        for key, _ in waiting.select(pause):
            waiting.unregister(key.fileobj)
            key.data.receive()
    return every


class SameAsNginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def answer(handler):
            time.sleep(UPSTREAM_TIME)
            handler.answer()
        cls.service = Service(answer).__enter__()
        cls.addClassCleanup(cls.service.__exit__, None, None, None)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.start_nginx()
        cls.ports = (cls.nginx_port, cls.start_gateway(Gateway(WEIR, routes(cls.upstream, cls.service.url))),
                     cls.start_gateway(ImportedGateway(WEIR, cls.nginx_config)))

    @classmethod
    def start_gateway(cls, gateway):
        gateway.__enter__()
        cls.addClassCleanup(gateway.__exit__, None, None, None)
        return gateway.port

    @classmethod
    def start_nginx(cls):
        cls.nginx_port, upstream_port = free_port(), free_port()
        cls.upstream = f"http://127.0.0.1:{upstream_port}"
        config = cls.nginx_config = Path(cls.folder.name) / "nginx.conf"
        config.write_text(nginx_config(cls.nginx_port, upstream_port, cls.service.url))
        cls.nginx = subprocess.Popen(["/usr/sbin/nginx", "-p", cls.folder.name, "-c", str(config)],
                                     stderr=subprocess.PIPE)
        cls.addClassCleanup(cls.nginx.communicate)
        cls.addClassCleanup(cls.nginx.terminate)
        for _ in range(200):
            if cls.nginx.poll() is not None:
                raise AssertionError(cls.nginx.communicate()[1].decode())
            try:
                return socket.create_connection(("127.0.0.1", cls.nginx_port)).close()
            except OSError:
                time.sleep(0.02)
        raise AssertionError("nginx did not start")

    def check(self, path, arrivals, expected):
        """`expected`: the delays of all requests that arrive at one instant, or REFUSED, for each instant.
        (Requests of one instant have no order.)"""
        instants = sorted({at for at, _ in arrivals})
        self.assertEqual(len(instants), len(expected))
        for attempt in range(ATTEMPTS):
            servers = arrive(self.ports, path, arrivals, f"{path}{attempt}")
            seen = [[sorted((each.status, each.took) for (when, _), each in zip(arrivals, exchanges)
                            if when == at) for at in instants] for exchanges in servers]
            if not any(self.is_late(of_instant, delays) for of_server in seen
                       for of_instant, delays in zip(of_server, expected)):
                break
        for name, of_server in zip(("nginx", "weir", "weir, imported"), seen):
            for at, of_instant, delays in zip(instants, of_server, expected):
                self.check_instant(of_instant, delays, f"{name} at {at}: {of_instant}")

    def is_late(self, exchanges, delays):
        """True if an answer came later than allowed, but not before its time."""
        times = [delay or 0 for delay in delays]
        return any(min((took - time for time in times if took > time - 0.1), default=0) > TOLERANCE
                   for _, took in exchanges)

    def check_instant(self, exchanges, delays, message):
        passed = sorted(delay for delay in delays if delay is not REFUSED)
        wanted = [(200, delay) for delay in passed] + [(429, 0)] * delays.count(REFUSED)
        self.assertEqual([status for status, _ in exchanges], [status for status, _ in wanted], message)
        for (_, took), (_, delay) in zip(exchanges, wanted):
            # (A request of the same instant may come some milliseconds after the first, and wait less.)
            self.assertGreater(took, delay - 0.1, message)
            self.assertLess(took, delay + TOLERANCE, message)

    def test_a_plain_limit_refuses_as_nginx_does(self):
        self.check("/plain", [(0, "a")] * 4 + [(0, "b")] * 2 + [(0.4, "a")] + [(1.5, "a")] * 2
                   + [(3, "a"), (3, "b")],
                   [[0, 0] + [REFUSED] * 4, [REFUSED], [0, REFUSED], [0, 0]])

    def test_a_burst_delays_as_nginx_does(self):
        self.check("/burst", [(0, "a")] * 7 + [(1.5, "a")] * 3,
                   [[0, 1, 2, 3] + [REFUSED] * 3, [2.5, REFUSED, REFUSED]])

    def test_nodelay_refuses_as_nginx_does(self):
        self.check("/nodelay", [(0, "a")] * 6 + [(1.5, "a")] * 2 + [(2.5, "a")] * 2,
                   [[0] * 4 + [REFUSED] * 2, [0, REFUSED], [0, REFUSED]])

    def test_a_partial_delay_delays_as_nginx_does(self):
        self.check("/delay", [(0, "a")] * 7, [[0, 0, 0, 1, 2, REFUSED, REFUSED]])

    # 40 a minute are 0.666 a second there, 50 are 0.833.
    def test_rates_per_minute_are_rounded_as_nginx_does(self):
        self.check("/minute", [(0, "a")] * 5, [[0, 1.501, 3.003, REFUSED, REFUSED]])
        self.check("/minutes", [(0, "a")] * 3 + [(0.6, "a"), (1.7, "a"), (1.7, "a")],
                   [[0, 0, REFUSED], [REFUSED], [0, REFUSED]])

    # A request that one zone refuses costs nothing in the other.
    def test_two_zones_are_charged_as_nginx_does(self):
        arrivals = [(0, "a"), (0.05, "a"), (0.1, "a"), (0.15, "a"), (0.2, "b"), (0.25, "b"), (0.3, "b"),
                    (0.35, "c"), (1.6, "c")]
        self.check("/zones", arrivals, [[0], [0], [REFUSED], [REFUSED], [0], [0], [REFUSED], [REFUSED], [0]])

    # All zones are charged, and the longest delay counts.
    def test_the_slowest_zone_delays(self):
        self.check("/slowest", [(0, "a")] * 4 + [(0.2, "b")], [[0, 1, 2, REFUSED], [1.3]])

    def test_concurrent_requests_are_limited_as_nginx_does(self):
        self.check("/conn", [(0, "a")] * 5 + [(0, "b")] + [(0.4, "a")] + [(2, "a")] * 4,
                   [[1] * 4 + [REFUSED] * 2, [REFUSED], [1] * 3 + [REFUSED]])


if __name__ == "__main__":
    unittest.main()
