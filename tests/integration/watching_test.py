"""The dashboard and the alerts use existing metrics: watching_test.py WEIR SOURCE PROMTOOL."""

import itertools
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

from daemon import Daemon
from redis_server import RedisServer

PROMTOOL = sys.argv.pop(3)
SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)

DASHBOARD = SOURCE / "packaging" / "grafana" / "weir.json"
RULES = SOURCE / "packaging" / "prometheus" / "weir.rules.yaml"
RULES_TEST = SOURCE / "packaging" / "prometheus" / "weir.rules.test.yaml"

# A refusal, and one in shadow mode: all possible series.
POLICIES = """
policies:
  login: { limits: [ { limit: 1/h window, name: hourly } ] }
  tried: { shadow: true, limits: [ { limit: 1/h window, name: hourly } ] }
  parted: { limits: [ { limit: 9/s, scope: split, name: rate } ] }
gateway:
  listen: 127.0.0.1:0
  routes: [ { name: all, upstream: "http://127.0.0.1:9", limits: [ 1/s queue 1 ], key: ip } ]
"""

# Labels and metrics that Prometheus itself adds.
OF_PROMETHEUS = {"job", "instance"}
UP = {"up": set()}

METRIC = re.compile(r"\b((?:weir|process)_\w+|up)\b(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def written(rules):
    """The name of a file with a rule for Envoy."""
    rules.write("domain: d\ndescriptors: [ { key: k, rate_limit: { unit: day, requests_per_unit: 1 } } ]\n")
    rules.flush()
    return rules.name


def exported():
    """{metric: its labels} of a daemon with every kind of event, and the values of labels."""
    extra = "store: {}\nenvoy_ratelimit: {}"
    with (RedisServer() as redis, tempfile.NamedTemporaryFile("w", suffix=".yaml") as rules,
          Daemon(WEIR, POLICIES, extra=extra.format(redis.url, written(rules))) as daemon):
        resp = daemon.resp()
        for policy, _ in itertools.product(("login", "tried"), range(2)):
            resp("WEIR.TAKE", policy, "k")
        resp.close()
        text = daemon.http("GET", "/metrics")[2].decode()
    metrics, values = dict(UP), {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels = re.match(r"(\w+)(?:\{(.*)\})? ", line).groups()
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels or ""))
        metrics.setdefault(name, set()).update(pairs)
        for label, value in pairs.items():
            values.setdefault(label, set()).add(value)
    return metrics, values


def dashboard():
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def dashboard_queries():
    """(where, expression, displayed label names)"""
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], SHOWN.findall(target["legendFormat"])
    for each in board["annotations"]["list"]:
        yield each["name"], each["expr"], SHOWN.findall(each["textFormat"])


def alerts():
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
            for rule in group["rules"]]


def alert_queries():
    for rule in alerts():
        yield rule["alert"], rule["expr"], re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])


class WatchingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.metrics, cls.values = exported()

    def check(self, where, expression, shown):
        used = METRIC.findall(expression)
        self.assertTrue(used, f"{where}: no metric in {expression}")
        known = set(OF_PROMETHEUS)
        for name, selector in used:
            self.assertIn(name, self.metrics, f"{where}: weir has no {name}")
            known |= self.metrics[name]
            for label in LABEL.findall(selector):
                self.assertIn(label, self.metrics[name] | OF_PROMETHEUS, f"{where}: of {name}")
        for grouping in GROUPING.findall(expression):
            for label in grouping.split(","):
                self.assertIn(label.strip(), known, f"{where}: {expression}")
        for label in shown:
            self.assertIn(label, known, f"{where}: shows {label}")
        # A label value in the expression must be one that the daemon exports.
        for label, value in re.findall(r'(\w+)\s*!?="([^"$]*)"', expression):
            if label not in OF_PROMETHEUS:
                self.assertIn(value, self.values[label], f"{where}: {label}")

    def test_the_dashboard_uses_only_existing_metrics(self):
        for query in dashboard_queries():
            self.check(*query)

    def test_the_alerts_use_only_existing_metrics(self):
        for query in alert_queries():
            self.check(*query)

    def test_the_dashboard_shows_every_metric(self):
        shown = {name for _, expression, _ in dashboard_queries()
                 for name, _ in METRIC.findall(expression)}
        self.assertEqual(set(self.metrics) - shown - set(UP), set())

    def test_panels_have_unique_ids_and_do_not_overlap(self):
        panels = dashboard()["panels"]
        ids = [panel["id"] for panel in panels]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells

    def test_the_data_source_is_a_variable_used_by_every_panel(self):
        board = dashboard()
        variables = {each["name"]: each for each in board["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        self.assertEqual(variables["datasource"]["query"], "prometheus")
        text = DASHBOARD.read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'"uid": "([^"]*)"', text)), {"${datasource}", "weir"})
        for panel in board["panels"]:
            if panel["type"] != "row":
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")

    def test_the_variables_of_the_dashboard_use_existing_metrics(self):
        for each in dashboard()["templating"]["list"]:
            if each["type"] == "query":
                name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", each["definition"]).groups()
                self.assertIn(label, self.metrics[name] | OF_PROMETHEUS)

    # As rules, with the variables filled in.
    def test_prometheus_parses_every_query_of_the_dashboard(self):
        rules = [{"record": f"weir:query:{i}",
                  "expr": query[1].replace("$__rate_interval", "5m")}
                 for i, query in enumerate(dashboard_queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            self.promtool("check", "rules", file.name)

    def test_prometheus_accepts_the_alerts(self):
        self.promtool("check", "rules", str(RULES))

    def test_each_alert_fires_when_it_should_and_is_silent_on_a_good_day(self):
        self.promtool("test", "rules", str(RULES_TEST))
        cases = [case for test in yaml.safe_load(RULES_TEST.read_text(encoding="utf-8"))["tests"]
                 for case in test["alert_rule_test"]]
        names = {rule["alert"] for rule in alerts()}
        self.assertEqual({case["alertname"] for case in cases if case.get("exp_alerts")}, names)
        self.assertEqual({case["alertname"] for case in cases if not case.get("exp_alerts")}, names)

    def test_each_alert_is_explained(self):
        page = (SOURCE / "docs" / "operations.md").read_text(encoding="utf-8")
        for rule in alerts():
            self.assertIn(f"| `{rule['alert']}` |", page)

    def promtool(self, *words):
        done = subprocess.run([PROMTOOL, *words], text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
