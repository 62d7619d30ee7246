"""A private Redis Cluster on free ports: three primaries and a replica for each."""

import contextlib

from daemon import RespError, eventually, free_port
from redis_server import RedisServer

SLOTS = 16384


def slot_of(key):
    """The hash slot, as Redis computes it: CRC-16/XMODEM of the key, or of the part in its braces."""
    key = key.encode() if isinstance(key, str) else key
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1:end]
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ (0x1021 if crc & 0x8000 else 0)
        crc &= 0xffff
    return crc % SLOTS


class RedisCluster:
    """with RedisCluster() as cluster: …"""

    def __init__(self, *arguments, primaries=3, replicas=1, tls=False):
        self.arguments = arguments
        self.primary_count = primaries
        self.replica_count = replicas
        self.tls = tls  # also between the nodes: only then do they announce these ports
        self.nodes = []
        self.stack = contextlib.ExitStack()

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    def __enter__(self):
        with self.stack:  # if the start fails, started servers are stopped
            for _ in range(self.primary_count * (1 + self.replica_count)):
                self.add_node()
            self.join()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def add_node(self):
        port = free_port()
        tls = ["--tls-port", port, "--tls-cluster", "yes", "--tls-replication", "yes"]
        node = RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", 1000,
                           "--cluster-replica-validity-factor", 0, "--repl-diskless-sync-delay", 0,
                           "--cluster-config-file", "nodes.conf", *self.arguments,
                           *(tls if self.tls else []))
        node.told_port = port if self.tls else node.port
        self.nodes.append(self.stack.enter_context(node))
        return node

    def ask(self, node, *words):
        answer = node.ask(*words)
        if isinstance(answer, RespError):
            raise answer
        return answer

    def join(self):
        first = self.nodes[0]
        primaries = self.nodes[:self.primary_count]
        each = SLOTS // len(primaries)
        for i, node in enumerate(primaries):
            last = SLOTS - 1 if node is primaries[-1] else (i + 1) * each - 1
            self.ask(node, "CLUSTER", "ADDSLOTSRANGE", i * each, last)
        for i, node in enumerate(self.nodes):
            self.ask(node, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            self.meet(node, first)
        for i, node in enumerate(self.nodes[self.primary_count:]):
            primary = self.id_of(primaries[i % len(primaries)])
            eventually(lambda: self.knows(node, primary), "nodes know each other")
            self.ask(node, "CLUSTER", "REPLICATE", primary)
        eventually(self.is_whole, "the cluster is whole")

    def meet(self, node, other):
        self.ask(node, "CLUSTER", "MEET", "127.0.0.1", other.told_port)

    def id_of(self, node):
        return self.ask(node, "CLUSTER", "MYID")

    def knows(self, node, other_id):
        return other_id in self.ask(node, "CLUSTER", "NODES")

    def alive(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def is_whole(self):
        """Waits until all nodes report a healthy cluster, and replicas have the data of their primaries."""
        for node in self.alive():
            if "cluster_state:ok" not in self.ask(node, "CLUSTER", "INFO"):
                return False
            lines = self.ask(node, "CLUSTER", "NODES").splitlines()
            if sum("fail" not in line for line in lines) < len(self.alive()):
                return False
            if "handshake" in "".join(lines):
                return False
            role = self.ask(node, "ROLE")
            if role[0] == "slave" and role[3] != "connected":
                return False
        return True

    def primaries(self):
        return [node for node in self.alive() if self.ask(node, "ROLE")[0] == "master"]

    def owner_of(self, slot):
        """The node that owns the slot, according to one of them."""
        for first, last, (_, port, *_), *_ in self.ask(self.alive()[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.node_on(port)
        raise AssertionError(f"nobody has slot {slot}")

    def node_on(self, port):
        return next(node for node in self.nodes if node.port == port)

    def replica_of(self, primary):
        own = self.id_of(primary)
        for node in self.alive():
            role = self.ask(node, "ROLE")
            if role[0] == "slave" and role[2] == primary.port:
                return node
        raise AssertionError(f"{own} has no replica")

    # ---- Moving slots

    def begin_move(self, slot, to):
        source = self.owner_of(slot)
        self.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        return source

    def move_keys(self, slot, source, to, most=1000):
        """Migrates some of the keys; returns their number."""
        keys = self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, most)
        for key in keys:
            # One at a time, so that the keys of one call are on different nodes for a while.
            self.ask(source, "MIGRATE", "127.0.0.1", to.port, key, 0, 5000)
        return len(keys)

    def end_move(self, slot, source, to):
        while self.move_keys(slot, source, to):
            pass
        own = self.id_of(to)
        self.ask(to, "CLUSTER", "SETSLOT", slot, "NODE", own)
        for node in self.primaries():
            self.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", own)

    def move(self, slot, to):
        source = self.begin_move(slot, to)
        self.end_move(slot, source, to)
