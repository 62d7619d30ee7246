"""Ten limits in one decision on a Redis Cluster. Used by bench/run.

Three primaries, a replica of each and a daemon, at a rate that does not saturate them: the latency of a call.
Once the ten limits have one key, on one node, and once ten keys, on several nodes.

The primaries share a core, and so do the daemon and the load: none of them waits for a foreign process,
unless the kernel does uninterruptible work for that one. One such moment affects some answers in a hundred of
a second, so a round has to contain several. In production replicas have other machines: here they run when
the primaries leave the core to them.
"""

import subprocess
import time

import measure
from measure import Server, free_port, resp

LIMITS = 10
RATE = 500  # a second
NODES = 3

POLICY = """
listen: {{ resp: 127.0.0.1:{resp}, http: off, grpc: off }}
store: redis+cluster://127.0.0.1:{redis}
store_timeout: 5s
policies:
  together: {{ limits: [ {together} ] }}
  apart: {{ limits: [ {apart} ] }}
"""


def redis_cli(port, *words):
    return subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True, text=True,
                          check=True).stdout


class Bench(measure.Bench):

    def node(self, alone):
        """The port of a new server."""
        port = free_port()
        folder = self.path / str(port)
        folder.mkdir()
        self.servers[f"redis {port}"] = Server(
            ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", folder, "--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0"], port,
            alone=alone)
        return port

    @staticmethod
    def await_primary(replica):
        """Waits until the replica has all data of its primary: the copy would be measured as well."""
        until = time.monotonic() + 10
        while "master_link_status:up" not in redis_cli(replica, "INFO", "replication"):
            if time.monotonic() > until:
                raise SystemExit("bench: a replica has not found its primary")
            time.sleep(0.1)

    def start(self, build):
        # (The first ones in the list become primaries.)
        primaries = [self.node(alone=True) for _ in range(NODES)]
        replicas = [self.node(alone=False) for _ in range(NODES)]
        nodes = primaries + replicas
        subprocess.run(["redis-cli", "--cluster", "create", *(f"127.0.0.1:{port}" for port in nodes),
                        "--cluster-replicas", "1", "--cluster-yes"], stdout=subprocess.DEVNULL, check=True)
        for port in replicas:
            self.await_primary(port)
        self.ports = {"weir": free_port()}
        config = self.path / "weir.yaml"
        limit = "1000000/s burst 1000000"
        config.write_text(POLICY.format(
            resp=self.ports["weir"], redis=nodes[0],
            together=", ".join(f"{{ limit: {limit}, name: l{i} }}" for i in range(LIMITS)),
            apart=", ".join(f"{{ limit: {limit}, name: l{i}, by: p{i} }}" for i in range(LIMITS))))
        self.servers["weir"] = Server(
            [build / "weir", "serve", "--threads", "1", "--config", config], self.ports["weir"], core=1,
            alone=True)

    def rounds(self, count):
        """Name -> the figures of `measure`, one for each round."""
        parts = [word for i in range(LIMITS) for word in (f"p{i}", "x")]
        asks = {
            "together": lambda key: resp("WEIR.TAKE", "together", key),
            "apart": lambda key: resp("WEIR.TAKE", "apart", "PARTS", *parts[:-1], key),
        }
        files = {name: self.prepare(name, ask, range(1000)) for name, ask in asks.items()}
        results = {}
        for _ in range(count):
            for name, path in files.items():
                # (The load sleeps, as it shares its core with the daemon: otherwise it would measure the
                # kernel's scheduling of the two.)
                figures = self.measure((None, "*", "weir"), path, 1, 1, rate=RATE, sleeps=True)
                results.setdefault(name, []).append(figures)
        return results
