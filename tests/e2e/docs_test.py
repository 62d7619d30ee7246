"""Runs the documentation. The test writes the files of a page, runs its commands and compares their output; it
checks that its programs are parts of compiled files, and that its links have targets. Each page of docs/ must say
when not to use what it describes. Messages named in docs/troubleshooting.md must be in the sources.

A ```yaml, ```nginx or ```python block that starts with a comment naming a file is that file. A ```console block holds
commands after "$ " and their output. Commands that build or install are skipped: other tests run them. build/weir
exists as after `make build`. The daemons that one ```sh block starts must not listen on the same port.
A block may name the file it is a part of: ```cpp examples/per_user.cc. Blocks of cpp, cmake, go,
java, js and php must.

A ```console daemon block runs with a daemon that has the page's weir.yaml, or that of the examples. The daemon
listens on free ports, which replace those in the text; times in its output may differ. ```console daemons adds
a second daemon, for 8379 and 8380 in the text. The word redis, as in ```console redis and ```console daemons redis,
adds a redis-server for 6379, restarted (and empty) if an earlier block has stopped it. The word service, as in
```console daemon service, adds an HTTP service for 9000 that returns "hello"; 8080 is then a free port for the
gateway in front of it.

Usage: docs_test.py WEIR PAGE...
"""

import contextlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading

import yaml

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "integration"))

from daemon import Daemon, eventually, free_port  # noqa: E402
from redis_server import RedisServer  # noqa: E402

BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# ([\w.-]+\.(?:yaml|py|conf))\n")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SKIPPED_COMMANDS = ("make ", "cmake ", "g++ ")
MUST_NAME_A_FILE = ("cpp", "cmake", "go", "java", "js", "php")


def commands_of(console):
    """The (command, output) pairs of a console block."""
    pairs = []
    for line in console.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        else:
            pairs[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in pairs]


# Parts of the output that differ in each run: dates, remaining times, speeds.
TIMES = [(re.compile(r"^Date: .*$", re.MULTILINE), "Date: …"),
         (re.compile(r"^Content-Length: .*$", re.MULTILINE), "Content-Length: …"),
         (re.compile(r'(_after_ms": ?|wait_ms": ?|;t=|Retry-After: |full again in |pass in )\d[\w. ]*\b'),
          r"\1…"),
         (re.compile(r"^(re\w+ after +)\d[\w. ]*$", re.MULTILINE), r"\1…"),
         (re.compile(r"((?:come back in|admits this call in) )[\d.]+( s\b| seconds)"), r"\1…\2"),
         # Generated identifiers: receipts, and holders without a name.
         (re.compile(r"\b[0-9a-f]{32}\b"), "…"),
         (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "…"),
         (re.compile(r'("(?:uptime_)?seconds":|  up |of the last )\d+(?: s\b| min\b)?'), r"\1…"),
         (re.compile(r"^\d{4,}$", re.MULTILINE), "…"),
         # The nodes that share a store.
         (re.compile(r"^generation \d+: ", re.MULTILINE), "generation …: "),
         (re.compile(r"^RANK  NODE .*$", re.MULTILINE), "RANK …"),
         (re.compile(r"^(\d+ +)\S+:\d+ +\S+ +[\d.]+s ago +\d+", re.MULTILINE), r"\1…"),
         (re.compile(r"^(weir_fleet_generation) \d+$", re.MULTILINE), r"\1 …"),
         (re.compile(r"^store: \d+ of \d+ links .*$", re.MULTILINE), "store: …"),
         # Measured figures.
         (re.compile(r"^(requests +[\d,]+ in ).*$", re.MULTILINE), r"\1…"),
         (re.compile(r"^(rate|bytes|latency)  +\d.*$|^(latency) +p50 .*$", re.MULTILINE), r"\1\2 …")]


def without_times(text):
    for pattern, instead in TIMES:
        text = pattern.sub(instead, text)
    return text.replace("\r", "")


def links_connected(daemon):
    """True if all threads of a daemon have a connection to the store."""
    metrics = daemon.http("GET", "/metrics")[2].decode()
    links, connected = (re.search(rf"^{name} (\d+)$", metrics, re.MULTILINE)[1]
                        for name in ("weir_store_links", "weir_store_links_connected"))
    return links == connected


