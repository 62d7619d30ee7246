#!/usr/bin/env python3
"""Shows the permits that a fleet admits while its Redis fails: fault_matrix.py WEIR [--only FAULT,…] [--write
PAGE].

For each fault, three daemons share a Redis, and callers take more than the limits hold from all of them:
before the fault, during it, and afterwards until nothing is left. All cells of a fault (the scopes, under
each on_store_failure) are policies of the same daemons, so that the fault meets all of them at the same
moment. The admitted permits are compared with the promise in docs/faults.md.

--write replaces the tables of that page. The exit status is 1 if a cell exceeds its promise.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import platform
import re
import subprocess
import sys
import threading
import time

from daemon import Daemon, Resp, RespError, eventually
from fault_proxy import FaultProxy, ProxyLoop
from redis_cluster import RedisCluster, slot_of
from redis_sentinels import RedisSentinels
from redis_server import RedisServer

NODES = 3
STORE_TIMEOUT = "200ms"

# Divisible by the number of nodes: all nodes have the same share.
WINDOW = 600  # capacity of the 24h windows: nothing is refilled during a test
RATE, BURST = 60, 60
REFUNDS_WINDOW = 300
TAKEN_FOR_GOOD, RECEIPTS, RECEIPT_PERMITS = 30, 20, 2  # by each node before the fault

BATCH, PAUSE = 4, 0.04  # calls that a caller sends together, and seconds between batches
LASTS = 3.5  # seconds of a fault; a node is dropped by the others after 2
LEASE_TERM = 2.5  # seconds after which no node holds an earlier lease
REFUSALS_IN_A_ROW = 50  # refusals after which a limit counts as used up

SCOPES = ("fleet", "leased", "split")
MODES = ("closed", "local", "open")


# ---- Cells

@dataclasses.dataclass(frozen=True)
class Cell:
    """One column of the table: a policy from which callers take more than its limit."""

    scope: str
    column: str  # a mode, or an action under closed: refill, refunds

    @property
    def policy(self):
        return f"{self.scope}-{self.column}"

    @property
    def mode(self):
        return self.column if self.column in MODES else "closed"

    @property
    def capacity(self):
        return {"refill": BURST, "refunds": REFUNDS_WINDOW}.get(self.column, WINDOW)

    @property
    def limit(self):
        if self.column == "refill":
            return f"{RATE}/s burst {BURST}"
        return f"{self.capacity} per 24h window from first"

    def yaml(self):
        return (f"  {self.policy}: {{ limits: [ {{ limit: {self.limit}, scope: {self.scope} }} ], "
                f"on_store_failure: {self.mode} }}")


COLUMNS = (*MODES, "refill", "refunds")
CELLS = [Cell(scope, column) for scope in SCOPES for column in COLUMNS]
POLICIES = "policies:\n" + "\n".join(cell.yaml() for cell in CELLS)


# ---- Callers

class Caller(threading.Thread):
    """Takes under one policy of one daemon until told to stop, and counts the answers."""

    def __init__(self, cell, node, daemon, key):
        super().__init__()
        self.cell = cell
        self.node = node
        self.daemon_ = daemon
        self.key = key
        self.over = threading.Event()
        self.fault_began = threading.Event()
        self.fault_ended = threading.Event()
        self.failure = None
        self.calls = self.degraded = 0
        self.counted = 0  # permits admitted by Redis, or by the node as a member of the fleet
        self.alone = 0  # permits admitted by the node without the store
        self.reopened = 0  # of these: admitted after a refusal for lack of the store
        self.errors = []
        self.longest = 0.0
        self.admitted = []  # when each was requested and answered
        self.refusals_in_a_row = self.undegraded_in_a_row = 0
        self.refused_degraded_at = None  # since when it refuses for lack of the store

    def run(self):
        self.resp = self.daemon_.resp()
        try:
            self.ask()
        except Exception as error:  # noqa: BLE001
            self.failure = error
        finally:
            self.resp.close()

    def ask(self):
        self.take_on()

    def take_on(self):
        while not self.over.is_set():
            self.call_all([["WEIR.TAKE", self.cell.policy, self.key]] * BATCH)
            self.over.wait(PAUSE)

    def call_all(self, commands):
        """The answers. Calls sent together are answered in this order."""
        sent = time.monotonic()
        self.resp.socket.sendall(b"".join(self.resp.encode(*command) for command in commands))
        answers = []
        for command in commands:
            answers.append(self.resp.read())
            self.note(command, answers[-1], sent)
        return answers

    def note(self, command, answer, sent):
        now = time.monotonic()
        self.calls += 1
        self.longest = max(self.longest, now - sent)
        if isinstance(answer, RespError):
            self.errors.append(str(answer))
            return
        degraded = bool(answer[7])
        self.degraded += degraded
        self.undegraded_in_a_row = 0 if degraded else self.undegraded_in_a_row + 1
        if command[0] == "WEIR.TAKE":
            permits = command[3] if len(command) > 3 else 1
            self.note_take(bool(answer[0]) * permits, degraded, (sent, now))

    def note_take(self, permits, degraded, span):
        self.admitted += [span] * permits
        if degraded:
            self.alone += permits
            # (Calls sent together may be decided in any order.)
            if self.refused_degraded_at is not None and span[0] > self.refused_degraded_at:
                self.reopened += permits
        else:
            self.counted += permits
        if not degraded:
            self.refused_degraded_at = None
        elif not permits and self.refused_degraded_at is None:
            self.refused_degraded_at = span[1]
        self.refusals_in_a_row = 0 if permits or degraded else self.refusals_in_a_row + 1

    def is_warm(self):
        """True if enough was taken for a fault to matter."""
        return self.counted + self.alone >= self.cell.capacity / NODES / 3

    def is_done(self):
        """True if the answer came from the store, and nothing is left."""
        if self.cell.column == "refill":
            return self.undegraded_in_a_row >= REFUSALS_IN_A_ROW
        return self.refusals_in_a_row >= REFUSALS_IN_A_ROW


class RefundingCaller(Caller):
    """Takes with receipts before the fault, refunds all of that during it, repeats each refund whose answer
    is degraded, and then takes what is left.

    No call of scope fleet takes during the fault: a charge without an answer would hide a repeated refund. In
    the other scopes nodes decide in memory, and continue.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.receipts = []
        self.given_back = 0  # permits, each counted once, however often the refund was repeated
        self.has_taken = False

    def ask(self):
        self.take_before()
        self.has_taken = True
        self.fault_began.wait()
        self.give_back_all()
        while self.cell.scope != "fleet" and not self.fault_ended.is_set():
            self.take_with_receipt()
            self.give_back_all()
        self.take_on()

    def take_before(self):
        for _ in range(TAKEN_FOR_GOOD):
            self.call_all([["WEIR.TAKE", self.cell.policy, self.key]])
        for _ in range(RECEIPTS):
            self.take_with_receipt()

    def take_with_receipt(self):
        answer, = self.call_all(
            [["WEIR.TAKE", self.cell.policy, self.key, RECEIPT_PERMITS, "RECEIPT"]])
        # (Permits admitted by the node without the store cannot be refunded by the store.)
        if not isinstance(answer, RespError) and answer[0] and not answer[7]:
            self.receipts.append(answer[8])
        else:
            self.over.wait(PAUSE)

    def give_back_all(self):
        while self.receipts:
            self.give_back(self.receipts.pop(0))

    def give_back(self, receipt):
        self.given_back += RECEIPT_PERMITS
        command = ["WEIR.SETTLE", self.cell.policy, self.key, -RECEIPT_PERMITS, "RECEIPT", receipt]
        while not self.over.is_set():
            answer, = self.call_all([command])
            self.over.wait(PAUSE)
            if isinstance(answer, RespError) or not answer[7]:
                return

    def is_warm(self):
        return self.has_taken


