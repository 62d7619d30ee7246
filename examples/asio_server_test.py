"""asio_server delays clients that are too fast, and no others.

Usage: asio_server_test.py SERVER
"""

import socket
import subprocess
import sys
import threading
import time
import unittest

SERVER = sys.argv.pop(1)


class Server(unittest.TestCase):
    def setUp(self):
        self.process = subprocess.Popen([SERVER], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.addCleanup(self.process.stdout.close)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def ask(self, lines):
        """Sends each line over a new connection, in this order, and returns the answers as they arrive,
        with the seconds since the first was sent."""
        clients = [socket.create_connection(("127.0.0.1", self.port), timeout=30) for _ in lines]
        start = time.monotonic()
        answers = []

        def listen(client):
            answer = client.makefile().readline()
            answers.append((answer, time.monotonic() - start))
            client.close()

        for client, line in zip(clients, lines):
            client.sendall(line.encode())
        listeners = [threading.Thread(target=listen, args=(client,)) for client in clients]
        for listener in listeners:
            listener.start()
        for listener in listeners:
            listener.join()
        return sorted(answers, key=lambda answer: answer[1])

    def test_the_server_spaces_the_answers_to_one_name_evenly(self):
        answers = self.ask(["ann hello\n"] * 4)
        for i, (answer, seconds) in enumerate(answers):
            self.assertEqual(answer, "hello ann hello\n")
            self.assertGreater(seconds, 0.1 * i - 0.001)

    def test_a_waiting_client_does_not_delay_other_clients(self):
        answers = [answer for answer, _ in self.ask(["ann x\n"] * 6 + ["bob x\n"])]
        self.assertLess(answers.index("hello bob x\n"), 6)

    def test_the_server_refuses_at_once_a_call_with_too_long_a_wait(self):
        answers = [answer for answer, _ in self.ask(["ann x\n"] * 30)]
        self.assertIn("too many at once: ann x\n", answers[:-1])
        self.assertEqual(answers[-1], "hello ann x\n")

    def test_one_client_can_ask_again(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(b"ann one\nann two\n")
            lines = client.makefile()
            self.assertEqual([lines.readline(), lines.readline()],
                             ["hello ann one\n", "hello ann two\n"])


if __name__ == "__main__":
    unittest.main()
