"""`weir import`: what it prints is a policy file, and does what the other configuration does.

Usage: import_command.py WEIR [unittest arguments]
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

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
        """What is printed, which is a policy file without mistakes or warnings."""
        code, out, err = weir("import", what, self.file("theirs", text))
        self.assertEqual((code, err), (0, ""), err)
        checked = weir("validate", self.file("weir.yaml", out))
        self.assertEqual((checked[0], checked[2]), (0, ""), f"{checked[1]}{checked[2]}\n{out}")
        return out

    def runs(self, policies, cases):
        """Timelines by the policies."""
        self.file("weir.yaml", policies)
        done = weir("test", self.file("t.timelines.yaml", cases), "--config",
                    os.path.join(self.folder, "weir.yaml"))
        self.assertEqual(done[0], 0, done)

    def test_envoy(self):
        out = self.imported("envoy", ENVOY)
        self.assertIn('  "shop.user.path_/buy":\n    shadow: true\n    limits:\n'
                      '      - { limit: 5/min window, name: "buying", by: ["user", "path"] }\n', out)
        self.assertIn("# user > path=/img/*\n  # is unlimited", out)
        self.assertIn("# user > path=/free has no limit", out)
        self.assertIn("which count together", out)
        self.assertIn("lets nothing through", out)
        self.assertIn("Asia/Tokyo", out)
        self.assertIn("does not ask for the limit named buying", out)
        self.runs(out, """
            - name: as the rule counts
              policy: shop.user
              steps:
                - { at: 0.5, parts: { user: alice }, n: 25, allowed: 20 }
                - { at: 0.9, parts: { user: bob }, n: 25, allowed: 20 }
                - { at: 1, parts: { user: alice }, n: 25, allowed: 20 }
        """)

    def test_envoy_without_limits(self):
        self.assertIn("policies: {}", self.imported("envoy", "domain: d\ndescriptors: [ { key: a } ]\n"))
        self.assertIn("policies: {}", self.imported("envoy", "domain: d\n"))

    def test_rules_that_statistics_do_not_tell_apart(self):
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

    def test_nginx(self):
        out = self.imported("nginx", NGINX)
        self.assertIn('{ limit: 1/s queue 5, like: nginx, name: "one", by: ["remote_addr"] }', out)
        self.assertIn('{ limit: 30/min queue 0, like: nginx, name: "two", by: ["server_name", "uri"] }', out)
        self.assertIn('{ limit: 1/s queue 8 delay 3, like: nginx, name: "one", by: ["remote_addr"] }', out)
        self.assertIn('{ limit: 10 concurrent, name: "conn:addr", by: ["remote_addr"] }', out)
        self.assertIn("three has one key for all", out)
        self.assertIn("conf.d/*.conf is included there, and was not read", out)
        self.assertIn("ask with deny=429", out)
        # What is limited alike is one policy; what is tried out is a shadow.
        self.assertIn("# server > location /again", out)
        self.assertEqual(out.count('  "one":\n'), 1)
        self.assertEqual(out.count('limits:\n      - { limit: 1/s queue 5, like: nginx, name: "one"'), 2)
        self.assertEqual(out.count("shadow: true"), 1)
        # The pictures have the server's limit_req beside their own limit_conn.
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

    def test_nginx_tries_out_one_kind_of_limits(self):
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
            - name: those who hold a seat are limited, those who ask often are not
              policy: r+c
              steps:
                - { at: 0, op: enter, holder: a, parts: { remote_addr: a }, allowed: 1 }
                - { at: 0, op: enter, holder: b, parts: { remote_addr: a }, allowed: 0 }
                - { at: 0, op: leave, holder: a, parts: { remote_addr: a } }
                - { at: 0, op: enter, holder: b, parts: { remote_addr: a }, allowed: 1 }
        """)

    def test_nginx_changes_how_inherited_limits_refuse(self):
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
        for line in ["# server; nginx refuses with 503, weir with 429 (deny=503)",
                     "# server > location /other; refuses with 429: ask with deny=429; limit_conn with 503",
                     "# server > location /closed; nginx refuses with 503, weir with 429 (deny=503); limit_conn with 444",
                     "# server > location /tried/too > location /tried/too/not; nginx"]:
            self.assertIn(line, policies[0])
        self.assertIn("# server > location /tried; nginx", policies[1])
        self.assertIn("# server > location /tried/too; nginx", policies[1])
        self.assertEqual(policies[2].count("shadow: true"), 1)
        for absent in ["/enforced", "/same"]:
            self.assertNotIn(absent, out)

    def test_mistakes_are_told_with_their_place(self):
        for what, text, place in [
                ("nginx", "limit_req zone=none;\n", "1:1: there is no limit_req_zone \"none\""),
                ("nginx", "limit_req_zone $a zone=z:1m rate=fast;\n", "1:29: a rate is like 10r/s"),
                ("nginx", "http {\n  a b\n}\n", "2:3: a ; is missing behind this"),
                ("nginx", "}\n", "1:1: this } ends nothing"),
                ("nginx", "http {\n  server { }\n", "1:6: no } ends what begins here"),
                ("nginx", "limit_req_zone $a zone=z:1m;\nlimit_req_zone $b zone=z:1m;\n",
                 "2:1: there is a limit_req_zone \"z\" already"),
                ("nginx", "limit_req_zone $a zone=z:1m;\nlimit_req zone=z; limit_req zone=z burst=5;\n",
                 "2:19: limit_req has the zone \"z\" here already"),
                ("nginx", "limit_conn_zone $a zone=z:1m;\nlimit_conn z 1; limit_conn z 2;\n",
                 "2:17: limit_conn has the zone \"z\" here already"),
                ("envoy", "domain: d\ndescriptors: [ { key: '' } ]\n", "2:23: descriptor has empty key")]:
            path = self.file("theirs", text)
            code, out, err = weir("import", what, path)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"{path}:{place}", err)

    def test_usage(self):
        self.assertEqual(weir("import", "nginx", "/no/such")[0], 2)
        self.assertEqual(weir("import", "apache", "x")[0], 2)
        self.assertEqual(weir("import")[0], 2)


if __name__ == "__main__":
    unittest.main()
