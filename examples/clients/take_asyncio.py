# take_asyncio.py
import asyncio

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

DEADLINE = 0.1  # seconds: to connect, and for each answer
CONNECTIONS = 64
VALUES = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms", "limited_by", "degraded")

weir = redis.Redis(port=7379, max_connections=CONNECTIONS, decode_responses=True, socket_timeout=DEADLINE,
                   socket_connect_timeout=DEADLINE, retry=Retry(NoBackoff(), 0))
turns = asyncio.Semaphore(CONNECTIONS)  # more tasks than connections wait, and do not fail

async def take(policy, key, permits=1):
    try:
        async with turns:
            answer = await weir.execute_command("WEIR.TAKE", policy, key, permits)
    except (redis.ConnectionError, redis.TimeoutError):
        return {"allowed": 1, "retry_after_ms": 0}  # weir does not answer: fail open
    return answer if isinstance(answer, dict) else dict(zip(VALUES, answer))

async def main():
    decisions = await asyncio.gather(*(take("login", "carol") for attempt in range(6)))
    print(sum(decision["allowed"] for decision in decisions), "of 6 are allowed")
    await weir.connection_pool.disconnect()

if __name__ == "__main__":
    asyncio.run(main())
