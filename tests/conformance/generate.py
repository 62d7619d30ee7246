"""Makes random, adversarial timelines with the models' answers as expectations.

generate.py --seed N --cases M [--kind K] [--grain NS] [--out FILE]

The arrivals prefer edges: the exact instant named by a refusal, a nanosecond and a microsecond before it,
window edges, ends of leases, days on which the clock jumps. Where the published rules leave an answer open,
no expectation is written.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil
from zoneinfo import ZoneInfo

from models import INFINITE, SECOND, Answer, Calendar, Plan, Rule, Spec, first_instant, seconds

MS = 1_000_000
US = 1_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
DEFAULT_EPOCH = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z

ALL = {"remaining", "retry_after", "reset_after", "outcome", "limited_by"}

RATES = [  # text, amount, period
    ("3/s", 3, SECOND),
    ("7/min", 7, MINUTE),
    ("0.3/s", Fraction(3, 10), SECOND),
    ("60/s", 60, SECOND),
    ("20/s", 20, SECOND),
    ("1/s", 1, SECOND),
    ("1/5s", 1, 5 * SECOND),
    ("0.5/s", Fraction(1, 2), SECOND),
    ("100 per 90s", 100, 90 * SECOND),
    ("5/h", 5, HOUR),
    ("11 per 7min", 11, 7 * MINUTE),
    ("1000/min", 1000, MINUTE),
    ("30000/s", 30000, SECOND),
    ("1000003/s", 1_000_003, SECOND),
    ("10MB/s", 10_000_000, SECOND),
    ("100000 per 1min", 100_000, MINUTE),
    ("1 per 24h", 1, 24 * HOUR),
]
FAST_RATES = [  # a whole-nanosecond interval would cost more than 0.1 % here
    ("3000000/s", 3_000_000, SECOND),
    ("10MiB/s", 10 * 2**20, SECOND),
    ("700000000/s", 700_000_000, SECOND),
    ("1GiB/s", 2**30, SECOND),
]

WARM_RATES = [
    ("2/s", 2, SECOND),
    ("5/s", 5, SECOND),
    ("200/s", 200, SECOND),
    ("3/s", 3, SECOND),
    ("7/min", 7, MINUTE),
    ("0.3/s", Fraction(3, 10), SECOND),
    ("1000/s", 1000, SECOND),
]
PERIODS = [("s", SECOND), ("min", MINUTE), ("h", HOUR), ("5s", 5 * SECOND), ("7s", 7 * SECOND)]
LONG_PERIODS = [("90s", 90 * SECOND), ("7min", 7 * MINUTE), ("24h", 24 * HOUR), ("11s", 11 * SECOND)]


class Case:
    """One timeline under construction: the model runs along with the writing."""

    grain = 1  # arrivals are whole multiples of this many nanoseconds

    def __init__(self, name: str, rng: random.Random, rules: list[Rule], **more):
        self.name, self.rng, self.rules = name, rng, rules
        self.epoch = more.get("epoch", DEFAULT_EPOCH)
        self.empty = more.get("empty", False)
        self.tight = more.get("tight", False) and self.grain == 1
        self.plan = Plan(list(rules), empty_since=self.epoch if self.empty else None)
        self.now = self.on_grain(self.epoch - more.get("before", 0))
        self.steps: list[str] = []
        self.last: Answer | None = None
        self.strict = True  # False after a clock step whose details the rules leave open
        self.unasked: set = set()  # the fields that the rules leave open from here on

    def on_grain(self, instant: int) -> int:
        return instant - instant % self.grain

    # -- writing

    def text(self) -> str:
        lines = [f"- name: {json.dumps(self.name)}"]
        if len(self.rules) == 1 and not self.rules[0].by:
            lines.append(f"  limit: {limit_text(self.rules[0])}")
        else:
            inner = ", ".join(limit_text(rule) for rule in self.rules)
            lines.append(f"  limits: [ {inner} ]")
        if self.epoch != DEFAULT_EPOCH:
            lines.append(f"  epoch: {json.dumps(rfc3339(self.epoch))}")
        if self.empty:
            lines.append("  start: empty")
        if self.tight:
            lines.append("  tolerance: 0.000000001")
        lines.append("  steps:")
        lines += [f"    - {{ {step} }}" for step in self.steps]
        return "\n".join(lines) + "\n"

    def write(self, now: int, fields: dict) -> None:
        parts = [f"at: {seconds(now - self.epoch)}"]
        for name, value in fields.items():
            parts.append(f"{name}: {value if isinstance(value, Raw) else json.dumps(value)}")
        self.steps.append(", ".join(parts))
        self.now = now

    # -- steps

    def call(self, now, n=1, permits=1, who="k", patience=None, op="take", holder=None, ask=None) -> bool:
        """n arrivals at one instant. Returns False and writes nothing if the rules do not decide them (too
        near an edge for a state that was rounded)."""
        now = self.on_grain(now)
        if patience not in (None, INFINITE):
            patience = self.on_grain(patience)
        call = (n, permits, who, patience, op, holder)
        others = [self.run(self.plan.clone(), at, *call) for at in self.other_instants(now)]
        if any([a.outcome for a in run] != [a.outcome for a in others[0]] for run in others):
            return False
        before = self.plan.clone() if others else None
        answers = self.run(self.plan, now, *call)
        if others and [a.outcome for a in answers] != [a.outcome for a in others[0]]:
            self.plan = before
            return False
        self.last = answers[-1]
        fields = self.header(n, permits, who, patience, op, holder)
        fields["allowed"] = sum(a.outcome == "allowed" for a in answers)
        if op == "take" and self.waits_known(permits) and fields["allowed"]:
            waits = [seconds(a.wait) for a in answers if a.outcome == "allowed"]
            fields["waits"] = Raw("[" + ", ".join(waits) + "]")
        fields |= self.expectations(self.last, [run[-1] for run in others], ask)
        self.write(now, fields)
        return True

    def other_instants(self, now: int) -> list[int]:
        """The instants whose answers a rounding could give instead."""
        doubts = [state.doubt() for state in self.plan.states.values()]
        late = max((late for late, _ in doubts), default=0)
        early = max((early for _, early in doubts), default=0)
        return [now + shift for shift in (-late, early) if shift]

    @staticmethod
    def run(plan: Plan, now, n, permits, who, patience, op, holder) -> list[Answer]:
        if op == "peek":
            return [plan.peek(now, who, permits, patience) for _ in range(n)]
        return [plan.take(now, who, permits, patience, holder) for _ in range(n)]

    @staticmethod
    def header(n, permits, who, patience, op, holder) -> dict:
        fields = {}
        if op != "take":
            fields["op"] = Raw(op)
        if n != 1:
            fields["n"] = n
        if permits != 1:
            fields["permits"] = permits
        fields |= Case.whom(who)
        if patience is not None:
            fields["max_wait"] = Raw("inf" if patience == INFINITE else seconds(patience))
        if holder is not None:
            fields["holder"] = holder
        return fields

    @staticmethod
    def whom(who) -> dict:
        if isinstance(who, dict):
            return {"parts": who}
        return {"key": who} if who != "k" else {}

    def waits_known(self, permits: int) -> bool:
        """The rules do not fix when a queue serves a call for other than one permit."""
        return all(rule.spec.kind != "queue" or rule.price(permits) == 1 for rule in self.rules)

    def expectations(self, answer: Answer, around: list[Answer], ask) -> dict:
        wanted = (self.askable(answer) if ask is None else ask) - self.unasked
        out = {}
        if "outcome" in wanted:
            out["outcome"] = Raw(answer.outcome)
        if "remaining" in wanted and all(a.remaining == answer.remaining for a in around):
            out["remaining"] = answer.remaining
        if "retry_after" in wanted:
            never = answer.retry_after == INFINITE
            out["retry_after"] = Raw("-1" if never else seconds(answer.retry_after))
        if "reset_after" in wanted:
            out["reset_after"] = Raw(seconds(answer.reset_after))
        if "limited_by" in wanted and all(a.limited_by == answer.limited_by for a in around):
            name = self.rules[answer.limited_by].name
            out["limited_by"] = name if name is not None else answer.limited_by
        return out

    def askable(self, answer: Answer) -> set:
        """The fields of this answer that the rules determine."""
        if not self.strict:
            return {"outcome"}
        return ALL

    def settle(self, now: int, delta: int, who="k") -> None:
        now = self.on_grain(now)
        self.last = self.plan.settle(now, who, delta)
        fields = {"op": Raw("settle"), "permits": delta} | self.whom(who)
        # the rules do not say whether a settled debt reads as "limited"
        asked = {"remaining", "reset_after"}
        if len(self.rules) > 1:
            asked = set()  # the peek that follows checks them
        elif self.rules[0].spec.kind == "smooth":
            asked = {"reset_after"}  # `remaining` may be at an edge here
        self.write(now, fields | self.expectations(self.last, [], asked))

    def change(self, now: int, spec: Spec) -> None:
        now = self.on_grain(now)
        self.plan.set_limit(now, spec)
        self.write(now, {"op": Raw("set_limit"), "limit": spec.text()})

    def reset(self, now: int, who="k") -> None:
        self.plan.reset(who)
        now = self.on_grain(now)
        self.write(now, {"op": Raw("reset")} | self.whom(who))
        self.last = None

    def leave(self, now: int, holder: str) -> None:
        now = self.on_grain(now)
        self.plan.leave(now, "k", holder)
        self.write(now, {"op": Raw("leave"), "holder": holder})


class Raw(str):
    """Writes text into the file as it is."""


def limit_text(rule: Rule) -> str:
    """The short form of a limit, or the map form where it needs more fields."""
    extra = {}
    if rule.spec.kind == "nginx":
        extra["like"] = "nginx"
    if rule.name is not None:
        extra["name"] = rule.name
    if rule.by:
        extra["by"] = rule.by[0] if len(rule.by) == 1 else list(rule.by)
    if rule.cost is not None:
        extra["cost"] = rule.cost
    if rule.shadow:
        extra["shadow"] = True
    text = json.dumps(rule.spec.text())
    if not extra:
        return text
    fields = ", ".join(f"{k}: {json.dumps(v)}" for k, v in extra.items())
    return f"{{ limit: {text}, {fields} }}"


def rfc3339(ns: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=ns // SECOND)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


# -------------------------------------------------------------------------- instants


def next_instant(case: Case, unit: int, edges=()) -> int:
    """The next arrival: often an edge, or just before one."""
    rng, now, last = case.rng, case.now, case.last
    named = []
    if last is not None and last.retry_after not in (0, INFINITE):
        named += [now + ceil(last.retry_after)] * 3
    if last is not None and last.reset_after:
        named.append(now + ceil(last.reset_after))
    named += [edge for edge in edges if edge > now]
    roll = rng.random()
    if roll < 0.25:
        return now
    if roll < 0.65 and named:
        return max(now, rng.choice(named) - rng.choice([0, 0, 1, US, -1]))
    if roll < 0.8:
        return now + max(0, rng.randrange(4) * unit - rng.choice([0, 0, 1]))
    if roll < 0.97:
        return now + rng.randrange(3 * unit + 1)
    return now + 50 * unit


def pick_permits(rng, capacity: int) -> int:
    return rng.choice([1, 1, 1, 2, max(1, capacity // 2), capacity, capacity + 1, rng.randint(1, capacity), 0])


def pick_count(rng, capacity: int, permits: int) -> int:
    if permits == 1 and capacity <= 60:
        return rng.choice([1, 1, 2, capacity, capacity + 1, capacity + 3])
    return rng.choice([1, 1, 1, 2, 3])


# ------------------------------------------------------------------ kinds of timeline


def bucket_spec(rng) -> Spec:
    text, amount, period = rng.choice(RATES)
    amount = Fraction(amount)
    burst = rng.choice([None, 1, 2, 5, 30, 1000])
    return Spec("bucket", amount, period, rate_text=text, burst=burst)


def is_whole(spec: Spec) -> bool:
    """True if the interval is a whole number of nanoseconds: then nothing is rounded."""
    return spec.interval().denominator == 1


def bucket(rng, name) -> Case:
    spec = bucket_spec(rng)
    before = rng.choice([0, 0, 0, 5 * SECOND, 1])
    case = Case(name, rng, [Rule(spec)], tight=is_whole(spec) and rng.random() < 0.5, before=before)
    simple_traffic(case, unit=ceil(spec.interval()), back=True)
    return case


def bucket_waits(rng, name) -> Case:
    """Callers of a token bucket that would wait: charged now, served at their turn."""
    spec = bucket_spec(rng)
    case = Case(name, rng, [Rule(spec)], tight=is_whole(spec) and rng.random() < 0.5)
    unit = ceil(spec.interval())

    def patience():
        return rng.choice([None, INFINITE, 0, unit, unit - 1, 2 * unit, 5 * unit, rng.randrange(3 * unit)])

    simple_traffic(case, unit, patience=patience)
    return case


def fast_bucket(rng, name) -> Case:
    text, amount, period = rng.choice(FAST_RATES)
    spec = Spec("bucket", Fraction(amount), period, rate_text=text, burst=rng.choice([1, 10, 1000, 10**6]))
    case = Case(name, rng, [Rule(spec)])
    simple_traffic(case, unit=max(10, ceil(spec.interval() * spec.capacity() / 3)))
    return case


def queue_spec(rng) -> Spec:
    text, amount, period = rng.choice([r for r in RATES if r[1] <= 30000])
    queue = rng.choice([0, 1, 5, 20, 50])
    shape = rng.choice(["plain", "plain", "delay", "nodelay"])
    delay = rng.randint(0, queue) if shape == "delay" else None
    return Spec("queue", Fraction(amount), period, rate_text=text, queue=queue, delay=delay, nodelay=shape == "nodelay")


def queue(rng, name) -> Case:
    spec = queue_spec(rng)
    case = Case(name, rng, [Rule(spec)], tight=is_whole(spec) and rng.random() < 0.5)
    unit = ceil(spec.interval())

    def patience():
        return rng.choice([None, None, None, INFINITE, 0, unit, unit - 1, 2 * unit, rng.randrange(3 * unit)])

    simple_traffic(case, unit, patience=patience, back=True)
    return case


def nginx(rng, name) -> Case:
    per_minute = rng.random() < 0.6
    amount = rng.choice([1, 6, 7, 10, 30, 60, 100, 1000] if per_minute else [1, 2, 3, 7, 10, 100, 1000])
    shape = rng.choice(["plain", "plain", "delay", "nodelay"])
    queue = rng.choice([0, 1, 2, 5, 20]) if shape == "plain" else rng.choice([1, 2, 5, 20])
    spec = Spec(
        "nginx",
        Fraction(amount),
        MINUTE if per_minute else SECOND,
        rate_text=f"{amount}/{'min' if per_minute else 's'}",
        queue=queue,
        delay=rng.randint(1, queue) if shape == "delay" else None,
        nodelay=shape == "nodelay",
    )
    case = Case(name, rng, [Rule(spec)])
    unit = max(MS, ceil(spec.interval()))
    for _ in range(rng.randint(4, 14)):
        at = next_instant(case, unit)
        if rng.random() < 0.8:
            at -= at % MS
        at = max(at, case.now)
        if rng.random() < 0.05:  # nginx treats a step back of up to a minute as no time at all
            case.strict = False
            at = max(case.epoch, case.now - rng.randrange(30 * SECOND))
        n = rng.choice([1, 1, 2, queue + 1, queue + 3])
        case.call(at, n=n, op=rng.choice(["take", "take", "take", "peek"]))
    return case


def smooth(rng, name) -> Case:
    slow = [rate for rate in RATES if rate[1] <= 30000]
    text, amount, period = rng.choice(slow + [("5/s", 5, SECOND), ("2/s", 2, SECOND)] * 3)
    spec = Spec("smooth", Fraction(amount), period, rate_text=text)
    case = Case(name, rng, [Rule(spec)], empty=rng.random() < 0.5)
    guava_traffic(case, ceil(spec.interval()))
    return case


def warmup(rng, name) -> Case:
    text, amount, period = rng.choice(WARM_RATES)
    length = rng.choice([1, 4, 10, 30]) * SECOND
    spec = Spec("warmup", Fraction(amount), period, rate_text=text, warmup=length)
    case = Case(name, rng, [Rule(spec)])
    guava_traffic(case, ceil(spec.interval()))
    return case


def guava_traffic(case: Case, unit: int) -> None:
    rng = case.rng
    spec = case.rules[0].spec
    per_second = max(1, int(spec.amount * SECOND / spec.period))
    for _ in range(rng.randint(4, 14)):
        at = next_instant(case, unit)
        if rng.random() < 0.12:
            amount = rng.choice([1, 2, 3, 4, 7, 8, 10, 11])
            unit_text = {SECOND: "/s", MINUTE: "/min"}.get(spec.period)
            if unit_text is not None:
                spec = replace(spec, amount=Fraction(amount), rate_text=f"{amount}{unit_text}")
                case.change(at, spec)
                unit = ceil(spec.interval())
                continue
        wait = rng.choice([None, 0, INFINITE, INFINITE, unit, unit - 1, rng.randrange(3 * unit)])
        permits = rng.choice([1, 1, 1, 2, 3, per_second, per_second + 1, 10 * per_second])
        n = rng.choice([1, 1, 2, 5, min(100, per_second + 2)]) if permits == 1 else 1
        case.call(at, n=n, permits=permits, patience=wait, op=rng.choice(["take", "take", "take", "take", "peek"]))


def counted_spec(rng, kind: str, amounts=(1, 2, 3, 5, 10, 100)) -> Spec:
    amount = rng.choice(amounts)
    if rng.random() < 0.6:
        unit, period = rng.choice(PERIODS)
        text = f"{amount}/{unit}"
    else:
        unit, period = rng.choice(PERIODS + LONG_PERIODS)
        text = f"{amount} per {unit if unit[0].isdigit() else '1' + unit}"
    return Spec(kind, Fraction(amount), period, rate_text=text)


def counted(kind: str):
    def build(rng, name) -> Case:
        spec = counted_spec(rng, kind)
        epoch = DEFAULT_EPOCH + rng.choice([0, 0, 1, 86_399, rng.randrange(10**8)]) * SECOND
        case = Case(name, rng, [Rule(spec)], epoch=epoch, tight=kind != "sliding" and rng.random() < 0.3)
        simple_traffic(case, unit=spec.period // 3, period=spec.period, back=kind in ("window", "first"))
        return case

    return build


def simple_traffic(case: Case, unit: int, patience=lambda: None, period=0, back=False) -> None:
    """Takes and peeks of all sizes at every kind of instant."""
    rng = case.rng
    capacity = case.rules[0].spec.capacity()
    for _ in range(rng.randint(4, 16)):
        edges = [case.now - case.now % period + period * i for i in (1, 2)] if period else []
        at = next_instant(case, unit, edges)
        if back and rng.random() < 0.06:
            at = case.now - rng.randrange(2 * unit + 1)
            # a bucket's answer follows from its tat; for the others only the outcome is defined
            case.strict = case.strict and not period
        permits = pick_permits(rng, capacity)
        wait = patience()
        if permits == 0 and case.plan.peek(at, "k", 0, wait).outcome != "allowed":
            permits = 1  # the rules do not say what a call of zero permits gets in debt
        n = pick_count(rng, capacity, permits)
        if wait is not None and permits != 1 and case.rules[0].spec.kind == "queue":
            wait = None  # see waits_known
        op = rng.choice(["take", "take", "take", "take", "peek"])
        case.call(at, n=n if op == "take" else 1, permits=permits, patience=wait, op=op, who=rng.choice("kkkj"))
        if rng.random() < 0.03:
            case.reset(case.now)


# -- settle, edits


def settled_spec(rng) -> tuple[Spec, int]:
    kind = rng.choice(["bucket", "bucket", "bucket", "queue", "smooth", "window", "first", "sliding", "exact", "day"])
    if kind == "bucket":
        spec = bucket_spec(rng)
        return spec, ceil(spec.interval())
    if kind == "smooth":
        amount = rng.choice([5, 10, 20])
        spec = Spec("smooth", Fraction(amount), rate_text=f"{amount}/s")
        return spec, ceil(spec.interval())
    if kind == "queue":
        spec = queue_spec(rng)
        return spec, ceil(spec.interval())
    if kind == "day":
        return Spec("day", Fraction(100), rate_text="100/day"), 8 * HOUR
    spec = counted_spec(rng, kind, amounts=(5, 10, 100))
    return spec, spec.period // 3


def settle(rng, name) -> Case:
    """Estimates that turn out wrong. A refund follows its take directly: the rules do not say what an
    older receipt is worth after other traffic."""
    spec, unit = settled_spec(rng)
    case = Case(name, rng, [Rule(spec)])
    capacity = spec.capacity()
    for _ in range(rng.randint(2, 6)):
        at = next_instant(case, unit)
        permits = rng.randint(1, capacity)
        if not case.call(at, permits=permits):
            continue
        if case.last.outcome == "allowed" and rng.random() < 0.8:
            back = rng.choice([1, permits, permits, rng.randint(1, permits), permits + 3])
            at = after_take(case, spec, unit)
            case.settle(at, -back)
            if case.last.remaining == capacity and spec.kind not in ("bucket", "queue", "smooth"):
                # the rules do not say whether a window with all calls refunded is at rest
                case.unasked.add("reset_after")
                if spec.kind == "first":
                    return case
            case.call(case.now, op="peek", permits=rng.choice([1, capacity]))
        elif spec.kind not in ("first", "exact") or case.last.remaining < capacity:
            case.settle(case.now, rng.randint(1, min(capacity, 20)))
            if spec.kind == "exact":
                return case  # the rules do not say how much debt a bounded log keeps
            case.call(case.now, op="peek")
    return case


def after_take(case: Case, spec: Spec, unit: int) -> int:
    """The time of a refund. Sliding's two counters stay within the window of the take."""
    at = next_instant(case, unit)
    if spec.kind == "sliding":
        end = case.now - case.now % spec.period + spec.period
        return min(at, end - 1)
    return at


