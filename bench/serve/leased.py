"""The cost and the accuracy of leased limits. Used by bench/run.

One redis-server. A daemon that leases beside one that counts alone, on one hot key. Then four daemons on one
hot key with more load than its limit, most of it at one of them: how much of the limit is used, whether more
is, and how many queries that takes.
"""

import re
import subprocess
import time
import urllib.request

import measure
from measure import Server, free_port, resp

RATE, BURST = 100_000, 100_000
OFFERED = (108_000, 4_000, 4_000, 4_000)  # a second, to each of the daemons
IN_FLIGHT = 16

POLICY = """
listen: {{ resp: 127.0.0.1:{resp}, http: 127.0.0.1:{http}, grpc: off }}
store: redis://127.0.0.1:{redis}
store_timeout: 5s
policies:
  lent: {{ limits: [ {{ limit: 10000000/s burst 10000000, scope: leased }} ] }}
  hot: {{ limits: [ {{ limit: {rate}/s burst {burst}, scope: leased }} ], on_store_failure: closed }}
"""

ALONE = """
listen: {{ resp: 127.0.0.1:{resp}, http: off, grpc: off }}
policies: {{ alone: {{ limits: [ 10000000/s burst 10000000 ] }} }}
"""


class Bench(measure.Bench):
    alone = False  # servers share the cores

    def start(self, build):
        redis = free_port()
        self.ports = {"redis": redis}
        self.servers["redis"] = Server(
            ["redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--appendonly",
             "no", "--dir", self.path], redis)
        for i in range(len(OFFERED)):
            name = f"weir {i}"
            self.ports[name], self.ports[f"http {i}"] = free_port(), free_port()
            config = self.path / f"{i}.yaml"
            config.write_text(POLICY.format(resp=self.ports[name], http=self.ports[f"http {i}"],
                                            redis=redis, rate=RATE, burst=BURST))
            self.servers[name] = Server(
                [build / "weir", "serve", "--threads", "1", "--config", config], self.ports[name])
        self.ports["alone"] = free_port()
        config = self.path / "alone.yaml"
        config.write_text(ALONE.format(resp=self.ports["alone"]))
        self.servers["alone"] = Server(
            [build / "weir", "serve", "--threads", "1", "--config", config], self.ports["alone"])

    def command(self, policy, key):
        return self.prepare(policy, lambda _: resp("WEIR.TAKE", policy, key), range(1000))

    def metric(self, pattern):
        """The sum over all daemons."""
        total = 0
        for i in range(len(OFFERED)):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[f'http {i}']}/metrics") as page:
                found = re.search(rf"^{pattern} (\d+)", page.read().decode(), re.M)
                total += int(found[1]) if found else 0
        return total

    def admitted(self):
        return self.metric(r'weir_decisions_total{policy="hot",outcome="allowed"}')

    def questions(self):
        return self.metric("weir_lease_questions_total")

    def hot(self, seconds):
        """(used part of the refill, used part of the maximum, takes for each query)"""
        key = f"hot {time.monotonic_ns()}"
        path = self.command("hot", key)
        warm = min(seconds, 2) + 1
        before, began = self.admitted(), time.monotonic()
        loads = [subprocess.Popen(
            ["taskset", "-c", "1", str(self.load), str(self.ports[f"weir {i}"]), "2", str(IN_FLIGHT),
             str(seconds + warm), "*", str(path), str(rate)], stdout=subprocess.DEVNULL)
            for i, rate in enumerate(OFFERED)]
        time.sleep(warm)  # until the burst is used up
        first, asked, start = self.admitted(), self.questions(), time.monotonic()
        time.sleep(max(seconds - 0.5, seconds / 2))
        last, asked_last, end = self.admitted(), self.questions(), time.monotonic()
        for load in loads:
            load.wait()
        total, ended = self.admitted() - before, time.monotonic()
        return ((last - first) / (RATE * (end - start)), total / (BURST + RATE * (ended - began)),
                (last - first) / max(asked_last - asked, 1))

    def rounds(self, count):
        results = {}
        kinds = {"alone": (None, "*", "alone"), "lent": (None, "*", "weir 0")}
        files = {policy: self.command(policy, "hot") for policy in kinds}
        for _ in range(count):
            for policy, kind in kinds.items():
                figures = self.measure(kind, files[policy], IN_FLIGHT)
                results.setdefault(policy, []).append(figures)
        # (Each takes seconds, as the burst has to be used up first.)
        results["hot"] = [self.hot(20 * self.seconds) for _ in range(max(count // 10, 1))]
        return results


RATIOS = [
    ("one hot key, 16 in flight: leased / store: memory", "lent", "alone", 0, ">=", 0.8),
]
