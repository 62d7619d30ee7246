"""The behaviour of envoyproxy/ratelimit for rules and requests, over gRPC and POST /json, in both modes of
charging (compat): grpc_vectors_test.py WEIR SOURCE.

A vector is a file of rules and steps. A step is a request and the answer: the overall code, and for each
descriptor (code, limit, remaining). `in_turn` has several answers to the same request. Where weir's own mode
differs, the answer is under OURS.
"""

import itertools
import json
import sys
import time
import unittest
from pathlib import Path

import grpc
from google.protobuf import json_format

from daemon import Daemon
from grpc_messages import DAY, HOUR, MINUTE, OK, OVER_LIMIT, SECOND, Messages, dial
from redis_server import RedisServer

SOURCE = Path(sys.argv.pop(2))
WEIR = sys.argv.pop(1)
MESSAGES = Messages(SOURCE)
MOST = 0xffffffff  # the remaining number where there is no limit

ENVOYPROXY, OURS = "envoyproxy", "weir"


# ---- How vectors are written

def entries(text):
    """"a=1 b=2" as entries."""
    return [tuple(word.split("=", 1)) for word in text.split()]


def per(unit, limit, name=""):
    return limit, unit, name


NONE = (OK, None, 0)  # no rule applies


def ok(limit, remaining):
    return OK, limit, remaining


def over(limit):
    return OVER_LIMIT, limit, 0


def step(descriptors, overall, *statuses, hits=0):
    if isinstance(descriptors, str):
        descriptors = [descriptors]
    return [(descriptors, hits, overall, list(statuses))]


def in_turn(descriptors, answers, hits=0):
    """`answers`: (overall, status, …) of each turn."""
    return [each for overall, *statuses in answers
            for each in step(descriptors, overall, *statuses, hits=hits)]


def matches(text, limit):
    """The rule of a status, without the remaining number."""
    return step(text, None, (None, limit, None))


def countdown(limit, count):
    """Steps from the first request until the limit is used up."""
    return [(OK, ok(limit, remaining)) for remaining in range(limit[0] - 1, limit[0] - 1 - count, -1)]


# ---- V1

BASIC = """
domain: basic
descriptors:
  - key: key1
    value: value1
    descriptors:
      - { key: subkey1, rate_limit: { unit: second, requests_per_unit: 5 } }
      - { key: subkey1, value: subvalue1, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key2, value: value2, rate_limit: { unit: minute, requests_per_unit: 30 } }
  - { key: key2, value: value3 }
  - { key: key3, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: key4, rate_limit: { name: key4_rate_limit, unit: day, requests_per_unit: 1 } }
  - key: key5
    value: value5
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - { key: subkey5, value: subvalue5, rate_limit: { unit: day, requests_per_unit: 25 } }
  - { key: key6, rate_limit: { unlimited: true } }
  - { key: key7, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 70 } }
"""

V1 = [
    *step("key1=something", OK, NONE),
    *step("key1=value1", OK, NONE),
    *step("key2=value2 subkey=subvalue", OK, NONE),
    *step("key5=value5 subkey5=subvalue", OK, NONE),
    *matches("key1=value1 subkey1=something", per(SECOND, 5)),
    *matches("key1=value1 subkey1=subvalue1", per(SECOND, 10)),
    *step("key2=something", OK, ok(per(MINUTE, 20), 19)),
    *step("key2=value2", OK, ok(per(MINUTE, 30), 29)),
    *step("key2=value3", OK, NONE),
    *step("key3=foo", OK, ok(per(HOUR, 1), 0)),
    *step("key3=foo", OVER_LIMIT, over(per(HOUR, 1))),
    *step("key4=foo", OK, ok(per(DAY, 1, "key4_rate_limit"), 0)),
    *step("key5=value5", OK, ok(per(DAY, 15), 14)),
    *step("key5=value5 subkey5=subvalue5", OK, ok(per(DAY, 25), 24)),
    *step("key6=foo", OK, (OK, None, MOST)),
    *step("key7=unspecified_value", OK, ok(per(MINUTE, 70), 69)),
    *step([{"entries": entries("key1=value1 subkey1=something"), "limit": (10, DAY)}], OK,
          ok(per(DAY, 10), 9)),
    *step([{"entries": entries("nobody=knows"), "limit": (2, HOUR)}], OK, ok(per(HOUR, 2), 1)),
]

