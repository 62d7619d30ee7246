"""gRPC at the wire level, valid and invalid: grpc_wire_test.py WEIR."""

import struct
import sys
import unittest

from daemon import Daemon
from h2_listeners import METHOD, POLICIES, RULES, GrpcListener, rate_limit_request, text_field
from h2_peer import *  # noqa: F403: frames, flags and codes

WEIR = sys.argv.pop(1)
OK, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = \
    0, 2, 3, 4, 5, 8, 12, 13
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
REFLECT = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
MESSAGE = rate_limit_request(("user", "wire"))
FRAMED = grpc_message(MESSAGE)


class WireTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR, POLICIES, grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml")
        (cls.daemon.folder / "rules.yaml").write_text(RULES)
        cls.daemon.__enter__()
        cls.listener = GrpcListener(cls.daemon)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def setUp(self):
        self.peer = self.listener.peer()
        self.addCleanup(self.peer.close)

    def ask(self, *more, body=FRAMED, without=(), **pseudo):
        answer = self.peer.ask(self.listener.fields(*more, without=without, **pseudo), body)
        self.assertIsNone(answer.reset, answer)
        return answer

    def assert_fails(self, answer, *codes):
        """Asserts a trailers-only response."""
        self.assertEqual((answer.status, answer.body), (200, b""), answer)
        self.assertIn(answer.grpc_status, codes, answer)
        self.assertEqual(answer.trailers, {})
        self.assertTrue(answer.grpc_text, "nobody would know why")
        self.assertTrue(all(" " <= c <= "~" for c in answer.grpc_text), answer.grpc_text)
        self.assertTrue(self.listener.is_answered(self.peer.ask(self.listener.fields(), FRAMED)), "the next one")

    def test_an_answer_has_headers_a_message_and_trailers(self):
        answer = self.ask()
        self.assertEqual(answer.fields[":status"], "200")
        self.assertEqual(answer.fields["content-type"], "application/grpc")
        self.assertNotIn("grpc-status", answer.fields)
        self.assertEqual(answer.trailers["grpc-status"], "0")
        flag, length = struct.unpack(">BI", answer.body[:5])
        self.assertEqual((flag, length), (0, len(answer.body) - 5))

    def test_content_types_other_than_grpc_are_refused(self):
        for kind in ("application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"):
            answer = self.ask(("content-type", kind), without=["content-type"])
            self.assertTrue(self.listener.is_answered(answer), kind)
        for kind in ("text/plain", "application/json", "application/grp", "application/grpcs"):
            answer = self.ask(("content-type", kind), without=["content-type"])
            self.assertEqual(answer.status, 415, kind)
        self.assertEqual(self.ask(without=["content-type"]).status, 415)

    def test_methods_other_than_post_are_refused(self):
        for method in ("GET", "PUT", "DELETE"):
            answer = self.ask(method=method)
            self.assertTrue(answer.status == 405 or answer.grpc_status not in (None, OK), answer)

    def test_a_message_in_pieces_is_answered(self):
        for size in (1, 4, 5, 6, 11):
            stream = self.peer.new_stream()
            self.peer.send(self.peer.head(self.listener.fields(), stream),
                           *(frame(DATA, 0, stream, FRAMED[i:i + size]) for i in range(0, len(FRAMED), size)),
                           frame(DATA, END_STREAM, stream))
            self.assertTrue(self.listener.is_answered(self.peer.answer(stream)), size)

    def test_bodies_with_a_malformed_frame_are_errors(self):
        for what, body in {
                "half a head": FRAMED[:3],
                "only a head": FRAMED[:5],
                "half a message": FRAMED[:-1],
                "a flag that nobody knows": b"\x02" + FRAMED[1:],
                "compressed, and nobody said how": b"\x01" + FRAMED[1:]}.items():
            with self.subTest(what):
                self.assert_fails(self.ask(body=body), INTERNAL)

    def test_bodies_without_exactly_one_message_are_unimplemented(self):
        for what, body in {"no body at all": None, "nothing": b"", "two messages": FRAMED + FRAMED,
                           "more than a message": FRAMED + b"x"}.items():
            with self.subTest(what):
                self.assert_fails(self.ask(body=body), UNIMPLEMENTED)

    def test_messages_that_are_not_protobuf_are_errors(self):
        for what, message in {
                "a field without an end": b"\x0a\x7fabc",
                "a number without an end": b"\x18" + b"\xff" * 11,
                "a group without an end": b"\x0b",
                "a field with number 0": b"\x00\x00",
                "groups within groups": b"\x0b" * 10_000}.items():
            with self.subTest(what):
                self.assert_fails(self.ask(body=grpc_message(message)), INTERNAL, INVALID_ARGUMENT)

    # Fields of later versions are ignored.
    def test_unknown_fields_are_ignored(self):
        strange = text_field(15, "who knows") + b"\x98\x06\x05"
        self.assertTrue(self.listener.is_answered(self.ask(body=grpc_message(MESSAGE + strange))))

    def test_text_that_is_not_utf8_is_an_error(self):
        for part, message in {
                "domain": rate_limit_request(("user", "x"), domain=b"\xff"),
                "key": rate_limit_request((b"us\xc0\x80r", "x")),
                "value": rate_limit_request(("user", b"\xed\xa0\x80"))}.items():
            with self.subTest(part):
                self.assert_fails(self.ask(body=grpc_message(message)), INVALID_ARGUMENT, INTERNAL)

    def test_compression_is_refused_with_the_accepted_encodings(self):
        answer = self.ask(("grpc-encoding", "gzip"), body=b"\x01" + FRAMED[1:])
        self.assert_fails(answer, UNIMPLEMENTED)
        self.assertIn("identity", answer.fields["grpc-accept-encoding"])
        self.assertTrue(self.listener.is_answered(self.ask(("grpc-encoding", "identity"))))
        self.assertTrue(self.listener.is_answered(self.ask(("grpc-accept-encoding", "gzip,deflate"))))

    # The error comes before the whole message was sent.
    def test_a_message_that_is_too_long_is_refused_before_it_is_sent(self):
        self.peer.settle()
        stream = self.peer.new_stream()
        self.peer.send(self.peer.head(self.listener.fields(), stream),
                       frame(DATA, 0, stream, struct.pack(">BI", 0, 100_000_000)))
        room = self.peer.settings.get(INITIAL_WINDOW_SIZE, 65535) - 5
        self.assertLess(room, 10_000_000)
        for _ in range(room // 16384):
            self.peer.send(frame(DATA, 0, stream, bytes(16384)))
        answer = self.peer.answer(stream)
        self.assertEqual((answer.status, answer.grpc_status), (200, RESOURCE_EXHAUSTED), answer)
        self.assertTrue(self.listener.is_answered(self.ask()), "the next one")

    def test_unknown_paths_are_unimplemented(self):
        for path in ("/", "/x", METHOD + "/", METHOD[:-1], METHOD.lower(), "/grpc.health.v1.Health",
                     METHOD + "%00", "/" + "a" * 3000):
            with self.subTest(path=path[:40]):
                self.assert_fails(self.ask(path=path), UNIMPLEMENTED)

    def test_timeouts_are_read_and_malformed_ones_refused(self):
        for timeout in ("1H", "99999999H", "5M", "10S", "20000m", "99999999u", "99999999n"):
            answer = self.ask(("grpc-timeout", timeout))
            self.assertEqual(answer.grpc_status, OK, timeout)
        # (They may expire before anything has started.)
        for timeout in ("1n", "0S", "1u"):
            self.assertIn(self.ask(("grpc-timeout", timeout)).grpc_status, (OK, DEADLINE_EXCEEDED), timeout)
        for timeout in ("", "S", "5", "-5S", "5x", "123456789S", "1 S", "1.5S", "\u00b5"):
            answer = self.ask(("grpc-timeout", timeout))
            self.assertIn(answer.grpc_status, (OK, INVALID_ARGUMENT, INTERNAL, UNKNOWN), timeout)

    def test_health_is_checked_by_service_name(self):
        answer = self.ask(path=CHECK, body=grpc_message(b""))
        self.assertEqual((answer.grpc_status, answer.body), (OK, grpc_message(b"\x08\x01")))
        answer = self.ask(path=CHECK, body=grpc_message(text_field(1, "nobody")))
        self.assert_fails(answer, NOT_FOUND)

    def test_watching_stays_open_until_one_side_goes(self):
        stream = self.peer.request(self.listener.fields(path=WATCH), grpc_message(b""))
        self.peer.settle()
        answer = self.peer.answers[stream]
        self.assertEqual((answer.body, answer.over), (grpc_message(b"\x08\x01"), False))
        self.assertTrue(self.listener.is_answered(self.ask()), "others are served meanwhile")
        self.peer.send(reset(stream))
        self.peer.settle()
        self.assertFalse(answer.ended)

    # Requests come one by one, in pieces, and each is answered before the next is sent.
    def test_reflection_answers_each_request_of_a_stream(self):
        stream = self.peer.new_stream()
        self.peer.send(self.peer.head(self.listener.fields(path=REFLECT), stream))
        question = grpc_message(text_field(7, "*"))
        for i in range(1, 6):
            self.peer.send(frame(DATA, 0, stream, question[:4]))
            self.peer.pong()
            self.peer.send(frame(DATA, 0, stream, question[4:]))
            self.peer.settle()
            answer = self.peer.answers[stream]
            self.assertEqual(answer.body.count(b"envoy.service.ratelimit.v3.RateLimitService"), i)
        self.peer.send(frame(DATA, END_STREAM, stream))
        self.assertEqual(self.peer.answer(stream).grpc_status, OK)

    # Long answers are not written for a client that does not read.
    def test_reflection_stops_reading_a_client_that_reads_nothing(self):
        with self.listener.peer(initial_window_size=0) as peer:
            stream = peer.new_stream()
            peer.send(peer.head(self.listener.fields(path=REFLECT), stream))
            question = grpc_message(text_field(4, "envoy.service.ratelimit.v3.RateLimitService"))
            peer.socket.settimeout(0.5)
            try:
                for _ in range(20_000):
                    if not peer.try_send(frame(DATA, 0, stream, question * 20)):
                        break
            except TimeoutError:
                pass
            self.assertTrue(self.listener.is_answered(self.ask()), "others are served meanwhile")


if __name__ == "__main__":
    unittest.main()
