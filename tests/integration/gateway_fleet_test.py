"""Gateways that share limits on one redis-server: gateway_fleet_test.py WEIR."""

import asyncio
import collections
import contextlib
import random
import re
import resource
import sys
import threading
import time
import unittest

from daemon import eventually, under_sanitizer
from gateway import Gateway, Service, read_head
from redis_server import RedisServer

WEIR = sys.argv.pop(1)
CLIENTS = 200 if under_sanitizer() else 2000
STOCK = CLIENTS // 40  # a second
SECONDS = 3  # minimum time in which it is sold out

# A request was decided between `sent` and `got`; `by` is the limit that refused it, if any.
Tried = collections.namedtuple("Tried", "user sent got by")


class Crowd:
    """Connections of as many users, half of them at each gateway, all open at the same time. Each sends
    requests continuously, also after a success."""

    def __init__(self, ports, is_enough):
        self.ports = ports
        self.is_enough = is_enough  # predicate over the requests so far
        self.tried = []
        self.over = False

    def rush(self):
        asyncio.run(self.run())
        return self.tried

    async def run(self):
        connections = []
        for user in range(CLIENTS):
            connections.append(await asyncio.open_connection("127.0.0.1", self.ports[user % 2]))
        users = [asyncio.create_task(self.user(f"u{i}", *both)) for i, both in enumerate(connections)]
        began = time.time()
        while not self.is_enough(self.tried) and time.time() < began + 120:
            await asyncio.sleep(0.2)
        self.over = True
        await asyncio.gather(*users)
        for _, writer in connections:
            writer.close()

    async def user(self, name, reader, writer):
        await asyncio.sleep(random.uniform(0, 1))
        while not self.over:
            sent = time.time()
            writer.write(b"POST /seckill?sku_id=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
                         b"X-User-Id: %s\r\n\r\n" % name.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            await reader.readexactly(int(fields["Content-Length"]))
            by = "" if head.startswith("HTTP/1.1 200 ") else fields["RateLimit"].split('"')[1]
            self.tried.append(Tried(name, sent, time.time(), by))
            await asyncio.sleep(random.uniform(0.3, 1.5))


def windows_sold_out(tried):
    """The seconds in which a request was certainly refused because the stock was sold out."""
    return {int(t.sent) for t in tried if t.by == "product" and int(t.sent) == int(t.got)}


class Sales:
    """Searches for an assignment of each sale to a second. A sale is only known to lie between two
    instants, because answers take time."""

    def __init__(self, sold):
        self.may_be = [range(int(t.sent), int(t.got) + 1) for t in sold]
        self.when = {}  # number of the sale -> second
        self.sold_in = collections.defaultdict(set)

    def put(self, sale, second):
        if sale in self.when:
            self.sold_in[self.when[sale]].remove(sale)
        self.when[sale] = second
        self.sold_in[second].add(sale)

    def place(self, sale, tried):
        """True if the sale can be in some second, possibly moving other sales to another one."""
        for second in self.may_be[sale]:
            if second in tried:
                continue
            tried.add(second)
            if len(self.sold_in[second]) < STOCK:
                return self.put(sale, second) or True
            for other in list(self.sold_in[second]):
                if self.place(other, tried):
                    return self.put(sale, second) or True
        return False

    def fill(self, second, tried):
        """True if one more sale can be in that second, possibly leaving a gap in another one that is
        filled."""
        tried.add(second)
        could = [sale for sale, seconds in enumerate(self.may_be)
                 if second in seconds and self.when.get(sale) != second]
        for sale in could:
            if sale not in self.when:
                return self.put(sale, second) or True
        for sale in could:
            before = self.when[sale]
            if before not in tried:
                self.put(sale, second)
                if self.fill(before, tried):
                    return True
                self.put(sale, before)
        return False

    def agree(self, sold_out):
        """True if some assignment has no second above the stock, and these seconds have all of it."""
        return all(self.fill(second, set()) for second in sold_out for _ in range(STOCK)) and \
            all(self.place(sale, set()) for sale in range(len(self.may_be)) if sale not in self.when)


class FlashSale(unittest.TestCase):
    def test_all_nodes_together_sell_a_product_at_most_at_its_rate(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * CLIENTS + 1000), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        arrivals = []
        policies = """
store: redis://127.0.0.1:%d
store_timeout: 30s
policies:
  seckill:
    limits:
      - { by: sku, limit: %d per 1s window, name: product }
      - { by: user, limit: 1/1h, name: user }
"""
        routes = """
- match: { path: /seckill, method: POST }
  upstream: %s
  policy: seckill
  parts: { user: header:X-User-Id, sku: query:sku_id }
"""
        with RedisServer() as redis, Service() as service:
            service.on_request = lambda h: (arrivals.append(h.headers["X-User-Id"]), h.answer())
            text = policies % (redis.port, STOCK)
            with Gateway(WEIR, routes % service.url, text) as one, \
                    Gateway(WEIR, routes % service.url, text) as other:
                tried = Crowd([one.port, other.port],
                              lambda tried: len(windows_sold_out(tried)) > SECONDS).rush()
        sold = [t for t in tried if not t.by]
        # Each buyer got it once, and the service saw exactly those that were told so.
        self.assertEqual(sorted(arrivals), sorted(t.user for t in sold))
        self.assertEqual(len(set(arrivals)), len(arrivals))
        # Buyers with a success were refused by their own limit, and others were not.
        when = {t.user: t.got for t in sold}
        for t in tried:
            self.assertEqual(t.by == "user", t.user in when and t.sent > when[t.user], t)
        self.assertTrue(any(t.by == "user" for t in tried))
        # (Redis uses the clock of this machine.) No second had more than the stock, and none had any left
        # while a request was refused.
        sold_out = windows_sold_out(tried)
        self.assertGreater(len(sold_out), SECONDS)
        self.assertTrue(Sales(sold).agree(sold_out), (sorted(sold_out), [t[1:3] for t in sold]))


class Scopes(unittest.TestCase):
    """Limits for which nodes do not query Redis on each call."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.redis = self.stack.enter_context(RedisServer())
        self.service = self.stack.enter_context(Service())

    def gateways(self, count, limits, timeout="30s"):
        """A gateway with one route for each policy."""
        policies = "".join(f"  {name}: {{ {text} }}\n" for name, text in limits.items())
        routes = "".join(f"- {{ match: {{ path: /{name} }}, name: {name}, upstream: {self.service.url}, "
                         f"policy: {name}, key: ip }}\n" for name in limits)
        text = f"store: {self.redis.url}\nstore_timeout: {timeout}\npolicies:\n{policies}"
        return [self.stack.enter_context(Gateway(WEIR, routes, text)) for _ in range(count)]

    @staticmethod
    def ask_until(gateways, path, is_enough):
        """Sends all of them concurrently. Returns (before, after, status) of each request."""
        asked, lock = [], threading.Lock()

        def ask(gateway):
            client = gateway.client()
            while not is_enough(asked):
                before = time.monotonic()
                client.request("GET", path)
                response = client.getresponse()
                response.read()
                with lock:
                    asked.append((before, time.monotonic(), response.status))
            client.close()
        threads = [threading.Thread(target=ask, args=[g]) for g in gateways for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return asked

    def test_a_leased_limit_admits_exactly_the_limit(self):
        gateways = self.gateways(2, {"sale": "limits: [ { limit: 500 per 240h, scope: leased } ], "
                                             "on_store_failure: closed"})
        # (A node that holds permits keeps them for a moment, while the other has none.)
        asked = self.ask_until(gateways, "/sale", lambda asked: (
            sum(status == 200 for _, _, status in asked) >= 500 and len(asked) > 700) or len(asked) > 100_000)
        self.assertEqual(collections.Counter(status for _, _, status in asked)[200], 500)
        self.assertEqual({status for _, _, status in asked}, {200, 429})
        self.assertEqual(len(self.service.seen), 500)

    def test_a_split_limit_is_shared_by_all_nodes(self):
        rate, burst = 40, 20
        gateways = self.gateways(2, {"api": f"limits: [ {{ limit: {rate}/s burst {burst}, scope: split }} ]"})
        # Each has its share when it knows of the other.
        for gateway in gateways:
            eventually(lambda: gateway.metric("weir_fleet_nodes").get("", 0) == 2, "two in the fleet")
        end = time.monotonic() + 2
        asked = self.ask_until(gateways, "/api", lambda _: time.monotonic() > end)
        passed = [(before, behind) for before, behind, status in asked if status == 200]
        self.assertGreater(len(passed), 0)
        self.assertEqual({status for _, _, status in asked}, {200, 429})
        for start, _ in passed:
            inside = sorted(behind for before, behind in passed if before >= start)
            for count, behind in enumerate(inside, 1):
                self.assertLessEqual(count, burst + rate * (behind - start) + 1e-6)

    def test_the_store_failure_mode_applies_within_the_timeout_of_a_frozen_store(self):
        """Every request is answered according to on_store_failure, including those in flight when the
        store froze, within the store timeout and some slack for a slow machine."""
        timeout, slack = 0.5, 10
        gateway, = self.gateways(1, {
            "open": "limits: [ 2/h ], on_store_failure: open",
            "closed": "limits: [ 2/h ], on_store_failure: closed",
            "local": "limits: [ 2/h ], on_store_failure: local",
            "leased": "limits: [ { limit: 2/h, scope: leased } ], on_store_failure: closed",
        }, timeout="500ms")
        self.assertEqual([gateway.get("/closed")[0] for _ in range(3)], [200, 200, 429])
        self.assertEqual([gateway.get("/local")[0] for _ in range(3)], [200, 200, 429])
        self.redis.freeze()
        self.addCleanup(self.redis.thaw)

        def answers(path):
            statuses = []
            for _ in range(4):
                began = time.monotonic()
                statuses.append(gateway.get(path)[0])
                self.assertLess(time.monotonic() - began, timeout + slack)
            return statuses
        self.assertEqual(answers("/open"), [200] * 4)
        self.assertEqual(answers("/closed"), [503] * 4)
        # The limit of this node alone: its share is the whole.
        self.assertEqual(answers("/local"), [200, 200, 429, 429])
        self.assertEqual(answers("/leased"), [503] * 4)
        status, headers, body = gateway.get("/closed")
        self.assertEqual(headers["Weir-Degraded"], "1")
        self.assertIn(b"the store of this limit is unreachable", body)
        self.assertEqual(headers["Content-Type"], "application/problem+json")
        decisions = gateway.metric("weir_gateway_decisions_total")
        self.assertEqual(decisions['{route="open",decision="degraded"}'], 4)
        self.assertEqual(decisions['{route="closed",decision="degraded"}'], 5)
        self.assertEqual(gateway.get("/open")[1]["Weir-Degraded"], "1")
        self.redis.thaw()
        # The store is used again, and has kept the usage.
        eventually(lambda: gateway.get("/closed")[0] == 429, "the store is asked again")



class Bodies(unittest.TestCase):
    # The store is queried meanwhile: body bytes that have arrived are not a request.
    def test_the_body_of_a_refused_request_is_never_parsed_as_a_request(self):
        with RedisServer() as redis, Service() as service:
            route = f"- {{ upstream: {service.url}, limits: [ 1/h ], key: ip }}"
            with Gateway(WEIR, route, extra=f"store: {redis.url}\nstore_timeout: 20s") as gateway:
                evil = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
                post = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"%d\r\n\r\n" % len(evil) + evil
                with gateway.connect() as s:
                    for i in range(20):
                        s.sendall(post % i)
                        head, rest = read_head(s)
                        self.assertIn(b" 200 " if i == 0 else b" 429 ", head)
                        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
                        while len(rest) < length:
                            rest += s.recv(length - len(rest))
                        self.assertEqual(len(rest), length)
                    # All is answered: nothing more comes.
                    s.settimeout(0.2)
                    self.assertRaises(TimeoutError, s.recv, 1)
                self.assertEqual([path for _, path, *_ in service.seen], ["/0"])


if __name__ == "__main__":
    unittest.main()
