"""Ten limits in one decision on a Redis Cluster. Used by bench/run.

Three primaries and a daemon, at a rate that does not keep them busy: how long a caller waits. Once the
ten limits are those of one key, which one node has, and once of ten keys, which several nodes have.
"""

import subprocess

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


class Bench(measure.Bench):

    def start(self, build):
        nodes = [free_port() for _ in range(NODES)]
        for i, port in enumerate(nodes):
            folder = self.path / str(i)
            folder.mkdir()
            self.servers[f"redis {i}"] = Server(
                ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
                 "no", "--dir", folder, "--cluster-enabled", "yes"], port, alone=True)
        subprocess.run(["redis-cli", "--cluster", "create", *(f"127.0.0.1:{port}" for port in nodes),
                        "--cluster-yes"], stdout=subprocess.DEVNULL, check=True)
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
