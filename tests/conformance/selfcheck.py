"""The models against worked timelines of the systems they restate.

Run alone it prints the differences; run.py runs it first, because a wrong model is worse than none.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil

from models import INFINITE, SECOND, Plan, Rule, Spec

T0 = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
MINUTE = 60 * SECOND


def ns(value) -> int:
    return int(Fraction(str(value)) * SECOND)


def plan(kind, amount, period=SECOND, empty=False, **more) -> Plan:
    spec = Spec(kind, Fraction(amount), period, **more)
    return Plan([Rule(spec)], empty_since=T0 if empty else None)


def sleeper(limiter: Plan):
    """A caller that sleeps as Guava's acquire does: returns (acquire, rest)."""
    clock = [T0]

    def acquire(n=1):
        wait = limiter.take(clock[0], "k", n, INFINITE).wait
        clock[0] += int(wait)
        return round(float(wait) / SECOND, 6)

    def rest(duration):
        clock[0] += ns(duration)

    return acquire, rest


def guava_bursty():
    acquire, rest = sleeper(plan("smooth", 5, empty=True))
    assert [acquire() for _ in range(3)] == [0, 0.2, 0.2]  # G1
    acquire, rest = sleeper(plan("smooth", 5, empty=True))
    first = acquire()
    rest(0.2)
    assert [first, acquire(), acquire()] == [0, 0, 0.2]  # G2
    acquire, rest = sleeper(plan("smooth", 5, empty=True))
    rest(2)
    assert [acquire(n) for n in (1, 1, 3, 1, 1)] == [0, 0, 0, 0, 0.2]  # G4
    acquire, rest = sleeper(plan("smooth", 1, empty=True))
    assert [acquire(n) for n in (1, 1, 2, 4, 8, 1)] == [0, 1, 1, 2, 4, 8]  # G5


def guava_set_rate():
    limiter = plan("smooth", 1, empty=True)
    acquire, _ = sleeper(limiter)
    assert [acquire(), acquire()] == [0, 1]  # G6
    limiter.set_limit(T0 + SECOND, Spec("smooth", Fraction(2)))
    assert [acquire(n) for n in (1, 2, 4, 1)] == [1, 0.5, 1, 2]


def guava_warmup():
    cold = [0, 1.375, 1.125, 0.875, 0.625, 0.5, 0.5, 0.5]
    acquire, rest = sleeper(plan("warmup", 2, warmup=4 * SECOND))
    assert [acquire() for _ in range(8)] == cold  # G7
    rest(4.5)
    assert [acquire() for _ in range(8)] == cold  # G7b
    rest(2.5)
    assert [acquire() for _ in range(8)] == [0] + [0.5] * 7  # G7c


def guava_try():
    limiter = plan("smooth", 5, empty=True)
    takes = [(0, 0), (0, "0.2"), ("0.2", "0.1"), ("0.3", "0.1")]
    got = [limiter.take(T0 + ns(at), "k", 1, ns(m)) for at, m in takes]
    assert [a.outcome == "allowed" for a in got] == [True, True, False, True]  # G11
    assert [a.wait for a in got] == [0, ns("0.2"), 0, ns("0.1")]
    limiter = plan("smooth", 5, empty=True)
    got = [limiter.take(T0 + ns(at), "k", n, 0).outcome for at, n in ((0, 5), ("0.9", 1), (1, 1))]
    assert got == ["allowed", "limited", "allowed"]  # G12
    for empty, passes in ((True, 1), (False, 11)):  # G18, G19
        limiter = plan("smooth", 10, empty=empty)
        assert sum(limiter.take(T0, "k").outcome == "allowed" for _ in range(100)) == passes


