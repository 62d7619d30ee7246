"""Client commands of weir against servers that answer in unusual ways: ask_test.py WEIR."""

import socket
import subprocess
import sys
import tempfile
import threading
import unittest

WEIR = sys.argv.pop(1)

DECISION = (b'{"allowed":true,"limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":1000,"wait_ms":0,'
            b'"limited_by":"tries","degraded":false}')
WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(DECISION), DECISION)


class Server:
    """Answers one request with the given pieces of bytes, then closes; without pieces, it stays silent."""

    def __init__(self, *pieces, address="127.0.0.1"):
        self.pieces = pieces
        self.request = b""
        self.socket = socket.create_server((address, 0))
        self.socket.settimeout(30)
        self.port = self.socket.getsockname()[1]
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.socket.close()

    def serve(self):
        connection, _ = self.socket.accept()
        with connection:
            while b"\r\n\r\n" not in self.request:
                self.request += connection.recv(65536)
            for piece in self.pieces:
                connection.sendall(piece)
            if not self.pieces:
                self.done.wait(60)


def ask(port, *command, host="127.0.0.1", wrapper=()):
    done = subprocess.run([*wrapper, WEIR, *command, "--url", f"http://{host}:{port}"], text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def can_mount():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, timeout=60).returncode == 0


class AskTest(unittest.TestCase):
    def take(self, *pieces):
        with Server(*pieces) as server:
            answer = ask(server.port, "take", "login", "alice", "--token", "secret")
            self.assertIn(b"POST /v1/take HTTP/1.1\r\n", server.request)
            self.assertIn(b"Authorization: Bearer secret\r\n", server.request)
            return answer

    def assert_understood(self, *pieces):
        code, said = self.take(*pieces)
        self.assertEqual(code, 0, said)
        self.assertIn("remaining    4\n", said)

    def test_a_response_with_a_length_is_read(self):
        self.assert_understood(WITH_LENGTH)

    def test_a_response_may_come_byte_by_byte(self):
        self.assert_understood(*(bytes([byte]) for byte in WITH_LENGTH))

    def test_a_chunked_response_is_read(self):
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (DECISION[:7], DECISION[7:]))
        self.assert_understood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")

    def test_a_response_delimited_by_close_is_read(self):
        self.assert_understood(b"HTTP/1.1 200 OK\r\n\r\n" + DECISION)

    def test_interim_responses_are_skipped(self):
        self.assert_understood(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + WITH_LENGTH)

    # Only one of the name's two addresses has a server: first the first, then the second.
    @unittest.skipUnless(can_mount(), "a hosts file of its own needs root, and a root folder that is a mount")
    def test_every_address_of_a_name_is_tried(self):
        addresses = ("127.0.0.1", "127.0.0.2")
        with tempfile.NamedTemporaryFile("w") as hosts:
            hosts.writelines(f"{address} twofold\n" for address in addresses)
            hosts.flush()
            with_hosts = ("unshare", "--mount", "sh", "-c", f'mount --bind {hosts.name} /etc/hosts && exec "$@"', "sh")
            for address in addresses:
                with self.subTest(address=address), Server(WITH_LENGTH, address=address) as server:
                    code, said = ask(server.port, "take", "login", "alice", host="twofold", wrapper=with_hosts)
                    self.assertEqual(code, 0, said)

    def test_a_truncated_response_is_an_error(self):
        code, said = self.take(WITH_LENGTH[:-1])
        self.assertEqual(code, 1)
        self.assertIn("the connection was closed before the response was complete", said)

    def test_a_response_that_is_not_http_is_an_error(self):
        code, said = self.take(b"+PONG\r\n\r\n")
        self.assertEqual(code, 1)
        self.assertIn("the response is not HTTP", said)

    def test_a_server_that_never_answers_times_out(self):
        with Server() as server:
            code, said = ask(server.port, "top", "--once")
        self.assertEqual(code, 1)
        self.assertIn("no answer within 2000 ms", said)


if __name__ == "__main__":
    unittest.main()
