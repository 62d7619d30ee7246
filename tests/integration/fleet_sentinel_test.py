"""Daemons that share limits on the master named by Sentinels: fleet_sentinel_test.py WEIR."""

import contextlib
import os
import re
import sys
import tempfile
import unittest

from certificates import Authority
from daemon import Daemon, eventually, free_port
from fleet_callers import Callers, use_up
from redis_rights import documented_rights
from redis_sentinels import RedisSentinels

WEIR = sys.argv.pop(1)

# (Limits of a thousand hours, so that nothing comes back during a test.)
POLICIES = """
policies:
  one: { limits: [ 400 per 1000h ], on_store_failure: closed }
  other: { limits: [ 400 per 1000h ], on_store_failure: closed }
"""


class SentinelTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def sentinels(self, **options):
        return self.stack.enter_context(RedisSentinels(**options))

    def daemon(self, url):
        return self.stack.enter_context(
            Daemon(WEIR, POLICIES, extra=f"store: {url}\nstore_timeout: 10s"))

    def daemons(self, count, url):
        daemons = [self.daemon(url) for _ in range(count)]
        for daemon in daemons:
            self.heals(daemon)
        return daemons

    def resp(self, daemon):
        resp = daemon.resp()
        self.stack.callback(resp.close)
        return resp

    def callers(self, daemons, *command):
        callers = Callers(daemons, *command)
        self.stack.callback(callers.end)
        return callers

    def heals(self, daemon):
        """Each thread of the daemon has its link: the next call may use any of them."""
        resp = self.resp(daemon)
        eventually(lambda: self.links(daemon, "_connected") == self.links(daemon) and
                   resp("WEIR.PEEK", "one", "healed")[7] == 0, "the store is there")

    @staticmethod
    def links(daemon, which=""):
        metrics = daemon.http("GET", "/metrics")[2].decode()
        return int(re.search(rf"^weir_store_links{which} (\d+)$", metrics, re.M)[1])

    def test_daemons_find_the_master_and_share_it(self):
        sentinels = self.sentinels()
        daemons = self.daemons(4, sentinels.url)
        callers = self.callers(daemons, "WEIR.TAKE", "one", "k")
        callers.have_answers(1000)
        callers.end()
        self.assertEqual((callers.admitted, callers.degraded), (400, 0))
        daemons[0].wait_for_log(f"redis://127.0.0.1:{sentinels.master().port}: connected")

    def test_a_failover_by_the_sentinels_is_followed(self):
        sentinels = self.sentinels()
        daemons = self.daemons(2, sentinels.url)
        before = sentinels.master()
        callers = self.callers(daemons, "WEIR.TAKE", "one", "k")
        callers.have_answers(20)
        # Permits admitted from here on may be forgotten, until all callers use the new master.
        known = callers.admitted
        sentinels.ask(sentinels.sentinels[0], "SENTINEL", "FAILOVER", "main")
        eventually(lambda: sentinels.master() is not before, "another master")
        port = sentinels.master().port
        for daemon in daemons:
            daemon.wait_for_log(f"redis://127.0.0.1:{port}: connected")
        lost = callers.admitted - known + 2 * 4 * len(daemons)
        callers.have_answers()
        callers.end()
        total = callers.admitted + use_up(daemons[0], "WEIR.TAKE", "one", "k")
        self.assertLessEqual(total, 400 + lost)
        self.assertGreaterEqual(total + callers.degraded, 400)
        # The old master is a replica now and has no clients.
        eventually(lambda: sentinels.ask(before, "ROLE")[0] == "slave", "it is a replica")
        self.assertEqual(use_up(daemons[1], "WEIR.TAKE", "other", "k"), 400)

    def test_a_master_that_is_killed_is_replaced(self):
        sentinels = self.sentinels()
        daemons = self.daemons(2, sentinels.url)
        resp = self.resp(daemons[0])
        self.assertEqual(resp("WEIR.TAKE", "one", "k", 100)[0], 1)
        master = sentinels.master()
        offset = sentinels.ask(master, "ROLE")[1]
        for server in sentinels.servers:
            eventually(lambda: server is master or sentinels.ask(server, "ROLE")[4] >= offset,
                       "it is replicated")
        master.end()
        eventually(lambda: sentinels.master() is not master, "another master")
        for daemon in daemons:
            self.heals(daemon)
        # Replicated usage is not forgotten.
        self.assertEqual(use_up(daemons[1], "WEIR.TAKE", "one", "k"), 300)

    def test_one_remaining_sentinel_is_enough(self):
        sentinels = self.sentinels()
        [daemon] = self.daemons(1, sentinels.url)
        for sentinel in sentinels.sentinels[:2]:
            sentinel.end()
        self.assertEqual(self.resp(daemon)("WEIR.TAKE", "one", "k")[7], 0)
        [late] = self.daemons(1, sentinels.url)
        self.assertEqual(self.resp(late)("WEIR.TAKE", "one", "k")[0:3], [1, 400, 398])

    def test_a_password_is_for_the_master_and_for_sentinels_that_demand_one(self):
        for sentinel_password in (None, "a-long-secret"):
            with self.subTest(sentinel_password):
                sentinels = self.sentinels(password="a-long-secret",
                                           sentinel_password=sentinel_password)
                [daemon] = self.daemons(1, sentinels.url)
                self.assertEqual(self.resp(daemon)("WEIR.TAKE", "one", "k")[0:3], [1, 400, 399])

    def test_the_documented_rights_suffice(self):
        sentinels = self.sentinels()
        for server in sentinels.servers:
            sentinels.ask(server, "ACL", "SETUSER", "weir", *documented_rights())
        [daemon] = self.daemons(1, sentinels.url.replace("://", "://weir:a-long-secret@"))
        self.assertEqual(self.resp(daemon)("WEIR.TAKE", "one", "k")[0:3], [1, 400, 399])

    def test_an_acl_user_over_tls_survives_a_failover(self):
        authority = Authority(self.stack.enter_context(tempfile.TemporaryDirectory()))
        cert, key = authority.sign("server")
        sentinels = self.sentinels(tls=["--tls-cert-file", cert, "--tls-key-file", key,
                                        "--tls-ca-cert-file", authority.cert,
                                        "--tls-auth-clients", "no"])
        for server in sentinels.servers:
            sentinels.ask(server, "ACL", "SETUSER", "weir", *documented_rights())
        os.environ["SSL_CERT_FILE"] = str(authority.cert)
        try:
            [daemon] = self.daemons(1, sentinels.url.replace("://", "://weir:a-long-secret@"))
        finally:
            del os.environ["SSL_CERT_FILE"]
        resp = self.resp(daemon)
        self.assertEqual(resp("WEIR.TAKE", "one", "k")[0:3], [1, 400, 399])
        daemon.wait_for_log(f"rediss://127.0.0.1:{sentinels.master().told_port}: connected")
        before = sentinels.master()
        self.assertEqual(sentinels.ask(sentinels.sentinels[0], "SENTINEL", "FAILOVER", "main"), "OK")
        eventually(lambda: sentinels.master() is not before, "there is another master")
        daemon.wait_for_log(f"rediss://127.0.0.1:{sentinels.master().told_port}: connected")
        self.heals(daemon)
        self.assertEqual(resp("WEIR.TAKE", "one", "another")[0:3], [1, 400, 399])

    def test_a_name_unknown_to_every_sentinel_is_a_misconfiguration(self):
        sentinels = self.sentinels()
        daemon = self.daemon(sentinels.url.replace("/main", "/mian"))
        daemon.wait_for_log("no Sentinel knows a master named mian")
        status, _, body = daemon.post("/v1/take", policy="one", key="k")
        self.assertEqual((status, body["degraded"]), (503, True))
        metrics = daemon.http("GET", "/metrics")[2].decode()
        self.assertNotIn('weir_store_failures_total{kind="misconfigured"} 0\n', metrics)

    def test_unreachable_sentinels_are_an_outage(self):
        daemon = self.daemon(f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{free_port()}/main")
        daemon.wait_for_log("no Sentinel answers")
        self.assertEqual(self.resp(daemon)("WEIR.TAKE", "one", "k")[0::7], [0, 1])
        metrics = daemon.http("GET", "/metrics")[2].decode()
        self.assertIn('weir_store_failures_total{kind="misconfigured"} 0\n', metrics)


if __name__ == "__main__":
    unittest.main()
