"""HTTP/2 case by case, on both listeners that speak it: h2_test.py WEIR.

Each case breaks or uses one rule of RFC 9113 or 7541 and expects its result. A stream error may be made a
connection error: the RFC allows that. The numbers are sections.
"""

import functools
import json
import struct
import sys
import time
import unittest

import hpack

from daemon import Daemon
from h2_listeners import POLICIES, RULES, GrpcListener, HttpListener
from h2_peer import *  # noqa: F403: frames, flags and codes

WEIR = sys.argv.pop(1)


class Expectation:
    """The expected result of a case: a connection error, a stream error, or an answer."""

    def __init__(self, kind, codes=()):
        self.kind, self.codes = kind, codes

    def check(self, test, listener, peer, stream):
        getattr(self, self.kind)(test, listener, peer, stream)

    def connection(self, test, listener, peer, stream):
        test.assertIn(peer.end(), self.codes, "the code of the last word")

    def stream(self, test, listener, peer, stream):
        """The stream ends with an error, or the connection does."""
        try:
            answer = peer.answer(stream)
        except EOFError:
            test.assertIn(peer.end(), self.codes, "the code of the last word")
            return
        if answer.reset is None and PROTOCOL_ERROR in self.codes:
            test.assertEqual(answer.status, 400)
        else:
            test.assertIn(answer.reset, self.codes, "the code of the reset")
        test.assert_still_answers(listener, peer)

    def late(self, test, listener, peer, stream):
        """Only the stream is reset, and not answered again."""
        before = len(peer.answers[stream].frames) if stream in peer.answers else 0
        test.assert_still_answers(listener, peer)
        answer = peer.answers[stream]
        test.assertIn(answer.reset, self.codes, "the code of the reset")
        test.assertEqual(len(answer.frames), before, "no second answer")

    def fine(self, test, listener, peer, stream):
        answer = peer.answer(stream)
        test.assertTrue(answer.over and answer.reset is None and listener.is_answered(answer), answer)
        test.assert_still_answers(listener, peer)

    def well(self, test, listener, peer, stream):
        test.assert_still_answers(listener, peer)


def connection_error(*codes):
    return Expectation("connection", codes)


def stream_error(*codes):
    return Expectation("stream", codes)


def late(*codes):
    return Expectation("late", codes)


FINE = Expectation("fine")  # the request is answered
WELL = Expectation("well")  # that request is not answered; the next one is
MALFORMED = stream_error(PROTOCOL_ERROR)

CASES = []


def case(title, expected):
    def add(function):
        CASES.append((title, function, expected))
        return function
    return add


def sends(title, expected, *frames):
    """A case of frames without further setup."""
    CASES.append((title, lambda peer, listener: peer.send(*frames), expected))


# ---- 3.4: how a connection starts

@case("3.4 the first frame is no SETTINGS", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    with_preface_only(peer, listener)
    peer.send(PREFACE, frame(PING, 0, 0, b"12345678"))


def with_preface_only(peer, listener):
    """A new connection in place of the prepared one."""
    fresh = listener.peer(greets=False)
    peer.close()
    peer.socket, peer.file = fresh.socket, fresh.file


# ---- 4.2: sizes of frames

@case("4.2 DATA longer than the largest frame", stream_error(FRAME_SIZE_ERROR))
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), frame(DATA, END_STREAM, stream, bytes(16385)))
    return stream


@case("4.2 HEADERS longer than the largest frame", connection_error(FRAME_SIZE_ERROR))
def _(peer, listener):
    fields = listener.fields(*((f"x-{i}", "a" * 4000) for i in range(5)))
    peer.try_send(peer.head(fields, 1, END_HEADERS | END_STREAM))


@case("4.2 DATA as long as a frame may be", FINE)
def _(peer, listener):
    padding = bytes([250]) + listener.body + bytes(250)
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), frame(DATA, PADDED | END_STREAM, stream, padding))
    return stream


sends("4.2 SETTINGS longer than the largest frame", connection_error(FRAME_SIZE_ERROR),
      frame(SETTINGS, 0, 0, struct.pack(">HI", 99, 0) * 2731))


# ---- 4.3: header blocks

@case("4.3 a header block that is none", connection_error(COMPRESSION_ERROR))
def _(peer, listener):
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"))


def unfinished_header(then):
    def send(peer, listener):
        peer.send(peer.head(listener.fields(), 1, 0), then)
    return send