class Hello(http.server.BaseHTTPRequestHandler):
    """The HTTP service behind the gateway."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_):
        pass


class PageProcesses:
    """The processes that the blocks of a page need. Each is started for the first block that needs it, and stays."""

    def __init__(self, folder, weir, running):
        self.folder = folder
        self.weir = weir
        self.running = running
        self.daemons = []
        self.redis = None
        self.service_ports = {}
        self.programs = {}

    def start(self, words):
        """Starts the processes that a block names. Redis comes first: daemons connect to it when they start."""
        unknown = set(words) - {"daemon", "daemons", "redis", "service"}
        assert not unknown, f"a console block can name daemon, daemons, redis and service, not {unknown}"
        if "redis" in words:
            self.start_redis()
        if "service" in words and not self.service_ports:
            self.start_service()
        wanted = 2 if "daemons" in words else 1 if "daemon" in words else 0
        while len(self.daemons) < wanted:
            self.daemons.append(self.running.enter_context(self.daemon()))

    def start_redis(self):
        if not self.redis:
            self.redis = self.running.enter_context(RedisServer())
        elif self.redis.process.poll() is not None:
            self.redis.start()
            for daemon in self.daemons:
                eventually(lambda: links_connected(daemon), "the daemon is connected to Redis again")

    def start_service(self):
        service = self.running.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello))
        threading.Thread(target=service.serve_forever).start()
        self.running.callback(service.shutdown)
        self.service_ports = {"9000": service.server_port, "8080": free_port()}

    def daemon(self):
        """A daemon with the page's policies."""
        own = os.path.join(self.folder, "weir.yaml")
        config = own if os.path.exists(own) else os.path.join(SOURCE, "examples", "weir.yaml")
        with open(config, encoding="utf-8") as file:
            text = self.with_ports(file.read())
        # On a machine that is busy with other tests, Redis may answer late.
        timeout = "store_timeout: 5s" if re.search("^store:", text, re.MULTILINE) else ""
        daemon = Daemon(self.weir, text, cwd=self.folder, extra=timeout)
        # Files that the configuration names are in the same folder.
        for name in os.listdir(self.folder):
            if name.endswith(".yaml") and name != "weir.yaml":
                shutil.copy(os.path.join(self.folder, name), daemon.folder)
        return daemon

    def with_ports(self, text):
        """Replaces the ports in the text by those in use."""
        used = dict(self.service_ports)
        for daemon, (resp, http) in zip(self.daemons, (("7379", "7380"), ("8379", "8380"))):
            used.update({resp: daemon.resp_port, http: daemon.http_port})
        if self.redis:
            used["6379"] = self.redis.port
        return re.sub(r"\b(?:[678]3(?:79|80)|8080|9000)\b", lambda port: str(used.get(port[0], port[0])), text)

    def run(self, page, body):
        if self.daemons:
            os.environ["WEIR_URL"] = f"http://127.0.0.1:{self.daemons[0].http_port}"
        # On a busy machine, a response may take longer than the program's deadline.
        for name, text in self.programs.items():
            write(self.folder, name, self.with_ports(text).replace("DEADLINE = 0.1", "DEADLINE = 10"))
        return run_console(page, self.with_ports(body), self.folder, self.weir,
                           lambda text: without_times(self.without_folders(text)))

    def without_folders(self, text):
        """Removes the folders of the daemons from the names of files, as on the page."""
        for daemon in self.daemons:
            text = text.replace(f"{daemon.folder}/", "")
        return text


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def run_console(page, body, folder, weir, comparable=str):
    ran, problems = 0, []
    # /usr/bin first: Debian's python3 has python3-redis, another python3 may not.
    environment = dict(os.environ, PATH=f"{os.path.dirname(weir)}:/usr/bin:{os.environ['PATH']}",
                       LC_ALL="C.UTF-8")
    for command, expected in commands_of(body):
        if command.startswith(SKIPPED_COMMANDS):
            continue
        run = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        ran += 1
        if comparable(run.stdout).rstrip("\n") != comparable(expected).rstrip("\n"):
            problems.append(f"{page}: $ {command}\n--- documented\n{expected}\n--- printed\n{run.stdout}")
    return ran, problems


DEFAULT_LISTENERS = {"resp": "127.0.0.1:7379", "http": "127.0.0.1:7380", "grpc": "127.0.0.1:7381"}


def check_listeners(page, commands, folder):
    """The conflicts between the listeners of daemons that one block starts."""
    taken, problems = {}, []
    for name in re.findall(r"weir serve --config ([\w.-]+)", commands):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            configured = (yaml.safe_load(file) or {}).get("listen") or {}
        for listener, address in {**DEFAULT_LISTENERS, **configured}.items():
            if address in (False, "off"):
                continue
            if address in taken:
                problems.append(f"{page}: {name} and {taken[address]} both listen on {address} ({listener})")
            taken[address] = name
    return problems


def is_part(block, text):
    """True if the lines of the block are consecutive lines of the text, whatever their indentation."""
    wanted = textwrap.dedent(block).splitlines()
    lines = text.splitlines()
    windows = (lines[i:i + len(wanted)] for i in range(len(lines) - len(wanted) + 1))
    return bool(wanted) and any(textwrap.dedent("\n".join(window)).splitlines() == wanted
                                for window in windows)