# ---- Faults

class Fault:
    """One row of the table."""

    title = ""
    what = ""
    loses_data = False
    is_mistake = False

    def start(self, stack):
        """Starts a Redis, and returns its address for each node."""
        raise NotImplementedError

    def begin(self):
        raise NotImplementedError

    def wait(self):
        time.sleep(LASTS)

    def end(self):
        pass

    def key(self, _policy):
        """A key that is affected by the fault."""
        return "k"


class OneServer(Fault):
    """A redis-server behind one proxy for each node."""

    arguments = ()

    def start(self, stack):
        self.redis = stack.enter_context(RedisServer(*self.arguments))
        loop = stack.enter_context(ProxyLoop())
        self.proxies = [FaultProxy(loop, self.redis.port) for _ in range(NODES)]
        return [proxy.url for proxy in self.proxies]


class Killed(OneServer):
    def begin(self):
        self.redis.end()

    def end(self):
        self.redis.start()


class KilledWithData(Killed):
    title = "killed, restarted with its data"
    what = "SIGKILL; an append-only file has all writes"
    # Redis writes to the file before it answers. Data in the kernel survives SIGKILL.
    arguments = ("--appendonly", "yes", "--appendfsync", "no")


class KilledWithoutData(Killed):
    title = "killed, restarted empty"
    what = "SIGKILL; nothing is persisted"
    loses_data = True


