"""`weir import`: the output is a valid policy file that decides like the imported configuration.

Usage: import_command.py WEIR [unittest arguments]
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import yaml

WEIR = os.path.abspath(sys.argv.pop(1))

ENVOY = """
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 20 }
    descriptors:
      - { key: path, value: /buy, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 5, name: buying } }
      - { key: path, value: /img/*, rate_limit: { unlimited: true } }
      - { key: "odd \\"key\\"", rate_limit: { unit: month, requests_per_unit: 7 } }
      - { key: path, value: /free }
  - { key: files, value: files/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: nothing, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: bucket, rate_limit: { per: 5m, requests_per_unit: 50, burst: 7 } }
  - { key: date, rate_limit: { unit: year, requests_per_unit: 9, calendar: Asia/Tokyo, replaces: [ { name: buying } ] } }
  - key: twice
    quota_mode: true
    rate_limit: { unit: week, requests_per_unit: 3 }
    descriptors: [ { key: twice, rate_limit: { unit: week, requests_per_unit: 2, algorithm: sliding_window } } ]
"""

NGINX = """
# A comment; with a {.
http {
  limit_req_zone $binary_remote_addr zone=one:10m rate=1r/s;
  limit_req_zone "$server_name$uri" zone=two:10m rate=30r/m;
  limit_req_zone all zone=three:1m rate=5;
  limit_conn_zone ${binary_remote_addr} zone=addr:10m;
  include conf.d/*.conf;
  limit_req_status 429;
  server {
    server_name example.com;
    limit_req zone=one burst=5;
    location / { proxy_pass http://127.0.0.1:9000; }
    location /search/ { limit_req zone=one burst=5 nodelay; limit_req zone=two; }
    location /slow { limit_req zone=one burst=8 delay=3; limit_conn addr 10; }
    location ~ \\.(gif|jpg)$ { limit_conn addr 2; limit_conn_status 444; }
    location /again { limit_req zone=one burst=5; limit_req_dry_run off; }
    location /tried { limit_req zone=three; limit_req_dry_run on; }
  }
}
"""


def weir(*args):
    done = subprocess.run([WEIR, *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class ImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def imported(self, what, text):
        """Returns the output, after checking that it is a policy file without mistakes or warnings."""
        code, out, err = weir("import", what, self.file("theirs", text))
        self.assertEqual((code, err), (0, ""), err)
        checked = weir("validate", self.file("weir.yaml", out))
        self.assertEqual((checked[0], checked[2]), (0, ""), f"{checked[1]}{checked[2]}\n{out}")
        return out

    def runs(self, policies, cases):
        """Runs timelines with the policies, and expects all of them to pass."""
        self.file("weir.yaml", policies)
        done = weir("test", self.file("t.timelines.yaml", cases), "--config",
                    os.path.join(self.folder, "weir.yaml"))
        self.assertEqual(done[0], 0, done)

    def test_envoy_rules_become_policies(self):
        out = self.imported("envoy", ENVOY)
        self.assertIn('  "shop.user.path_/buy":\n    shadow: true\n    limits:\n'
                      '      - { limit: 5/min window, name: "buying", by: ["user", "path"] }\n', out)
        self.assertIn("# user > path=/img/*\n  # is unlimited", out)
        self.assertIn("# user > path=/free has no limit", out)
        self.assertIn("which share one counter", out)
        self.assertIn("allows nothing", out)
        self.assertIn("Asia/Tokyo", out)
        self.assertIn("Replaces the limit named buying", out)
        self.runs(out, """
            - name: as the rule counts
              policy: shop.user
              steps:
                - { at: 0.5, parts: { user: alice }, n: 25, allowed: 20 }
                - { at: 0.9, parts: { user: bob }, n: 25, allowed: 20 }
                - { at: 1, parts: { user: alice }, n: 25, allowed: 20 }
        """)

    def test_envoy_rules_without_limits_become_no_policies(self):
        self.assertIn("policies: {}", self.imported("envoy", "domain: d\ndescriptors: [ { key: a } ]\n"))
        self.assertIn("policies: {}", self.imported("envoy", "domain: d\n"))

    def test_envoy_rules_with_one_name_in_statistics_become_separate_policies(self):
        def rule(key, value):
            return f"{{ key: {key}, value: {value}, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}"

        out = self.imported("envoy", f"""
            domain: d
            descriptors:
              - {rule("a_b", "c")}
              - {rule("a", "b_c")}
              - {rule("x.y", "z")}
              - {{ key: x, descriptors: [ {rule("y", "z")} ] }}
              - {rule("a", "b_c-2")}
            """)
        for name in ["d.a_b_c", "d.a_b_c-2", "d.x.y_z", "d.x.y_z-2", "d.a_b_c-2-2"]:
            self.assertEqual(out.count(f'\n  "{name}":\n'), 1, name)

    def test_nginx_limits_become_policies(self):
        out = self.imported("nginx", NGINX)
        self.assertIn('{ limit: 1/s queue 5, like: nginx, name: "one", by: ["remote_addr"] }', out)
        self.assertIn('{ limit: 30/min queue 0, like: nginx, name: "two", by: ["server_name", "uri"] }', out)
        self.assertIn('{ limit: 1/s queue 8 delay 3, like: nginx, name: "one", by: ["remote_addr"] }', out)
        self.assertIn('{ limit: 10 concurrent, name: "conn:addr", by: ["remote_addr"] }', out)
        self.assertIn('{ limit: 5/s queue 0, like: nginx, name: "three", by: ["all_requests"], shadow: true }', out)
        # auth_request turns 429 into 500.
        self.assertIn("deny=403", out)
        self.assertNotIn("deny=429", out)
        self.assertIn("reports the delay in Weir-Wait-Ms", out)
        # Blocks with the same limits share a policy; a dry run becomes a shadow.
        self.assertIn("# server > location /again", out)
        self.assertEqual(out.count('  "one":\n'), 1)
        self.assertEqual(out.count('limits:\n      - { limit: 1/s queue 5, like: nginx, name: "one"'), 2)
        self.assertEqual(out.count("shadow: true"), 1)
        # The location of the pictures inherits limit_req, and adds its own limit_conn.
        self.assertIn('"one+addr-2":\n    limits:\n      - { limit: 1/s queue 5', out)
        self.runs(out, """
            - name: one at once, five wait, the others are refused
              policy: one
              steps: [ { at: 0, parts: { remote_addr: a }, n: 10, allowed: 6, waits: [ 0, 1, 2, 3, 4, 5 ] } ]
            - name: none waits
              policy: one+two
              steps:
                - { at: 0, parts: { remote_addr: a, server_name: s, uri: / }, n: 10, allowed: 1, waits: [ 0 ] }
        """)

    def test_nginx_dry_run_of_one_kind_of_limits_becomes_a_shadow(self):
        zones = """
            limit_req_zone $remote_addr zone=r:1m rate=1r/m;
            limit_conn_zone $remote_addr zone=c:1m;
            """
        request = '{ limit: 1/min queue 0, like: nginx, name: "r", by: ["remote_addr"]%s }'
        connection = '{ limit: 3 concurrent, name: "conn:c", by: ["remote_addr"]%s }'
        shadow = ", shadow: true"
        for dry_run, first, second in [
                ("limit_req_dry_run on;", shadow, ""),
                ("limit_conn_dry_run on; limit_req_dry_run off;", "", shadow),
                ("limit_req_dry_run on; limit_conn_dry_run on;", shadow, shadow)]:
            for text in [f"limit_req zone=r; limit_conn c 3; {dry_run}", f"{dry_run} limit_req zone=r; limit_conn c 3;"]:
                out = self.imported("nginx", zones + text)
                self.assertIn(f"    limits:\n      - {request % first}\n      - {connection % second}\n", out)
                self.assertEqual(out.count("shadow"), bool(first) + bool(second))
        self.runs(self.imported("nginx", zones + "limit_req zone=r; limit_conn c 1; limit_req_dry_run on;"), """
            - name: concurrent requests are limited, frequent requests are not
              policy: r+c
              steps:
                - { at: 0, op: enter, holder: a, parts: { remote_addr: a }, allowed: 1 }
                - { at: 0, op: enter, holder: b, parts: { remote_addr: a }, allowed: 0 }
                - { at: 0, op: leave, holder: a, parts: { remote_addr: a } }
                - { at: 0, op: enter, holder: b, parts: { remote_addr: a }, allowed: 1 }
        """)

    def test_an_inner_nginx_block_overrides_status_and_dry_run_of_inherited_limits(self):
        out = self.imported("nginx", """
            limit_req_zone $remote_addr zone=r:1m rate=1r/m;
            limit_conn_zone $remote_addr zone=c:1m;
            server {
              limit_req zone=r; limit_conn c 3;
              location /tried { limit_req_dry_run on; }
              location /enforced { limit_req_dry_run off; }
              location /other { limit_req_status 429; }
              location /closed { limit_conn_status 444; }
              location /same { proxy_pass http://127.0.0.1:9000; }
              location /tried/too { limit_req_dry_run on; location /tried/too/not { limit_req_dry_run off; } }
            }
            server { limit_req_status 429; limit_req_dry_run on; }
            """)
        policies = out.split("policies:\n")[1].split("limits:")
        self.assertEqual(len(policies), 3)
        for line in ["# server; nginx refuses with 503\n",
                     "# server > location /other; nginx refuses with 429; limit_conn with 503\n",
                     "# server > location /closed; nginx refuses with 503; limit_conn with 444\n",
                     "# server > location /tried/too > location /tried/too/not; nginx"]:
            self.assertIn(line, policies[0])
        self.assertIn("# server > location /tried; nginx", policies[1])
        self.assertIn("# server > location /tried/too; nginx", policies[1])
        self.assertEqual(policies[2].count("shadow: true"), 1)
        for absent in ["/enforced", "/same"]:
            self.assertNotIn(absent, out)

    def test_nginx_limit_for_all_requests_counts_them_together(self):
        out = self.imported("nginx", """
            limit_req_zone $Remote_Addr zone=each:1m rate=1r/m;
            limit_req_zone everybody zone=all:1m rate=1r/m;
            limit_req zone=each; limit_req zone=all burst=2 nodelay;
            """)
        self.runs(out, """
            - name: three of five clients pass
              policy: each+all
              steps:
                - { at: 0, parts: { remote_addr: a, all_requests: x }, n: 2, allowed: 1 }
                - { at: 0, parts: { remote_addr: b, all_requests: x }, allowed: 1 }
                - { at: 0, parts: { remote_addr: c, all_requests: x }, allowed: 1 }
                - { at: 0, parts: { remote_addr: d, all_requests: x }, allowed: 0 }
        """)

    def test_nginx_import_lists_what_it_does_not_convert(self):
        out = self.imported("nginx", """
            limit_req_zone $key zone=r:1m rate=1r/s sync;
            limit_conn_zone $remote_addr zone=unused:1m;
            limit_req_log_level error;
            map $remote_addr $key { default $remote_addr; 10.0.0.1 ""; }
            upstream u { server 127.0.0.1:9000 max_conns=5; }
            server {
              limit_req zone=r burst=5;
              limit_rate 10k;
              error_page 404 /404.html;
              error_page 500 503 /busy.html;
              location /a { limit_rate_after 1m; set $limit_rate 4k; proxy_limit_rate 1k; }
              location /b { limit_req_status 429; error_page 429 = @slow; }
              limit_speed 3;
            }
            stream { limit_conn_zone $remote_addr zone=s:1m; server { limit_conn s 1; } }
            include no.conf;
            include none/*.conf;
            """)
        listed = out.split("# Not imported:\n")[1].split("\npolicies:")[0].splitlines()
        path = os.path.join(self.folder, "theirs")
        expected = [(2, "limit_req_zone r sync: "), (3, "limit_conn_zone unused: no block uses this zone"),
                    (4, "limit_req_log_level error: "), (5, "map $remote_addr $key: computes the part key"),
                    (6, "server 127.0.0.1:9000 max_conns=5: "), (9, "limit_rate 10k: "),
                    (11, "error_page 500 503 /busy.html: "), (12, "limit_rate_after 1m: "),
                    (12, "set $limit_rate 4k: "), (12, "proxy_limit_rate 1k: "),
                    (13, "error_page 429 = @slow: "), (14, "limit_speed 3: "),
                    (16, "limit_conn_zone $remote_addr zone=s:1m: "), (16, "limit_conn s 1: "),
                    (17, f"include: cannot open {self.folder}/no.conf: No such file")]
        self.assertEqual(len(listed), len(expected), out)
        for line, (number, start) in zip(listed, expected):
            self.assertTrue(line.startswith(f"# - {path}:{number}: {start}"), line)

    INCLUDED = {"main/nginx.conf": "events {}\nhttp {\n  include zones.conf;\n  include sites/*.conf;\n}\n",
                "main/zones.conf": "limit_req_zone $remote_addr zone=r:1m rate=1r/m;\n",
                # Includes are relative to the main file, whichever file they are in.
                "main/sites/a.conf": "server {\n  include limits/one.conf;\n}\n",
                "main/sites/b.conf": "server {\n  limit_rate 1k;\n  include limits/one.conf;\n}\n",
                "main/limits/one.conf": "\nlimit_req zone=r burst=3;\n"}

    def write_all(self, files):
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            self.file(name, text)

    def test_nginx_includes_are_read(self):
        self.write_all(self.INCLUDED)
        main = os.path.join(self.folder, "main")
        for folder, path in [(None, f"{main}/nginx.conf"), (main, "nginx.conf")]:
            done = subprocess.run([WEIR, "import", "nginx", path], capture_output=True, text=True, cwd=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.count("\n  # server; nginx refuses with 503"), 2)
            self.assertIn('{ limit: 1/min queue 3, like: nginx, name: "r", by: ["remote_addr"] }', done.stdout)
            self.assertIn("sites/b.conf:2: limit_rate 1k: ", done.stdout)

    def test_nginx_mistakes_are_reported_with_the_included_file(self):
        self.write_all({**self.INCLUDED, "main/limits/one.conf": "a b;\n  limit_req zone=s;\n"})
        code, out, err = weir("import", "nginx", os.path.join(self.folder, "main/nginx.conf"))
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f'{self.folder}/main/limits/one.conf:2:3: there is no limit_req_zone "s"', err)

    def test_nginx_include_cycles_are_reported(self):
        self.write_all({"a.conf": "include b.conf;\n", "b.conf": "\ninclude a.conf;\n"})
        code, out, err = weir("import", "nginx", os.path.join(self.folder, "a.conf"))
        self.assertEqual((code, out), (1, ""))
        a, b = (os.path.join(self.folder, name) for name in ("a.conf", "b.conf"))
        self.assertIn(f"{b}:2:1: {a} includes itself: {a} → {b} → {a}", err)

    def test_nginx_includes_are_bounded(self):
        self.write_all({f"{i}.conf": f"include {i + 1}.conf; include {i + 1}.conf;\n" for i in range(30)})
        self.write_all({"30.conf": "\n"})
        code, _, err = weir("import", "nginx", os.path.join(self.folder, "0.conf"))
        self.assertEqual(code, 1)
        self.assertIn("more than 10000 includes", err)

    # The output of nginx -T, with its messages on stderr. No other file is read.
    def test_nginx_dump_is_read(self):
        dump = "nginx: configuration file /etc/nginx/nginx.conf test is successful\n"
        for name, text in self.INCLUDED.items():
            dump += f"# configuration file /etc/nginx/{name.removeprefix('main/')}:\n{text}\n"
        out = self.imported("nginx", dump)
        self.assertIn("# Policies with the limits of /etc/nginx/nginx.conf.\n", out)
        self.assertIn("# - /etc/nginx/sites/b.conf:2: limit_rate 1k: ", out)
        self.assertEqual(out.count("\n  # server; nginx refuses with 503"), 2)
        code, _, err = weir("import", "nginx", self.file("dump", dump.replace("zone=r burst", "zone=s burst")))
        self.assertEqual(code, 1)
        self.assertIn('/etc/nginx/limits/one.conf:2:1: there is no limit_req_zone "s"', err)
        out = self.imported("nginx", "# configuration file /e/n.conf:\ninclude zones.conf;\n")
        self.assertIn("# - /e/n.conf:1: include: the output of nginx -T does not contain it", out)

    def gateway_of(self, text):
        """Returns the output of --gateway, checked as in `imported`, and its gateway section."""
        code, out, err = weir("import", "nginx", "--gateway", self.file("theirs", text))
        self.assertEqual((code, err), (0, ""), err)
        checked = weir("validate", self.file("weir.yaml", out))
        self.assertEqual((checked[0], checked[2]), (0, ""), f"{checked[1]}{checked[2]}\n{out}")
        return out, yaml.safe_load(out)["gateway"]

    ZONES = """
        limit_req_zone $binary_remote_addr zone=ip:1m rate=1r/m;
        limit_req_zone $http_x_api_key zone=key:1m rate=5r/s;
        limit_req_zone $arg_id$cookie_s zone=two:1m rate=5r/s;
        limit_req_zone all zone=all:1m rate=5r/s;
        limit_req_zone $remote_user zone=user:1m rate=5r/s;
        limit_conn_zone $server_name zone=name:1m;
        """

    def test_nginx_locations_become_gateway_routes(self):
        out, gateway = self.gateway_of(self.ZONES + """
            set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;
            upstream app { least_conn; server 10.0.0.1:8080; server app2; server 10.0.0.3 down; keepalive 9; }
            server {
              listen 127.0.0.1:8080;
              server_name shop.example.com;
              limit_req zone=ip burst=5;
              proxy_set_header Host $host;
              location / { proxy_pass http://app; }
              location /api { limit_req zone=key burst=9 delay=3; limit_req_status 429; proxy_pass http://app/api; }
              location /api/v2/ { limit_req zone=all nodelay; limit_conn name 7; proxy_pass https://10.0.0.9; }
              location = /status { proxy_pass http://app; proxy_set_header X-A b; }
              location /none/ { location /none/but { limit_req zone=key; limit_req zone=ip; proxy_pass http://app; } }
            }
            """)
        self.assertEqual(gateway["listen"], "127.0.0.1:8080")
        self.assertEqual(gateway["trusted_proxies"], ["10.0.0.0/8"])
        routes = {route["match"]["path"]: route for route in gateway["routes"]}
        self.assertEqual(list(routes), ["/status", "/none/but*/**", "/api/v2/**", "/api*/**", "/**"])
        app = ["http://10.0.0.1:8080", "http://app2:80"]
        self.assertEqual(routes["/**"], {
            "name": "all", "match": {"path": "/**"}, "upstream": app, "balance": "least_connections", "policy": "ip",
            "parts": {"remote_addr": "ip"}, "queue": {"longest": "313s"}, "refused": {"status": 503}})
        self.assertEqual(routes["/api*/**"]["parts"], {"http_x_api_key": "header:x-api-key"})
        self.assertEqual(routes["/api*/**"]["empty_key"], "allow")
        self.assertEqual(routes["/api*/**"]["refused"], {"status": 429})
        self.assertIn('"key":\n    limits:\n      - { limit: 5/s queue 9 delay 3, like: nginx', out)
        self.assertEqual(routes["/api/v2/**"]["upstream"], ["https://10.0.0.9"])
        self.assertEqual(routes["/api/v2/**"]["parts"],
                         {"all_requests": "const:all_requests", "server_name": "const:shop.example.com"})
        self.assertEqual(routes["/status"]["policy"], "ip")
        self.assertEqual(routes["/status"]["upstream_host"], "upstream")
        # A request without an API key must not escape the limit of addresses: only the limit of keys is left out.
        self.assertEqual(routes["/none/but*/**"]["empty_key"], "allow")
        self.assertNotIn("requests without a part of their key", out)

    def test_nginx_gateway_refuses_requests_without_a_part_of_a_composed_key(self):
        out, gateway = self.gateway_of(self.ZONES + """
            server { listen 80; location / { limit_req zone=two; limit_req zone=ip; proxy_pass http://a; } }
            """)
        self.assertNotIn("empty_key", gateway["routes"][0])
        self.assertIn("requests without a part of their key: nginx counts them by the rest of the key", out)

    def test_nginx_gateway_routes_are_sorted_by_server_name(self):
        _, gateway = self.gateway_of("""
            server { listen 80; server_name *.example.com; location / { proxy_pass http://10.0.0.1; } }
            server { listen 80; server_name www.example.com .example.org; location / { proxy_pass http://10.0.0.2; } }
            server { listen 80 default_server; server_name b.example.com; location / { proxy_pass http://10.0.0.3; } }
            server { listen [::]:80; server_name *.a.example.com; location / { proxy_pass http://10.0.0.4; } }
            """)
        self.assertEqual([(route["match"].get("host"), route["upstream"][0][-1]) for route in gateway["routes"]],
                         [(["www.example.com", "example.org"], "2"), (["b.example.com"], "3"),
                          (["*.a.example.com"], "4"), (["*.example.com"], "1"), (["*.example.org"], "2"), (None, "3")])
        self.assertEqual(len({route["name"] for route in gateway["routes"]}), 6)

    def test_nginx_gateway_import_lists_what_it_does_not_convert(self):
        out, gateway = self.gateway_of("""
            http {
            """ + self.ZONES + """
            set_real_ip_from 10.0.0.0/8; set_real_ip_from unix:;
            upstream app { ip_hash; server 10.0.0.1 weight=2; server 10.0.0.2 backup; server unix:/run/app; }
            server { listen 80; return 301 https://a; }
            server {
              listen 443 ssl; listen unix:/run/x;
              server_name ~^www;
              ssl_certificate a.pem;
              limit_conn_status 444; limit_conn name 2;
              location / { proxy_pass http://app; deny all; proxy_set_header X-Real-IP $remote_addr; }
              location ~ /x { limit_req zone=ip; proxy_pass http://app; }
              location /u { limit_req zone=user; proxy_pass http://app; add_header A b; }
              location /v { proxy_pass http://app/w; }
              location /w { proxy_pass http://$host; }
              location /f { fastcgi_pass 127.0.0.1:9000; }
              location /r { limit_rate 1k; proxy_pass http://app; }
              location @n { proxy_pass http://app; }
            }
            server { listen 81; location / { proxy_pass http://app; } }
            }
            """)
        for text in ["nginx reads the client address from X-Real-IP", "set_real_ip_from unix:: ", "limit_req_zone user: the gateway has no key source for $remote_user", "ip_hash: ",
                     "does not support weight=2 for", "does not support backup for", "server unix:/run/app: ",
                     "server: none of its locations can be a route", "listen 443 ssl: the gateway listens there without TLS",
                     "listen unix:/run/x: ", "server_name ~^www: ", "ssl_certificate a.pem: ", "status 444: ",
                     "deny all: restricts access", "proxy_set_header X-Real-IP $remote_addr: ",
                     "location ~ /x: the gateway matches", "add_header A b: ", "proxy_pass http://app/w: changes the path",
                     "proxy_pass http://$host: ", "location /f: has no proxy_pass", "limit_rate 1k: ", "location @n: ",
                     "server: it listens elsewhere"]:
            self.assertIn(text, out)
        self.assertEqual([route["match"]["path"] for route in gateway["routes"]], ["/u*/**", "/r*/**", "/**"])
        self.assertEqual(gateway["routes"][2]["upstream"], ["http://10.0.0.1:80"])

    def test_nginx_gateway_import_needs_a_proxy_pass(self):
        path = self.file("theirs", self.ZONES + "server { limit_req zone=ip; location / { root /x; } }\n")
        code, out, err = weir("import", "nginx", "--gateway", path)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("there is nothing for a gateway to do", err)

    def test_mistakes_are_reported_with_their_position(self):
        for what, text, place in [
                ("nginx", "limit_req zone=none;\n", "1:1: there is no limit_req_zone \"none\""),
                ("nginx", "limit_req_zone $a zone=z:1m rate=fast;\n", "1:29: a rate must be like 10r/s"),
                ("nginx", "http {\n  a b\n}\n", "2:3: a ; is missing after this directive"),
                ("nginx", "}\n", "1:1: this } closes no block"),
                ("nginx", "http {\n  server { }\n", "1:6: the block that begins here has no }"),
                ("nginx", "limit_req_zone $a zone=z:1m;\nlimit_req_zone $b zone=z:1m;\n",
                 "2:1: there is already a limit_req_zone \"z\""),
                ("nginx", "limit_req_zone $a zone=z:1m;\nlimit_req zone=z; limit_req zone=z burst=5;\n",
                 "2:19: limit_req already has the zone \"z\" in this block"),
                ("nginx", "limit_conn_zone $a zone=z:1m;\nlimit_conn z 1; limit_conn z 2;\n",
                 "2:17: limit_conn already has the zone \"z\" in this block"),
                ("envoy", "domain: d\ndescriptors: [ { key: '' } ]\n", "2:23: descriptor has empty key")]:
            path = self.file("theirs", text)
            code, out, err = weir("import", what, path)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"{path}:{place}", err)

    def test_wrong_usage_exits_with_2(self):
        self.assertEqual(weir("import", "nginx", "/no/such")[0], 2)
        self.assertEqual(weir("import", "apache", "x")[0], 2)
        self.assertEqual(weir("import")[0], 2)
        self.assertEqual(weir("import", "envoy", "--gateway", self.file("theirs", ENVOY))[0], 2)


if __name__ == "__main__":
    unittest.main()