def edits(rng, name) -> Case:
    """The limit changes between calls; usage is kept."""
    kind = rng.choice(["bucket", "bucket", "bucket", "queue", "window", "first", "sliding", "exact", "day"])
    if kind in ("bucket", "queue"):
        unit_text, period = rng.choice([("/s", SECOND), ("/min", MINUTE), ("/h", HOUR)])
        amount = rng.choice([2, 3, 7, 10, 20, 60])
        spec = Spec(kind, Fraction(amount), period, rate_text=f"{amount}{unit_text}")
        spec = replace(spec, queue=rng.choice([0, 2, 5])) if kind == "queue" else spec
        step = ceil(spec.interval())
    elif kind == "day":
        spec, unit_text, step = Spec("day", Fraction(10), rate_text="10/day"), "/day", 8 * HOUR
    else:
        unit_text, period = rng.choice([("/s", SECOND), ("/min", MINUTE), ("/5s", 5 * SECOND)])
        spec = Spec(kind, Fraction(10), period, rate_text=f"10{unit_text}")
        step = period // 3
    case = Case(name, rng, [Rule(spec)])
    for _ in range(rng.randint(2, 5)):
        for _ in range(rng.randint(1, 4)):
            permits = rng.randint(1, spec.capacity())
            case.call(next_instant(case, step), n=rng.choice([1, 2, 4]), permits=permits)
        amount = rng.choice([1, 3, 5, 10, 20, 30])
        changes = {"amount": Fraction(amount), "rate_text": f"{amount}{unit_text}"}
        if kind == "bucket" and rng.random() < 0.3:
            changes["burst"] = rng.choice([1, 5, 40])
        spec = replace(spec, **changes)
        case.change(next_instant(case, step), spec)
        case.call(case.now, op=rng.choice(["peek", "take"]))
    return case