def nginx():
    def ten(amount, period, **more):
        limiter = plan("nginx", amount, period, **more)
        got = [limiter.take(T0, "k") for _ in range(10)]
        return [float(a.wait) / SECOND for a in got if a.outcome == "allowed"]

    assert ten(6, MINUTE, queue=0) == [0]  # N1
    assert ten(6, MINUTE, queue=5) == [0, 10, 20, 30, 40, 50]  # N2
    assert ten(10, MINUTE, queue=5) == [0, 6.024, 12.048, 18.072, 24.096, 30.120]  # N3
    assert ten(10, MINUTE, queue=5, nodelay=True) == [0] * 6  # N4
    assert ten(60, MINUTE, queue=5, delay=3) == [0, 0, 0, 0, 1, 2]  # N6
    assert ten(30, MINUTE, queue=2, delay=1) == [0, 0, 2]  # N8
    limiter = plan("nginx", 2, queue=1, nodelay=True)
    times = (0, 0, 0, "0.5")
    assert [limiter.take(T0 + ns(t), "k").outcome for t in times] == ["allowed", "allowed", "limited", "allowed"]  # N9
    for at, outcome in (("62.499", "limited"), ("62.5", "allowed")):
        limiter = plan("nginx", 1, MINUTE, queue=0)
        limiter.take(T0, "k")
        assert limiter.take(T0 + ns(at), "k").outcome == outcome


def gateway_bucket():
    limiter = plan("bucket", 20, burst=30)  # C2
    got = [limiter.take(T0, "k") for _ in range(50)]
    assert [a.remaining for a in got] == list(range(29, -1, -1)) + [0] * 20
    assert [a.outcome for a in got] == ["allowed"] * 30 + ["limited"] * 20
    limiter = plan("bucket", 1, burst=3)  # C3
    got = [limiter.take(T0 + t * SECOND, "k", 3).outcome for t in (0, 0, 3)]
    assert got == ["allowed", "limited", "allowed"]
    limiter = plan("bucket", 1, burst=10)  # C5
    assert [limiter.take(T0 + t * SECOND, "k").remaining for t in (0, 10)] == [9, 9]


def sliding_log():
    limiter = plan("exact", 10)  # D2
    for turn in range(3):
        now = T0 + turn * ns("1.05")
        got = [limiter.take(now, "k").outcome for _ in range(20)]
        assert got == ["allowed"] * 10 + ["limited"] * 10
    limiter = plan("exact", 5)  # D5
    assert [limiter.take(T0, "k").remaining for _ in range(7)] == [4, 3, 2, 1, 0, 0, 0]


def articles():
    arrivals = [T0 + i * 200_000_000 for i in range(20) for _ in (0, 1)]

    def passes(limiter):
        return sum(limiter.take(now, "k").outcome == "allowed" for now in arrivals)

    assert passes(plan("window", 2)) == 8  # a correct counter: two in each second
    assert passes(plan("bucket", 2, burst=2)) == 9  # 2 + 2/s, the last at 3.5 s -> 3.6 s
    rounds = Plan([Rule(Spec("smooth", Fraction(10))), Rule(Spec("first", Fraction(80), 60 * SECOND))])
    got = []
    for turn in range(8):
        now = T0 + turn * 5 * SECOND
        got.append(sum(rounds.take(now, "k").outcome == "allowed" for _ in range(100)))
    assert got == [11] * 7 + [3]


