"""The same rules and calls for envoyproxy/ratelimit and for weir: envoy_same_test.py WEIR RATELIMIT.

Rules and calls are random; each answer and each statistic must be equal in every field. Left out are the
points in which this version of ratelimit differs from later ones: quota_mode, and a `*` that is not at the
end. Skipped if ratelimit is not installed (see make peers).
"""

import collections
import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import yaml

from daemon import Daemon, eventually, free_port
from redis_server import RedisServer

RATELIMIT = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)

DOMAINS = 40
CALLS = 40  # for each set of rules
KEYS = ["a", "b", "c"]
# Statistics have other names there.
ODD = ["10.20.30.40", "x:y|z", "x1.2.3.4567.8.9.10"]
NAMES = ["one", "two", "three"]
STATISTICS = {"total_hits": "hits", "over_limit": "over_limit", "near_limit": "near_limit",
              "within_limit": "within_limit", "shadow_mode": "shadow_mode"}


class Dice(random.Random):
    def one_in(self, n):
        return self.randrange(n) == 0

    def rate_limit(self):
        limit = {"unlimited": True} if self.one_in(10) else {
            "unit": self.choice(["hour", "day", "week", "month", "year", "HOUR", "Day"]),
            "requests_per_unit": self.choice([0, 1, 2, 3, 5, 8, 10, 1000])}
        if self.one_in(2):
            limit["name"] = self.choice(NAMES)
        if self.one_in(5):
            limit["replaces"] = [{"name": self.choice([name for name in NAMES if name != limit.get("name")])}]
        return limit

    def descriptors(self, depth=0):
        found = {}
        for _ in range(self.randint(1, 4)):
            key, value = self.choice(KEYS), self.choice([None, None, "x", "y", "x*", "xx*", *ODD])
            node = found[key, value] = {"key": key}
            if value:
                node["value"] = value
            if not self.one_in(4):
                node["rate_limit"] = self.rate_limit()
            for flag in ("shadow_mode", "detailed_metric", "value_to_metric"):
                if self.one_in(7):
                    node[flag] = True
            if value and "*" in value and self.one_in(2):
                node["share_threshold"] = True
            if depth < 2 and self.one_in(3):
                node["descriptors"] = self.descriptors(depth + 1)
        return list(found.values())

    def descriptor(self):
        made = {"entries": [{"key": self.choice(KEYS), "value": self.choice(["x", "y", "z", "xx", "xxz", "xy", "", *ODD])}
                            for _ in range(self.choice([1, 1, 1, 2, 2, 3]))]}
        if self.one_in(12):
            made["limit"] = {"requestsPerUnit": self.choice([0, 1, 3, 10]),
                             "unit": self.choice(["HOUR", "DAY", "MONTH", "YEAR"])}
        if self.one_in(5):
            made["hitsAddend"] = str(self.choice([0, 1, 2, 4]))
        return made

    def call(self, domain):
        made = {"domain": "nobody's" if self.one_in(50) else domain,
                "descriptors": [self.descriptor() for _ in range(self.randint(1, 4))]}
        if self.one_in(2):
            made["hitsAddend"] = self.choice([0, 1, 2, 3, 5])
        return made