# -- calendars

ZONES = [
    None,
    "Asia/Shanghai",
    "America/New_York",
    "Europe/Berlin",
    "Europe/London",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Australia/Sydney",
    "Africa/Cairo",  # midnight is skipped
    "America/Havana",  # midnight is skipped, and comes twice
    "America/Santiago",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Kiritimati",
    "America/Anchorage",
]
HISTORIC = [  # zone, a day before the irregularity
    ("Pacific/Apia", date(2011, 12, 28)),  # the 30th did not happen
    ("America/Sao_Paulo", date(2018, 11, 2)),
    ("Asia/Tehran", date(2022, 3, 20)),
    ("Europe/Moscow", date(2014, 10, 24)),
]


def clock_changes(zone: str, year: int) -> list[date]:
    """Local dates in a year on which the offset changes."""
    tz = ZoneInfo(zone)
    day, out = date(year, 1, 1), []
    while day.year == year:
        offsets = [datetime(d.year, d.month, d.day, 12, tzinfo=tz).utcoffset() for d in (day, day + timedelta(days=1))]
        if offsets[0] != offsets[1]:
            out.append(day + timedelta(days=1))
        day += timedelta(days=1)
    return out


def calendar_day(rng, zone) -> date:
    """A date near an irregularity."""
    year = rng.choice([2024, 2025, 2026, 2027, 2028, 2032, 2036, 2040])
    if zone is not None and rng.random() < 0.5:
        changes = clock_changes(zone, year)
        if changes:
            return rng.choice(changes)
    return rng.choice(
        [
            date(year, 2, 28),
            date(year, 12, 31),
            date(year, 1, 1),
            date(year, rng.randint(1, 12), rng.choice([1, 28])),
            date(year, 1, 1) + timedelta(days=rng.randrange(365)),
        ]
    )


