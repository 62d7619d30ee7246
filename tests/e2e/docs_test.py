"""The documentation does what it says: its files are written, its commands run, their output compared.

A ```yaml block that starts with a comment naming a file is that file. A ```console block holds
commands after "$ " and what they print. Commands of make are left to those who build.

Usage: docs_test.py WEIR PAGE...
"""

import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# ([\w.-]+\.yaml)\n")


def commands_of(console):
    """The (command, output) pairs of a console block."""
    pairs = []
    for line in console.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        else:
            pairs[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in pairs]


def check_page(page, weir):
    ran = failed = 0
    with open(page, encoding="utf-8") as text, tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PATH=os.path.dirname(weir) + ":" + os.environ["PATH"])
        for kind, body in BLOCK.findall(text.read()):
            named = FILE.match(body)
            if kind == "yaml" and named:
                with open(os.path.join(folder, named[1]), "w", encoding="utf-8") as file:
                    file.write(body)
            if kind != "console":
                continue
            for command, expected in commands_of(body):
                if command.startswith("make "):
                    continue
                run = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
                ran += 1
                if run.stdout.rstrip("\n") != expected.rstrip("\n"):
                    failed += 1
                    print(f"{page}: $ {command}\n--- documented\n{expected}\n--- printed\n{run.stdout}")
    return ran, failed


def main():
    weir = os.path.abspath(sys.argv[1])
    results = [check_page(page, weir) for page in sys.argv[2:]]
    ran, failed = (sum(column) for column in zip(*results))
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
