"""The documentation does what it says: its files are written, its commands run, their output compared;
its programs are parts of files that are compiled, and its links lead somewhere. Each page of docs/ says when
not to use what it describes. Messages that the page about troubleshooting names are in the sources.

A ```yaml, ```nginx or ```python block that starts with a comment naming a file is that file. A ```console block holds
commands after "$ " and what they print; commands that build or install are left to those who do. build/weir is
there as after `make build`. Daemons that one ```sh block starts must not want the same port.
A block may name the file it is a part of: ```cpp examples/per_user.cc. Blocks of cpp, cmake, go,
java, js and php must.

A ```console daemon block is run beside a daemon with the page's weir.yaml, or that of the examples. It
listens on free ports, which take the place of those in the text; times in its answers may differ. With
```console daemons there is a second one, for 8379 and 8380 in the text. With redis behind it, as in
```console redis and ```console daemons redis, there is a redis-server for 6379, started anew (and empty) if a
block before has ended it. With ```console daemon service there is a service for 9000, which says hello, and 8080 is a
free port for the gateway in front of it.

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
LEFT_TO_OTHERS = ("make ", "cmake ", "g++ ")
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


# What is different each time: dates, how long something still takes, how fast it was.
TIMES = [(re.compile(r"^Date: .*$", re.MULTILINE), "Date: …"),
         (re.compile(r"^Content-Length: .*$", re.MULTILINE), "Content-Length: …"),
         (re.compile(r'(_after_ms": ?|wait_ms": ?|;t=|Retry-After: |full again in |pass in )\d[\w. ]*\b'),
          r"\1…"),
         (re.compile(r"^(re\w+ after +)\d[\w. ]*$", re.MULTILINE), r"\1…"),
         (re.compile(r"((?:come back in|admits this call in) )[\d.]+( s\b| seconds)"), r"\1…\2"),
         # What was made up for one call: receipts, and holders without a name.
         (re.compile(r"\b[0-9a-f]{32}\b"), "…"),
         (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "…"),
         (re.compile(r'("(?:uptime_)?seconds":|  up |of the last )\d+(?: s\b| min\b)?'), r"\1…"),
         (re.compile(r"^\d{4,}$", re.MULTILINE), "…"),
         # Which nodes share a store.
         (re.compile(r"^generation \d+: ", re.MULTILINE), "generation …: "),
         (re.compile(r"^RANK  NODE .*$", re.MULTILINE), "RANK …"),
         (re.compile(r"^(\d+ +)\S+:\d+ +\S+ +[\d.]+s ago +\d+", re.MULTILINE), r"\1…"),
         (re.compile(r"^(weir_fleet_generation) \d+$", re.MULTILINE), r"\1 …"),
         (re.compile(r"^store: \d+ of \d+ links .*$", re.MULTILINE), "store: …"),
         # What was measured.
         (re.compile(r"^(requests +[\d,]+ in ).*$", re.MULTILINE), r"\1…"),
         (re.compile(r"^(rate|bytes|latency)  +\d.*$|^(latency) +p50 .*$", re.MULTILINE), r"\1\2 …")]


def without_times(text):
    for pattern, instead in TIMES:
        text = pattern.sub(instead, text)
    return text.replace("\r", "")


def links_connected(daemon):
    """Whether all threads of a daemon are."""
    metrics = daemon.http("GET", "/metrics")[2].decode()
    links, connected = (re.search(rf"^{name} (\d+)$", metrics, re.MULTILINE)[1]
                        for name in ("weir_store_links", "weir_store_links_connected"))
    return links == connected


class Hello(http.server.BaseHTTPRequestHandler):
    """A service that a gateway stands in front of."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_):
        pass


class Surroundings:
    """What the blocks of a page are run beside. What one of them needs is started for it, and stays."""

    def __init__(self, folder, weir, running):
        self.folder = folder
        self.weir = weir
        self.running = running
        self.daemons = []
        self.redis = None
        self.service_ports = {}
        self.programs = {}

    def start(self, words):
        """Whatever a block names. A Redis first: daemons ask for it when they start."""
        unknown = set(words) - {"daemon", "daemons", "redis", "service"}
        assert not unknown, f"a console block is run beside a daemon, daemons, redis or a service, not {unknown}"
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
        # (A machine that is busy with other tests may take its time.)
        patience = "store_timeout: 5s" if re.search("^store:", text, re.MULTILINE) else ""
        daemon = Daemon(self.weir, text, cwd=self.folder, extra=patience)
        # What its configuration names is beside it.
        for name in os.listdir(self.folder):
            if name.endswith(".yaml") and name != "weir.yaml":
                shutil.copy(os.path.join(self.folder, name), daemon.folder)
        return daemon

    def with_ports(self, text):
        """With the ports that are used instead of those that are written."""
        used = dict(self.service_ports)
        for daemon, (resp, http) in zip(self.daemons, (("7379", "7380"), ("8379", "8380"))):
            used.update({resp: daemon.resp_port, http: daemon.http_port})
        if self.redis:
            used["6379"] = self.redis.port
        return re.sub(r"\b(?:[678]3(?:79|80)|8080|9000)\b", lambda port: str(used.get(port[0], port[0])), text)

    def run(self, page, body):
        if self.daemons:
            os.environ["WEIR_URL"] = f"http://127.0.0.1:{self.daemons[0].http_port}"
        # (On a machine that is busy an answer may take longer than a program would wait.)
        for name, text in self.programs.items():
            write(self.folder, name, self.with_ports(text).replace("DEADLINE = 0.1", "DEADLINE = 10"))
        return run_console(page, self.with_ports(body), self.folder, self.weir,
                           lambda text: without_times(self.without_folders(text)))

    def without_folders(self, text):
        """With files called as on the page, not by where those of a daemon are."""
        for daemon in self.daemons:
            text = text.replace(f"{daemon.folder}/", "")
        return text


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def run_console(page, body, folder, weir, comparable=str):
    ran, problems = 0, []
    # (Debian's python3 has Debian's python3-redis, whatever other python3 is in the path.)
    environment = dict(os.environ, PATH=f"{os.path.dirname(weir)}:/usr/bin:{os.environ['PATH']}",
                       LC_ALL="C.UTF-8")
    for command, expected in commands_of(body):
        if command.startswith(LEFT_TO_OTHERS):
            continue
        run = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        ran += 1
        if comparable(run.stdout).rstrip("\n") != comparable(expected).rstrip("\n"):
            problems.append(f"{page}: $ {command}\n--- documented\n{expected}\n--- printed\n{run.stdout}")
    return ran, problems


