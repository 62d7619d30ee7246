"""The manual pages describe every command, option and field, and render without warnings.

Usage: man_test.py WEIR SOURCE
"""

import os
import re
import subprocess
import sys
import unittest

SOURCE = os.path.abspath(sys.argv.pop(2))
WEIR = os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools"))

from weir_help import read_all  # noqa: E402

COMMAND_PAGE = os.path.join(SOURCE, "packaging", "man", "weir.1")
FILE_PAGE = os.path.join(SOURCE, "packaging", "man", "weir.yaml.5")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def rendered(page):
    """The page as text, and the warnings."""
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], text=True, timeout=60,
                          capture_output=True,
                          env={**os.environ, "MANWIDTH": "500", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
    return re.sub(".\b", "", done.stdout), done.stderr


# Commands that share no options with others, because they do not call a daemon's HTTP API.
ALONE = ("serve", "bench", "validate", "import", "test")


def section_of(text, title):
    """The text of a section or a subsection."""
    found = re.search(rf"^( {{0,3}}){re.escape(title)}\n(.*?)(?=^ {{0,3}}\S|\Z)", text, re.M | re.S)
    return found[2] if found else ""


def fields_of_sources():
    """The names of all fields that the sources of the policy file's parser list."""
    top = re.findall(r'\{"(\w+)", (?:&ConfigReader::read_|nullptr)', read("src", "policy", "config.cc"))
    more = []
    for file, names in (("limit_yaml.cc", "kFields"), ("policy_yaml.cc", "kPolicy|kShift")):
        for known in re.findall(rf"(?:{names})\s*\{{([^}}]*)\}}", read("src", "policy", file)):
            more += re.findall(r'"(\w+)"', known)
    return top, more


class ManTest(unittest.TestCase):
    def test_pages_render_without_warnings(self):
        for page in (COMMAND_PAGE, FILE_PAGE):
            text, complaints = rendered(page)
            self.assertEqual(complaints, "")
            self.assertIn("NAME\n", text)
            strict = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", page], text=True,
                                    capture_output=True, timeout=60)
            self.assertEqual((strict.returncode, strict.stderr), (0, ""))

    def test_every_command_and_option_is_described(self):
        top, commands = read_all(WEIR)
        text = rendered(COMMAND_PAGE)[0]
        synopsis = section_of(text, "SYNOPSIS")
        for option in top.options:
            for name in option.names:
                self.assertIn(name, synopsis)
        self.assertGreaterEqual(len(commands), 8)
        for command in commands:
            self.assertRegex(synopsis, rf"\b{command.name}\b")
            self.assertTrue(section_of(text, f"weir {command.name}").strip(),
                            f"weir(1) does not describe weir {command.name}")
            # Options shared by the commands that call a daemon are described once.
            own = section_of(text, f"weir {command.name}")
            if command.name not in ALONE:
                own += section_of(text, "Arguments and options")
            for option in command.options:
                for name in set(option.names) - {"-h", "--help"}:
                    self.assertRegex(own, rf"(?m)^ +(?:--\w+ TEXT, )?{name}\b",
                                     f"weir(1) does not describe {name} of weir {command.name}")
                    if command.name == "serve":
                        self.assertRegex(synopsis, rf"\[{name}\b")

    def test_every_variable_of_the_environment_is_described(self):
        variables = section_of(rendered(COMMAND_PAGE)[0], "ENVIRONMENT")
        helped = subprocess.run([WEIR, "take", "--help"], text=True, capture_output=True, timeout=60).stdout
        names = set(re.findall(r"\(Env:(\w+)\)", helped))
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            self.assertIn(name, variables)

    def test_exit_codes_are_described(self):
        codes = section_of(rendered(COMMAND_PAGE)[0], "EXIT STATUS")
        for code in "012":
            self.assertRegex(codes, rf"(?m)^ +{code} ")

    def test_every_field_of_a_policy_file_is_described(self):
        text = rendered(FILE_PAGE)[0]
        top, more = fields_of_sources()
        self.assertGreaterEqual(len(top), 14)
        self.assertGreaterEqual(len(more), 30)
        for field in top + more:
            self.assertRegex(text, rf"(?<![\w-]){field}(?![\w-])",
                             f"weir.yaml(5) does not know the field {field}")

    def test_every_documented_field_has_an_entry(self):
        text = rendered(FILE_PAGE)[0]
        page = read("docs", "policy-file.md")
        for heading in ("Top level", "A policy", "Schedule"):
            part = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
            fields = re.findall(r"(?m)^\| `(\w+)` \|", part)
            self.assertTrue(fields)
            for field in fields:
                self.assertRegex(text, rf"(?m)^ +{field}\b", f"weir.yaml(5) does not describe {field}")


if __name__ == "__main__":
    unittest.main()