class Hung(OneServer):
    title = "hangs, then continues"
    what = "SIGSTOP, SIGCONT; calls that timed out are executed late"

    def begin(self):
        self.redis.freeze()

    def end(self):
        self.redis.thaw()


class Proxied(OneServer):
    fault = ""

    def affected(self):
        return self.proxies

    def begin(self):
        for proxy in self.affected():
            proxy.set_fault(self.fault)

    def end(self):
        for proxy in self.affected():
            proxy.set_fault(None)


class Late(Proxied):
    title = "answers too late"
    what = "every answer takes 500 ms, and store_timeout is 200 ms"
    fault = "late"


class CutBefore(Proxied):
    title = "connection cut, call lost"
    what = "every second script call ends the connection before Redis gets it"
    fault = "cut_before"


class CutAfter(Proxied):
    title = "connection cut, answer lost"
    what = "every second script call ends the connection after Redis has executed it"
    fault = "cut_after"


class Partition(Proxied):
    title = "one node is cut off"
    what = "the packets of one of the three nodes are held back; the others are not affected"
    fault = "hold"

    def affected(self):
        return self.proxies[:1]


class FlushAll(OneServer):
    title = "FLUSHALL"
    what = "all keys are deleted; the server goes on"
    loses_data = True

    def begin(self):
        self.redis.ask("FLUSHALL")


class ScriptFlush(OneServer):
    title = "SCRIPT FLUSH"
    what = "all scripts are deleted; keys stay"

    def begin(self):
        self.redis.ask("SCRIPT", "FLUSH")


class WrongPassword(OneServer):
    title = "password changed"
    what = "CONFIG SET requirepass, and all connections are closed"
    is_mistake = True

    def begin(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "another")
        self.redis.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", password="another")

    def end(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "", password="another")


class ReadOnly(OneServer):
    title = "turned into a replica"
    what = "REPLICAOF; writes are answered with READONLY"

    def begin(self):
        # A primary that does not answer; the replica keeps its data.
        self.redis.ask("REPLICAOF", "127.0.0.1", 1)

    def end(self):
        self.redis.ask("REPLICAOF", "NO", "ONE")


class OutOfMemory(OneServer):
    title = "out of memory"
    what = "maxmemory is reached under noeviction; writes are answered with OOM"

    def begin(self):
        self.redis.ask("CONFIG", "SET", "maxmemory", 1)

    def end(self):
        self.redis.ask("CONFIG", "SET", "maxmemory", 0)


class Busy(OneServer):
    title = "busy with another script"
    what = "an endless script of another client; SCRIPT KILL ends it"
    arguments = ("--busy-reply-threshold", 100)

    def begin(self):
        self.endless = Resp(self.redis.port)
        self.endless.send("EVAL", "while true do end", 0)

    def end(self):
        eventually(lambda: self.redis.ask("SCRIPT", "KILL") == "OK", "the script is killed")
        self.endless.close()