# ---- V2

WILD = """
domain: wild
descriptors:
  - { key: wild, value: foo*, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: noWild, value: foo, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: noVal, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: midWild, value: bar*b, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: multiWild, value: foo*bar*baz, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - key: nestedWild
    value: val1
    descriptors:
      - { key: wild, value: goo*, rate_limit: { unit: minute, requests_per_unit: 20 } }
"""

V2 = [
    # (Descriptors of one rule have separate counters.)
    *(each for text in ("wild=foo1", "wild=foo2", "nestedWild=val1 wild=goo2", "midWild=barab",
                        "midWild=bar123b", "midWild=barb", "noWild=foo", "noVal=anything")
      for each in step(text, OK, ok(per(MINUTE, 20), 19))),
    *(each for text in ("multiWild=foo123bar456baz", "multiWild=foobarbaz")
      for each in step(text, OK, ok(per(MINUTE, 10), 9))),
    *(each for text in ("wild=bar", "noWild=foo1", "midWild=bara", "midWild=xbarb",
                        "multiWild=foo123baz", "multiWild=bar456baz")
      for each in step(text, OK, NONE)),
]

# ---- V3, V4

ANOTHER = """
domain: another
descriptors:
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key3, rate_limit: { unit: hour, requests_per_unit: 10 } }
"""

V3 = in_turn("key2=V3", countdown(per(MINUTE, 20), 20) + 5 * [(OVER_LIMIT, over(per(MINUTE, 20)))])

FIRST_TEN = in_turn(["key2=V4", "key3=V4"], [
    (OK, ok(per(MINUTE, 20), 20 - i), ok(per(HOUR, 10), 10 - i)) for i in range(1, 11)])
V4 = FIRST_TEN + in_turn(["key2=V4", "key3=V4"], [
    (OVER_LIMIT, ok(per(MINUTE, 20), 20 - i), over(per(HOUR, 10))) for i in range(11, 16)])
# Refused hits take nothing.
V4_OURS = FIRST_TEN + in_turn(["key2=V4", "key3=V4"],
                              5 * [(OVER_LIMIT, ok(per(MINUTE, 20), 10), over(per(HOUR, 10)))])

# ---- V5

SHARED = """
domain: shared
descriptors:
  - { key: files, value: files/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: files_no_share, value: files_no_share/*, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: file, value: test*, share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 100 } }
  - { key: file, value: test1, rate_limit: { unit: minute, requests_per_unit: 50 } }
"""

V5 = [
    *in_turn("files=files/a.pdf", countdown(per(HOUR, 10), 10)),
    *step("files=files/b.csv", OVER_LIMIT, over(per(HOUR, 10))),
    *step("files_no_share=files_no_share/a", OK, ok(per(HOUR, 10), 9)),
    *step("files_no_share=files_no_share/b", OK, ok(per(HOUR, 10), 9)),
    *step("files_no_share=files_no_share/a", OK, ok(per(HOUR, 10), 8)),
    *step("file=test1", OK, ok(per(MINUTE, 50), 49)),
    *step("file=test2", OK, ok(per(MINUTE, 100), 99)),
    *step("file=test3", OK, ok(per(MINUTE, 100), 98)),
    *step("file=test1", OK, ok(per(MINUTE, 50), 48)),
]

# ---- V6

SHADY = """
domain: shady
descriptors:
  - key: foo
    descriptors:
      - { key: baz, value: shady, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 3 } }
      - { key: baz, value: not-so-shady, rate_limit: { unit: minute, requests_per_unit: 3 } }
"""

V6 = [
    *in_turn("foo=pelle baz=shady", countdown(per(MINUTE, 3), 3) + 3 * [(OK, ok(per(MINUTE, 3), 0))]),
    *in_turn("foo=pelle baz=not-so-shady",
             countdown(per(MINUTE, 3), 3) + [(OVER_LIMIT, over(per(MINUTE, 3)))]),
]

# ---- V8, V10