def send(port, body, method="POST", path="/json", **fields):
    """(status, Content-Type, body)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json", **fields})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.getheader("Content-Type"), content


def ask(port, call):
    """The answer without its times, and these, in seconds."""
    status, _, body = send(port, json.dumps(call))
    if status not in (200, 429):
        return (status, body), []
    told, times = json.loads(body), []
    for status in told["statuses"]:
        if "durationUntilReset" in status:
            times.append(int(status["durationUntilReset"].rstrip("s")))
            status["durationUntilReset"] = "…"
    for header in told.get("responseHeadersToAdd", []):
        if header["key"] == "RateLimit-Reset":
            times.append(int(header["value"]))
            header["value"] = "…"
    return (status, told), times


def stay_within_the_hour():
    left = 3600 - time.time() % 3600
    if left < 120:
        time.sleep(left + 0.1)


class Ratelimit:
    """envoyproxy/ratelimit with the rules of these domains."""

    def __init__(self, folder, rules, redis, settings):
        self.folder = Path(folder)
        config = self.folder / "root" / "ratelimit" / "config"
        config.mkdir(parents=True)
        for name, text in rules.items():
            (config / f"{name}.yaml").write_text(text)
        self.port = free_port()
        self.environment = os.environ | {
            "RUNTIME_ROOT": str(self.folder / "root"), "RUNTIME_SUBDIRECTORY": "ratelimit",
            "RUNTIME_WATCH_ROOT": "false", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis.port}",
            "HOST": "127.0.0.1", "PORT": str(self.port), "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(free_port()),
            "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": str(free_port()), "USE_STATSD": "false",
            "STATS_FLUSH_INTERVAL": "1s", "LOG_LEVEL": "warn", **settings}

    def __enter__(self):
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen([RATELIMIT], env=self.environment, stdout=self.log, stderr=self.log)
        eventually(self.is_ready, "their service is ready")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError("it ended:\n" + (self.folder / "log").read_text())
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/healthcheck")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def statistics(self):
        """The counts up to a second ago: {(rule, what): count}."""
        counted = collections.Counter()
        for line in (self.folder / "log").read_text().splitlines():
            if "flushing counter" not in line:
                continue
            counter = json.loads(line)["json"]
            found = re.fullmatch(r"ratelimit\.service\.rate_limit\.(.*)\.(\w+)", counter["name"])
            if found and found[2] in STATISTICS:
                counted[found[1], found[2]] += int(float(counter["value"]))
        return counted


def statistics_of(weir):
    counted = collections.Counter()
    metrics = weir.http("GET", "/metrics")[2].decode()
    for theirs, ours in STATISTICS.items():
        for rule, count in re.findall(rf'^weir_envoy_{ours}_total{{rule="(.*)"}} (\d+)$', metrics, re.M):
            if int(count) > 0:
                counted[rule, theirs] = int(count)
    return counted


@unittest.skipUnless(RATELIMIT.exists(), "there is no envoyproxy/ratelimit here: see make peers")
class SameTest(unittest.TestCase):
    maxDiff = None

    @contextlib.contextmanager
    def both(self, rules, settings="", theirs=None, store=False):
        """envoyproxy/ratelimit and weir, with these rules."""
        with tempfile.TemporaryDirectory() as folder, RedisServer() as redis:
            weir = Daemon(WEIR, "", extra=(
                f"compat: envoyproxy\nenvoy_ratelimit: {{ path: rules {settings} }}\n"
                + (f"store: {redis.url}\nstore_timeout: 20s\n" if store else "")))
            (weir.folder / "rules").mkdir()
            for name, text in rules.items():
                (weir.folder / "rules" / f"{name}.yaml").write_text(text)
            with weir, Ratelimit(folder, rules, redis, theirs or {}) as ratelimit:
                stay_within_the_hour()
                yield ratelimit, weir

    def play(self, seed, **more):
        dice = Dice(seed)
        rules = {f"d{i}": yaml.safe_dump({"domain": f"d{i}", "descriptors": dice.descriptors()}, sort_keys=False)
                 for i in range(DOMAINS)}
        with self.both(rules, **more) as (ratelimit, weir):
            for domain, text in rules.items():
                for _ in range(CALLS):
                    self.ask_both(dice.call(domain), ratelimit.port, weir.http_port, f"seed {seed}: {text}")
            ours = statistics_of(weir)
            self.assertGreater(len(ours), 100)
            # (A descriptor without hits is counted all the same.)
            eventually(lambda: +ratelimit.statistics() == ours, "both have counted the same")

    def ask_both(self, call, their_port, our_port, where):
        (theirs, their_times), (ours, our_times) = ask(their_port, call), ask(our_port, call)
        self.assertEqual(theirs, ours, f"theirs and ours: {json.dumps(call)}\n{where}")
        self.assertEqual(len(their_times), len(our_times))
        for one, other in zip(their_times, our_times):
            self.assertLessEqual(abs(one - other), 60, where)  # the two calls may fall in different seconds

    def test_answers_and_statistics_are_the_same(self):
        self.play(1)

    def test_answers_are_the_same_on_redis(self):
        self.play(2, store=True)

    def test_answers_are_the_same_with_response_headers(self):
        self.play(3, settings=", response_headers: true", theirs={"LIMIT_RESPONSE_HEADERS_ENABLED": "true"})

    def test_answers_are_the_same_in_shadow_mode(self):
        self.play(4, settings=", shadow_mode: true", theirs={"SHADOW_MODE": "true"})

    def test_words_and_numbers_of_go_are_read_alike(self):
        rules = {"d": "domain: d\ndescriptors:\n" + "".join(
            f"  - {{ key: {key}, shadow_mode: {word}, rate_limit: {{ unit: year, requests_per_unit: {number} }} }}\n"
            for key, word, number in [("a", "y", "+1"), ("b", "N", "0x1"), ("c", "Yes", "+0b1"), ("d", "OFF", "01"),
                                      ("e", "on", "1"), ("f", "True", "+1")])}
        with self.both(rules) as (ratelimit, weir):
            for key in "abcdef" * 2:
                call = {"domain": "d", "descriptors": [{"entries": [{"key": key, "value": "x"}]}]}
                self.ask_both(call, ratelimit.port, weir.http_port, rules["d"])

    def test_merge_keys_and_duplicate_keys_are_read_alike(self):
        rules = {"d": textwrap.dedent("""\
            domain: d
            descriptors:
              - &base { key: a, rate_limit: { unit: day, requests_per_unit: 5, name: n } }
              - { <<: *base, key: b, rate_limit: { requests_per_unit: 7 } }
              - { key: c, rate_limit: { unit: hour, requests_per_unit: 9 }, <<: { rate_limit: { unit: year } } }
              - &other { key: d, rate_limit: { unit: year, requests_per_unit: 3 }, shadow_mode: true }
              - { <<: [ *base, *other ], key: e }
              - { key: f, rate_limit: { unit: year, requests_per_unit: 1 }, rate_limit: { requests_per_unit: 2 } }
              - { key: g, key: h, rate_limit: { unit: year, requests_per_unit: -0 } }
            ---
            domain: not used
            ---
            """)}
        with self.both(rules) as (ratelimit, weir):
            for key in "abcdefgh" * 3:
                call = {"domain": "d", "descriptors": [{"entries": [{"key": key, "value": "x"}]}]}
                self.ask_both(call, ratelimit.port, weir.http_port, rules["d"])

    def test_health_endpoints_answer_the_same(self):
        with self.both({}) as (ratelimit, weir):  # (Needs no rules.)
            for method in ("GET", "POST", "HEAD"):
                with self.subTest(method):
                    theirs, ours = (send(port, None, method, path="/healthcheck")
                                    for port in (ratelimit.port, weir.http_port))
                    self.assertEqual(theirs[0], 200)
                    self.assertEqual(theirs, ours)

    # (An unknown unit is left out: ratelimit exits on it.)
    def test_bad_requests_are_answered_the_same(self):
        rules = {"d": "domain: d\ndescriptors: [ { key: k, rate_limit: { unit: year, requests_per_unit: 9 } } ]\n"}
        good = '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}'
        wrong = ["", "null", "{", "[]", "5", good + "x", good + good, good.replace('"', "'"), "/**/" + good,
                 "\ufeff" + good, good.replace('"d"', '""'), good.replace('"d"', "5"), '{"domain":"d"}',
                 '{"domain":"d","descriptors":[]}', '{"domain":"d","descriptors":null}',
                 '{"domain":"d","descriptors":[null]}', good.replace('"v"', "7"), good.replace('"v"', '"\\ud800"'),
                 good.replace('"key"', '"kez"'), good.replace("{", '{"domain":"d",', 1)]
        hits = ["-1", "1.5", "true", '"x"', "4294967296", "[1]", '{"value":1}', '1,"hits_addend":1']
        wrong += [good.replace("{", f'{{"hitsAddend":{each},', 1) for each in hits]
        wrong += [good.replace("}]}", f'}}],"hitsAddend":{each}}}') for each in hits if each != "4294967296"]
        with self.both(rules) as (ratelimit, weir):
            for body in wrong:
                with self.subTest(body):
                    theirs = send(ratelimit.port, body.encode())
                    self.assertEqual(theirs[0], 400)
                    self.assertEqual(theirs, send(weir.http_port, body.encode()))
            # Requests that are valid.
            for method, body in (("POST", good), ("PUT", good), ("GET", good),
                                 ("POST", good.replace("{", '{"hitsAddend":"2",', 1)),
                                 ("POST", good.replace("{", '{"hits_addend":2e0,', 1)),
                                 ("POST", good.replace("}]}", '}],"hitsAddend":"1"}'))):
                with self.subTest(f"{method} {body}"):
                    their_status, their_type, theirs = send(ratelimit.port, body, method)
                    our_status, our_type, ours = send(weir.http_port, body, method)
                    self.assertEqual((their_status, their_type), (our_status, our_type))
                    self.assertEqual(*(json.loads(each)["statuses"][0]["limitRemaining"] for each in (theirs, ours)))


if __name__ == "__main__":
    unittest.main()
