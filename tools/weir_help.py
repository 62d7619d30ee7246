"""Parses `weir --help` and `weir COMMAND --help`, for files that must agree with them."""

import re
import subprocess
from dataclasses import dataclass, field


@dataclass
class Option:
    names: list  # as typed: ["-h", "--help"]
    about: str
    takes_value: bool = False
    takes_file: bool = False
    repeatable: bool = False
    choices: list = field(default_factory=list)


@dataclass
class Command:
    name: str              # empty: weir itself
    about: str
    options: list
    takes_files: bool      # instead of, or besides, its options
    commands: list = field(default_factory=list)  # (name, description) of its subcommands


def sections_of(text):
    """{heading: its lines}; continuation lines are joined with the line before."""
    sections, lines = {}, []
    for line in text.splitlines():
        if heading := re.fullmatch(r"(\w+):", line):
            lines = sections.setdefault(heading[1], [])
        elif re.match(r"  \S", line):
            lines.append(line.strip())
        elif line.startswith("   ") and lines:
            lines[-1] += "  " + line.strip()
    return sections


def option_of(line):
    """From: --log text|json  How to write the log"""
    left, _, about = line.partition("  ")
    names, _, value = left.partition(" ")
    choices = re.match(r"[a-z]+(\|[a-z]+)+", value)
    return Option(names=names.split(","), about=about.strip(), takes_value=bool(value),
                  takes_file=value.startswith("FILE"), repeatable=value.endswith("..."),
                  choices=sorted(choices[0].split("|")) if choices else [])


def help_of(weir, *words):
    return subprocess.run([weir, *words, "--help"], text=True, check=True, timeout=60,
                          stdout=subprocess.PIPE).stdout


def read(weir, name=""):
    """A command; without a name, weir itself."""
    text = help_of(weir, *name.split())
    sections = sections_of(text)
    below = [re.split(r"\s{2,}", line, maxsplit=1) for line in sections.get("Subcommands", [])]
    return Command(name=name, about=text.splitlines()[0],
                   options=[option_of(line) for line in sections.get("Options", [])],
                   takes_files=any(re.match(r"\S+ FILE", line)
                                   for line in sections.get("Positionals", [])),
                   commands=[(each[0], each[-1]) for each in below])


def read_all(weir):
    """weir itself, and all its commands."""
    top = read(weir)
    return top, [read(weir, name) for name, _ in top.commands]