class SentinelFailover(Fault):
    title = "failover by Sentinels"
    what = "the master is killed; one of two replicas is promoted"
    loses_data = True

    def start(self, stack):
        self.servers = stack.enter_context(RedisSentinels())
        return [self.servers.url] * NODES

    def begin(self):
        self.killed = self.servers.master()
        self.killed.end()

    def end(self):
        eventually(lambda: self.servers.master() is not self.killed, "a replica is promoted")


class ClusterFailover(Fault):
    title = "failover in a cluster"
    what = "the primary of all keys is killed; its replica is promoted"
    loses_data = True
    members_slot = slot_of("weir1:{nodes}:members")

    def start(self, stack):
        self.cluster = stack.enter_context(RedisCluster())
        self.killed = self.cluster.owner_of(self.members_slot)
        return [self.cluster.url] * NODES

    def key(self, policy):
        """A key on the server of the membership list, which is the one that is killed."""
        return next(key for key in map(str, range(1000)) if self.is_owner(policy, key))

    def is_owner(self, policy, key):
        return self.cluster.owner_of(slot_of(f"{{{policy}:{key}}}")) is self.killed

    def begin(self):
        self.killed.end()

    def end(self):
        eventually(lambda: self.cluster.owner_of(self.members_slot) is not self.killed,
                   "the replica is promoted")


FAULTS = {
    "killed": KilledWithData,
    "killed-empty": KilledWithoutData,
    "hung": Hung,
    "late": Late,
    "cut-before": CutBefore,
    "cut-after": CutAfter,
    "partition": Partition,
    "flushall": FlushAll,
    "script-flush": ScriptFlush,
    "password": WrongPassword,
    "readonly": ReadOnly,
    "out-of-memory": OutOfMemory,
    "busy": Busy,
    "sentinel": SentinelFailover,
    "cluster": ClusterFailover,
}


# ---- The promise of a cell

def peak(admitted):
    """The most permits that any interval has above rate × time. A call is decided between its request and
    its answer, so that a slow caller cannot make this too large."""
    admitted = sorted(admitted)
    worst = 0.0
    for i, (start, _) in enumerate(admitted):
        for count, end in enumerate(sorted(end for _, end in admitted[i:]), 1):
            worst = max(worst, count - RATE * (end - start))
    return int(worst)


@dataclasses.dataclass
class Outcome:
    """The result of a cell."""

    cell: Cell
    calls: int
    admitted: str
    promised: str
    degraded: int
    errors: list
    longest: float
    exceeds: bool

    @property
    def verdict(self):
        return "EXCEEDED" if self.exceeds else "ERRORS" if self.errors else "OK"


class Judge:
    """Compares the answers of a cell's callers with its promise."""

    def __init__(self, cell, callers, fault):
        self.cell = cell
        self.callers = callers
        self.fault = fault
        # Redis counts from zero again after a loss. Nodes remember the usage of their share.
        self.lives = 2 if fault.loses_data and cell.scope != "split" else 1
        self.counted = sum(caller.counted for caller in callers)
        self.alone = sum(caller.alone for caller in callers)

    def outcome(self):
        admitted, promised, exceeds = getattr(self, "judge_" + self.cell.column)()
        return Outcome(cell=self.cell, admitted=admitted, promised=promised, exceeds=exceeds,
                       calls=sum(caller.calls for caller in self.callers),
                       degraded=sum(caller.degraded for caller in self.callers),
                       errors=sum((caller.errors for caller in self.callers), []),
                       longest=max(caller.longest for caller in self.callers))

    @property
    def whole(self):
        return self.cell.capacity * self.lives

    def judge_closed(self):
        return self.both(), f"{self.whole}", self.counted > self.whole or self.alone > 0

    def judge_local(self):
        if self.cell.scope == "split":
            return self.both(), f"{self.whole}", self.counted + self.alone > self.whole
        share = self.cell.capacity // NODES
        alone = [caller for caller in self.callers if caller.degraded > 0]
        exceeds = self.counted > self.whole or any(caller.alone > share for caller in alone)
        promised = f"{self.whole} + {share * len(alone)}" if alone else f"{self.whole}"
        return self.both(), promised, exceeds

    def judge_open(self):
        reopened = sum(caller.reopened for caller in self.callers)
        exceeds = self.counted > self.whole or (self.fault.is_mistake and reopened > 0)
        return self.both(), f"{self.whole} + any", exceeds

    def judge_refill(self):
        most = peak(sum((caller.admitted for caller in self.callers), []))
        # (One for rounding: the clocks of Redis and of the callers differ.)
        exceeds = most > BURST * self.lives + 1 or self.alone > 0
        return f"{most}", f"{BURST * self.lives}", exceeds

    def judge_refunds(self):
        given_back = sum(caller.given_back for caller in self.callers)
        net = self.counted - given_back
        return f"{net}", f"{self.whole}", net > self.whole or self.alone > 0

    def both(self):
        return f"{self.counted} + {self.alone}" if self.alone else f"{self.counted}"


