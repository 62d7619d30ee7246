"""Keys of requests over HTTP: keys of all kinds, clients behind proxies, spellings, tokens, and where the
limits of routes are visible: gateway_keys_test.py WEIR."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from gateway import Gateway, Service

WEIR = sys.argv.pop(1)
SECRET = "a secret of more than thirty-two bytes"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(header, claims):
    return encoded(json.dumps(header).encode()) + "." + encoded(json.dumps(claims).encode())


def hs256(claims, secret=SECRET):
    part = unsigned({"alg": "HS256", "typ": "JWT"}, claims)
    return part + "." + encoded(hmac.new(secret.encode(), part.encode(), hashlib.sha256).digest())


class Keys(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.service.__enter__()
        self.addCleanup(self.service.__exit__, None, None, None)

    def gateway(self, fields, routes=None, **others):
        """A route that admits each key once."""
        route = f"- {{ name: one, upstream: {self.service.url}, limits: [ 1/h ], {fields} }}"
        gateway = Gateway(WEIR, routes or route, **others)
        gateway.__enter__()
        self.addCleanup(gateway.__exit__, None, None, None)
        return gateway

    def check(self, gateway, requests):
        """Checks [(path, headers, status), …] one after the other."""
        for path, headers, status in requests:
            self.assertEqual(gateway.get(path, headers=headers)[0], status, (path, headers))

    def test_headers_parameters_and_cookies_are_parts_of_keys(self):
        gateway = self.gateway("key: [ 'header:X-User', 'query:sku', 'cookie:s' ]")
        one = {"X-User": "a", "Cookie": "t=1; s=x"}
        self.check(gateway, [
            ("/?sku=1", one, 200), ("/?sku=1", one, 429), ("/?sku=%31", one, 429),
            ("/?a=b&sku=1", one, 429),
            ("/?sku=2", one, 200), ("/?sku=1", {**one, "X-User": "b"}, 200),
            ("/?sku=1", {**one, "Cookie": "s=y"}, 200),
            ("/", one, 403), ("/?sku=1", {"X-User": "a"}, 403),
            ("/?sku=1&sku=2", one, 400), ("/?sku=1", {**one, "Cookie": "s=x; s=z"}, 400)])

    # A client that sends the header twice does not get two buckets.
    def test_a_header_with_two_different_values_is_refused(self):
        gateway = self.gateway("key: header:X-User")
        for lines, status in ((b"X-User: a\r\nX-User: b\r\n", b"400"), (b"X-User: a\r\nX-User: a\r\n", b"200")):
            got = gateway.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + lines + b"\r\n")
            self.assertEqual(got.split(b" ")[1], status)

    def test_paths_have_one_key_for_all_their_spellings(self):
        gateway = self.gateway("key: path")
        self.check(gateway, [("/a/b", {}, 200)] + [(path, {}, 429) for path in (
            "/a/b", "/a/b/", "//a//b", "/a/./b", "/x/../a/b", "/%61/b", "/a%2fb", "/a;v=1/b")])
        self.check(gateway, [("/a/B", {}, 200), ("/a/..;/b", {}, 400), ("/%zz", {}, 400)])

    def test_hosts_have_one_key_for_all_their_spellings(self):
        gateway = self.gateway("key: host")
        self.check(gateway, [("/", {"Host": host}, status) for host, status in (
            ("shop.example.com", 200), ("SHOP.example.com", 429), ("shop.example.com.", 429),
            ("shop.example.com:8080", 429), ("other.example.com", 200), ("a b", 400))])

    # The limit of /admin applies to every spelling that a service might take for it.
    def test_no_spelling_of_a_path_bypasses_a_route(self):
        gateway = self.gateway("", f"""