for what, then in (("PRIORITY", frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1))),
                   ("DATA", frame(DATA, END_STREAM, 1, b"x")),
                   ("HEADERS of another stream", frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x82")),
                   ("CONTINUATION of another stream", frame(CONTINUATION, END_HEADERS, 3, b"")),
                   ("a PING", frame(PING, 0, 0, bytes(8))),
                   ("a frame of an unknown type", frame(0xee, 0, 1, b"x"))):
    CASES.append((f"4.3 {what} within a header block", unfinished_header(then),
                  connection_error(PROTOCOL_ERROR)))


# ---- 5.1: states of streams

sends("5.1 DATA on an idle stream", connection_error(PROTOCOL_ERROR, STREAM_CLOSED),
      frame(DATA, END_STREAM, 1, b"x"))
sends("5.1 RST_STREAM on an idle stream", connection_error(PROTOCOL_ERROR), reset(1))
sends("5.1 WINDOW_UPDATE on an idle stream", connection_error(PROTOCOL_ERROR), window_update(1, 100))
sends("5.1 CONTINUATION on an idle stream", connection_error(PROTOCOL_ERROR),
      frame(CONTINUATION, END_HEADERS, 1, b"\x82"))


def half_closed(peer, listener):
    """A stream whose answer cannot be sent yet, because its window is closed."""
    peer.send(settings(initial_window_size=0))
    return peer.request(listener.fields(), listener.body)


@case("5.1 DATA on a half-closed stream", stream_error(STREAM_CLOSED))
def _(peer, listener):
    stream = half_closed(peer, listener)
    peer.send(frame(DATA, END_STREAM, stream, b"x"), settings(initial_window_size=65535))
    return stream


@case("5.1 HEADERS on a half-closed stream", stream_error(STREAM_CLOSED))
def _(peer, listener):
    stream = half_closed(peer, listener)
    peer.send(peer.head([("late", "1")], stream, END_HEADERS | END_STREAM),
              settings(initial_window_size=65535))
    return stream


@case("5.1 CONTINUATION on a half-closed stream", connection_error(PROTOCOL_ERROR, STREAM_CLOSED))
def _(peer, listener):
    stream = half_closed(peer, listener)
    peer.send(frame(CONTINUATION, END_HEADERS, stream, b"\x82"))


def closed_by_reset(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), reset(stream))
    return stream


def closed_by_end(peer, listener):
    stream = peer.request(listener.fields(), listener.body)
    peer.answer(stream)
    return stream


@case("5.1 DATA after RST_STREAM", late(STREAM_CLOSED))
def _(peer, listener):
    stream = closed_by_reset(peer, listener)
    peer.send(frame(DATA, END_STREAM, stream, b"x"))
    return stream


@case("5.1 HEADERS after RST_STREAM", connection_error(STREAM_CLOSED))
def _(peer, listener):
    stream = closed_by_reset(peer, listener)
    peer.send(peer.head(listener.fields(), stream, END_HEADERS | END_STREAM))
    return stream


@case("5.1 CONTINUATION after RST_STREAM", connection_error(STREAM_CLOSED, PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(frame(CONTINUATION, END_HEADERS, closed_by_reset(peer, listener), b"\x82"))


@case("5.1 DATA on a closed stream", late(STREAM_CLOSED))
def _(peer, listener):
    stream = closed_by_end(peer, listener)
    peer.send(frame(DATA, END_STREAM, stream, b"x"))
    return stream


@case("5.1 HEADERS on a closed stream", connection_error(STREAM_CLOSED))
def _(peer, listener):
    stream = closed_by_end(peer, listener)
    peer.send(peer.head(listener.fields(), stream, END_HEADERS | END_STREAM))
    return stream


@case("5.1 WINDOW_UPDATE and RST_STREAM on a closed stream", WELL)
def _(peer, listener):
    stream = closed_by_end(peer, listener)
    peer.send(window_update(stream, 100), reset(stream), frame(PRIORITY, 0, stream, bytes(4) + b"\x01"))


# ---- 5.1.1: stream identifiers

@case("5.1.1 a stream with an even number", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 2, END_HEADERS | END_STREAM))


# (The larger identifier has closed it, and it is treated as any closed stream.)
@case("5.1.1 a number smaller than the last", connection_error(STREAM_CLOSED))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 5))
    peer.send(peer.head(listener.fields(), 3, END_HEADERS | END_STREAM))
    peer.next_stream = 7
    return 3


@case("5.1.1 numbers may be left out", FINE)
def _(peer, listener):
    peer.next_stream = 1001
    return peer.request(listener.fields(), listener.body)


@case("5.1.1 the last number there is", Expectation("last_stream"))
def _(peer, listener):
    return peer.request(listener.fields(), listener.body, stream=0x7fffffff)


def last_stream(self, test, listener, peer, stream):
    test.assertTrue(listener.is_answered(peer.answer(stream)))


Expectation.last_stream = last_stream


# ---- 5.3: a stream that depends on itself

