"""The cost of the gateway beside nginx, with a limit on every request. Used by bench/run.

One service that answers a constant, on the core of the load; the proxies take turns on the other. Both keep
their connections to it, forward the client's address, and count by it.
"""

import shutil
from pathlib import Path

import measure
from measure import Server, free_port, http

MANY = 50  # connections

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  limit_req_zone $binary_remote_addr zone=z:10m rate=1000000r/s;
  upstream service {{ server 127.0.0.1:{service}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      limit_req zone=z burst=1000000 nodelay;
      proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_pass http://service;
    }}
  }}
}}
"""

WEIR = """
listen: {{ resp: off, http: off, grpc: off }}
gateway:
  listen: 127.0.0.1:{port}
  routes:
    - {{ match: {{ path: /** }}, upstream: "http://127.0.0.1:{service}", limits: [ 1000000/s burst 1000000 ], key: ip }}
"""


def nginx():
    found = shutil.which("nginx") or "/usr/sbin/nginx"
    return found if Path(found).exists() else None


class Bench(measure.Bench):
    alone = False  # the service and the load share a core

    def start(self, build):
        service = free_port()
        self.ports = {"gateway": free_port(), "proxy": free_port()}
        self.servers["service"] = Server([build / "bench/weir_bare_server", "http", service], service, core=1,
                                         alone=self.alone)
        config = self.path / "weir.yaml"
        config.write_text(WEIR.format(port=self.ports["gateway"], service=service))
        self.servers["gateway"] = self.serve([build / "weir", "serve", "--threads", "1", "--config", config],
                                             self.ports["gateway"])
        config = self.path / "nginx.conf"
        config.write_text(NGINX.format(folder=self.path, port=self.ports["proxy"], service=service))
        self.servers["proxy"] = self.serve([nginx(), "-c", config, "-p", self.path], self.ports["proxy"])

    # (The load sleeps: it shares its core with the service.)
    def rounds(self, count):
        path = self.prepare("get", lambda _: http("GET", "/"), range(1000))
        results = {}
        for _ in range(count):
            for name in self.ports:
                figures = self.measure((None, "H", name), path, 1, MANY, sleeps=True)
                results.setdefault(name, []).append(figures)
        return results


RATIOS = [
    ("requests a second: gateway with a limit / nginx proxy_pass and limit_req", "gateway", "proxy", 0, ">=",
     0.8),
    ("CPU for each: gateway / nginx", "gateway", "proxy", 1, "<=", 1.25),
]
