"""The shell completions offer every command and option of weir, and nothing else.

Usage: completion_test.py WEIR SOURCE
"""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(sys.argv.pop(2))
WEIR = os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools"))

from weir_help import read_all  # noqa: E402

FOLDER = os.path.join(SOURCE, "packaging", "completion")
BASH = os.path.join(FOLDER, "weir.bash")
ZSH = os.path.join(FOLDER, "_weir")
FISH = os.path.join(FOLDER, "weir.fish")
TOP, COMMANDS = read_all(WEIR)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def output_of(*command, **more):
    return subprocess.run(command, text=True, check=True, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more).stdout.splitlines()


def in_bash(*words, cwd=None):
    """The completions that bash offers after these words; the last one is being typed."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    offered = output_of("bash", "-c", script, "bash", BASH, "weir", *words, cwd=cwd)
    return [word for word in offered if word]


def in_fish(*words):
    script = f"source {FISH}; complete -C 'weir {' '.join(words)}'"
    return [line.split("\t")[0] for line in
            output_of("fish", "--no-config", "-c", script, env={**os.environ, "HOME": "/nonexistent"})]


def in_zsh(*words):
    """The arguments that the function passes to _describe and _arguments of zsh."""
    script = ('compdef() { :; }; _describe() { print -l -- "${(@P)2%%:*}"; }; '
              '_arguments() { print -l -- "${@%%\\[*}"; }; '
              'source "$1"; shift; words=("$@"); CURRENT=$#; _weir')
    return [line.lstrip("*") for line in
            output_of("zsh", "-f", "-c", script, "zsh", ZSH, "weir", *words)]


def options_of(command):
    return {name for option in command.options for name in option.names}


class CompletionTest(unittest.TestCase):
    def test_help_names_commands_and_options(self):
        self.assertIn("serve", [command.name for command in COMMANDS])
        serve = next(command for command in COMMANDS if command.name == "serve")
        self.assertLessEqual({"--config", "--threads", "--log", "-h", "--help"}, options_of(serve))

    def test_the_files_match_the_help(self):
        with tempfile.TemporaryDirectory() as folder:
            output_of(os.path.join(SOURCE, "tools", "make-completion"), WEIR, folder)
            for name in os.listdir(folder):
                self.assertEqual(read(os.path.join(folder, name)), read(os.path.join(FOLDER, name)),
                                 f"packaging/completion/{name} is stale: run make completion")

    def test_bash_offers_every_command_and_option(self):
        names = {command.name for command in COMMANDS}
        self.assertEqual(set(in_bash("")), names | options_of(TOP))
        for command in COMMANDS:
            self.assertEqual(set(in_bash(command.name, "-")), options_of(command), command.name)

    def test_bash_completes_a_partial_word(self):
        self.assertEqual(in_bash("val"), ["validate"])
        self.assertEqual(in_bash("take", "login", "alice", "--per"), ["--permits"])

    def test_bash_offers_the_values_of_an_option(self):
        self.assertEqual(in_bash("serve", "--log", ""), ["json", "text"])
        self.assertEqual(in_bash("serve", "--threads", ""), [])
        with tempfile.TemporaryDirectory() as folder:
            for name in ("my limits.yaml", "mine.yaml"):
                open(os.path.join(folder, name), "w").close()
            for words in (("serve", "--config", "m"), ("validate", "m"), ("test", "m")):
                self.assertEqual(sorted(in_bash(*words, cwd=folder)), ["mine.yaml", "my limits.yaml"])

    def test_fish_offers_every_command_and_option(self):
        names = {command.name for command in COMMANDS}
        self.assertEqual(set(in_fish("")), names)
        for command in COMMANDS:
            self.assertEqual(set(in_fish(command.name, "-")), options_of(command), command.name)
        self.assertEqual(set(in_fish("serve", "--log", "")), {"json", "text"})

    def test_zsh_offers_every_command_and_option(self):
        names = {command.name for command in COMMANDS}
        self.assertEqual(set(in_zsh("")), names | options_of(TOP))
        for command in COMMANDS:
            offered = set(in_zsh(command.name, "-")) - {"*:file:_files", ":file:_files"}
            self.assertEqual(offered, options_of(command), command.name)


if __name__ == "__main__":
    unittest.main()