@case("5.3.1 HEADERS that depend on themselves", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    block = peer.encoder.encode(listener.fields(), huffman=False)
    peer.send(frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, struct.pack(">IB", 1, 255) + block))
    peer.next_stream = 3


@case("5.3.1 PRIORITY that depends on itself", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 255)))


# ---- 5.5: extensions

sends("5.5 a frame of an unknown type", WELL, frame(0xee, 0xff, 0, b"who knows"),
      frame(0xee, 0, 77, b"who knows"))


# ---- 6.1: DATA

sends("6.1 DATA on the connection", connection_error(PROTOCOL_ERROR), frame(DATA, 0, 0, b"x"))


@case("6.1 padding as long as the payload", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 1), frame(DATA, PADDED | END_STREAM, 1, b"\x06abcde"))


@case("6.1 padded DATA, and DATA of nothing but padding", FINE)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), frame(DATA, PADDED, stream, b"\x05" + bytes(5)),
              frame(DATA, PADDED, stream, b"\x03" + listener.body[:4] + bytes(3)),
              frame(DATA, 0, stream, listener.body[4:]), frame(DATA, END_STREAM, stream))
    return stream


# ---- 6.2: HEADERS

sends("6.2 HEADERS on the connection", connection_error(PROTOCOL_ERROR),
      frame(HEADERS, END_HEADERS | END_STREAM, 0, b"\x82\x86\x84"))


@case("6.2 padding longer than the payload", connection_error(PROTOCOL_ERROR, FRAME_SIZE_ERROR))
def _(peer, listener):
    block = peer.encoder.encode(listener.fields(), huffman=False)
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\xff" + block[:100]))


@case("6.2 HEADERS with padding and a priority", FINE)
def _(peer, listener):
    stream = peer.new_stream()
    block = peer.encoder.encode(listener.fields())
    peer.send(frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, stream,
                    b"\x07" + struct.pack(">IB", 0, 200) + block + bytes(7)), *peer.data(listener.body, stream))
    return stream


# ---- 6.3, 6.4: PRIORITY and RST_STREAM

# (The RFC requires an error; a server that ignores priorities need not check them.)
sends("6.3 PRIORITY on the connection", connection_error(PROTOCOL_ERROR),
      frame(PRIORITY, 0, 0, struct.pack(">IB", 1, 1)))
sends("6.3 PRIORITY on an idle stream", WELL, frame(PRIORITY, 0, 99, struct.pack(">IB", 0, 1)))


@case("6.3 PRIORITY of a wrong length", stream_error(FRAME_SIZE_ERROR))
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), frame(PRIORITY, 0, stream, bytes(4)))
    return stream


sends("6.4 RST_STREAM on the connection", connection_error(PROTOCOL_ERROR), reset(0))


@case("6.4 RST_STREAM of a wrong length", connection_error(FRAME_SIZE_ERROR))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 1), frame(RST_STREAM, 0, 1, bytes(3)))


# ---- 6.5: SETTINGS

sends("6.5 an ACK with a payload", connection_error(FRAME_SIZE_ERROR),
      frame(SETTINGS, ACK, 0, struct.pack(">HI", 1, 0)))
sends("6.5 SETTINGS on a stream", connection_error(PROTOCOL_ERROR),
      frame(SETTINGS, 0, 1, struct.pack(">HI", 3, 100)))
sends("6.5 SETTINGS of no whole number of settings", connection_error(FRAME_SIZE_ERROR),
      frame(SETTINGS, 0, 0, bytes(3)))
sends("6.5.2 ENABLE_PUSH neither 0 nor 1", connection_error(PROTOCOL_ERROR), settings(enable_push=2))
sends("6.5.2 a window above its most", connection_error(FLOW_CONTROL_ERROR),
      settings(initial_window_size=1 << 31))
sends("6.5.2 a frame size below its least", connection_error(PROTOCOL_ERROR),
      settings(max_frame_size=16383))
sends("6.5.2 a frame size above its most", connection_error(PROTOCOL_ERROR),
      settings(max_frame_size=1 << 24))
sends("6.5.2 every setting at its least and most", WELL,
      settings(enable_push=0, max_frame_size=(1 << 24) - 1, initial_window_size=(1 << 31) - 1,
               header_table_size=0, max_concurrent_streams=0),
      settings(enable_push=1, max_frame_size=16384, initial_window_size=65535,
               header_table_size=(1 << 32) - 1, max_header_list_size=(1 << 32) - 1))
sends("6.5.2 an unknown setting", WELL, frame(SETTINGS, 0, 0, struct.pack(">HI", 0xabc, 5)))


# ---- 6.6: PUSH_PROMISE

