# take_http.py
import http.client
import json
import threading

DEADLINE = 0.1  # seconds: to connect, and for each answer
own = threading.local()  # a connection for each thread, which stays open

def ask(body):
    if not hasattr(own, "weir"):
        own.weir = http.client.HTTPConnection("127.0.0.1", 7380, timeout=DEADLINE)
    own.weir.request("POST", "/v1/take", body, {"Content-Type": "application/json"})
    answer = own.weir.getresponse()
    return answer.status, json.loads(answer.read())

def take(policy, key, permits=1):
    body = json.dumps({"policy": policy, "key": key, "permits": permits})
    kept = getattr(own, "weir", None) and own.weir.sock
    try:
        try:
            status, decision = ask(body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            own.weir.close()
            if not kept:
                raise
            status, decision = ask(body)  # weir has closed a connection that was silent for long: connect again
    except (OSError, http.client.HTTPException):
        own.weir.close()
        return {"allowed": True, "retry_after_ms": 0}  # weir does not answer: fail open
    if status not in (200, 429, 503):
        raise ValueError(decision["detail"])  # a mistake
    return decision

if __name__ == "__main__":
    print(take("login", "bob")["allowed"], take("login", "bob", 9)["retry_after_ms"])
    take("logn", "bob")
