"""A flash sale: two gateways on one redis-server: gateway_fleet_test.py WEIR."""

import collections
import http.client
import math
import sys
import threading
import time
import unittest

from daemon import under_sanitizer
from gateway import Gateway, Service
from redis_server import RedisServer

WEIR = sys.argv.pop(1)
CLIENTS = 200 if under_sanitizer() else 2000
STOCK = 25  # a second
THREADS = 40


class FlashSale(unittest.TestCase):
    def test_a_product_is_sold_so_many_times_a_second_by_all_nodes_together(self):
        arrivals = []  # the second of Redis' clock is ours: one machine
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
                sold, refused = self.rush([one.port, other.port])
        # Each buyer got it once, and the service saw exactly those who were told so.
        self.assertEqual(sorted(arrivals), sorted(user for user, _ in sold))
        self.assertEqual(len(set(arrivals)), len(arrivals))
        self.assertEqual(len(sold) + sum(refused.values()), CLIENTS + len(sold))
        # A request was let in within its window: it was sent before, and answered behind.
        for second in range(int(self.began), int(time.time()) + 1):
            surely = [u for u, (sent, got) in sold if sent >= second and got < second + 1]
            self.assertLessEqual(len(surely), STOCK)
        windows = math.floor(self.ended) - math.floor(self.began) + 1
        self.assertLessEqual(len(sold), STOCK * windows)
        # Nothing is left lying: in all seconds but the first and the last the stock was sold out.
        self.assertGreaterEqual(len(sold), min(CLIENTS, STOCK * (windows - 2)))
        self.assertGreater(refused["product"], 0)
        self.assertEqual(refused["user"], len(sold))

    def rush(self, ports):
        sold, refused, lock = [], collections.Counter(), threading.Lock()
        users = iter(range(CLIENTS))

        def client():
            connections = [http.client.HTTPConnection("127.0.0.1", p, timeout=60) for p in ports]
            while True:
                with lock:
                    user = next(users, None)
                if user is None:
                    break
                # Who gets it tries again, on the other node: once is enough.
                for attempt in range(2):
                    sent = time.time()
                    connection = connections[(user + attempt) % 2]
                    connection.request("POST", "/seckill?sku_id=1", b"", {"X-User-Id": f"u{user}"})
                    response = connection.getresponse()
                    response.read()
                    with lock:
                        if response.status == 200:
                            sold.append((f"u{user}", (sent, time.time())))
                            continue
                        self.assertEqual(response.status, 429)
                        # (Of two that refuse, the one that refuses for the longest time is told.)
                        refused["user" if attempt else "product"] += 1
                    break
            for connection in connections:
                connection.close()

        self.began = time.time()
        threads = [threading.Thread(target=client) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ended = time.time()
        return sold, refused


if __name__ == "__main__":
    unittest.main()