@case("6.6 PUSH_PROMISE from a client", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    head = peer.head(listener.fields(), 1)
    block = peer.encoder.encode(listener.fields())
    peer.send(head, frame(PUSH_PROMISE, END_HEADERS, 1, bytes(3) + b"\x02" + block))


# ---- 6.7, 6.8: PING and GOAWAY

sends("6.7 PING on a stream", connection_error(PROTOCOL_ERROR), frame(PING, 0, 1, bytes(8)))
sends("6.7 PING of a wrong length", connection_error(FRAME_SIZE_ERROR), frame(PING, 0, 0, bytes(6)))
sends("6.8 GOAWAY on a stream", connection_error(PROTOCOL_ERROR), frame(GOAWAY, 0, 1, bytes(8)))


@case("6.7 the answer to a PING is not answered", WELL)
def _(peer, listener):
    peer.send(frame(PING, ACK, 0, b"unasked!"))
    peer.pong(b"question")
    assert peer.pongs == []


# ---- 6.9: windows

sends("6.9 a window that opens by nothing", connection_error(PROTOCOL_ERROR), window_update(0, 0))
sends("6.9 WINDOW_UPDATE of a wrong length", connection_error(FRAME_SIZE_ERROR),
      frame(WINDOW_UPDATE, 0, 0, bytes(3)))
sends("6.9.1 the connection's window above its most", connection_error(FLOW_CONTROL_ERROR),
      window_update(0, 0x7fffffff))


@case("6.9 a stream's window that opens by nothing", stream_error(PROTOCOL_ERROR))
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), window_update(stream, 0))
    return stream


@case("6.9.1 a stream's window above its most", stream_error(FLOW_CONTROL_ERROR))
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), window_update(stream, 0x7fffffff))
    return stream


# (A connection error by the RFC; a stream error by nghttp2.)
@case("6.9.2 SETTINGS that bring a stream's window above its most", stream_error(FLOW_CONTROL_ERROR))
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), window_update(stream, 0x7fffffff - 65535),
              settings(initial_window_size=65536))
    return stream


# ---- 6.10: CONTINUATION

def in_pieces(peer, listener, size):
    stream = peer.new_stream()
    block = peer.encoder.encode(listener.fields(), huffman=False)
    pieces = [block[i:i + size] for i in range(0, len(block), size)]
    peer.send(frame(HEADERS, 0, stream, pieces[0]),
              *(frame(CONTINUATION, 0, stream, piece) for piece in pieces[1:]),
              frame(CONTINUATION, END_HEADERS, stream), *peer.data(listener.body, stream))
    return stream


@case("6.10 a header in ten pieces", FINE)
def _(peer, listener):
    return in_pieces(peer, listener, 20)


sends("6.10 CONTINUATION on the connection", connection_error(PROTOCOL_ERROR),
      frame(CONTINUATION, END_HEADERS, 0, b"\x82"))


@case("6.10 CONTINUATION after the end of the header", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 1), frame(CONTINUATION, END_HEADERS, 1, b"\x82"))


@case("6.10 CONTINUATION after DATA", connection_error(PROTOCOL_ERROR))
def _(peer, listener):
    peer.send(peer.head(listener.fields(), 1), frame(DATA, 0, 1, b"x"),
              frame(CONTINUATION, END_HEADERS, 1, b"\x82"))


# ---- 7: error codes

@case("7 RST_STREAM with an unknown code", WELL)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), reset(stream, 0xabcdef))


# ---- 8.1: a request is a header, a body and optional trailers

@case("8.1 trailers that do not end the stream", MALFORMED)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), *peer.data(listener.body, stream, ends=False),
              peer.head([("x-trailer", "1")], stream))
    return stream


@case("8.1 trailers", FINE)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), *peer.data(listener.body, stream, ends=False),
              peer.head([("x-trailer", "1")], stream, END_HEADERS | END_STREAM))
    return stream


@case("8.1 trailers with a pseudo-field", MALFORMED)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(), stream), *peer.data(listener.body, stream, ends=False),
              peer.head([(":method", "GET")], stream, END_HEADERS | END_STREAM))
    return stream


def malformed(title, change):
    """A request with changed fields, and its body."""
    def send(peer, listener):
        return peer.request(change(listener), listener.body)
    CASES.append((title, send, MALFORMED))


# ---- 8.2, 8.3: fields

