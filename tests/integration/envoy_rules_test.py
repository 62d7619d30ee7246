"""The rules of Envoy's rate limit service in a daemon: loaded, reloaded, explained, counted:
envoy_rules_test.py WEIR."""

import signal
import subprocess
import sys
import time
import unittest

from daemon import Daemon

WEIR = sys.argv.pop(1)

RULES = """
domain: shop
descriptors:
  - key: user
    descriptors:
      - { key: path, value: /buy, rate_limit: { unit: hour, requests_per_unit: %d, name: buying } }
      - { key: path, value: /img/*, rate_limit: { unlimited: true } }
"""
WRONG = "domain: shop\ndescriptors: [ { key: user, rate_limit: { unit: fortnight } } ]\n"


class EnvoyRulesTest(unittest.TestCase):
    def start(self, config="envoy_ratelimit: rules\n", has_rules=True, **files):
        self.daemon = Daemon(WEIR, "", extra=config)
        self.rules = self.daemon.folder / "rules"
        self.rules.mkdir()
        if has_rules and not files:
            files = {"shop": RULES % 5}
        for name, text in files.items():
            (self.rules / f"{name}.yaml").write_text(text)
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def explain(self, domain="shop", **entries):
        return self.daemon.post("/v1/explain/domain", domain=domain,
                                descriptor=[{"key": k, "value": v} for k, v in entries.items()])[2]

    def metrics(self):
        return self.daemon.http("GET", "/metrics")[2].decode()

    def capacity(self):
        return self.explain(user="alice", path="/buy")["limit"]["capacity"]

    def await_capacity(self, expected):
        for _ in range(500):
            if self.capacity() == expected:
                return
            time.sleep(0.01)
        self.fail(f"the limit never became {expected}:\n" + "".join(self.daemon.log))

    def test_a_file_with_only_envoy_rules_is_valid(self):
        self.start()
        told = self.explain(user="alice", path="/buy")
        self.assertEqual([step["match"] for step in told["walk"]], ["key", "value"])
        self.assertEqual((told["result"], told["limit"]["remaining"]), ("limit", 5))
        self.assertTrue(told["walk"][1]["rule_at"].endswith("rules/shop.yaml:6:9"))
        self.assertEqual(self.explain(user="alice", path="/img/1")["result"], "unlimited")
        self.assertEqual(self.explain(user="alice")["result"], "no_rule")
        self.assertEqual(self.explain(domain="shoe", user="alice")["result"], "no_domain")

    def test_the_explain_command_prints_the_walk(self):
        self.start()
        url = f"http://127.0.0.1:{self.daemon.http_port}"
        ask = lambda *args: subprocess.run([WEIR, "explain", "--url", url, *args],  # noqa: E731
                                           capture_output=True, text=True)
        done = ask("--domain", "shop", "user=alice,path=/buy")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("path=/buy: its value, ", done.stdout)
        self.assertIn("5 of 5 left", done.stdout)
        self.assertIn("matches path=/x,y below user=alice", ask("--domain", "shop", r"user=alice,path=/x\,y").stdout)
        self.assertEqual(ask("--domain", "shop", "=x").returncode, 2)
        self.assertEqual(ask("--domain", "shop", "a=b", "c").returncode, 2)

    def test_bad_explain_requests_name_the_field(self):
        self.start()
        for body, field in [({}, "domain"), ({"domain": 1}, "domain"), ({"domain": "d"}, "descriptor"),
                            ({"domain": "d", "descriptor": ["a"]}, "descriptor"),
                            ({"domain": "d", "descriptor": [], "hits": -1}, "hits"),
                            ({"domain": "d", "descriptor": [], "more": 1}, "more")]:
            status, _, problem = self.daemon.http("POST", "/v1/explain/domain", body)
            self.assertEqual((status, problem["field"]), (400, field), body)
        _, _, problem = self.daemon.http("POST", "/v1/explain/domain", {"x" * 500_000: 1})
        self.assertLess(len(str(problem)), 1_000, "what a stranger sent is not repeated without end")

    def test_rules_are_reloaded_when_a_file_changes(self):
        self.start()
        self.assertEqual(self.capacity(), 5)
        (self.rules / "shop.yaml").write_text(RULES % 7)
        self.await_capacity(7)
        (self.rules / "other.yaml").write_text("domain: other\ndescriptors: [ { key: a } ]\n")
        self.daemon.wait_for_log("read again", 2)
        self.assertEqual(self.explain(domain="other", a="b")["result"], "no_rule")

    def test_the_modes_of_the_service_are_reloaded(self):
        self.start("envoy_ratelimit: { path: rules, shadow_mode: true }\n")
        call = {"domain": "shop", "hitsAddend": 6, "descriptors": [
            {"entries": [{"key": "user", "value": "alice"}, {"key": "path", "value": "/buy"}]}]}
        status, _, answer = self.daemon.http("POST", "/json", call)
        self.assertEqual((status, answer["statuses"][0]["code"]), (200, "OVER_LIMIT"))
        written = self.daemon.config.read_text()
        self.daemon.config.write_text(written.replace("shadow_mode", "response_headers"))
        self.daemon.wait_for_log("read again")
        status, _, answer = self.daemon.http("POST", "/json", call)
        names = lambda told: [header["key"] for header in told["responseHeadersToAdd"]]
        self.assertEqual((status, names(answer)), (429, ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]))
        self.daemon.config.write_text(written.replace("shadow_mode: true", "response_headers: { remaining: X-Left }"))
        self.daemon.wait_for_log("read again", 2)
        self.assertEqual(names(self.daemon.http("POST", "/json", call)[2]),
                         ["RateLimit-Limit", "X-Left", "RateLimit-Reset"])
        self.assertFalse([line for line in self.daemon.log if "needs a restart" in line], self.daemon.log)

    def test_wrong_rules_are_reported_and_not_used(self):
        self.start()
        (self.rules / "shop.yaml").write_text(WRONG)
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_for_log("invalid rate limit unit 'fortnight'")
        self.assertTrue(any("shop.yaml:2:49: " in line for line in self.daemon.log), self.daemon.log)
        self.assertEqual(self.capacity(), 5)
        self.assertIn('weir_envoy_config_loads_total{result="failed"}', self.metrics())
        self.assertIn("weir_last_reload_successful 0", self.metrics())
        (self.rules / "shop.yaml").write_text(RULES % 8)
        self.await_capacity(8)
        self.assertIn("weir_last_reload_successful 1", self.metrics())

    def test_a_daemon_does_not_start_with_wrong_rules(self):
        with self.assertRaisesRegex(AssertionError, "duplicate domain 'shop' in config file"):
            self.start(a=RULES % 1, b=RULES % 2)
        self.assertEqual(self.daemon.process.wait(30), 1)
        self.daemon.process.stderr.close()

    def test_rules_are_loaded_when_they_appear_later(self):
        self.start(has_rules=False)
        self.assertTrue(any(":18: " in line and "has no *.yaml or *.yml file: no domain has rules" in line
                            for line in self.daemon.log), self.daemon.log)
        call = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}
        self.assertEqual(self.daemon.http("POST", "/json", call)[2]["overallCode"], "OK")
        self.assertEqual(self.explain(user="alice")["result"], "no_domain")
        (self.rules / "shop.yaml").write_text(RULES % 5)
        self.daemon.wait_for_log("read again")
        self.assertEqual(self.capacity(), 5)
        (self.rules / "shop.yaml").unlink()
        self.daemon.wait_for_log("read again", 2)
        self.assertEqual(self.explain(user="alice")["result"], "no_domain")

    def test_missing_rules_are_reported_at_the_position_that_names_them(self):
        with self.assertRaisesRegex(AssertionError, r"nope.yaml: No such file"):
            self.start("envoy_ratelimit:\n  path: nope.yaml\n")
        self.assertEqual(self.daemon.process.wait(30), 1)
        self.daemon.process.stderr.close()
        told = "".join(self.daemon.log)
        self.assertRegex(told, r"(?m)^\S+weir\.yaml:\d+:9: cannot open \S+nope\.yaml: No such file or directory\n"
                               r"    path: nope\.yaml\n {10}\^\n")

    def test_a_reload_reports_missing_rules_and_finds_them_later(self):
        self.start()
        written = self.daemon.config.read_text()
        self.daemon.config.write_text(written.replace("rules", "nope.yaml"))
        self.daemon.wait_for_log("cannot open")
        self.assertTrue(any(":18: cannot open" in line for line in self.daemon.log), self.daemon.log)
        self.assertEqual(self.capacity(), 5)
        (self.daemon.folder / "nope.yaml").write_text(RULES % 9)
        self.await_capacity(9)

    def test_domains_of_several_files_are_merged(self):
        self.start("envoy_ratelimit: { path: rules, merge_domains: true }\ncompat: envoyproxy\n",
                   a=RULES % 1, b="domain: shop\ndescriptors: [ { key: more } ]\n")
        self.assertEqual(self.explain(more="x")["result"], "no_rule")

    def test_every_rule_has_its_series(self):
        self.start()
        for name in ["hits", "over_limit", "near_limit", "within_limit", "shadow_mode"]:
            self.assertIn(f'weir_envoy_{name}_total{{rule="shop.user.path_/buy"}} 0', self.metrics())


if __name__ == "__main__":
    unittest.main()
