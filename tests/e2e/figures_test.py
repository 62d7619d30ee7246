"""The figures quoted in the documentation equal those of bench/RESULTS.md, rounded to the quoted digits.

Each quoted figure has a row in QUOTES. A quote that is no longer in its page fails as well: remove its row then.
Usage: figures_test.py.
"""
import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NUMBER = r"[\d,]*\.?\d+"
WORDS = {"twice": 2.0}
UNITS = {"k/s": 1e3, "µs": 1e-6, "ms": 1e-3, "MB": 1e6, "ns": 1e-9}

# Page, text with <> for the figure, its unit, section of RESULTS.md, row in it, index of the number in the row.
DAEMON, GRPC, REDIS = "What the daemon costs", "What a gRPC call costs", "What limits on a Redis cost"
PRODUCTION = "docs/production.md"
QUOTES = [
    ("README.md", "One thread makes <> million decisions a second", 1e6, DAEMON, "RESP: rate of WEIR.TAKE / bare", 0),
    ("README.md", "16 commands in flight: <> as many as", 1, DAEMON, "RESP: WEIR.TAKE / redis-server's SET", 2),
    ("README.md", "about <> times as many as it runs a token", 1, DAEMON, "RESP: WEIR.TAKE / token-bucket script", 2),
    ("README.md", "A million keys take <> MB", 1e6, DAEMON, "resident memory with 1 M keys", 0),
    ("README.md", "- <> bytes of memory per key and limit", 1, "What the library costs",
     "1M keys: bytes a key, sharded map / KeyedLimiter", 1),
    ("docs/envoy.md", "on one core, <> times as many calls a second as", 1, GRPC, "rate / envoyproxy/ratelimit", 2),
    ("docs/envoy.md", "and <> times as many with that Redis", 1, GRPC, "... with the same Redis behind weir", 2),
    (PRODUCTION, "one command in flight | <> |", 1, DAEMON, "take  ", 1),
    (PRODUCTION, "one command in flight | 139,000 | <> µs", 1e-6, DAEMON, "RESP: CPU of WEIR.TAKE / bare", 0),
    (PRODUCTION, "16 in flight (pipelined) | <> |", 1, DAEMON, "RESP: rate of WEIR.TAKE / bare", 0),
    (PRODUCTION, "one request in flight | <> |", 1, DAEMON, "HTTP: POST /v1/take / nginx", 0),
    (PRODUCTION, "… 16 in flight | <> |", 1, DAEMON, "HTTP: POST /v1/take / bare loop", 0),
    (PRODUCTION, "`ShouldRateLimit` over gRPC | <> |", 1, GRPC, "rate / gRPC C++ server ", 0),
    (PRODUCTION, "`ShouldRateLimit` over gRPC | 495,000 | <> µs", 1e-6, GRPC, "CPU of a call / gRPC", 0),
    (PRODUCTION, "the same with a Redis behind weir | <> |", 1, GRPC, "... with the same Redis behind weir", 0),
    (PRODUCTION, "a take counted on Redis, `scope: fleet` | <> |", 1, REDIS, "a take by way of the daemon", 0),
    (PRODUCTION, "and <> µs of the Redis server", 1e-6, REDIS, "... the server's alone: two buckets / one", 1),
    (PRODUCTION, "one hot key, `scope: leased` | <> |", 1, "What leased limits cost", "one hot key, 16 in flight", 0),
    (PRODUCTION, "through the gateway, with a limit | <> |", 1, "What the gateway costs", "requests a second: gateway", 0),
    (PRODUCTION, "through the gateway, with a limit | 54,000 | <> µs", 1e-6, "What the gateway costs", "CPU for each", 0),
    (PRODUCTION, "at half of that rate | <> µs", 1e-6, DAEMON, "RESP: p99 at half of its rate / bare", 0),
    (PRODUCTION, "500 calls a second | p50 <> ms", 1e-3, "Ten limits on a Redis Cluster", "10 limits of one key", 0),
    (PRODUCTION, "500 calls a second | p50 0.39 ms, p99 <> ms", 1e-3, "Ten limits on a Redis Cluster",
     "10 limits of one key", 1),
    (PRODUCTION, "resident memory with a million keys | <> MB", 1e6, DAEMON, "resident memory with 1 M keys", 0),
    (PRODUCTION, "with a full state file | <> ms", 1e-3, DAEMON, "start to serving, with a state file", 0),
]


def read(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return file.read()


def section(results, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", results, re.MULTILINE | re.DOTALL).group(1)


def figures_of(row):
    """The numbers of a row after its label, in base units, without the spread in brackets and the target."""
    columns = re.split(r"\s{2,}", re.sub(r"\[[^]]*\]", "", row))[1:]
    figures = []
    for column in columns:
        found = re.fullmatch(rf"({NUMBER})(?: (\S+))?", column.strip())
        if not found and figures:
            break
        if found:
            figures.append(float(found[1].replace(",", "")) * UNITS.get(found[2], 1))
    return figures


def rounding_of(text):
    """The rounding error of a quoted number: half of its last significant digit. 139,000: 500; 7.3: 0.05."""
    digits = text.replace(",", "")
    if "." in digits:
        return 0.5 * 10 ** -len(digits.split(".")[1])
    return 0.5 * 10 ** (len(digits) - len(digits.rstrip("0")))


class Figures(unittest.TestCase):
    def test_quoted_figures_are_those_of_the_benchmarks(self):
        results = read("bench/RESULTS.md")
        for page, quote, unit, title, label, position in QUOTES:
            with self.subTest(page=page, quote=quote):
                before, after = (r"\s+".join(map(re.escape, part.split())) for part in quote.split("<>"))
                found = re.search(rf"{before}\s*({NUMBER}|{'|'.join(WORDS)})\s*{after}", read(page))
                self.assertIsNotNone(found, "the page does not say this any more")
                row = next((line for line in section(results, title).splitlines() if line.startswith(label)), None)
                self.assertIsNotNone(row, f"bench/RESULTS.md has no row {label!r}")
                quoted = found[1]
                value = WORDS.get(quoted) or float(quoted.replace(",", ""))
                allowed = 0.5 if quoted in WORDS else rounding_of(quoted)
                # RESULTS.md is rounded as well, to thousands per second in its first columns: allow 0.1 % more.
                measured = figures_of(row)[position] / unit
                self.assertLessEqual(abs(value - measured), allowed * 1.001,
                                     f"{quoted} is quoted, and {measured:.4g} measured: {row.strip()}")


if __name__ == "__main__":
    unittest.main()