def calendar(rng, name) -> Case:
    kind = rng.choice(["day", "day", "week", "month", "month", "year"])
    zone = rng.choice(ZONES)
    day = calendar_day(rng, zone)
    if rng.random() < 0.1:
        zone, day = rng.choice(HISTORIC)
    anchor = rng.choice([None, 1, 15, 28, 29, 30, 31]) if kind == "month" else None
    amount = rng.choice([1, 3, 10])
    spec = Spec(kind, Fraction(amount), rate_text=f"{amount}/{kind}", zone=zone, anchor=anchor)
    start = first_instant(day, ZoneInfo(zone or "UTC"))
    epoch = start - rng.choice([0, 1, 3600, 7200, 86_400, rng.randrange(86_400)]) * SECOND
    case = Case(name, rng, [Rule(spec)], epoch=epoch)
    long = kind == "year"
    for _ in range(rng.randint(4, 12)):
        at = next_instant(case, rng.choice([HOUR, 5 * HOUR, 24 * HOUR]), calendar_edges(case, spec))
        if at - case.epoch > 4_000_000 * SECOND:  # keep written seconds within 16 digits
            if not long:
                break
            at -= at % SECOND
        if at < case.now:
            break
        case.call(at, n=rng.choice([1, 2, amount, amount + 1]), permits=rng.choice([1, 1, 1, amount + 1]))
    return case