malformed("8.2 a name in upper case", lambda listener: listener.fields(("X-Test", "1")))
malformed("8.2.1 a name with a space", lambda listener: listener.fields(("x test", "1")))
malformed("8.2.1 a name with a colon within", lambda listener: listener.fields(("x:test", "1")))
malformed("8.2.1 an empty name", lambda listener: listener.fields(("", "1")))
malformed("8.2.1 a value with a line feed", lambda listener: listener.fields(("x-test", "a\nb: c")))
malformed("8.2.1 a value with a zero byte", lambda listener: listener.fields(("x-test", "a\0b")))
for name, value in (("connection", "keep-alive"), ("keep-alive", "1"), ("proxy-connection", "close"),
                    ("transfer-encoding", "chunked"), ("upgrade", "h2c"), ("te", "gzip")):
    malformed(f"8.2.2 {name}: {value}",
              lambda listener, name=name, value=value: listener.fields((name, value), without=[name]))
malformed("8.3 an unknown pseudo-field", lambda listener: listener.fields(("x", "y"), strange="1"))
malformed("8.3 the pseudo-field of answers", lambda listener: listener.fields(status="200"))
malformed("8.3 a pseudo-field after others",
          lambda listener: listener.fields((":path", "/healthz"), without=[":path"]))
for name in (":method", ":scheme", ":path"):
    malformed(f"8.3.1 no {name}", lambda listener, name=name: listener.fields(without=[name]))
    malformed(f"8.3.1 two of {name}", lambda listener, name=name: [
        field for field in listener.fields() if field[0] == name] + listener.fields())
malformed("8.3.1 an empty :path", lambda listener: listener.fields(path=""))
malformed("8.1.1 more body than content-length says",
          lambda listener: listener.fields(("content-length", str(len(listener.body) - 1))))
malformed("8.1.1 less body than content-length says",
          lambda listener: listener.fields(("content-length", str(len(listener.body) + 1))))
malformed("8.1.1 a content-length that is no number", lambda listener: listener.fields(("content-length", "x")))
malformed("8.1.1 two lengths", lambda listener: listener.fields(("content-length", str(len(listener.body))),
                                                        ("content-length", "1")))


@case("8.1.1 a body in pieces longer than content-length says", MALFORMED)
def _(peer, listener):
    stream = peer.new_stream()
    peer.send(peer.head(listener.fields(("content-length", "2")), stream), frame(DATA, 0, stream, b"1"),
              frame(DATA, END_STREAM, stream, b"23"))
    return stream


@case("8.1.1 a content-length that is right", FINE)
def _(peer, listener):
    return peer.request(listener.fields(("content-length", str(len(listener.body)))), listener.body)


# ---- RFC 7541: header compression

def block_ends_with(title, bytes_):
    def send(peer, listener):
        block = peer.encoder.encode(listener.fields(), huffman=False) + bytes_
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
    CASES.append((title, send, connection_error(COMPRESSION_ERROR)))


