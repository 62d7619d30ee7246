"""An HTTP/2 client that sends any given frame, valid or not. Needs Debian's python3-hpack."""

import socket
import struct
from collections import Counter, namedtuple

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, WITH_PRIORITY = 0x4, 0x8, 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, \
    MAX_HEADER_LIST_SIZE = range(1, 7)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, \
    FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, \
    ENHANCE_YOUR_CALM = range(12)

Frame = namedtuple("Frame", "type flags stream payload")


def frame(type_, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", type_, flags, stream) + payload


def settings(**values):
    """Lower-case field names, as RFC 9113 requires."""
    return frame(SETTINGS, payload=b"".join(
        struct.pack(">HI", globals()[name.upper()], value) for name, value in values.items()))


def window_update(stream, by):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", by))


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def grpc_message(message, compressed=0):
    return struct.pack(">BI", compressed, len(message)) + message


class Answer:
    """The received part of one stream, and how it ended."""

    def __init__(self):
        self.hints = []  # fields of interim responses
        self.fields = {}
        self.body = bytearray()
        self.trailers = {}
        self.reset = None  # the error code
        self.ended = False
        self.frames = []  # sizes of DATA frames

    @property
    def status(self):
        return int(self.fields[":status"])

    @property
    def grpc_status(self):
        found = self.trailers.get("grpc-status", self.fields.get("grpc-status"))
        return None if found is None else int(found)

    @property
    def grpc_text(self):
        return self.trailers.get("grpc-message", self.fields.get("grpc-message", ""))

    @property
    def over(self):
        return self.ended or self.reset is not None

    def __repr__(self):
        return f"Answer({self.fields}, {self.body[:100]}, {self.trailers}, reset={self.reset})"


class Peer:
    def __init__(self, port, tls=None, greets=True, opens_windows=True, timeout=20, **wanted):
        """`wanted`: settings. `opens_windows`: returns the window of received data."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.opens_windows = opens_windows
        self.next_stream = 1
        self.answers = {}
        self.block = None  # of a header that is incomplete
        self.goaway = None  # (last stream, code, text)
        self.pongs = []
        self.settings = {}
        self.settings_acks = 0
        self.opened = Counter()  # the increment of the window of each stream (0: the connection)
        if greets:
            self.send(PREFACE + settings(**wanted))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    # ---- Sending

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def try_send(self, *frames):
        """True if it was sent. (The daemon may have closed the connection.)"""
        try:
            self.send(*frames)
            return True
        except OSError:
            return False

    def new_stream(self):
        stream = self.next_stream
        self.next_stream += 2
        return stream

    def head(self, fields, stream, flags=END_HEADERS):
        return frame(HEADERS, flags, stream, self.encoder.encode(fields, huffman=False))

    def request(self, fields, body=None, stream=None):
        """Sends a request; returns the stream."""
        stream = stream or self.new_stream()
        if body is None:
            self.send(self.head(fields, stream, END_HEADERS | END_STREAM))
            return stream
        self.send(self.head(fields, stream), *self.data(body, stream))
        return stream

    @staticmethod
    def data(body, stream, ends=True):
        pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)] or [b""]
        return [frame(DATA, END_STREAM if ends and i == len(pieces) - 1 else 0, stream, piece)
                for i, piece in enumerate(pieces)]

    # ---- Receiving

    def read_frame(self):
        """The next frame, or None at the end."""
        try:
            head = self.file.read(9)
            if len(head) < 9:
                return None
            length, type_, flags, stream = struct.unpack(">IBBI", b"\0" + head)
            payload = self.file.read(length)
        except (ConnectionResetError, BrokenPipeError):
            return None
        if len(payload) < length:
            return None
        return Frame(type_, flags, stream & 0x7fffffff, payload)

    def hear(self):
        """Processes one frame; returns False at the end."""
        heard = self.read_frame()
        if heard is None:
            return None
        answer = self.answers.setdefault(heard.stream, Answer()) if heard.stream else None
        if heard.type == DATA:
            self.hear_data(heard, answer)
        elif heard.type in (HEADERS, CONTINUATION):
            self.hear_fields(heard, answer)
        elif heard.type == RST_STREAM:
            answer.reset = struct.unpack(">I", heard.payload)[0]
        elif heard.type == SETTINGS:
            self.hear_settings(heard)
        elif heard.type == WINDOW_UPDATE:
            self.opened[heard.stream] += struct.unpack(">I", heard.payload)[0]
        elif heard.type == PING:
            if heard.flags & ACK:
                self.pongs.append(heard.payload)
            else:
                self.try_send(frame(PING, ACK, 0, heard.payload))
        elif heard.type == GOAWAY:
            last, code = struct.unpack(">II", heard.payload[:8])
            self.goaway = (last & 0x7fffffff, code, heard.payload[8:])
        return heard

    def hear_data(self, heard, answer):
        answer.body += heard.payload
        answer.frames.append(len(heard.payload))
        answer.ended = bool(heard.flags & END_STREAM)
        if self.opens_windows and heard.payload:
            more = window_update(0, len(heard.payload))
            if not answer.ended:
                more += window_update(heard.stream, len(heard.payload))
            self.try_send(more)

    def hear_fields(self, heard, answer):
        # (The daemon sends no padding and no priorities.)
        if heard.type == HEADERS:
            self.block, self.ends = b"", bool(heard.flags & END_STREAM)
        self.block += heard.payload
        if not heard.flags & END_HEADERS:
            return
        fields = dict(self.decoder.decode(self.block))
        if fields.get(":status", "").startswith("1"):
            answer.hints.append(fields)
        elif answer.fields:
            answer.trailers = fields
        else:
            answer.fields = fields
        answer.ended = answer.ended or self.ends

    def hear_settings(self, heard):
        if heard.flags & ACK:
            self.settings_acks += 1
            return
        for at in range(0, len(heard.payload), 6):
            name, value = struct.unpack(">HI", heard.payload[at:at + 6])
            self.settings[name] = value
        self.try_send(frame(SETTINGS, ACK))

    # ---- Waiting

    def answer(self, stream):
        """The complete answer of a stream."""
        while not (stream in self.answers and self.answers[stream].over):
            if self.hear() is None:
                raise EOFError(f"the connection ended; {self.goaway}, {self.answers.get(stream)}")
        return self.answers[stream]

    def ask(self, fields, body=None):
        return self.answer(self.request(fields, body))

    def pong(self, payload=b"are you?"):
        """Sends a PING and waits for its answer: everything sent before it has been processed."""
        self.send(frame(PING, 0, 0, payload))
        while payload not in self.pongs:
            if self.hear() is None:
                raise EOFError(f"the connection ended; {self.goaway}")
        self.pongs.remove(payload)

    def settle(self):
        """Waits until everything that can be sent has arrived. (The answer to a PING overtakes others, but
        not those that were sent before it.)"""
        self.pong(b"settle 1")
        self.pong(b"settle 2")

    def end(self):
        """Reads until the peer closes the connection; returns the code of its GOAWAY, if any."""
        while self.hear() is not None:
            pass
        return self.goaway[1] if self.goaway else None