- {{ match: {{ path: /admin/** }}, upstream: {self.service.url}, limits: [ 1/h ], key: const:all }}
- {{ match: {{ path: /** }}, upstream: {self.service.url} }}""")
        self.check(gateway, [("/admin/x", {}, 200)] + [(path, {}, 429) for path in (
            "/admin", "//admin/x", "/%61dmin/x", "/a/../admin/x", "/./admin")])
        self.check(gateway, [(path, {}, 400) for path in ("/admin%2Fx", "/admin;a/x", "/admin%5cx", "/;/admin")])
        self.check(gateway, [("/other", {}, 200), ("/group%2Fname", {}, 200)])

    def test_trusted_proxies_name_the_client_address(self):
        gateway = self.gateway("key: ip", more="trusted_proxies: [ 127.0.0.1, 10.0.0.0/8 ]")
        self.check(gateway, [("/", {"X-Forwarded-For": chain}, status) for chain, status in (
            ("1.1.1.1", 200), ("1.1.1.1", 429), ("6.6.6.6, 1.1.1.1", 429), ("1.1.1.1, 10.0.0.3", 429),
            ("::ffff:1.1.1.1", 429), ("2.2.2.2:4711", 200), ("2.2.2.2", 429),
            ("2001:db9:1:2::1", 200), ("2001:db9:1:2:ffff::9", 429), ("2001:db9:1:3::1", 200))])
        self.check(gateway, [("/", {"Forwarded": "for=1.1.1.1"}, 429), ("/", {"Forwarded": "for=3.3.3.3"}, 200)])
        # Two contradicting headers count as the proxy, and so does nonsense.
        self.check(gateway, [("/", {"X-Forwarded-For": "4.4.4.4", "Forwarded": "for=5.5.5.5"}, 200),
                             ("/", {"X-Forwarded-For": "nonsense"}, 429)])

    def test_untrusted_clients_cannot_choose_their_address(self):
        gateway = self.gateway("key: ip/24")
        self.check(gateway, [("/", {"X-Forwarded-For": "1.1.1.1"}, 200), ("/", {"X-Forwarded-For": "2.2.2.2"}, 429),
                             ("/", {"Forwarded": "for=3.3.3.3"}, 429)])
        seen = self.service.seen[0][2]
        self.assertEqual(seen["X-Forwarded-For"], "127.0.0.1")

    def test_unverified_tokens_give_a_key_when_verification_is_off(self):
        gateway = self.gateway("key: jwt:sub, jwt: { verify: off }")
        self.assertTrue(any("tokens are not verified" in line for line in gateway.log))
        alice = {"Authorization": "Bearer " + unsigned({"alg": "none"}, {"sub": "alice"}) + "."}
        self.check(gateway, [("/", alice, 200), ("/", alice, 429), ("/", {}, 403)])

    def test_verified_tokens_give_a_key_and_others_are_refused(self):
        gateway = self.gateway(f"key: jwt:sub, jwt: {{ key: {SECRET} }}")
        def bearer(token):
            return {"Authorization": "Bearer " + token}
        claims = {"sub": "alice", "exp": int(time.time()) + 3600}
        self.check(gateway, [
            ("/", bearer(hs256(claims)), 200), ("/", bearer(hs256({**claims, "x": 1})), 429),
            ("/", bearer(hs256(claims, "another")), 403),
            ("/", bearer(unsigned({"alg": "none"}, claims) + "."), 403),
            ("/", bearer(hs256({**claims, "sub": "bob", "exp": 1})), 403),
            ("/", bearer(hs256({**claims, "sub": "bob", "nbf": int(time.time()) + 3600})), 403),
            ("/", bearer(hs256({**claims, "sub": "bob"})), 200)])

    # Signed by another program: openssl, with ordinary keys.
    def test_tokens_signed_with_private_keys_are_verified(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        def run(*words, data=None):
            return subprocess.run(["openssl", *words], cwd=folder.name, input=data, check=True,
                                  capture_output=True).stdout
        run("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "rsa.key")
        run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec.key")
        for name in ("rsa", "ec"):
            run("pkey", "-in", f"{name}.key", "-pubout", "-out", f"{name}.pem")
        gateway = self.gateway(f"key: jwt:sub, jwt: {{ keys: [ {{ key_file: {folder.name}/rsa.pem }}, "
                               f"{{ key_file: {folder.name}/ec.pem }} ] }}")
        def signed(name, algorithm, subject):
            part = unsigned({"alg": algorithm}, {"sub": subject})
            signature = run("dgst", "-sha256", "-sign", f"{name}.key", data=part.encode())
            if name == "ec":
                signature = two_numbers(signature)
            return {"Authorization": f"Bearer {part}.{encoded(signature)}"}
        self.check(gateway, [
            ("/", signed("rsa", "RS256", "alice"), 200), ("/", signed("rsa", "RS256", "alice"), 429),
            ("/", signed("ec", "ES256", "bob"), 200), ("/", signed("ec", "ES256", "alice"), 429),
            ("/", signed("rsa", "ES256", "eve"), 403), ("/", signed("ec", "RS256", "eve"), 403)])
        # The public key used as an HMAC secret.
        public = Path(folder.name, "rsa.pem").read_text()
        self.check(gateway, [("/", {"Authorization": "Bearer " + hs256({"sub": "eve"}, public)}, 403)])

    # A bandwidth cannot be bypassed either.
    def test_bandwidths_need_their_key_as_well(self):
        gateway = self.gateway("", f"""
- {{ match: {{ path: /a }}, upstream: {self.service.url}, bandwidth: {{ limit: 1MB/s, key: 'query:u' }} }}
- {{ upstream: {self.service.url}, bandwidth: {{ limit: 1MB/s, key: 'query:u' }}, empty_key: allow }}""")
        self.check(gateway, [("/a?u=1", {}, 200), ("/a", {}, 403), ("/a?u=1&u=2", {}, 400),
                             ("/b", {}, 200), ("/b?u=1&u=2", {}, 400)])

    def test_limits_of_routes_are_policies(self):
        gateway = self.gateway("key: header:X-User")
        self.check(gateway, [("/", {"X-User": "a"}, 200)])
        names = list(gateway.http("GET", "/v1/policies")[2]["policies"])
        self.assertEqual(names, ["gateway/one"])
        status, _, answer = gateway.http("POST", "/v1/explain", {"policy": "gateway/one", "key": "a"})
        self.assertEqual((status, answer["decision"]["allowed"]), (200, False))
        self.assertRegex(gateway.http("GET", "/metrics")[2].decode(), r'weir_decisions_total\{[^}]*policy="gateway/one"')

    # A raised limit applies at once, and usage is kept wherever the route stands in the list.
    def test_usage_survives_a_reload(self):
        gateway = self.gateway("key: header:X-User")
        self.check(gateway, [("/", {"X-User": "a"}, 200), ("/", {"X-User": "a"}, 429)])
        other = f"routes:\n    - {{ match: {{ path: /x }}, upstream: {self.service.url} }}\n"
        gateway.rewrite(lambda text: text.replace("routes:\n", other).replace("1/h", "3/h"))
        self.check(gateway, [("/", {"X-User": "a"}, status) for status in (200, 200, 429)])


def two_numbers(der):
    """The raw signature of an ASN.1 sequence of two integers, as tokens have it."""
    at, numbers = 2, b""
    for _ in range(2):
        length = der[at + 1]
        numbers += int.from_bytes(der[at + 2:at + 2 + length], "big").to_bytes(32, "big")
        at += 2 + length
    return numbers


if __name__ == "__main__":
    unittest.main()
