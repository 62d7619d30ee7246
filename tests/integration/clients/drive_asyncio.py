"""The same as drive.py for a sample with coroutines, with tasks in the place of threads."""

import asyncio
import importlib
import json
import sys
import time

sample = importlib.import_module(sys.argv[1])
policy, key, tasks, calls = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])


async def ask():
    results = []
    for _ in range(calls):
        start = time.monotonic()
        allowed = bool((await sample.take(policy, key))["allowed"])
        results.append((allowed, time.monotonic() - start))
    return results


async def main():
    every = await asyncio.gather(*(ask() for _ in range(tasks)))
    results = [result for some in every for result in some]
    await sample.weir.connection_pool.disconnect()
    print(json.dumps({"admitted": sum(allowed for allowed, _ in results), "longest": max(took for _, took in results)}))


asyncio.run(main())
