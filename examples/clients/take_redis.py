# take_redis.py
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

DEADLINE = 0.1  # seconds: to connect, and for each answer
CONNECTIONS = 64
VALUES = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms", "limited_by", "degraded")

weir = redis.Redis(port=7379, max_connections=CONNECTIONS, decode_responses=True, socket_timeout=DEADLINE,
                   socket_connect_timeout=DEADLINE, retry=Retry(NoBackoff(), 0))  # no hidden retries
turns = threading.BoundedSemaphore(CONNECTIONS)  # more threads than connections wait, and do not fail

def take(policy, key, permits=1):
    """The values of the decision, by name."""
    try:
        with turns:
            answer = weir.execute_command("WEIR.TAKE", policy, key, permits)
    except (redis.ConnectionError, redis.TimeoutError):
        return {"allowed": 1, "retry_after_ms": 0}  # weir does not answer: fail open. Other errors are mistakes
    return answer if isinstance(answer, dict) else dict(zip(VALUES, answer))  # RESP3 has names, RESP2 has not

if __name__ == "__main__":
    for attempt in range(6):
        decision = take("login", "alice")
        print("allowed" if decision["allowed"] else
              f"refused, come back in {decision['retry_after_ms'] / 1000:.1f} s")
