"""A Redis master with two replicas, and three Sentinels that monitor it, on free ports."""

import contextlib
import os

from daemon import RespError, eventually, free_port
from redis_server import RedisServer


class SentinelServer(RedisServer):
    """A redis-server in Sentinel mode."""

    READY = "Sentinel ID is"

    def __init__(self, master, password=None, own_password=None, tls=()):
        super().__init__()
        options = [f"{name[2:]} {value}" for name, value in zip(tls[::2], tls[1::2])]
        self.config = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder.name}", *options,
                       f"sentinel monitor main 127.0.0.1 {master.told_port} 2",
                       "sentinel down-after-milliseconds main 1000",
                       "sentinel failover-timeout main 3000"]
        if password:
            self.config += ["sentinel auth-user main default", f"sentinel auth-pass main {password}"]
        if own_password:
            self.config += [f"requirepass {own_password}", f"sentinel sentinel-pass {own_password}"]

    def command(self):
        path = os.path.join(self.folder.name, "sentinel.conf")
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write("\n".join(self.config) + "\n")
        return ["redis-server", path, "--sentinel"]


class RedisSentinels:
    """with RedisSentinels() as sentinels: …"""

    def __init__(self, password=None, sentinel_password=None, tls=()):
        """`tls`: the certificate options of a server; all connections then use TLS."""
        self.tls = tls
        self.password = password
        self.sentinel_password = sentinel_password
        self.stack = contextlib.ExitStack()
        self.servers = []
        self.sentinels = []

    @property
    def url(self):
        login = f":{self.password}@" if self.password else ""
        hosts = ",".join(f"127.0.0.1:{sentinel.told_port}" for sentinel in self.sentinels)
        return f"{'rediss' if self.tls else 'redis'}+sentinel://{login}{hosts}/main"

    def __enter__(self):
        with self.stack:
            login = ["--requirepass", self.password, "--masterauth", self.password]
            options = ["--repl-diskless-sync-delay", 0, *(login if self.password else [])]
            master = self.start(RedisServer, self.servers, *options)
            for _ in range(2):
                self.start(RedisServer, self.servers, "--replicaof",
                           f"127.0.0.1 {master.told_port}", *options)
            for _ in range(3):
                self.start(SentinelServer, self.sentinels, master, self.password,
                           self.sentinel_password)
            eventually(self.is_whole, "Sentinels and replicas are there")
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self, kind, servers, *arguments):
        """`told_port` is the announced port."""
        port = free_port()
        tls = ["--tls-port", port, "--tls-replication", "yes", *self.tls] if self.tls else []
        server = kind(*arguments, tls=tls) if kind is SentinelServer else kind(*arguments, *tls)
        server.told_port = port if self.tls else server.port
        servers.append(self.stack.enter_context(server))
        return server

    def ask(self, server, *words):
        is_sentinel = server in self.sentinels
        answer = server.ask(*words, password=self.sentinel_password if is_sentinel else self.password)
        if isinstance(answer, RespError):
            raise answer
        return answer

    @staticmethod
    def alive(servers):
        return [server for server in servers if server.process.poll() is None]

    def is_whole(self):
        """Waits until all replicas follow the master, and all Sentinels know all servers."""
        for server in self.alive(self.servers):
            role = self.ask(server, "ROLE")
            if role[0] == "slave" and role[3] != "connected":
                return False
        for sentinel in self.alive(self.sentinels):
            told = self.ask(sentinel, "SENTINEL", "MASTER", "main")
            about = dict(zip(told[::2], told[1::2]))
            if (about["num-slaves"], about["num-other-sentinels"], about["flags"]) != ("2", "2", "master"):
                return False
        return True

    def master(self):
        _, port = self.ask(self.alive(self.sentinels)[0], "SENTINEL", "get-master-addr-by-name", "main")
        return next(server for server in self.servers if server.told_port == int(port))
