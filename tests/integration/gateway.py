"""A gateway, services behind it, and raw clients in front of it."""

import http.client
import http.server
import re
import socket
import socketserver
import threading

from daemon import Daemon


class Gateway(Daemon):
    """with Gateway(weir, routes) as gateway: … (`routes` is YAML below `routes:`, a line each)"""

    def __init__(self, weir, routes, policies="", more="", **others):
        """`more`: further lines of the gateway section, such as trusted_proxies."""
        indented = "".join(f"    {line}\n" for line in routes.strip("\n").splitlines())
        own = "".join(f"  {line}\n" for line in more.strip("\n").splitlines() if line)
        super().__init__(weir, f"{policies}\ngateway:\n  listen: 127.0.0.1:0\n{own}  routes:\n{indented}",
                         **others)

    def start(self):
        super().start()
        self.port = next(int(found[1]) for line in self.log
                         if (found := re.search(r"gateway on \S*?:(\d+), with", line)))

    def rewrite(self, change):
        """Edits the file, and waits until it is reloaded."""
        before = sum("read again" in line for line in list(self.log))
        self.config.write_text(change(self.config.read_text()))
        self.wait_for_log("read again", before + 1)

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def get(self, path="/", method="GET", body=None, headers=None):
        """(status, headers, body) of one request on a new connection."""
        connection = self.client()
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, response.headers, content

    def raw(self, data, timeout=20):
        """Sends it, and reads until the connection ends."""
        with self.connect(timeout) as s:
            s.sendall(data)
            return read_all(s)

    def metric(self, name):
        """The values of a metric: {labels: value}."""
        text = self.http("GET", "/metrics")[2].decode()
        return {labels or "": float(value) for labels, value in
                re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)$", text, re.M)}


def read_all(s):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the request line, the headers and the size of the body."""

    protocol_version = "HTTP/1.1"

    def answer(self, status=200, body=b"hello", fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def read_body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            size = 0
            while True:
                length = int(self.rfile.readline().split(b";")[0], 16)
                if length == 0:
                    while self.rfile.readline() not in (b"\r\n", b""):
                        pass
                    return size
                size += len(self.rfile.read(length))
                self.rfile.readline()
        length = left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionResetError
            left -= len(piece)
        return length

    def handle_any(self):
        size = self.read_body()
        self.server.seen.append((self.command, self.path, dict(self.headers.items()), size))
        self.server.on_request(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = handle_any

    def log_message(self, *_):
        pass


class Service(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """An upstream service on its own port. `on_request` answers; `seen` has the requests."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, on_request=None, handler=Handler, port=0):
        super().__init__(("127.0.0.1", port), handler)
        self.seen = []
        self.on_request = on_request or (lambda handler: handler.answer())
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class RawService:
    """A service that calls `serve(socket)` for each connection."""

    def __init__(self, serve):
        self.serve = serve
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.count = 0
        self.over = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.over:
                connection.close()
                return
            self.count += 1
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        try:
            with connection:
                connection.settimeout(30)
                self.serve(connection)
        except OSError:
            pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            pass
        self.thread.join()
        self.listener.close()


def read_head(connection):
    """The body of a request or response, and the bytes after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head + b"\r\n\r\n", rest