def redis_cell():
    limiter = plan("bucket", 1, burst=5)
    first = limiter.take(T0, "k", 6)
    assert (first.outcome, first.remaining, first.reset_after) == ("impossible", 5, 0)
    got = [limiter.take(T0, "k") for _ in range(6)]
    assert [a.remaining for a in got] == [4, 3, 2, 1, 0, 0]
    assert [a.reset_after // SECOND for a in got] == [1, 2, 3, 4, 5, 5]
    assert got[5].retry_after == SECOND
    later = [limiter.take(T0 + ns(t), "k") for t in ("3", "3.1", "4")]
    assert [a.remaining for a in later] == [2, 1, 1]
    assert [a.reset_after for a in later] == [ns("3"), ns("3.9"), ns("4")]


def policy_words():
    limiter = plan("queue", 1, queue=5)
    got = [limiter.take(T0, "k") for _ in range(10)]
    assert [a.wait // SECOND for a in got if a.outcome == "allowed"] == [0, 1, 2, 3, 4, 5]
    limiter = plan("bucket", 10, MINUTE)
    for _ in range(10):
        limiter.take(T0, "k")
    limiter.set_limit(T0, Spec("bucket", Fraction(20), MINUTE))
    assert limiter.peek(T0, "k").remaining == 10


def words_hold():
    """The closed forms mean what they are named after: at the instant of `retry_after` the same call
    passes and a nanosecond earlier it does not; `remaining` permits can be taken now and one more cannot;
    after `reset_after` the limit is as if never used."""
    rng = random.Random("words")
    kinds = [
        dict(kind="bucket", amount=3),
        dict(kind="bucket", amount=3_000_000, burst=50),
        dict(kind="queue", amount=7, period=MINUTE, queue=6),
        dict(kind="window", amount=9, period=7 * SECOND),
        dict(kind="first", amount=9, period=7 * SECOND),
        dict(kind="sliding", amount=9, period=7 * SECOND),
        dict(kind="exact", amount=9, period=7 * SECOND),
        dict(kind="month", amount=9, zone="Europe/Berlin", anchor=31),
    ]
    for _ in range(400):
        limiter = plan(**rng.choice(kinds))
        spec, now = limiter.rules[0].spec, T0
        for _ in range(12):
            now += rng.randrange(2 * spec.period)
            limiter.take(now, "k", rng.randint(1, 5))
        words_hold_at(limiter, spec, now, rng.randint(1, 3))


def words_hold_at(limiter: Plan, spec: Spec, now: int, permits: int):
    answer = limiter.peek(now, "k", permits)
    if answer.outcome == "limited":
        then = now + ceil(answer.retry_after)
        assert limiter.peek(then, "k", permits).outcome == "allowed", spec
        assert limiter.peek(then - 1, "k", permits).outcome == "limited", spec
    free = limiter.peek(now, "k").remaining
    assert free == 0 or limiter.peek(now, "k", free).outcome == "allowed", spec
    assert limiter.peek(now, "k", free + 1).outcome != "allowed", spec
    rest = now + ceil(answer.reset_after)
    assert limiter.peek(rest, "k").remaining == spec.capacity(), spec
    assert limiter.peek(rest, "k").reset_after == 0, spec
    assert answer.reset_after == 0 or limiter.peek(rest - 1, "k").reset_after > 0, spec


def nginx_words_hold():
    """The instant in nginx's refusal, found by trying every millisecond."""
    rng = random.Random("nginx words")
    for _ in range(20):
        limiter = plan("nginx", rng.choice([7, 10, 100]), MINUTE, queue=rng.randint(0, 3))
        now = T0
        for _ in range(8):
            now += rng.choice([0, rng.randrange(5000)]) * 1_000_000
            limiter.take(now, "k")
        answer = limiter.peek(now, "k")
        if answer.outcome == "limited":
            tries = (now + ms * 1_000_000 for ms in range(60_000))
            first = next(t for t in tries if limiter.peek(t, "k").outcome == "allowed")
            assert first == now + answer.retry_after


def never_more_in_any_window():
    """The exact sliding window, for any arrivals."""
    rng = random.Random("log")
    for _ in range(50):
        limiter = plan("exact", 5, 10 * SECOND)
        admitted, now = [], T0
        for _ in range(60):
            now += rng.choice([0, rng.randrange(4 * SECOND)])
            permits = rng.randint(1, 5)
            if limiter.take(now, "k", permits).outcome == "allowed":
                admitted.append((now, permits))
        for start, _ in admitted:
            inside = sum(p for t, p in admitted if start <= t < start + 10 * SECOND)
            assert inside <= 5


CHECKS = [
    words_hold,
    nginx_words_hold,
    never_more_in_any_window,
    guava_bursty,
    guava_set_rate,
    guava_warmup,
    guava_try,
    nginx,
    gateway_bucket,
    sliding_log,
    articles,
    redis_cell,
    policy_words,
]


def main() -> None:
    for check in CHECKS:
        check()
    print(f"{len(CHECKS)} groups of worked timelines and properties hold for the models")


if __name__ == "__main__":
    main()
