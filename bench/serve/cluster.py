"""Ten limits in one decision on a Redis Cluster. Used by bench/run.

Three primaries, a replica of each and a daemon, at a rate that does not keep them busy: how long a
caller waits. Once the ten limits are those of one key, which one node has, and once of ten keys, which
several nodes have.

The primaries share a core, and so do the daemon and the load: none of them waits for a process that is
none of theirs, unless the kernel is doing something for that one which it does not interrupt. One such
moment is some answers in a hundred of a second, so a round has to take several. Replicas have machines
of their own elsewhere: here they run when the primaries leave the core to them.
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
        """The port of a server of its own."""
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
        """Until it has all that its primary has: the copy would be measured, too."""
        until = time.monotonic() + 10
        while "master_link_status:up" not in redis_cli(replica, "INFO", "replication"):
            if time.monotonic() > until:
                raise SystemExit("bench: a replica has not found its primary")
            time.sleep(0.1)

    def start(self, build):
        # (Those that are named first become primaries.)
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
        """Name -> what `measure` says, one for each round."""
        parts = [word for i in range(LIMITS) for word in (f"p{i}", "x")]
        asks = {
            "together": lambda key: resp("WEIR.TAKE", "together", key),
            "apart": lambda key: resp("WEIR.TAKE", "apart", "PARTS", *parts[:-1], key),
        }
        files = {name: self.prepare(name, ask, range(1000)) for name, ask in asks.items()}
        results = {}
        for _ in range(count):
            for name, path in files.items():
                # (The load sleeps, as it shares its core with the daemon: else it would measure how
                # long the kernel lets one of two run.)
                figures = self.measure((None, "*", "weir"), path, 1, 1, rate=RATE, sleeps=True)
                results.setdefault(name, []).append(figures)
        return results
