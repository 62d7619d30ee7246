"""Spring Cloud Gateway's RequestRateLimiter as its tests and users know it, over HTTP with its four
headers; where it has a flaw, weir's behaviour instead: gateway_spring_test.py WEIR."""

import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from daemon import free_port
from gateway import Gateway, Service, read_head

WEIR = sys.argv.pop(1)
NAMES = ("X-RateLimit-Remaining", "X-RateLimit-Requested-Tokens", "X-RateLimit-Burst-Capacity",
         "X-RateLimit-Replenish-Rate")


def four(headers):
    """The four headers as numbers; None if they are missing."""
    values = [headers.get(name) for name in NAMES]
    return None if values == [None] * 4 else tuple(int(value) for value in values)


def at_once(port, count, user="a"):
    """Sends this many requests on as many connections: [(status, the four)], and the time until all were
    decided."""
    connections = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
    start = time.monotonic()
    for connection in connections:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\nConnection: close\r\n\r\n".encode())
    answers = []
    for connection in connections:
        head = read_head(connection)[0].decode()
        lines = head.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        answers.append((int(lines[0].split(" ")[1]), four(headers)))
        connection.close()
    return answers, time.monotonic() - start


class SameAsSpring(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.service.__enter__()
        self.addCleanup(self.service.__exit__, None, None, None)

    def gateway(self, limit, more="", extra=""):
        gateway = Gateway(WEIR, f"- {{ upstream: {self.service.url}, limits: [ {limit} ], "
                                f"key: header:X-User, headers: scg{more} }}", extra=extra,
                          # The rows are about calls one after another. Of two threads, one may read the clock
                          # first and decide last: correct for its instant, but one number then appears twice
                          # and another never.
                          args=["--threads", "1"])
        gateway.__enter__()
        self.addCleanup(gateway.__exit__, None, None, None)
        return gateway

    def call(self, gateway, user="a"):
        status, headers, _ = gateway.get(headers={"X-User": user} if user else {})
        return status, four(headers)

    def check_burst(self, answers, took, rate, burst):
        """From full: `burst` pass with burst-1 … 0, and no more than were refilled meanwhile."""
        allowed = [values for status, values in answers if status == 200]
        denied = [values for status, values in answers if status == 429]
        self.assertEqual(len(allowed) + len(denied), len(answers))
        self.assertGreaterEqual(len(allowed), min(burst, len(answers)))
        self.assertLessEqual(len(allowed), burst + took * rate)
        remaining = {values[0] for values in allowed}
        self.assertEqual(max(remaining), burst - 1)
        self.assertEqual(min(remaining), max(0, burst - len(answers)))
        if len(allowed) == burst:
            self.assertEqual(remaining, set(range(burst)))
        for values in allowed + denied:
            self.assertEqual(values[1:], (1, burst, rate))
        for values in denied:
            self.assertEqual(values[0], 0)

    def test_c1_a_burst_is_admitted_and_then_the_rate(self):
        gateway = self.gateway("10/s burst 20")
        start = time.monotonic()
        answers, took = at_once(gateway.port, 21)
        self.check_burst(answers, took, 10, 20)
        time.sleep(1)
        more, _ = at_once(gateway.port, 25)
        elapsed = time.monotonic() - start
        self.assertGreaterEqual(sum(status == 200 for status, _ in more), 10)
        self.assertLessEqual(sum(status == 200 for status, _ in answers + more), 20 + 10 * elapsed)

    def test_c2_the_burst_is_admitted_of_fifty_at_once(self):
        gateway = self.gateway("20/s burst 30")
        answers, took = at_once(gateway.port, 50)
        self.check_burst(answers, took, 20, 30)

    def test_c3_a_call_takes_several_tokens(self):
        gateway = self.gateway("1/s burst 3", more=", cost: 3")
        self.assertEqual(self.call(gateway), (200, (0, 3, 3, 1)))
        self.assertEqual(self.call(gateway), (429, (0, 3, 3, 1)))
        time.sleep(3.05)
        self.assertEqual(self.call(gateway), (200, (0, 3, 3, 1)))

    def test_c5_a_bucket_does_not_overflow(self):
        gateway = self.gateway("1/s burst 10")
        self.assertEqual(self.call(gateway), (200, (9, 1, 10, 1)))
        time.sleep(1.1)
        self.assertEqual(self.call(gateway), (200, (9, 1, 10, 1)))

    def test_c7_a_burst_of_zero_is_a_configuration_error(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weir.yaml"
            file.write_text("gateway: { routes: [ { upstream: 'http://a', limits: [ 1/s burst 0 ], key: ip } ] }\n")
            run = subprocess.run([WEIR, "validate", str(file)], capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)
            self.assertIn("burst", run.stderr)

    def test_c8_the_largest_bucket_is_exact(self):
        gateway = self.gateway(f"1/s burst {2**53 - 1}")
        self.assertEqual(self.call(gateway), (200, (2**53 - 2, 1, 2**53 - 1, 1)))

    # Spring's entry expires at once there, and every request passes.
    def test_c9_a_rate_above_the_capacity_limits_as_well(self):
        gateway = self.gateway("3/s burst 1")
        answers, took = at_once(gateway.port, 10)
        self.check_burst(answers, took, 3, 1)

    # With Spring 30 pass within a millisecond, when the second changes.
    def test_c10_a_new_second_is_not_a_new_bucket(self):
        gateway = self.gateway("10/s burst 20")
        time.sleep(max(0, 0.99 - time.time() % 1))
        start = time.monotonic()
        answers = at_once(gateway.port, 20)[0] + at_once(gateway.port, 10)[0]
        elapsed = time.monotonic() - start
        passed = sum(status == 200 for status, _ in answers)
        self.assertGreaterEqual(passed, 20)
        self.assertLessEqual(passed, 20 + 10 * elapsed)

    def test_c11_requests_pass_while_redis_is_down(self):
        gateway = self.gateway("10/s burst 20", more=", on_store_failure: open",
                               extra=f"store: redis://127.0.0.1:{free_port()}")
        for _ in range(30):
            self.assertEqual(self.call(gateway), (200, (-1, 1, 20, 10)))

    # Bucket4j's limiter denies then, and so does a closed policy, with a status that gives the reason.
    def test_a_closed_policy_denies_while_redis_is_down(self):
        gateway = self.gateway("10/s burst 20", more=", on_store_failure: closed",
                               extra=f"store: redis://127.0.0.1:{free_port()}")
        self.assertEqual(self.call(gateway), (503, (-1, 1, 20, 10)))
        self.assertEqual(self.service.seen, [])

    def test_a_request_without_a_key_is_denied(self):
        gateway = self.gateway("10/s burst 20")
        self.assertEqual(self.call(gateway, None), (403, None))
        self.assertEqual(self.service.seen, [])
        self.assertEqual(self.call(gateway), (200, (19, 1, 20, 10)))

    def test_a_request_without_a_key_has_the_configured_status_or_passes(self):
        self.assertEqual(self.call(self.gateway("1/s", ", empty_key: deny 401"), None), (401, None))
        gateway = self.gateway("1/s", ", empty_key: allow")
        for _ in range(3):
            self.assertEqual(self.call(gateway, None), (200, None))

    def test_all_four_headers_are_sent_or_none(self):
        gateway = self.gateway("1/s burst 1", ", refused: { status: 503, body: '' }")
        self.assertEqual(self.call(gateway), (200, (0, 1, 1, 1)))
        status, headers, body = gateway.get(headers={"X-User": "a"})
        self.assertEqual((status, four(headers), body), (503, (0, 1, 1, 1), b""))
        self.assertEqual(headers["Retry-After"], "1")
        off = Gateway(WEIR, f"- {{ upstream: {self.service.url}, limits: [ 1/s ], key: ip, headers: off }}")
        with off:
            for wanted in (200, 429):
                status, headers, _ = off.get()
                self.assertEqual((status, four(headers)), (wanted, None))


if __name__ == "__main__":
    unittest.main()