# ---- A row

class Row:
    """Runs all cells under one fault."""

    def __init__(self, weir, fault):
        self.weir = weir
        self.fault = fault

    def run(self):
        with contextlib.ExitStack() as stack:
            urls = self.fault.start(stack)
            daemons = [stack.enter_context(Daemon(
                self.weir, POLICIES, extra=f"store: {url}\nstore_timeout: {STORE_TIMEOUT}"))
                for url in urls]
            self.wait_for_fleet(daemons)
            callers = self.start_callers(daemons, stack)
            self.drive(callers)
        return [Judge(cell, [c for c in callers if c.cell is cell], self.fault).outcome()
                for cell in CELLS]

    @staticmethod
    def wait_for_fleet(daemons):
        """Each node knows all others, and has its share of split limits."""
        for daemon in daemons:
            eventually(lambda: all(split["share"] * NODES == split["whole"] for split in
                                   daemon.http("GET", "/v1/fleet")[2]["split"]), "parts are equal")

    def start_callers(self, daemons, stack):
        callers = []
        for cell in CELLS:
            key = self.fault.key(cell.policy)
            kind = RefundingCaller if cell.column == "refunds" else Caller
            callers += [kind(cell, node, daemon, key) for node, daemon in enumerate(daemons)]
        stack.callback(self.end_callers, callers)
        for caller in callers:
            caller.start()
        return callers

    def drive(self, callers):
        self.wait_for(callers, lambda caller: caller.is_warm(), "callers take before the fault")
        self.fault.begin()
        for caller in callers:
            caller.fault_began.set()
        self.fault.wait()
        self.fault.end()
        for caller in callers:
            caller.fault_ended.set()
        self.wait_for(callers, Caller.is_done, "the fleet heals, and nothing is left")
        time.sleep(LEASE_TERM)
        self.wait_for(callers, Caller.is_done, "what was returned is taken")
        self.end_callers(callers)

    @staticmethod
    def wait_for(callers, holds, what):
        def is_so():
            for caller in callers:
                if caller.failure:
                    raise caller.failure
            return all(holds(caller) for caller in callers)
        try:
            eventually(is_so, what)
        except AssertionError as error:
            others = {f"{c.cell.policy} on node {c.node}" for c in callers if not holds(c)}
            raise AssertionError(f"{error}; not so: {', '.join(sorted(others))}") from None

    @staticmethod
    def end_callers(callers):
        for caller in callers:
            caller.over.set()
            caller.fault_began.set()
            caller.fault_ended.set()
        for caller in callers:
            if caller.is_alive():
                caller.join()


# ---- The tables

