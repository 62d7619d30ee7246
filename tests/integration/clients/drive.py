"""Calls take() of a sample from many threads: drive.py SAMPLE POLICY KEY THREADS CALLS. Prints how many calls
were admitted, and the seconds that the longest took."""

import importlib
import json
import sys
import threading
import time

sample = importlib.import_module(sys.argv[1])
policy, key, threads, calls = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
results = []


def ask():
    for _ in range(calls):
        start = time.monotonic()
        allowed = bool(sample.take(policy, key)["allowed"])
        results.append((allowed, time.monotonic() - start))


everybody = [threading.Thread(target=ask) for _ in range(threads)]
for each in everybody:
    each.start()
for each in everybody:
    each.join()
assert len(results) == threads * calls, f"only {len(results)} calls returned"
print(json.dumps({"admitted": sum(allowed for allowed, _ in results), "longest": max(took for _, took in results)}))