QUOTA = """
domain: quota
descriptors:
  - { key: service, value: service_1, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: service, value: service_2, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: only, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: first, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: second, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 100 } }
  - { key: regular, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: wide, rate_limit: { unit: hour, requests_per_unit: 100 } }
"""

ONE, TWO = per(MINUTE, 1), per(MINUTE, 2)
V8 = in_turn(["service=service_1", "service=service_2"], [
    (OK, ok(ONE, 0), ok(TWO, 1)),
    (OK, over(ONE), ok(TWO, 0)),
    (OVER_LIMIT, over(ONE), over(TWO)),
])

ONE_HOUR, WIDE = per(HOUR, 1), per(HOUR, 100)
V10 = [
    # All limits in quota mode are over, though the other is not.
    *step(["wide=a", "only=a"], OK, ok(WIDE, 99), ok(ONE_HOUR, 0)),
    *step(["wide=a", "only=a"], OVER_LIMIT, (OK, WIDE, None), over(ONE_HOUR)),
    # One that is not in quota mode is over.
    *step(["regular=b", "second=b"], OK, ok(ONE_HOUR, 0), ok(WIDE, 99)),
    *step(["regular=b", "second=b"], OVER_LIMIT, over(ONE_HOUR), (OK, WIDE, None)),
    # One of two in quota mode is over.
    *step(["first=c", "second=c"], OK, ok(ONE_HOUR, 0), ok(WIDE, 99)),
    *step(["first=c", "second=c"], OK, over(ONE_HOUR), ok(WIDE, 98)),
]

# In shadow mode the whole service refuses nothing, and reports what each limit would say.
V10_SHADOW = [
    *step(["regular=s", "only=s"], OK, ok(ONE_HOUR, 0), ok(ONE_HOUR, 0)),
    *step(["regular=s", "only=s"], OK, over(ONE_HOUR), over(ONE_HOUR)),
]
# Every limit is in quota mode: only together do they refuse.
V10_ALL_QUOTA = [
    *step(["regular=q", "wide=q"], OK, ok(ONE_HOUR, 0), ok(WIDE, 99)),
    *step(["regular=q", "wide=q"], OK, over(ONE_HOUR), ok(WIDE, 98)),
    *step("regular=q", OVER_LIMIT, over(ONE_HOUR)),
]

# ---- V11

UNLIMITED = """
domain: unlimited
descriptors:
  - { key: foo, value: bar, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: baz, value: qux, rate_limit: { unlimited: true } }
"""

V11 = step(["foo=bar", "hello=world", "baz=qux"], OK, ok(per(MINUTE, 10), 9), NONE, (OK, None, MOST))

# ---- V13: limits of 15 and 14, 13 of each taken, and two more wanted

PAIR = """
domain: pair
descriptors:
  - { key: a, rate_limit: { unit: hour, requests_per_unit: 15 } }
  - { key: b, rate_limit: { unit: hour, requests_per_unit: 14 } }
"""

PREPARED = step(["a=x", "b=x"], OK, ok(per(HOUR, 15), 2), ok(per(HOUR, 14), 1), hits=13)
V13 = PREPARED + step(["a=x", "b=x"], OVER_LIMIT, ok(per(HOUR, 15), 0), over(per(HOUR, 14)), hits=2)
# As with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT there, but at once and atomically; the remaining hits stay
# available for smaller requests.
V13_OURS = PREPARED + step(["a=x", "b=x"], OVER_LIMIT, ok(per(HOUR, 15), 2),
                           (OVER_LIMIT, per(HOUR, 14), None), hits=2)

# ---- V15

MESSAGING = """
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - { key: to_number, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 100 } }
"""

BOTH = ["message_type=marketing to_number=1", "to_number=1"]
V15_FIVE = in_turn(BOTH, [(OK, ok(per(DAY, 5), 5 - i), ok(per(DAY, 100), 100 - i)) for i in range(1, 6)])
V15 = V15_FIVE + step(BOTH, OVER_LIMIT, over(per(DAY, 5)), ok(per(DAY, 100), 94))
V15_OURS = V15_FIVE + step(BOTH, OVER_LIMIT, over(per(DAY, 5)), ok(per(DAY, 100), 95))

# ---- How many hits a descriptor costs