DOORS = {"resp": "127.0.0.1:7379", "http": "127.0.0.1:7380", "grpc": "127.0.0.1:7381"}


def check_listeners(page, commands, folder):
    """Which listeners several daemons want that are started beside each other."""
    taken, problems = {}, []
    for name in re.findall(r"weir serve --config ([\w.-]+)", commands):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            said = (yaml.safe_load(file) or {}).get("listen") or {}
        for listener, address in {**DOORS, **said}.items():
            if address in (False, "off"):
                continue
            if address in taken:
                problems.append(f"{page}: {name} and {taken[address]} both listen on {address} ({listener})")
            taken[address] = name
    return problems


def is_part(block, text):
    """Whether the lines of the block follow each other in the text, however far indented."""
    wanted = textwrap.dedent(block).splitlines()
    lines = text.splitlines()
    windows = (lines[i:i + len(wanted)] for i in range(len(lines) - len(wanted) + 1))
    return bool(wanted) and any(textwrap.dedent("\n".join(window)).splitlines() == wanted
                                for window in windows)


def check_part(page, kind, info, body):
    """Why a block of code is not what it says it is."""
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
    """What can be linked to in a page: its headings, in small letters, with hyphens for spaces."""
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
            problems.append(f"{page}: the link to {target} leads nowhere")
        elif anchor and anchor not in anchors_of(path):
            problems.append(f"{page}: there is no heading for the link to {target}#{anchor}")
    return problems


def check_when_not(page, text):
    """Whoever reads a page of docs/ is told when something else is better."""
    folder = os.path.join(SOURCE, "docs") + os.sep
    if not os.path.abspath(page).startswith(folder):
        return []
    section = re.search(r"^## When not to use this\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section and section[1].strip():
        return []
    return [f"{page}: does not say when not to use it: write a section ## When not to use this"]


def literals_of_sources():
    """All that the sources say in quotes; texts over several lines in one."""
    texts = []
    for folder, _, files in os.walk(os.path.join(SOURCE, "src")):
        for name in files:
            if name.endswith((".cc", ".h")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    texts.append(re.sub(r'"\s*\n\s*"', "", file.read()))
    return "\n".join(texts)


OF_THE_SYSTEM = re.compile("No such file or directory|Address already in use|Connection refused")


def is_said(message, known):
    """Whether most pairs of words in it are: numbers and names come in between."""
    words = OF_THE_SYSTEM.sub("", message).split()
    pairs = [f"{first} {second}" for first, second in zip(words, words[1:])
             if re.fullmatch(r"[A-Za-z,-]+ [A-Za-z,:;-]+", f"{first} {second}")]
    return 3 * sum(pair.rstrip(":;,") in known for pair in pairs) >= 2 * len(pairs)


def check_messages(page, text):
    """What is looked up by its message has to be called as weir says it. (Messages of nginx are not ours.)"""
    if os.path.basename(page) != "troubleshooting.md":
        return []
    known = literals_of_sources().replace("`", "")
    ours = re.sub(r"^## nginx .*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    messages = [message for cell in re.findall(r"^\| (.*?) \|", ours, re.MULTILINE)
                for message in re.findall(r"`([^`]+)`", cell) if not message.startswith("weir ")]
    return [f"{page}: nothing in src/ says `{message}`" for message in messages if not is_said(message, known)]


def check_page(page, weir):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    prose = BLOCK.sub("", text)
    ran, problems = 0, check_links(page, prose) + check_when_not(page, prose) + check_messages(page, prose)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        beside = Surroundings(folder, weir, running)
        os.mkdir(os.path.join(folder, "build"))
        os.symlink(weir, os.path.join(folder, "build", "weir"))
        for kind, info, body in BLOCK.findall(text):
            named = FILE.match(body)
            if kind in ("yaml", "nginx") and named:
                write(folder, named[1], body)
            if kind == "python" and named:
                beside.programs[named[1]] = body
            if kind == "sh":
                problems += check_listeners(page, body, folder)
            if kind == "console":
                if info.strip():
                    beside.start(info.split())
                    count, found = beside.run(page, body)
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
