"""The addresses and rights documented in the page about Redis: fleet_rights_test.py WEIR."""

import contextlib
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from certificates import Authority
from daemon import Daemon, free_port
from redis_rights import documented_rights
from redis_server import RedisServer

WEIR = sys.argv.pop(1)

# Every algorithm, alone and combined.
POLICIES = """
policies:
  bucket: { limits: [ 5/h ], on_store_failure: closed }
  queue: { limits: [ 5/h queue 5 ], on_store_failure: closed }
  nginx: { limits: [ { limit: 5/s queue 5, like: nginx } ], on_store_failure: closed }
  smooth: { limits: [ 5/s warmup 10s ], on_store_failure: closed }
  window: { limits: [ 5/h window ], on_store_failure: closed }
  sliding: { limits: [ 5/h sliding ], on_store_failure: closed }
  exact: { limits: [ 5/h sliding exact ], on_store_failure: closed }
  quota: { limits: [ 5/day ], on_store_failure: closed }
  together: { limits: [ 5/h, 8/min window, 9/h sliding exact ], on_store_failure: closed }
  rooms: { limits: [ 5 concurrent ], on_store_failure: closed }
"""
TAKEN_FROM = ("bucket", "queue", "nginx", "smooth", "window", "sliding", "exact", "quota", "together")


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def redis(self, *arguments):
        return self.stack.enter_context(RedisServer(*arguments))

    def daemon(self, store):
        return self.stack.enter_context(
            Daemon(WEIR, POLICIES, extra=f"store: {store}\nstore_timeout: 5s"))

    def resp(self, daemon):
        resp = daemon.resp()
        self.stack.callback(resp.close)
        return resp

    def assert_asked(self, answer):
        self.assertEqual(answer[7], 0, answer)


class LeastRightsTest(StoreTest):
    def daemon_of(self, rights):
        redis = self.redis()
        self.assertEqual(redis.ask("ACL", "SETUSER", "weir", *rights), "OK")
        return self.daemon(f"redis://weir:a-long-secret@127.0.0.1:{redis.port}")

    def test_the_documented_rights_suffice_for_every_algorithm_and_verb(self):
        resp = self.resp(self.daemon_of(documented_rights()))
        for policy in TAKEN_FROM:
            with self.subTest(policy):
                taken = resp("WEIR.TAKE", policy, "k", 1, "RECEIPT")
                self.assert_asked(taken)
                for key in ("k", "k", "k", "other"):
                    self.assert_asked(resp("WEIR.TAKE", policy, key, 2))
                self.assert_asked(resp("WEIR.SETTLE", policy, "k", -1, "RECEIPT", taken[8]))
                self.assert_asked(resp("WEIR.SETTLE", policy, "k", 1))
                self.assertTrue(resp("WEIR.EXPLAIN", policy, "k"))
                self.assertEqual(resp("WEIR.RESET", policy, "k"), "OK")
        for holder in ("a", "b"):
            self.assert_asked(resp("WEIR.ENTER", "rooms", "k", holder, 2))
        self.assert_asked(resp("WEIR.ENTER", "rooms", "k", "too many", 2))
        self.assertEqual(resp("WEIR.LEAVE", "rooms", "k", "a"), 1)
        self.assert_asked(resp("WEIR.PEEK", "rooms", "k"))
        self.assertEqual(resp("WEIR.RESET", "rooms", "k"), "OK")
        self.assertEqual(resp("CL.THROTTLE", "k", 4, 10, 60)[0], 0)

    def test_the_documented_rights_are_exactly_the_commands_of_the_scripts(self):
        scripts = Path(__file__).parents[2] / "src" / "store" / "redis" / "lua"
        called = {name.lower() for file in scripts.glob("*.lua")
                  for name in re.findall(r"\bcall\('(\w+)'", file.read_text())}
        given = {right[1:] for right in documented_rights() if re.fullmatch(r"\+\w+", right)}
        self.assertEqual(given, called | {"ping", "eval", "evalsha", "asking", "role"})

    def test_rights_without_evalsha_are_not_enough(self):
        rights = [right for right in documented_rights() if right != "+evalsha"]
        daemon = self.daemon_of(rights)
        self.assertEqual(self.resp(daemon)("WEIR.TAKE", "bucket", "k")[0::7], [0, 1])
        daemon.wait_for_log("give the user the commands and keys it lacks, with ACL SETUSER")


class AddressTest(StoreTest):
    def folder(self):
        return self.stack.enter_context(tempfile.TemporaryDirectory())

    def test_a_unix_socket_is_accepted_as_address(self):
        path = os.path.join(self.folder(), "redis.sock")
        self.redis("--unixsocket", path)
        self.assert_asked(self.resp(self.daemon(f"unix://{path}"))("WEIR.TAKE", "bucket", "k"))

    def test_a_url_selects_another_database(self):
        redis = self.redis()
        self.assert_asked(self.resp(self.daemon(redis.url + "/2"))("WEIR.TAKE", "bucket", "k"))
        self.assertEqual(redis.ask("DBSIZE"), 0)

    def test_a_certificate_of_a_private_authority_is_accepted(self):
        authority = Authority(self.folder())
        cert, key = authority.sign("server")
        port = free_port()
        self.redis("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
                   "--tls-ca-cert-file", authority.cert, "--tls-auth-clients", "no")
        url = f"rediss://localhost:{port}"
        os.environ["SSL_CERT_FILE"] = str(authority.cert)
        try:
            trusting = self.daemon(url)
        finally:
            del os.environ["SSL_CERT_FILE"]
        self.assert_asked(self.resp(trusting)("WEIR.TAKE", "bucket", "k"))
        strict = self.daemon(url)
        self.assertEqual(self.resp(strict)("WEIR.TAKE", "bucket", "k")[0::7], [0, 1])
        strict.wait_for_log("its certificate is not trusted")


if __name__ == "__main__":
    unittest.main()