def calendar_edges(case: Case, spec: Spec) -> list[int]:
    return [Calendar(spec).bounds(case.now)[1]]


# -- concurrency


def concurrent(rng, name) -> Case:
    amount = rng.choice([1, 2, 3, 8])
    lease_text, length = rng.choice([("", 60), ("30s", 30), ("5s", 5), ("2min", 120)])
    lease = length * SECOND
    spec = Spec("concurrent", Fraction(amount), lease=lease, lease_text=lease_text)
    case = Case(name, rng, [Rule(spec)], tight=rng.random() < 0.3)
    sizes: dict[str, int] = {}
    for _ in range(rng.randint(5, 20)):
        at = next_instant(case, lease // 4)
        holder = rng.choice([f"h{i}" for i in range(amount + 3)])
        roll = rng.random()
        if rng.random() < 0.06:
            spec = replace(spec, amount=Fraction(rng.choice([1, 2, 5])))
            case.change(at, spec)
        elif roll < 0.65:
            # a holder always enters with the same size: the rules do not define a renewal with another size
            size = sizes.setdefault(holder, rng.choice([1, 1, 1, 1, 2, amount + 1]))
            case.call(at, permits=size, op="enter", holder=holder)
        elif roll < 0.85:
            case.leave(at, holder)
        else:
            case.call(at, op="peek", permits=rng.choice([1, 2, amount]))
    return case


def concurrent_and_rate(rng, name) -> Case:
    """ENTER decides all limits, and charges none of them for a live holder."""
    amount = rng.choice([1, 2, 5])
    rules = [
        Rule(Spec("concurrent", Fraction(amount), lease=10 * SECOND, lease_text="10s")),
        Rule(rng.choice([bucket_spec(rng), counted_spec(rng, "window"), counted_spec(rng, "exact")]), name="rate"),
    ]
    rng.shuffle(rules)
    case = Case(name, rng, rules)
    for i in range(rng.randint(5, 15)):
        at = next_instant(case, rng.choice([SECOND, 3 * SECOND]))
        if rng.random() < 0.75:
            case.call(at, op="enter", holder=f"h{rng.choice([i, i, rng.randrange(i + 1)])}")
        else:
            case.leave(at, f"h{rng.randrange(i + 1)}")
    return case


# -- several limits


def any_spec(rng, allow_guava: bool) -> Spec:
    kinds = ["bucket", "bucket", "queue", "window", "first", "sliding", "exact", "day", "nginx"]
    kind = rng.choice(kinds + ["smooth", "warmup"] * allow_guava)
    if kind == "bucket":
        return bucket_spec(rng)
    if kind == "queue":
        return queue_spec(rng)
    if kind == "day":
        return Spec("day", Fraction(rng.choice([3, 20])), rate_text="", zone=rng.choice([None, "Asia/Shanghai"]))
    if kind == "smooth":
        return Spec("smooth", Fraction(10), rate_text="10/s")
    if kind == "warmup":
        return Spec("warmup", Fraction(4), rate_text="4/s", warmup=2 * SECOND)
    if kind == "nginx":
        return Spec("nginx", Fraction(10), MINUTE, rate_text="10/min", queue=rng.choice([0, 3, 8]))
    return counted_spec(rng, kind)


def pick_cost(rng, kind: str) -> int | None:
    if kind == "nginx":
        return 1  # nginx knows only single requests
    return rng.choice([None, 1] if kind in ("smooth", "warmup") else [None, None, 1, 2])


SETTLED = {"bucket", "window", "day", "smooth", "queue"}


def settle_together(case: Case, permits: int, who) -> None:
    """A wrong estimate is corrected in all limits of the decision."""
    rng = case.rng
    if rng.random() < 0.5 and case.last.outcome == "allowed":
        case.settle(case.now, -rng.randint(1, permits), who)
    else:
        case.settle(case.now, rng.randint(1, 3), who)
    case.call(case.now, op="peek", who=who)


def several(rng, name) -> Case:
    guava, parts = rng.random() < 0.2, rng.random() < 0.3
    rules = []
    for i in range(rng.randint(2, 4)):
        spec = any_spec(rng, guava)
        if spec.kind == "day":
            spec = replace(spec, rate_text=f"{spec.amount}/day")
        rules.append(
            Rule(
                spec,
                name=rng.choice([None, f"limit-{i}"]),
                by=rng.choice([(), ("user",), ("sku",), ("user", "sku")]) if parts else (),
                cost=pick_cost(rng, spec.kind),
                shadow=rng.random() < 0.1 and i > 0,
            )
        )
    if rng.random() < 0.5:
        rules = [replace(rule, cost=None if rule.spec.kind != "nginx" else 1) for rule in rules]
    case = Case(name, rng, rules)
    settled = all(rule.spec.kind in SETTLED and rule.cost is None and not rule.shadow for rule in rules)
    for _ in range(rng.randint(4, 14)):
        at = next_instant(case, rng.choice([MS, 100 * MS, SECOND, MINUTE]))
        who = {"user": rng.choice("ab"), "sku": rng.choice("xy")} if parts else rng.choice("kkj")
        op = rng.choice(["take", "take", "take", "peek"])
        n, permits = rng.choice([1, 1, 2, 5]) if op == "take" else 1, rng.choice([1, 1, 1, 2, 5, 40])
        asked = case.call(at, n=n, permits=permits, who=who, op=op)
        if asked and settled and (op, n) == ("take", 1) and rng.random() < 0.3:
            settle_together(case, permits, who)
        if rng.random() < 0.03:
            case.reset(case.now, who)
    return case


def shadow(rng, name) -> Case:
    """A shadow limit alone admits everything and counts only what it would admit itself."""
    spec = any_spec(rng, False)
    while spec.kind in ("queue", "nginx", "day"):
        spec = any_spec(rng, False)
    case = Case(name, rng, [Rule(spec, shadow=True)])
    for _ in range(rng.randint(4, 12)):
        at = next_instant(case, max(1, spec.period // 5))
        case.call(at, n=rng.choice([1, 2, 5]), permits=rng.choice([1, 1, 2, spec.capacity()]))
    return case


KINDS = {
    "bucket": bucket,
    "bucket-waits": bucket_waits,
    "fast-bucket": fast_bucket,
    "queue": queue,
    "nginx": nginx,
    "smooth": smooth,
    "warmup": warmup,
    "window": counted("window"),
    "window-from-first": counted("first"),
    "sliding": counted("sliding"),
    "sliding-exact": counted("exact"),
    "calendar": calendar,
    "concurrent": concurrent,
    "concurrent-and-rate": concurrent_and_rate,
    "settle": settle,
    "edits": edits,
    "several": several,
    "shadow": shadow,
}


def timelines(seed: int, cases: int, kind: str, grain: int = 1) -> list[str]:
    """`cases` timelines of one kind, as texts of one list item each."""
    Case.grain = grain
    out = []
    for i in range(cases):
        name = f"{kind} seed {seed} case {i}"
        case = KINDS[kind](random.Random(name), name)
        if case.steps:
            out.append(case.text())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100, help="of each kind")
    parser.add_argument("--kind", choices=sorted(KINDS), help="only this kind")
    parser.add_argument("--grain", type=int, default=1, help="arrivals in whole multiples of so many ns")
    parser.add_argument("--out", help="file (default: standard output)")
    args = parser.parse_args()
    kinds = [args.kind] if args.kind else list(KINDS)
    text = "".join("".join(timelines(args.seed, args.cases, kind, args.grain)) for kind in kinds)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as out:
            out.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
