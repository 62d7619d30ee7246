"""Runs a client for Node, with the packages that its folder lists."""

import shutil
import subprocess
import unittest
from pathlib import Path

HERE = Path(__file__).parent


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    return done.returncode, done.stdout


def run_node_client(name, build, *args):
    """Exit code and output of tests/integration/NAME/client.mjs. Skips the test if there is no npm, or if
    npm cannot fetch the packages."""
    if not shutil.which("npm"):
        raise unittest.SkipTest("there is no npm here")
    folder = build / name
    shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
    if not (folder / "node_modules").exists():
        code, said = output("npm", "ci", "--no-audit", "--no-fund", cwd=folder)
        if code != 0:
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            raise unittest.SkipTest(f"npm cannot fetch the packages of {name}: {said[-300:]}")
    return output("node", "client.mjs", *args, cwd=folder)