def check_part(page, kind, info, body):
    """The error of a code block that is not a part of the file it names."""
    name = info.strip()
    first = body.splitlines()[0] if body else ""
    if not name:
        return f"{page}: a {kind} block does not say what file it is a part of: ```{kind} FILE\n  {first}"
    if kind == "cpp" and not re.fullmatch(r"examples/\w+\.cc", name):
        return f"{page}: a cpp block must be a part of an example, not of {name}"
    path = os.path.join(SOURCE, name)
    if not os.path.exists(path):
        return f"{page}: there is no {name}"
    with open(path, encoding="utf-8") as file:
        if not is_part(body, file.read()):
            return f"{page}: these lines are not in {name}:\n{body}"
    return None


def anchors_of(path):
    """The anchors of a page: its headings in lower case, with hyphens for spaces."""
    with open(path, encoding="utf-8") as file:
        headings = HEADING.findall(BLOCK.sub("", file.read()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(page, text):
    problems = []
    for target, anchor in LINK.findall(text):
        path = os.path.join(os.path.dirname(os.path.abspath(page)), target) if target else page
        if "://" in target:
            continue
        if not os.path.exists(path):
            problems.append(f"{page}: the link to {target} has no target")
        elif anchor and anchor not in anchors_of(path):
            problems.append(f"{page}: there is no heading for the link to {target}#{anchor}")
    return problems


def check_when_not(page, text):
    """Each page of docs/ must have a section about when not to use what it describes."""
    folder = os.path.join(SOURCE, "docs") + os.sep
    if not os.path.abspath(page).startswith(folder):
        return []
    section = re.search(r"^## When not to use this\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section and section[1].strip():
        return []
    return [f"{page}: does not say when not to use it: write a section ## When not to use this"]


def literals_of_sources():
    """The text of all sources, with string literals over several lines joined."""
    texts = []
    for folder, _, files in os.walk(os.path.join(SOURCE, "src")):
        for name in files:
            if name.endswith((".cc", ".h")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    texts.append(re.sub(r'"\s*\n\s*"', "", file.read()))
    return "\n".join(texts)


SYSTEM_MESSAGES = re.compile("No such file or directory|Address already in use|Connection refused")


def is_in_sources(message, known):
    """True if two thirds of its pairs of words are in the sources: numbers and names are inserted at run time."""
    words = SYSTEM_MESSAGES.sub("", message).split()
    pairs = [f"{first} {second}" for first, second in zip(words, words[1:])
             if re.fullmatch(r"[A-Za-z,-]+ [A-Za-z,:;-]+", f"{first} {second}")]
    return 3 * sum(pair.rstrip(":;,") in known for pair in pairs) >= 2 * len(pairs)


def check_messages(page, text):
    """Messages in the page about troubleshooting must be in the sources, except those of nginx."""
    if os.path.basename(page) != "troubleshooting.md":
        return []
    known = literals_of_sources().replace("`", "")
    ours = re.sub(r"^## nginx .*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    messages = [message for cell in re.findall(r"^\| (.*?) \|", ours, re.MULTILINE)
                for message in re.findall(r"`([^`]+)`", cell) if not message.startswith("weir ")]
    return [f"{page}: nothing in src/ says `{message}`" for message in messages if not is_in_sources(message, known)]


def check_page(page, weir):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    prose = BLOCK.sub("", text)
    ran, problems = 0, check_links(page, prose) + check_when_not(page, prose) + check_messages(page, prose)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        processes = PageProcesses(folder, weir, running)
        os.mkdir(os.path.join(folder, "build"))
        os.symlink(weir, os.path.join(folder, "build", "weir"))
        for kind, info, body in BLOCK.findall(text):
            named = FILE.match(body)
            if kind in ("yaml", "nginx") and named:
                write(folder, named[1], body)
            if kind == "python" and named:
                processes.programs[named[1]] = body
            if kind == "sh":
                problems += check_listeners(page, body, folder)
            if kind == "console":
                if info.strip():
                    processes.start(info.split())
                    count, found = processes.run(page, body)
                else:
                    count, found = run_console(page, body, folder, weir)
                ran += count
                problems += found
            elif info.strip() or kind in MUST_NAME_A_FILE:
                ran += 1
                problem = check_part(page, kind, info, body)
                problems += [problem] if problem else []
    return ran, problems


def main():
    weir = os.path.abspath(sys.argv[1])
    results = [check_page(page, weir) for page in sys.argv[2:]]
    ran = sum(count for count, _ in results)
    problems = [problem for _, found in results for problem in found]
    for problem in problems:
        print(problem)
    print(f"{ran} checked, {len(problems)} wrong")
    return 1 if problems or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
