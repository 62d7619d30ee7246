"""Hostile HTTP/2 clients, and honest ones that resemble them: h2_hostile_test.py WEIR."""

import functools
import random
import signal
import socket
import struct
import sys
import threading
import time
import unittest

from daemon import Daemon, resident_kib, under_sanitizer
from h2_listeners import POLICIES, RULES, GrpcListener, HttpListener
from h2_peer import *  # noqa: F403: frames, flags and codes

WEIR = sys.argv.pop(1)
SCALE = 10 if under_sanitizer() else 1


def start_daemon():
    daemon = Daemon(WEIR, POLICIES, grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml")
    (daemon.folder / "rules.yaml").write_text(RULES)
    daemon.__enter__()
    return daemon


def on_each_listener(test):
    """A test that runs on both listeners. Whatever a client does, others are served, and little memory is
    used."""
    @functools.wraps(test)
    def run(self):
        for listener in self.listeners:
            with self.subTest(listener=listener.name):
                before = resident_kib(self.daemon.process.pid)
                test(self, listener)
                for each in self.listeners:
                    with each.peer() as peer:
                        self.assert_answers(each, peer)
                if SCALE == 1:
                    grown = resident_kib(self.daemon.process.pid) - before
                    self.assertLess(grown, 30_000, "KiB")
    return run


class Listeners(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = start_daemon()
        cls.listeners = [HttpListener(cls.daemon), GrpcListener(cls.daemon)]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def assert_answers(self, listener, peer):
        answer = peer.ask(listener.fields(), listener.body)
        self.assertTrue(answer.reset is None and listener.is_answered(answer), answer)

    def assert_shut_out(self, peer, pieces, codes=(ENHANCE_YOUR_CALM,)):
        """Sends one piece after the other until the connection is closed. (Data in flight by then may cost
        the peer the GOAWAY.)"""
        reader = threading.Thread(target=self.read_all, args=(peer,))
        reader.start()
        for piece in pieces:
            if not reader.is_alive() or not peer.try_send(piece):
                break
        reader.join(20)
        self.assertFalse(reader.is_alive(), "it goes on and on")
        if peer.goaway:
            self.assertIn(peer.goaway[1], codes)

    @staticmethod
    def read_all(peer):
        try:
            peer.end()
        except (OSError, ValueError):
            pass


class FloodsTest(Listeners):
    """Frames that are cheap for the client and expensive for the daemon, repeatedly."""

    COUNT = 100_000
    # So many streams at once may also exceed the maximum.
    TOO_MANY = (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)

    def flood(self, listener, make, codes=(ENHANCE_YOUR_CALM,), each=100):
        """`make` gives the frames of one turn; they are sent in batches of a hundred turns."""
        with listener.peer() as peer:
            pieces = (b"".join(make(peer) for _ in range(each)) for _ in range(self.COUNT // each))
            self.assert_shut_out(peer, pieces, codes)
            # The work done before that is bounded.
            self.assertLess(len(peer.pongs) + peer.settings_acks + len(peer.answers), 20_000)

    # CVE-2023-44487
    @on_each_listener
    def test_a_flood_of_reset_requests_ends_the_connection(self, listener):
        def make(peer):
            stream = peer.new_stream()
            return peer.head(listener.fields(), stream) + reset(stream)
        self.flood(listener, make)

    @on_each_listener
    def test_a_flood_of_complete_requests_that_are_reset_ends_the_connection(self, listener):
        def make(peer):
            stream = peer.new_stream()
            return peer.head(listener.fields(), stream) + b"".join(peer.data(listener.body, stream)) + reset(stream)
        self.flood(listener, make)

    # CVE-2025-8671: resets that the daemon is made to send.
    @on_each_listener
    def test_a_flood_of_provoked_resets_ends_the_connection(self, listener):
        def make(peer):
            stream = peer.new_stream()
            return peer.head(listener.fields(), stream) + window_update(stream, 0)
        self.flood(listener, make, self.TOO_MANY)

    @on_each_listener
    def test_a_flood_of_malformed_requests_ends_the_connection(self, listener):
        def make(peer):
            return peer.head(listener.fields(("Upper", "case")), peer.new_stream(), END_HEADERS | END_STREAM)
        self.flood(listener, make, self.TOO_MANY)

    @on_each_listener
    def test_a_flood_of_pings_ends_the_connection(self, listener):
        self.flood(listener, lambda _: frame(PING, 0, 0, b"12345678"))

    @on_each_listener
    def test_a_flood_of_settings_ends_the_connection(self, listener):
        self.flood(listener, lambda _: settings(initial_window_size=65535))

    @on_each_listener
    def test_a_flood_of_empty_settings_ends_the_connection(self, listener):
        self.flood(listener, lambda _: frame(SETTINGS))

    @on_each_listener
    def test_a_flood_of_priority_frames_ends_the_connection(self, listener):
        numbers = iter(range(1, 1 << 30, 2))
        self.flood(listener, lambda _: frame(PRIORITY, 0, next(numbers), struct.pack(">IB", 0, 1)))

    @on_each_listener
    def test_a_flood_of_one_byte_window_updates_ends_the_connection(self, listener):
        self.flood(listener, lambda _: window_update(0, 1))

    @on_each_listener
    def test_a_flood_of_unknown_frames_ends_the_connection(self, listener):
        self.flood(listener, lambda _: frame(0xee, 0, 0, b""))

    @on_each_listener
    def test_a_flood_of_resets_of_closed_streams_ends_the_connection(self, listener):
        with listener.peer() as peer:
            self.assert_answers(listener, peer)
            self.assert_shut_out(peer, (reset(1) * 100 for _ in range(self.COUNT // 100)))

    @on_each_listener
    def test_a_flood_of_empty_data_ends_the_connection(self, listener):
        with listener.peer() as peer:
            peer.send(peer.head(listener.fields(), 1))
            self.assert_shut_out(peer, (frame(DATA, 0, 1) * 100 for _ in range(self.COUNT // 100)))

    # CVE-2024-27316 and similar: a header block that never ends.
    @on_each_listener
    def test_a_flood_of_continuations_ends_the_connection(self, listener):
        for piece in (b"", b"\x00\x01a\x01b", b"\x00\x01a\x7f\x81\x1e" + b"b" * 4000):
            with self.subTest(piece=piece[:10]), listener.peer() as peer:
                peer.send(peer.head(listener.fields(), 1, 0))
                self.assert_shut_out(peer, (frame(CONTINUATION, 0, 1, piece) * 100
                                            for _ in range(self.COUNT // 100)),
                                     codes=(ENHANCE_YOUR_CALM, PROTOCOL_ERROR, INTERNAL_ERROR))

    # (The client pays for every byte of it.)
    @on_each_listener
    def test_data_that_is_all_padding_needs_no_memory(self, listener):
        padding = frame(DATA, PADDED, 1, b"\xff" + bytes(255))
        with listener.peer() as peer:
            stream = peer.new_stream()
            peer.send(peer.head(listener.fields(), stream))
            for _ in range(self.COUNT // 100 // SCALE):
                peer.send(padding * 20)
                peer.pong()
            peer.send(*peer.data(listener.body, stream))
            self.assertTrue(listener.is_answered(peer.answer(stream)))


class HonestTest(Listeners):
    """Clients that send many frames and cancel requests for good reasons."""

    # As the gRPC library does: a PING and window updates with nearly every answer.
    @on_each_listener
    def test_a_ping_and_two_window_updates_with_every_request_are_allowed(self, listener):
        with listener.peer() as peer:
            for i in range(5000 // SCALE):
                stream = peer.request(listener.fields(), listener.body)
                peer.send(frame(PING, 0, 0, struct.pack(">Q", i)), window_update(0, 50))
                answer = peer.answer(stream)
                self.assertTrue(answer.reset is None and listener.is_answered(answer), (i, answer))
                del peer.answers[stream]
            self.assertIsNone(peer.goaway)

    @on_each_listener
    def test_resetting_one_of_five_requests_is_allowed(self, listener):
        with listener.peer() as peer:
            for i in range(5000 // SCALE):
                stream = peer.request(listener.fields(), listener.body)
                if i % 5 == 0:
                    peer.send(reset(stream))
                    continue
                answer = peer.answer(stream)
                self.assertTrue(answer.reset is None and listener.is_answered(answer), (i, answer))
                del peer.answers[stream]
            self.assertIsNone(peer.goaway)

    @on_each_listener
    def test_ten_thousand_requests_in_batches_of_a_hundred_are_answered(self, listener):
        with listener.peer() as peer:
            for _ in range(100 // SCALE):
                streams = [peer.new_stream() for _ in range(100)]
                peer.send(*(piece for stream in streams
                            for piece in (peer.head(listener.fields(), stream), *peer.data(listener.body, stream))))
                for stream in streams:
                    self.assertTrue(listener.is_answered(peer.answer(stream)))
                    del peer.answers[stream]


class UnresponsiveTest(Listeners):
    # Sends requests continuously, and reads no answer.
    @on_each_listener
    def test_a_client_that_never_reads_is_disconnected(self, listener):
        fields = listener.fields(method="GET", path="/metrics") if listener.name == "HTTP" else listener.fields()
        with listener.peer(initial_window_size=0x7fffffff) as peer:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.send(window_update(0, 0x7fffffff - 65535))
            peer.socket.setblocking(False)
            until, said = time.monotonic() + 2, b""
            while time.monotonic() < until:
                if not said:
                    streams = [peer.new_stream() for _ in range(50)]
                    ends = END_STREAM if listener.name == "HTTP" else 0
                    said = b"".join(peer.head(fields, stream, END_HEADERS | ends)
                                    + (b"" if ends else b"".join(peer.data(listener.body, stream)))
                                    for stream in streams)
                try:
                    said = said[peer.socket.send(said):]
                except BlockingIOError:
                    time.sleep(0.001)
                except OSError:
                    break
            if SCALE == 1:  # (memory is also checked after this connection has ended)
                self.assertLess(resident_kib(self.daemon.process.pid), 200_000)
            with listener.peer() as other:
                self.assert_answers(listener, other)

    # Answers wait while the window is closed, and the number of waiting answers is bounded.
    @on_each_listener
    def test_a_client_that_opens_no_window_delays_only_its_own_answers(self, listener):
        with listener.peer(initial_window_size=0) as peer:
            peer.settle()
            streams = [peer.new_stream() for _ in range(peer.settings[MAX_CONCURRENT_STREAMS])]
            for stream in streams:
                peer.send(peer.head(listener.fields(), stream), *peer.data(listener.body, stream))
            peer.settle()
            self.assertEqual([stream for stream in streams if peer.answers[stream].over], [])
            with listener.peer() as other:
                self.assert_answers(listener, other)
            peer.send(settings(initial_window_size=65535))
            for stream in streams:
                self.assertTrue(listener.is_answered(peer.answer(stream)))

    # Every stream has started a body of the maximum length: they share the memory of one connection.
    @on_each_listener
    def test_unfinished_bodies_are_bounded_in_memory(self, listener):
        peers = [listener.peer() for _ in range(5)]
        for peer in peers:
            peer.settle()
            streams = [peer.new_stream() for _ in range(100)]
            peer.send(*(peer.head(listener.fields(), stream) for stream in streams))
            peer.socket.settimeout(0.5)
            try:
                for i in range(10_000):
                    if not peer.try_send(frame(DATA, 0, streams[i % 100], bytes(16384))):
                        break
            except TimeoutError:
                pass
        if SCALE == 1:
            self.assertLess(resident_kib(self.daemon.process.pid), 200_000)
        for peer in peers:
            peer.close()

    @on_each_listener
    def test_noise_after_a_valid_preface_is_harmless(self, listener):
        noise = random.Random(7)
        for i in range(200 // SCALE):
            with listener.peer() as peer:
                if i % 2:
                    peer.try_send(noise.randbytes(noise.randrange(1, 3000)))
                    continue
                # Well-formed frames of any type, with any flags, on nearby streams.
                for _ in range(20):
                    peer.try_send(frame(noise.randrange(12), noise.randrange(256), noise.randrange(6),
                                        noise.randbytes(noise.choice([0, 1, 4, 5, 6, 8, 30]))))

    @on_each_listener
    def test_many_connections_that_send_only_a_preface_do_not_delay_others(self, listener):
        count = 500 // SCALE
        peers = [listener.peer() for _ in range(count)]
        for peer in peers:
            peer.settle()
        for peer in peers:
            peer.close()


class EndTest(unittest.TestCase):
    """SIGTERM: received requests are answered, and connected clients get GOAWAY."""

    def setUp(self):
        self.daemon = start_daemon()
        self.addCleanup(self.daemon.__exit__)
        self.listeners = [HttpListener(self.daemon), GrpcListener(self.daemon)]

    def test_requests_in_flight_are_answered_at_shutdown(self):
        peers = []
        for listener in self.listeners:
            peer = listener.peer()
            self.addCleanup(peer.close)
            stream = peer.new_stream()
            peer.send(peer.head(listener.fields(), stream))
            peer.settle()
            peers.append((listener, peer, stream))
        self.daemon.process.send_signal(signal.SIGTERM)
        for listener, peer, stream in peers:
            with self.subTest(listener=listener.name):
                while peer.goaway is None:
                    self.assertIsNotNone(peer.hear(), "it ended without a word")
                self.assertEqual(peer.goaway[1], NO_ERROR)
                self.assertGreaterEqual(peer.goaway[0], stream)
                peer.send(*peer.data(listener.body, stream))
                answer = peer.answer(stream)
                self.assertTrue(answer.reset is None and listener.is_answered(answer), answer)
                self.assertEqual(peer.end(), NO_ERROR)
                self.assertEqual(peer.goaway[0], stream, "the last it answered")
        self.assertEqual(self.daemon.end(), 0)

    def test_idle_connections_get_goaway_and_do_not_delay_the_shutdown(self):
        peers = [listener.peer() for listener in self.listeners for _ in range(10)]
        for peer in peers:
            self.addCleanup(peer.close)
            peer.settle()
        begin = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - begin, 20)
        for peer in peers:
            self.assertEqual(peer.end(), NO_ERROR)

    # The daemon does not wait for ever for a client that ignores GOAWAY.
    def test_a_connection_that_stays_open_does_not_block_the_shutdown(self):
        listener = self.listeners[1]
        peer = listener.peer()
        self.addCleanup(peer.close)
        peer.send(peer.head(listener.fields(), 1))
        peer.settle()
        self.assertEqual(self.daemon.stop(), 0)
        self.read_all(peer)

    @staticmethod
    def read_all(peer):
        try:
            peer.end()
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()