HITS = """
domain: hits
descriptors:
  - { key: k, rate_limit: { unit: day, requests_per_unit: 20 } }
  - { key: none, rate_limit: { unit: day, requests_per_unit: 0 } }
"""


def with_hits(text, hits, **more):
    return [{"entries": entries(text), "hits": hits, **more}]


TWENTY = per(DAY, 20)
HITS_BOTH = [
    *step("k=a", OK, ok(TWENTY, 19), hits=0),  # none means one
    *step("k=a", OK, ok(TWENTY, 12), hits=7),
    *step(with_hits("k=a", 2), OK, ok(TWENTY, 10), hits=7),  # a descriptor's own hits take precedence
    *step(with_hits("k=a", 0), OK, ok(TWENTY, 10), hits=7),  # zero hits: a query
    *step("k=a", OK, ok(TWENTY, 0), hits=10),
    *step(with_hits("k=a", 0), OK, ok(TWENTY, 0)),  # used up is not yet over
    *step("k=a", OVER_LIMIT, over(TWENTY)),
    *step("none=a", OVER_LIMIT, over(per(DAY, 0))),
    *step("k=big", OVER_LIMIT, (OVER_LIMIT, TWENTY, None), hits=MOST),
]
HITS_THEIRS = HITS_BOTH + step(with_hits("k=a", 0), OVER_LIMIT, over(TWENTY))  # refused hits count as well
HITS_OURS = HITS_BOTH + [
    *step(with_hits("k=a", 0), OK, ok(TWENTY, 0)),
    # A refund, never of more than was taken.
    *step("k=b", OK, ok(TWENTY, 15), hits=5),
    *step(with_hits("k=b", 3, gives_back=True), OK, ok(TWENTY, 18)),
    *step(with_hits("k=b", 1000, gives_back=True), OK, ok(TWENTY, 20)),
    *step("k=b", OK, ok(TWENTY, 19)),
]

# ---- A rule that replaces another

REPLACES = """
domain: replaces
descriptors:
  - { key: account, rate_limit: { name: general, unit: day, requests_per_unit: 5 } }
  - key: plan
    rate_limit: { name: special, unit: day, requests_per_unit: 50, replaces: [ { name: general } ] }
"""

REPLACED = [
    *step("account=a", OK, ok(per(DAY, 5, "general"), 4)),
    *step(["account=a", "plan=gold"], OK, NONE, ok(per(DAY, 50, "special"), 49)),
    *step("account=a", OK, ok(per(DAY, 5, "general"), 3)),
]

# Name -> rules, steps in Envoy's mode, steps in weir's mode (if they differ).
VECTORS = {
    "V1 which rule it is": (BASIC, V1, None),
    "V2 wildcards": (WILD, V2, None),
    "V3 one limit": (ANOTHER, V3, None),
    "V4 two limits, one is reached": (ANOTHER, V4, V4_OURS),
    "V5 values that share a limit": (SHARED, V5, None),
    "V6 shadow mode": (SHADY, V6, None),
    "V8 quota mode": (QUOTA, V8, None),
    "V10 quota mode beside others": (QUOTA, V10, None),
    "V11 unlimited": (UNLIMITED, V11, None),
    "V13 two more where one fits": (PAIR, V13, V13_OURS),
    "V15 nested": (MESSAGING, V15, V15_OURS),
    "hits": (HITS, HITS_THEIRS, HITS_OURS),
    "replaces": (REPLACES, REPLACED, None),
}


# ---- Running the vectors

class Grpc:
    name = "gRPC"

    def __init__(self, daemon):
        self.channel = dial(daemon.grpc_port)
        self.call = MESSAGES.should_rate_limit(self.channel)

    def ask(self, request):
        return self.call(request, timeout=20)

    def close(self):
        self.channel.close()


class Json:
    name = "JSON"

    def __init__(self, daemon):
        self.daemon = daemon

    def ask(self, request):
        body = json_format.MessageToDict(request)
        status, fields, answer = self.daemon.http("POST", "/json", body)
        if status not in (200, 429):
            raise AssertionError(f"{status}: {answer} for {body}")
        answer = json_format.ParseDict(answer, MESSAGES.RateLimitResponse())
        if (status == 200) != (answer.overall_code == OK):
            raise AssertionError(f"{status} with {answer}")
        return answer

    def close(self):
        pass