block_ends_with("HPACK 2.3.3 the field with number 0", b"\x80")
block_ends_with("HPACK 2.3.3 a field that is in no table", b"\xfe")
block_ends_with("HPACK 4.2 a change of the table's size within a block", b"\x20")
block_ends_with("HPACK 5.1 a number without an end", b"\x7f" + b"\xff" * 12)
block_ends_with("HPACK 5.2 padding of more than seven bits", 
                b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff")
block_ends_with("HPACK 5.2 padding of zeros", b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90")
block_ends_with("HPACK 5.2 the end of all texts within one",
                b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\xff\xff\xff\xff\xfb\xf2\xb2")
block_ends_with("HPACK 5.2 a text longer than the block", b"\x00\x05ab")


@case("HPACK 6.3 a table larger than was agreed", connection_error(COMPRESSION_ERROR))
def _(peer, listener):
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xe1\xff\x03\x82\x86\x84"))


@case("HPACK: Huffman codes, fields that are remembered and fields that never are", FINE)
def _(peer, listener):
    fields = [hpack.HeaderTuple(*field) for field in listener.fields()]
    fields += [hpack.NeverIndexedHeaderTuple("x-secret", "sesame"), ("x-again", "and again")]
    for _ in range(3):
        stream = peer.new_stream()
        block = peer.encoder.encode(fields, huffman=True)
        peer.send(frame(HEADERS, END_HEADERS, stream, block), *peer.data(listener.body, stream))
    return stream


@case("HPACK: a table that has become smaller", FINE)
def _(peer, listener):
    peer.request(listener.fields(), listener.body)
    peer.encoder.header_table_size = 0
    peer.request(listener.fields(), listener.body)
    peer.encoder.header_table_size = 1000
    return peer.request(listener.fields(), listener.body)


def on_each_listener(test):
    """A test that runs on both listeners."""
    @functools.wraps(test)
    def run(self):
        for listener in self.listeners:
            with self.subTest(listener=listener.name):
                test(self, listener)
    return run


class Listeners(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(WEIR, POLICIES, grpc="127.0.0.1:0", extra="envoy_ratelimit: rules.yaml")
        (cls.daemon.folder / "rules.yaml").write_text(RULES)
        cls.daemon.__enter__()
        cls.listeners = [HttpListener(cls.daemon), GrpcListener(cls.daemon)]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__()

    def assert_still_answers(self, listener, peer):
        answer = peer.ask(listener.fields(), listener.body)
        self.assertTrue(answer.reset is None and listener.is_answered(answer), answer)


class ConformanceTest(Listeners):
    def test_every_case_has_the_expected_answer(self):
        for listener in self.listeners:
            for title, send, expected in CASES:
                with self.subTest(listener=listener.name, case=title), listener.peer() as peer:
                    stream = send(peer, listener)
                    expected.check(self, listener, peer, stream)
            with listener.peer() as peer:
                self.assert_still_answers(listener, peer)
        print(f"{len(CASES)} cases on {len(self.listeners)} listeners")

    # GOAWAY comes before the end, and nothing after it.
    @on_each_listener
    def test_an_error_of_the_connection_names_the_last_stream(self, listener):
        with listener.peer() as peer:
            self.assert_still_answers(listener, peer)
            peer.send(frame(DATA, 0, 0, b"x"), frame(PING, 0, 0, bytes(8)))
            self.assertEqual(peer.end(), PROTOCOL_ERROR)
            self.assertEqual(peer.goaway[0], 1)
            self.assertEqual(peer.pongs, [])

    @on_each_listener
    def test_settings_are_sent_and_acknowledged(self, listener):
        with listener.peer() as peer:
            self.assert_still_answers(listener, peer)
            self.assertEqual(peer.settings_acks, 1)
            peer.send(settings(max_concurrent_streams=5))
            peer.settle()
            self.assertEqual(peer.settings_acks, 2)
            # The settings of the daemon bound every resource.
            self.assertIn(MAX_CONCURRENT_STREAMS, peer.settings)
            self.assertTrue(10 <= peer.settings[MAX_CONCURRENT_STREAMS] <= 10_000, peer.settings)
            self.assertIn(MAX_HEADER_LIST_SIZE, peer.settings)

    @on_each_listener
    def test_a_connection_without_the_preface_is_closed(self, listener):
        starts = [b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + frame(SETTINGS), b"PRI * HTTP/1.1\r\n\r\n"]
        if listener.name == "gRPC":  # (other input on the HTTP listener is tested in http_test.py)
            starts += [b"\x16\x03\x01" + bytes(50), bytes(100), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
        for start in starts:
            with self.subTest(start=start[:20]), listener.peer(greets=False) as peer:
                peer.send(start)
                self.read_until_end(peer)

    @staticmethod
    def read_until_end(peer):
        try:
            while peer.socket.recv(4096):
                pass
        except ConnectionResetError:
            pass

    @on_each_listener
    def test_a_request_sent_byte_by_byte_is_answered(self, listener):
        with listener.peer(greets=False) as peer:
            stream = peer.new_stream()
            said = PREFACE + settings() + peer.head(listener.fields(), stream)
            for byte in said + b"".join(peer.data(listener.body, stream)):
                peer.send(bytes([byte]))
            answer = peer.answer(stream)
            self.assertTrue(listener.is_answered(answer), answer)

    # The network may cut anywhere: in a frame header, a header block, a name.
    @on_each_listener
    def test_a_request_in_two_parts_is_answered(self, listener):
        with listener.peer() as peer:
            self.assert_still_answers(listener, peer)
            peer.encoder = hpack.Encoder()
            for cut in (1, 5, 9, 10, 12, 30, 60, 100, -20, -5, -1):
                peer.encoder.header_table_size = 0  # each field is written in full
                stream = peer.new_stream()
                head = peer.head(listener.fields(("x-more", "yes")), stream)
                said = head + b"".join(peer.data(listener.body, stream))
                peer.send(said[:cut])
                time.sleep(0.02)  # so that the daemon reads it
                peer.send(said[cut:])
                answer = peer.answer(stream)
                self.assertTrue(answer.reset is None and listener.is_answered(answer), (cut, answer))


class WindowsTest(Listeners):
    # Answers are as long as the window allows, however small.
    @on_each_listener
    def test_an_answer_passes_through_a_small_window(self, listener):
        with listener.peer(opens_windows=False, initial_window_size=1) as peer:
            stream = peer.request(listener.fields(), listener.body)
            answer = None
            for expected in range(1, 10_000):
                while answer is None or (len(answer.body) < expected and not answer.over):
                    peer.hear()
                    answer = peer.answers.get(stream)
                if answer.over or b"\r" in answer.body:
                    break
                self.assertEqual(len(answer.body), expected)
                peer.settle()  # no more comes without a window
                self.assertEqual(len(answer.body), expected)
                if self.is_whole(listener, answer):
                    break
                peer.send(window_update(stream, 1))
            answer = peer.answer(stream)
            self.assertTrue(listener.is_answered(answer), answer)
            self.assertEqual(max(answer.frames), 1)

    @staticmethod
    def is_whole(listener, answer):
        if listener.name == "HTTP":
            return len(answer.body) == int(answer.fields["content-length"])
        return len(answer.body) >= 5 and len(answer.body) == 5 + struct.unpack(">I", answer.body[1:5])[0]

    # A smaller window setting applies to sent data: the window can become negative.
    @on_each_listener
    def test_a_negative_window_is_respected(self, listener):
        with listener.peer(opens_windows=False, initial_window_size=10) as peer:
            stream = peer.request(listener.fields(), listener.body)
            peer.settle()
            peer.send(settings(initial_window_size=0))  # 10 were sent: minus 10 now
            peer.send(window_update(stream, 10))
            peer.settle()
            self.assertEqual(len(peer.answers[stream].body), 10)
            peer.send(window_update(stream, 1))
            peer.settle()
            self.assertEqual(len(peer.answers[stream].body), 11)
            peer.send(settings(initial_window_size=60_000))
            self.assertTrue(listener.is_answered(peer.answer(stream)))

    # All streams share the connection's window, and it is respected.
    @on_each_listener
    def test_the_connection_window_is_respected(self, listener):
        with listener.peer(opens_windows=False) as peer:
            # 65535 bytes of answers, then no more until the window opens.
            streams, fetched = [], 0
            first = peer.ask(listener.fields(), listener.body)
            fetched = len(first.body)
            self.assertGreater(fetched, 10)
            while fetched < 65535:
                batch = [peer.request(listener.fields(), listener.body) for _ in range(50)]
                streams += batch
                peer.settle()
                fetched = sum(len(answer.body) for answer in peer.answers.values())
            self.assertEqual(fetched, 65535)
            open_ones = [stream for stream in streams if not peer.answers[stream].over]
            self.assertGreater(len(open_ones), 0)
            peer.send(window_update(0, 1 << 20))
            for stream in open_ones:
                self.assertTrue(listener.is_answered(peer.answer(stream)))

    # The other direction: long bodies pass, as the daemon opens its windows.
    def test_a_long_body_is_read_as_windows_are_opened(self):
        listener = self.listeners[0]
        with listener.peer() as peer:
            batch = [{"policy": "p", "key": "k" * 900, "permits": 0}] * 1000
            body = json.dumps(batch).encode()
            self.assertGreater(len(body), 900_000)
            stream = peer.new_stream()
            peer.send(peer.head(listener.fields(path="/v1/peek"), stream))
            send_within_windows(peer, stream, body)
            answer = peer.answer(stream)
            self.assertEqual((answer.status, len(json.loads(answer.body))), (200, 1000))

    @on_each_listener
    def test_a_body_beyond_the_windows_is_an_error(self, listener):
        with listener.peer() as peer:
            peer.settle()
            window = peer.settings.get(INITIAL_WINDOW_SIZE, 65535)
            stream = peer.new_stream()
            peer.send(peer.head(listener.fields(), stream))
            # (Windows open only after the daemon has read the data.)
            for _ in range(64 * (window // 65535 + 1)):
                if not peer.try_send(frame(DATA, 0, stream, bytes(16384))):
                    break
            try:
                answer = peer.answer(stream)
                self.assertTrue(answer.reset == FLOW_CONTROL_ERROR or answer.over, answer)
            except EOFError:
                self.assertIn(peer.goaway[1], (FLOW_CONTROL_ERROR, ENHANCE_YOUR_CALM))


def send_within_windows(peer, stream, body):
    """Sends as much as the windows allow, until all is sent."""
    sent = 0
    windows = {0: 65535, stream: None}
    while sent < len(body):
        if windows[stream] is None and peer.settings:
            windows[stream] = peer.settings.get(INITIAL_WINDOW_SIZE, 65535)
        piece = min(16384, windows[0], windows[stream] or 0, len(body) - sent)
        if piece > 0:
            ends = END_STREAM if sent + piece == len(body) else 0
            peer.send(frame(DATA, ends, stream, body[sent:sent + piece]))
            sent += piece
            windows[0] -= piece
            windows[stream] -= piece
            continue
        heard = peer.hear()
        if heard is None or stream in peer.answers and peer.answers[stream].over:
            return sent
        if heard.type == WINDOW_UPDATE and heard.stream in windows:
            windows[heard.stream] += struct.unpack(">I", heard.payload)[0]
    return sent


class StreamsTest(Listeners):
    @on_each_listener
    def test_many_concurrent_streams_are_all_answered(self, listener):
        with listener.peer() as peer:
            peer.settle()
            count = min(peer.settings[MAX_CONCURRENT_STREAMS], 100)
            streams = [peer.new_stream() for _ in range(count)]
            peer.send(*(peer.head(listener.fields(), stream) for stream in streams))
            # The last answer may come first: no stream waits for another.
            for stream in reversed(streams):
                peer.send(*peer.data(listener.body, stream))
                self.assertTrue(listener.is_answered(peer.answer(stream)))

    # A client that does not know the maximum yet gets REFUSED_STREAM, and can retry.
    @on_each_listener
    def test_streams_above_the_maximum_are_refused(self, listener):
        with listener.peer() as peer:
            streams = [peer.new_stream() for _ in range(1000)]
            peer.send(*(peer.head(listener.fields(), stream) for stream in streams))
            peer.settle()
            refused = [stream for stream in streams if stream in peer.answers]
            self.assertEqual({peer.answers[stream].reset for stream in refused}, {REFUSED_STREAM})
            self.assertEqual(len(streams) - len(refused), peer.settings[MAX_CONCURRENT_STREAMS])
            for stream in set(streams) - set(refused):
                peer.send(*peer.data(listener.body, stream))
            for stream in set(streams) - set(refused):
                self.assertTrue(listener.is_answered(peer.answer(stream)))
            self.assert_still_answers(listener, peer)

    # A client that has acknowledged the maximum is at fault: a stream error or, at the daemon's choice, a
    # connection error.
    @on_each_listener
    def test_a_stream_above_the_acknowledged_maximum_is_an_error(self, listener):
        with listener.peer() as peer:
            peer.settle()
            streams = [peer.new_stream() for _ in range(peer.settings[MAX_CONCURRENT_STREAMS])]
            peer.send(*(peer.head(listener.fields(), stream) for stream in streams))
            peer.settle()
            try:
                one_more = peer.request(listener.fields(), listener.body)
                self.assertIn(peer.answer(one_more).reset, (REFUSED_STREAM, PROTOCOL_ERROR))
                peer.send(*peer.data(listener.body, streams[0]))
                self.assertTrue(listener.is_answered(peer.answer(streams[0])))
                self.assert_still_answers(listener, peer)
            except EOFError:
                self.assertIn(peer.goaway[1], (REFUSED_STREAM, PROTOCOL_ERROR))

    @on_each_listener
    def test_a_header_that_is_too_large_is_refused(self, listener):
        for fields in ([(f"x-{i}", "a" * 1000) for i in range(60)],  # in total
                       [("x-long", "a" * 60_000)],  # one field
                       [(f"x-{i}", "") for i in range(2000)]):  # many fields
            with self.subTest(fields=len(fields)), listener.peer() as peer:
                stream = peer.new_stream()
                block = peer.encoder.encode(listener.fields(*fields), huffman=False)
                pieces = [block[i:i + 16384] for i in range(0, len(block), 16384)]
                peer.send(frame(HEADERS, END_STREAM, stream, pieces[0]),
                          *(frame(CONTINUATION, 0, stream, piece) for piece in pieces[1:]),
                          frame(CONTINUATION, END_HEADERS, stream))
                try:
                    answer = peer.answer(stream)
                except EOFError:
                    self.assertIn(peer.goaway[1], (ENHANCE_YOUR_CALM, PROTOCOL_ERROR))
                    continue
                self.assertTrue(answer.reset is not None or answer.status == 431
                                or answer.grpc_status in (8, 13), answer)
                self.assert_still_answers(listener, peer)

    # An HPACK bomb: a field of 4000 bytes that is indexed once, and then referenced a thousand times in a
    # kilobyte.
    @on_each_listener
    def test_an_hpack_bomb_is_refused(self, listener):
        with listener.peer() as peer:
            peer.answer(peer.request(listener.fields(("x-bomb", "b" * 3000)), listener.body))
            stream = peer.new_stream()
            block = peer.encoder.encode(listener.fields(("x-bomb", "b" * 3000)), huffman=False)
            self.assertLess(len(block), 50)
            peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block + block[-1:] * 5000))
            try:
                answer = peer.answer(stream)
                self.assertTrue(answer.reset is not None or answer.status == 431
                                or answer.grpc_status in (8, 13), answer)
                self.assert_still_answers(listener, peer)
            except EOFError:
                self.assertIn(peer.goaway[1], (ENHANCE_YOUR_CALM, PROTOCOL_ERROR))


if __name__ == "__main__":
    unittest.main()
