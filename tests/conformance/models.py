"""Slow, obvious reference models of every kind of limit, in exact arithmetic.

They are written from the published rules only (and from the behaviour of Guava, nginx,
Redisson and redis-cell where the rules name those systems), never from weir's source.
Time is a whole number of nanoseconds since the Unix epoch; everything derived from it
is a Fraction, so that nothing in here rounds unless a rule says so.

One object of a Limit subclass is the state of one limit for one key:

    look(now)               -> (remaining, reset_after)          nothing changes
    ask(now, cost, patience)-> Verdict                           nothing changes
    charge(now, cost)       -> receipt                           the call passed
    debit(now, amount) / refund(now, amount, receipt)            settle
    change(now, spec)                                            set_limit

Durations are nanoseconds. INFINITE is a patience ("max_wait: inf") or a retry that
never comes (impossible).
"""

from __future__ import annotations

import calendar as months
import copy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil, floor, inf
from typing import Any
from zoneinfo import ZoneInfo

SECOND = 1_000_000_000
INFINITE = inf


def ceil_div(a: int, b: int) -> int:
    return -((-a) // b)


# --------------------------------------------------------------------------- specs


@dataclass(frozen=True)
class Spec:
    """A parsed limit. `period` is in nanoseconds, `amount` may be a fraction."""

    kind: str
    amount: Fraction = Fraction(1)
    period: int = SECOND
    rate_text: str = ""  # "20/s", "7/min", "10MB/s"
    burst: int | None = None
    queue: int | None = None
    delay: int | None = None  # None: every early call waits
    nodelay: bool = False
    nginx: bool = False
    warmup: int = 0
    zone: str | None = None
    anchor: int | None = None
    lease: int = 60 * SECOND
    lease_text: str = ""

    def text(self) -> str:
        words = [self.rate_text]
        if self.kind == "bucket" and self.burst is not None:
            words.append(f"burst {self.burst}")
        elif self.kind in ("queue", "nginx"):
            words.append(f"queue {self.queue}")
            if self.nodelay:
                words.append("nodelay")
            elif self.delay is not None:
                words.append(f"delay {self.delay}")
        elif self.kind == "smooth":
            words.append("smooth")
        elif self.kind == "warmup":
            words.append(f"warmup {seconds(self.warmup)}s")
        elif self.kind == "window":
            words.append("window")
        elif self.kind == "first":
            words.append("window from first")
        elif self.kind == "sliding":
            words.append("sliding")
        elif self.kind == "exact":
            words.append("sliding exact")
        elif self.kind in ("day", "week", "month", "year"):
            if self.zone is not None:
                words.append(f"in {self.zone}")
            if self.anchor is not None:
                words.append(f"from day {self.anchor}")
        elif self.kind == "concurrent":
            words = [f"{self.amount} concurrent"]
            if self.lease_text:
                words.append(f"lease {self.lease_text}")
        return " ".join(words)

    def capacity(self) -> int:
        """The number admitted at one instant from rest; a larger cost is impossible."""
        if self.kind == "bucket":
            return self.burst if self.burst is not None else max(1, floor(self.amount))
        if self.kind in ("queue", "nginx"):
            return self.queue + 1
        return floor(self.amount)

    def interval(self) -> Fraction:
        """Nanoseconds per permit, as written."""
        return Fraction(self.period) / self.amount


def seconds(ns: int | Fraction) -> str:
    """Nanoseconds as a plain decimal of seconds, rounded up to a whole nanosecond."""
    whole = ceil(ns)
    sign = "-" if whole < 0 else ""
    whole = abs(whole)
    text = f"{whole // SECOND}.{whole % SECOND:09d}".rstrip("0").rstrip(".")
    return sign + (text or "0")


def make(spec: Spec, *, empty_since: int | None = None) -> "Limit":
    if spec.kind in ("bucket", "queue"):
        return Bucket(spec)
    if spec.kind == "smooth":
        return Smooth(spec, empty_since)
    return {
        "nginx": Nginx,
        "warmup": Warmup,
        "window": Window,
        "first": FirstWindow,
        "sliding": Sliding,
        "exact": SlidingLog,
        "day": Calendar,
        "week": Calendar,
        "month": Calendar,
        "year": Calendar,
        "concurrent": Concurrent,
    }[spec.kind](spec)


# ------------------------------------------------------------------------- verdicts


@dataclass
class Verdict:
    """The answer of one limit to one call."""

    passed: bool
    impossible: bool = False
    retry: Any = 0  # nanoseconds; INFINITE when impossible
    wait: Any = 0


PASS = Verdict(True)
NEVER = Verdict(False, impossible=True, retry=INFINITE)


class Limit:
    """Common base of all models."""

    def __init__(self, spec: Spec):
        self.spec = spec

    def doubt(self) -> tuple[int, int]:
        """How many nanoseconds (late, early) a limiter may be because of roundings that the rules do not
        fix. Fields that depend on them may not be checked."""
        return 0, 0

    def change(self, now: int, spec: Spec) -> None:
        self.spec = spec


# -------------------------------------------------------- bucket, meter, queue: GCRA


class Bucket(Limit):
    """Token bucket, leaky-bucket meter and queue: all are GCRA.

    `tat` is the theoretical arrival time, with the interval as written: the ideal that
    nothing may exceed. A real limiter keeps whole nanoseconds and rounds up, so it may
    be late by a nanosecond for each charge (`doubt`), never early.
    """

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.tat = Fraction(0)
        self.late = 0  # ns by which whole-nanosecond arithmetic may lag behind
        self.early = 0  # ns by which a change of the emission interval may round the debt down

    @property
    def interval(self) -> Fraction:
        return self.spec.interval()

    @property
    def tolerance(self) -> Fraction:
        return self.spec.capacity() * self.interval

    def doubt(self) -> tuple[int, int]:
        whole = self.interval.denominator == 1 and self.tat.denominator == 1 and not self.early
        return (0, 0) if whole else (self.late, self.early)

    def debt(self, now: int) -> Fraction:
        return max(self.tat, Fraction(now)) - now

    def look(self, now: int):
        free = floor((self.tolerance - self.debt(now)) / self.interval)
        return max(0, free), self.debt(now)

    def wait(self, now: int):
        """A queue serves a call when everything before it has flowed out; the first `delay` early ones
        need not wait (nginx: excess - delay)."""
        if self.spec.kind != "queue" or self.spec.nodelay:
            return 0
        return max(0, self.debt(now) - (self.spec.delay or 0) * self.interval)

    def ask(self, now: int, cost: int, patience) -> Verdict:
        if cost > self.spec.capacity():
            return NEVER
        over = self.debt(now) + cost * self.interval - self.tolerance
        if self.spec.kind == "bucket":  # a patient caller waits for the missing permits
            wait, over = max(0, over), 0
        else:
            wait = self.wait(now)
        late = wait - patience if patience != INFINITE else 0
        if over > 0 or late > 0:
            return Verdict(False, retry=max(over, late))
        return Verdict(True, wait=wait)

    def charge(self, now: int, cost: int):
        self.debit(now, cost)
        return self.tat, cost

    def debit(self, now: int, amount: int) -> None:
        if amount > 0:  # a call of zero permits only reads
            self.tat = max(self.tat, Fraction(now)) + amount * self.interval
            self.late += 1 + amount // 2**20

    def refund(self, now: int, amount: int, receipt) -> None:
        """The take lies on the time line just before the tat it left behind; the part after now has not
        drained and can be refunded."""
        after, taken = receipt
        undrained = max(0, min(taken * self.interval, after - now))
        self.tat -= min(amount * self.interval, undrained)
        self.late += 1

    def change(self, now: int, spec: Spec) -> None:
        """The debt is kept in permits and converted to the new emission interval."""
        permits = self.debt(now) / self.interval
        ratio = spec.interval() / self.interval
        self.spec = spec
        self.tat = now + permits * self.interval
        # a nanosecond of the old debt is this many of the new one
        self.early = ceil((self.early + 2) * max(1, ratio))
        self.late = ceil((self.late + 2) * max(1, ratio))


# -------------------------------------------------------------------- like: nginx


class Nginx(Limit):
    """nginx limit_req: whole milli-requests and whole milliseconds."""

    MS = 1_000_000

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.excess: int | None = None  # None: a key never used
        self.last = 0
        per_second = spec.period == SECOND
        self.rate = int(spec.amount) * 1000 if per_second else int(spec.amount) * 1000 // 60

    def elapsed(self, now: int) -> int:
        ms = now // self.MS - self.last
        if ms < -60_000:
            return 1
        return max(0, ms)

    def after_one(self, now: int) -> int:
        if self.excess is None:
            return 0
        return max(0, self.excess - self.rate * self.elapsed(now) // 1000 + 1000)

    def look(self, now: int):
        free = (self.spec.queue * 1000 - self.after_one(now)) // 1000 + 1
        return max(0, free), self.until(now, 0)

    def until(self, now: int, target: int) -> int:
        """Time until one more call would leave at most `target` milli-requests owed."""
        if self.excess is None:
            return 0
        surplus = self.excess + 1000 - target
        ms = ceil_div(surplus * 1000, self.rate) if surplus > 0 else 0
        return max(0, (self.last + ms) * self.MS - now)

    def wait(self, excess: int) -> int:
        if self.spec.nodelay:
            return 0
        early = excess - (self.spec.delay or 0) * 1000
        return max(0, early * 1000 // self.rate) * self.MS

    def ask(self, now: int, cost: int, patience) -> Verdict:
        assert cost == 1, "nginx knows only single requests"
        excess = self.after_one(now)
        if excess > self.spec.queue * 1000:
            return Verdict(False, retry=self.until(now, self.spec.queue * 1000))
        wait = self.wait(excess)
        if wait > patience:
            return Verdict(False, retry=wait - patience)
        return Verdict(True, wait=wait)

    def charge(self, now: int, cost: int):
        if self.excess is None:
            self.excess, self.last = 0, now // self.MS
            return None
        excess, ms = self.after_one(now), self.elapsed(now)
        self.excess = excess
        if ms != 0:
            self.last = now // self.MS
        return None


# ---------------------------------------------------------------- Guava's limiters


class Smooth(Limit):
    """Guava SmoothBursty: a second of permits is stored, and the next caller pays.

    `free` is the next free ticket. A new key is at rest, that is full; one made with `start: empty` is as
    Guava's constructor leaves it.
    """

    def doubt(self) -> tuple[int, int]:
        """The rules do not fix how `stored` is represented, but any representation holds whole nanoseconds
        and sixty-fourths of a permit. Once rounded, always in doubt."""
        return (1000, 1000) if self.rounded else (0, 0)

    def note_rounding(self) -> None:
        whole = Fraction(self.interval).denominator == 1 and Fraction(self.free).denominator == 1
        self.rounded = self.rounded or not whole or (self.stored * 64).denominator != 1

    def __init__(self, spec: Spec, empty_since: int | None = None):
        super().__init__(spec)
        self.setup(spec)
        self.stored = self.max
        self.free: Fraction | int = 0
        self.rounded = False
        if empty_since is not None:
            self.stored, self.free = Fraction(0), empty_since

    def setup(self, spec: Spec) -> None:
        self.interval = spec.interval()
        self.max = SECOND / self.interval
        self.cooldown = self.interval

    def resync(self, now: int) -> None:
        if now > self.free:
            self.stored = min(self.max, self.stored + (now - self.free) / self.cooldown)
            self.free = now

    def look(self, now: int):
        then = copy.copy(self)
        then.resync(now)
        return then.single_calls(now), then.free - now + (then.max - then.stored) * then.cooldown

    def single_calls(self, now: int) -> int:
        """The number of single-permit calls that pass at this instant without waiting."""
        return 0 if self.free > now else floor(self.stored) + 1

    def ask(self, now: int, cost: int, patience) -> Verdict:
        """Guava checks the next free ticket only, never the size of the call."""
        wait = max(0, self.free - now)
        if wait > patience:
            return Verdict(False, retry=wait - patience)
        return Verdict(True, wait=wait)

    def charge(self, now: int, cost: int):
        self.resync(now)
        spend = min(Fraction(cost), self.stored)
        price = self.stored_price(spend) + (cost - spend) * self.interval
        before = self.free, self.stored
        self.free += price
        self.stored -= spend
        self.note_rounding()
        return before, (self.free, self.stored), cost

    def debit(self, now: int, amount: int) -> None:
        self.charge(now, amount)

    def refund(self, now: int, amount: int, receipt) -> None:
        """As if only the rest had been taken then; nothing if used since."""
        before, after, taken = receipt
        if (self.free, self.stored) == after:
            self.free, self.stored = before
            self.charge(before[0], max(0, taken - amount))

    def stored_price(self, spend: Fraction) -> Fraction:
        return Fraction(0)

    def change(self, now: int, spec: Spec) -> None:
        """Guava's setRate: the stored permits are scaled, the next ticket is unchanged."""
        self.resync(now)
        before = self.max
        self.spec = spec
        self.setup(spec)
        self.stored = self.stored * self.max / before
        self.note_rounding()


class Warmup(Smooth):
    """Guava SmoothWarmingUp with cold factor 3."""

    COLD = 3

    def setup(self, spec: Spec) -> None:
        self.interval = spec.interval()
        cold = self.COLD * self.interval
        self.threshold = Fraction(spec.warmup) / self.interval / 2
        self.max = self.threshold + 2 * spec.warmup / (self.interval + cold)
        self.slope = (cold - self.interval) / (self.max - self.threshold)
        self.cooldown = spec.warmup / self.max

    def single_calls(self, now: int) -> int:
        """A stored permit takes time too, so a second call at one instant waits."""
        return 0 if self.free > now else 1

    def stored_price(self, spend: Fraction) -> Fraction:
        above = max(Fraction(0), self.stored - self.threshold)
        cold = min(above, spend)
        first = self.interval + above * self.slope
        last = self.interval + (above - cold) * self.slope
        return cold * (first + last) / 2 + (spend - cold) * self.interval


# ------------------------------------------------------------------ fixed windows


class Counter(Limit):
    """A count in a window [start, end). Subclasses give the window of an instant.

    A clock that steps back before the window leaves it in force: negative elapsed time counts as zero.
    """

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.start: int | None = None
        self.end = 0
        self.count = 0

    def bounds(self, now: int) -> tuple[int, int]:
        raise NotImplementedError

    def used(self, now: int) -> int:
        return self.count if self.start is not None and now < self.end else 0

    def roll(self, now: int) -> None:
        if self.start is None or now >= self.end:
            self.start, self.end = self.bounds(now)
            self.count = 0

    def look(self, now: int):
        used = self.used(now)
        return max(0, self.spec.capacity() - used), (self.end - now if used else 0)

    def ask(self, now: int, cost: int, patience) -> Verdict:
        if cost > self.spec.capacity():
            return NEVER
        if self.used(now) + cost > self.spec.capacity():
            return Verdict(False, retry=self.end - now)
        return PASS

    def charge(self, now: int, cost: int):
        self.debit(now, cost)
        return self.start, cost

    def debit(self, now: int, amount: int) -> None:
        if amount > 0:
            self.roll(now)
            self.count += amount

    def refund(self, now: int, amount: int, receipt) -> None:
        start, taken = receipt
        if self.start == start and now < self.end:
            self.count -= min(amount, taken)


class Window(Counter):
    def bounds(self, now: int) -> tuple[int, int]:
        start = now - now % self.spec.period
        return start, start + self.spec.period


class FirstWindow(Counter):
    def bounds(self, now: int) -> tuple[int, int]:
        return now, now + self.spec.period


class Calendar(Counter):
    """Day, week (from Monday), month or year in a time zone, as absolute instants."""

    def bounds(self, now: int) -> tuple[int, int]:
        zone = ZoneInfo(self.spec.zone or "UTC")
        today = local_date(now, zone)
        edges = sorted({first_instant(day, zone) for day in self.starts(today)})
        start = max(edge for edge in edges if edge <= now)
        end = min(edge for edge in edges if edge > now)
        return start, end

    def starts(self, today: date) -> list[date]:
        """First days of enough windows on both sides of today."""
        if self.spec.kind == "day":
            return [today + timedelta(days=i) for i in range(-3, 4)]
        if self.spec.kind == "week":
            monday = today - timedelta(days=today.weekday())
            return [monday + timedelta(weeks=i) for i in range(-2, 3)]
        if self.spec.kind == "year":
            return [date(today.year + i, 1, 1) for i in range(-1, 3)]
        out = []
        for i in range(-2, 4):
            year, month = divmod(today.year * 12 + today.month - 1 + i, 12)
            last = months.monthrange(year, month + 1)[1]
            out.append(date(year, month + 1, min(self.spec.anchor or 1, last)))
        return out


def local_date(now: int, zone: ZoneInfo) -> date:
    whole = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=now // SECOND)
    return whole.astimezone(zone).date()


def first_instant(day: date, zone: ZoneInfo) -> int:
    """The instant at which a local date begins. Where the clock jumps over midnight, that is the jump
    (fold=0 reads the missing time with the offset before it); where midnight comes twice, the first one."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone, fold=0)
    return int(midnight.timestamp()) * SECOND


# ---------------------------------------------------------------- sliding windows


class Sliding(Limit):
    """Two counters of aligned windows:
    previous x (share of the window still to run) + current + cost <= N."""

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.start = 0
        self.previous = 0
        self.current = 0

    def view(self, now: int) -> tuple[int, int, int, int]:
        """(instant, start of the window, previous, current); an instant before the
        stored window counts as its beginning."""
        period = self.spec.period
        now = max(now, self.start)
        start = now - now % period
        if start == self.start:
            return now, start, self.previous, self.current
        if start == self.start + period:
            return now, start, self.current, 0
        return now, start, 0, 0

    def weight(self, now: int) -> Fraction:
        at, start, previous, current = self.view(now)
        return Fraction(previous * (start + self.spec.period - at), self.spec.period) + current

    def look(self, now: int):
        _, start, previous, current = self.view(now)
        end = start + self.spec.period
        rest = end + self.spec.period if current else end if previous else now
        return max(0, floor(self.spec.capacity() - self.weight(now))), rest - now

    def ask(self, now: int, cost: int, patience) -> Verdict:
        capacity = self.spec.capacity()
        if cost > capacity:
            return NEVER
        if self.weight(now) + cost <= capacity:
            return PASS
        _, start, previous, current = self.view(now)
        period = self.spec.period
        end = start + period
        if current + cost <= capacity:  # the previous window fades enough in this one
            return Verdict(False, retry=end - Fraction(period * (capacity - current - cost), previous) - now)
        faded = end + period - Fraction(period * (capacity - cost), current)
        return Verdict(False, retry=max(end, faded) - now)

    def charge(self, now: int, cost: int):
        self.debit(now, cost)
        return self.start, cost

    def debit(self, now: int, amount: int) -> None:
        if amount > 0:
            _, self.start, self.previous, self.current = self.view(now)
            self.current += amount

    def refund(self, now: int, amount: int, receipt) -> None:
        start, taken = receipt
        if self.view(now)[1] == start:
            self.current -= min(amount, taken)


class SlidingLog(Limit):
    """A log of admissions; one at t counts until just before t + period."""

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.log: list[list[int]] = []  # [instant, permits], oldest first

    def live(self, now: int) -> list[list[int]]:
        return [entry for entry in self.log if entry[0] + self.spec.period > now]

    def used(self, now: int) -> int:
        return sum(permits for _, permits in self.live(now))

    def look(self, now: int):
        live = [t for t, permits in self.live(now) if permits]
        rest = max(live) + self.spec.period - now if live else 0
        return max(0, self.spec.capacity() - self.used(now)), rest

    def ask(self, now: int, cost: int, patience) -> Verdict:
        capacity = self.spec.capacity()
        if cost > capacity:
            return NEVER
        used = self.used(now)
        if used + cost <= capacity:
            return PASS
        for t, permits in sorted(self.live(now)):
            used -= permits
            if used + cost <= capacity:
                return Verdict(False, retry=t + self.spec.period - now)
        raise AssertionError("an empty log admits everything that is possible")

    def charge(self, now: int, cost: int):
        self.debit(now, cost)
        return self.log[-1] if cost > 0 else None

    def debit(self, now: int, amount: int) -> None:
        if amount > 0:
            self.log.append([now, amount])

    def refund(self, now: int, amount: int, receipt) -> None:
        for entry in self.live(now):
            if entry is receipt:
                entry[1] -= min(amount, entry[1])


# ------------------------------------------------------------------- concurrency


class Concurrent(Limit):
    """At most N at a time; a lease covers [t, t + lease)."""

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.holders: dict[str, tuple[int, int]] = {}  # id -> (end of lease, permits)

    def live(self, now: int) -> dict[str, tuple[int, int]]:
        return {who: held for who, held in self.holders.items() if held[0] > now}

    def used(self, now: int) -> int:
        return sum(permits for _, permits in self.live(now).values())

    def look(self, now: int):
        live = self.live(now).values()
        return max(0, self.spec.capacity() - self.used(now)), max((end for end, _ in live), default=now) - now

    def ask(self, now: int, cost: int, patience) -> Verdict:
        if cost > self.spec.capacity():
            return NEVER
        used = self.used(now)
        if used + cost <= self.spec.capacity():
            return PASS
        for end, permits in sorted(self.live(now).values()):
            used -= permits
            if used + cost <= self.spec.capacity():
                return Verdict(False, retry=end - now)
        raise AssertionError("no holder left, yet no room")

    def enter(self, now: int, holder: str, permits: int) -> None:
        self.holders = self.live(now)
        self.holders[holder] = (now + self.spec.lease, permits)

    def leave(self, now: int, holder: str) -> bool:
        self.holders = self.live(now)
        return self.holders.pop(holder, None) is not None


# --------------------------------------------------------------- several at once


@dataclass(frozen=True)
class Rule:
    """One limit of a policy: its limit, the parts it counts by, the cost of a call."""

    spec: Spec
    name: str | None = None
    by: tuple[str, ...] = ()
    cost: int | None = None  # None: the requested permits
    shadow: bool = False

    def price(self, permits: int) -> int:
        return permits if self.cost is None else self.cost


@dataclass
class Answer:
    outcome: str  # allowed | limited | impossible
    remaining: int
    retry_after: Any  # nanoseconds, INFINITE when impossible
    reset_after: Any  # of the tightest limit
    wait: Any
    limited_by: int  # position of the tightest limit


@dataclass
class Plan:
    """Limits that are decided together, all or nothing, for any number of keys."""

    rules: list[Rule]
    empty_since: int | None = None
    states: dict = field(default_factory=dict)
    receipts: dict = field(default_factory=dict)

    def clone(self) -> "Plan":
        return copy.deepcopy(self)

    # -- keys

    def limit(self, index: int, who) -> Limit:
        rule = self.rules[index]
        if isinstance(who, str):
            key = who
        else:
            names = rule.by or tuple(sorted(who))
            key = tuple((name, who[name]) for name in sorted(names))
        slot = (index, key)
        if slot not in self.states:
            self.states[slot] = make(rule.spec, empty_since=self.empty_since)
        return self.states[slot]

    def all_for(self, who) -> list[Limit]:
        return [self.limit(i, who) for i in range(len(self.rules))]

    @staticmethod
    def who_id(who) -> Any:
        return who if isinstance(who, str) else tuple(sorted(who.items()))

    # -- decisions

    def verdicts(self, now, who, permits, patience) -> list[Verdict]:
        out = []
        for rule, limit in zip(self.rules, self.all_for(who)):
            own = patience
            if own is None:  # a queue's caller waits as long as it takes, others do not
                own = INFINITE if rule.spec.kind in ("queue", "nginx") else 0
            out.append(limit.ask(now, rule.price(permits), own))
        return out

    def take(self, now, who, permits=1, patience=None, holder=None) -> Answer:
        limits = self.all_for(who)
        if holder is not None and self.renew(now, limits, holder):
            return self.passed(now, limits, 0)
        verdicts = self.verdicts(now, who, permits, patience)
        refused = self.refusal(now, limits, verdicts)
        if refused:
            return refused
        receipt = []
        for rule, limit, verdict in zip(self.rules, limits, verdicts):
            charged = verdict.passed  # only a shadow limit can be False here
            price = rule.price(permits)
            if isinstance(limit, Concurrent):
                limit.enter(now, holder, price)
                receipt.append(None)
            else:
                receipt.append(limit.charge(now, price) if charged else None)
        self.receipts[self.who_id(who)] = receipt
        waits = [v.wait for rule, v in zip(self.rules, verdicts) if not rule.shadow]
        return self.passed(now, limits, max(waits, default=0))

    def peek(self, now, who, permits=1, patience=None) -> Answer:
        limits = self.all_for(who)
        verdicts = self.verdicts(now, who, permits, patience)
        return self.refusal(now, limits, verdicts) or self.passed(now, limits, 0)

    def renew(self, now, limits, holder) -> bool:
        """ENTER by a live holder renews the lease and charges nothing."""
        renewed = False
        for limit in limits:
            if isinstance(limit, Concurrent) and holder in limit.live(now):
                limit.enter(now, holder, limit.live(now)[holder][1])
                renewed = True
        return renewed

    def refusal(self, now, limits, verdicts) -> Answer | None:
        refusing = [i for i, v in enumerate(verdicts) if not v.passed and not self.rules[i].shadow]
        if not refusing:
            return None
        tightest = max(refusing, key=lambda i: (verdicts[i].retry, -i))
        remaining, reset = limits[tightest].look(now)
        outcome = "impossible" if verdicts[tightest].impossible else "limited"
        return Answer(outcome, remaining, verdicts[tightest].retry, reset, 0, tightest)

    def passed(self, now, limits, wait) -> Answer:
        real = [i for i in range(len(limits)) if not self.rules[i].shadow] or list(range(len(limits)))
        tightest = min(real, key=lambda i: (limits[i].look(now)[0], i))
        remaining, reset = limits[tightest].look(now)
        return Answer("allowed", remaining, 0, reset, wait, tightest)

    # -- the other verbs

    def settle(self, now, who, delta: int) -> Answer:
        limits = self.all_for(who)
        receipt = self.receipts.get(self.who_id(who))
        for i, limit in enumerate(limits):
            if delta > 0:
                limit.debit(now, delta)
            elif receipt is not None and receipt[i] is not None:
                limit.refund(now, -delta, receipt[i])
        return self.passed(now, limits, 0)

    def reset(self, who) -> None:
        for i in range(len(self.rules)):
            key = self.limit(i, who)
            self.states = {slot: state for slot, state in self.states.items() if state is not key}
        self.receipts.pop(self.who_id(who), None)

    def leave(self, now, who, holder) -> bool:
        return any([lim.leave(now, holder) for lim in self.all_for(who) if isinstance(lim, Concurrent)])

    def set_limit(self, now, spec: Spec) -> None:
        """Takes effect at this instant, for every key."""
        assert len(self.rules) == 1
        self.rules = [replace(self.rules[0], spec=spec)]
        for limit in self.states.values():
            limit.change(now, spec)