def request_of(domain, descriptors, hits):
    return MESSAGES.request(domain, *(entries(each) if isinstance(each, str) else each
                                      for each in descriptors), hits=hits)


def stay_within(seconds):
    """Waits for the next minute if this one is nearly over."""
    left = 60 - time.time() % 60
    if left < seconds:
        time.sleep(left + 0.05)


class VectorsTest(unittest.TestCase):
    maxDiff = None

    def serve(self, way, settings="rules"):
        compat = "compat: envoyproxy\n" if way == ENVOYPROXY else ""
        daemon = Daemon(WEIR, "", grpc="127.0.0.1:0", extra=f"{compat}envoy_ratelimit: {settings}")
        folder = daemon.folder / "rules"
        folder.mkdir()
        for rules in {rules for rules, *_ in VECTORS.values()}:
            (folder / f"{rules.split()[1]}.yaml").write_text(rules)
        daemon.__enter__()
        self.addCleanup(daemon.__exit__)
        return daemon

    def test_every_vector_passes_on_both_listeners_in_both_modes(self):
        for way in (ENVOYPROXY, OURS):
            for listener_kind in (Grpc, Json):
                # (A new daemon: all counters are zero.)
                listener = listener_kind(self.serve(way))
                for name, (rules, theirs, ours) in VECTORS.items():
                    with self.subTest(way=way, listener=listener.name, vector=name):
                        stay_within(3)
                        self.play(listener, rules.split()[1], ours if way == OURS and ours else theirs)
                listener.close()

    def test_modes_of_the_whole_service_apply_to_every_rule(self):
        modes = {"shadow_mode": V10_SHADOW, "quota_mode": V10_ALL_QUOTA}
        for way, (mode, steps) in itertools.product((ENVOYPROXY, OURS), modes.items()):
            daemon = self.serve(way, f"{{ path: rules, {mode}: true }}")
            for listener in (Grpc(daemon), Json(daemon)):
                with self.subTest(way=way, listener=listener.name, mode=mode):
                    # (Each listener has counters of its own.)
                    self.play(listener, "quota", [
                        ([each + listener.name for each in descriptors], *rest) for descriptors, *rest in steps])
                listener.close()
            metrics = daemon.http("GET", "/metrics")[2].decode()
            self.assertIn(f"weir_envoy_global_shadow_mode_total {2 if mode == 'shadow_mode' else 0}\n", metrics)

    def play(self, listener, domain, steps):
        for number, (descriptors, hits, overall, statuses) in enumerate(steps, 1):
            where = f"step {number}: {descriptors} hits {hits}"
            answer = listener.ask(request_of(domain, descriptors, hits))
            if overall is not None:
                self.assertEqual(answer.overall_code, overall, where)
            self.assertEqual(len(answer.statuses), len(statuses), where)
            for status, (code, limit, remaining) in zip(answer.statuses, statuses):
                self.assert_status(status, code, limit, remaining, where)

    def assert_status(self, status, code, limit, remaining, where):
        if code is not None:
            self.assertEqual(status.code, code, where)
        current = status.current_limit
        have = (current.requests_per_unit, current.unit, current.name)
        self.assertEqual(have if status.HasField("current_limit") else None, limit, where)
        if remaining is not None:
            self.assertEqual(status.limit_remaining, remaining, where)
        if limit:
            seconds = {SECOND: 1, MINUTE: 60, HOUR: 3600, DAY: 86400}[limit[1]]
            until = status.duration_until_reset
            self.assertTrue(0 <= until.seconds + until.nanos / 1e9 <= seconds, where)

    # Both listeners use the same counters.
    def test_both_listeners_count_together(self):
        daemon = self.serve(OURS)
        grpc_listener, json_listener = Grpc(daemon), Json(daemon)
        request = MESSAGES.request("hits", [("k", "together")])
        remaining = [listener.ask(request).statuses[0].limit_remaining
                     for _ in range(5) for listener in (grpc_listener, json_listener)]
        self.assertEqual(remaining, list(range(19, 9, -1)))
        grpc_listener.close()


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR, "", grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml")
        (cls.daemon.folder / "rules.yaml").write_text(HITS)
        cls.daemon.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def json(self, body):
        status, fields, answer = self.daemon.http("POST", "/json", body)
        return status, fields["Content-Type"], answer

    def test_a_malformed_request_is_a_bad_request(self):
        bad = (400, "text/plain; charset=utf-8", b"Bad Request\n")
        for body in (b"", b"{", b"[]", b"null", b"no json", b'{"domain": 5}', b'{"domain":"hits","descriptors":5}',
                     b'{"domain":"hits","strange":1}',
                     b'{"domain":"","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}',
                     b'{"domain":"hits"}', b'{"domain":"hits","descriptors":[]}',
                     b'{"domain":"hits","hitsAddend":-1,"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}',
                     b'{"domain":"hits","descriptors":[{"entries":[{"key":"k","value":"\xff\xfe"}]}]}',
                     b"[" * 100_000):
            with self.subTest(body=body[:60]):
                self.assertEqual(self.json(body), bad)

    def test_field_names_are_accepted_in_both_spellings(self):
        for name in ("hitsAddend", "hits_addend"):
            status, kind, answer = self.json({"domain": "hits", name: 3, "descriptors": [
                {"entries": [{"key": "k", "value": name}]}]})
            self.assertEqual((status, answer["statuses"][0]["limitRemaining"]), (200, 17))
            self.assertTrue(kind.startswith("application/json"), kind)

    def test_ten_thousand_entries_are_read_and_too_many_limits_are_an_error(self):
        many = {"domain": "hits", "descriptors": [
            {"entries": [{"key": f"k{i}", "value": "v"} for i in range(10_000)]}]}
        status, _, answer = self.json(many)
        self.assertEqual((status, answer["overallCode"], len(answer["statuses"])), (200, "OK", 1))
        many = {"domain": "hits", "descriptors": [
            {"entries": [{"key": "k", "value": f"many{i}"}]} for i in range(10_000)]}
        self.assertEqual(self.json(many)[0], 400)  # more limits than a call may have

    def test_a_body_that_is_too_long_is_413(self):
        long = {"domain": "hits", "descriptors": [{"entries": [{"key": "k", "value": "x" * 2_000_000}]}]}
        status, _, answer = self.daemon.http("POST", "/json", long)
        self.assertEqual(status, 413)

    def test_calls_without_loaded_rules_are_errors(self):
        with Daemon(WEIR, "policies: { p: { limits: [ 1/s ] } }", grpc="127.0.0.1:0") as daemon:
            body = json.dumps({"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]})
            self.assertEqual(daemon.http("POST", "/json", body)[0], 400)
            with self.assertRaises(grpc.RpcError) as raised, dial(daemon.grpc_port) as channel:
                MESSAGES.should_rate_limit(channel)(MESSAGES.request("d", [("k", "v")]), timeout=20)
            self.assertEqual((raised.exception.code(), raised.exception.details()),
                             (grpc.StatusCode.UNKNOWN, "no rate limit configuration loaded"))


class OutageTest(unittest.TestCase):
    """An unreachable store: an error of gRPC, and 503 over HTTP."""

    def test_calls_are_errors_while_the_store_is_away(self):
        with RedisServer() as redis:
            daemon = Daemon(WEIR, "", grpc="127.0.0.1:0", extra=(
                f"store: {redis.url}\nstore_timeout: 300ms\n"
                "envoy_ratelimit: rules.yaml"))
            (daemon.folder / "rules.yaml").write_text(HITS)
            with daemon, dial(daemon.grpc_port) as channel:
                ask = MESSAGES.should_rate_limit(channel)
                request = MESSAGES.request("hits", [("k", "outage")])
                self.assertEqual(ask(request, timeout=20).statuses[0].limit_remaining, 19)
                redis.end()
                with self.assertRaises(grpc.RpcError) as raised:
                    ask(request, timeout=20)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
                status, _, said = daemon.http("POST", "/json", json_format.MessageToDict(request))
                self.assertEqual((status, said), (503, b"Service Unavailable\n"))


if __name__ == "__main__":
    unittest.main()