PROMISES = {
    "closed": {
        "fleet": "the limit; nothing is admitted without Redis",
        "leased": "the limit; what a node has borrowed is part of it, and is spent for two seconds at most",
        "split": "the limit; a node that Redis has not heard of for 1.6 seconds refuses",
    },
    "local": {
        "fleet": "the limit, and in addition the share of each node that decides without Redis: the limit "
                 "divided by the number of nodes",
        "leased": "as `fleet`",
        "split": "the limit: each node continues with its part",
    },
    "open": {
        "fleet": "the limit by answers that are not `degraded`; any number by those that are. After a "
                 "mistake (*password changed*) nothing, once a node knows of it",
        "leased": "as `fleet`",
        "split": "as `fleet`",
    },
    "refill": {
        "fleet": "burst + rate × *t* in any time *t*. The table shows the most that any interval had above "
                 "rate × *t*, and the burst",
        "leased": "as `fleet`",
        "split": "as `fleet`",
    },
    "refunds": {
        "fleet": "what was taken, less what was given back, is at most the limit; each receipt counts once",
        "leased": "as `fleet`",
        "split": "as `fleet`",
    },
    "after a loss of data": {
        "fleet": "the limit once more",
        "leased": "the limit once more",
        "split": "nothing more: nodes remember what they have used",
    },
}


def table(head, rows):
    """The table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def promise_table():
    return table(["column", *(f"`{scope}`" for scope in SCOPES)],
                 [[name, *(texts[scope] for scope in SCOPES)] for name, texts in PROMISES.items()])


def fault_table(results):
    return table(["fault", "`--only`", "what happens", "loses data"],
                 [[fault.title, f"`{name}`", fault.what, "yes" if fault.loses_data else ""]
                  for name, (fault, _) in results.items()])


def scope_table(results, scope):
    """The admitted permits, and the promised maximum."""
    def text(outcome):
        mark = "" if outcome.verdict == "OK" else f" **{outcome.verdict}**"
        return f"{outcome.admitted} of {outcome.promised}{mark}"
    rows = [[fault.title, *(text(outcome) for outcome in outcomes if outcome.cell.scope == scope)]
            for fault, outcomes in results.values()]
    return table(["fault", *COLUMNS], rows)


def cell_table(results):
    rows = [[fault.title, outcome.cell.scope, outcome.cell.column, str(outcome.calls),
             outcome.admitted, outcome.promised, str(outcome.degraded), str(len(outcome.errors)),
             f"{outcome.longest * 1000:.0f}", outcome.verdict]
            for fault, outcomes in results.values() for outcome in outcomes]
    return table(["fault", "scope", "column", "calls", "admitted", "promised", "degraded", "errors",
                  "longest, ms", ""], rows)


def made_with(weir):
    def version(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    redis = re.search(r"v=(\S+)", version("redis-server", "--version"))[1]
    return (f"Made on {time.strftime('%Y-%m-%d')} with {version(weir, '--version').strip()} and "
            f"redis-server {redis} on {platform.machine()}.\n")


def matrix(results, weir):
    parts = [made_with(weir), "### Promises\n", promise_table(), "### Faults\n", fault_table(results)]
    for scope in SCOPES:
        parts += [f"### Scope {scope}\n", scope_table(results, scope)]
    parts += ["### All cells\n", cell_table(results)]
    return "\n".join(parts)


BEGIN, END = "<!-- written by fault_matrix.py -->\n", "<!-- end of what fault_matrix.py writes -->\n"


def write_page(path, text):
    page = path.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert rest and after, f"{path} has no place for the tables"
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def run_row(weir, name):
    fault = FAULTS[name]()
    began = time.monotonic()
    outcomes = Row(weir, fault).run()
    failed = [o for o in outcomes if o.verdict != "OK"]
    print(f"{name}: {len(outcomes) - len(failed)} of {len(outcomes)} cells OK, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    for outcome in failed:
        print(f"  {outcome.cell.policy}: {outcome.admitted} of {outcome.promised}: {outcome.verdict} "
              + "; ".join(sorted(set(outcome.errors))), flush=True)
    return fault, outcomes


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weir", help="the command")
    parser.add_argument("--only", default=",".join(FAULTS), help="faults, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="faults that run at the same time")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose tables are replaced")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(FAULTS):
        parser.error(f"unknown fault {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    return options


def main():
    options = arguments()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = pool.map(lambda name: run_row(options.weir, name), options.only)
        results = dict(zip(options.only, rows))
    text = matrix(results, options.weir)
    print(text)
    if options.write:
        write_page(options.write, text)
    return any(o.verdict != "OK" for _, outcomes in results.values() for o in outcomes)


if __name__ == "__main__":
    sys.exit(main())
