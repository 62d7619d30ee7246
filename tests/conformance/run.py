"""Runs random timelines through `weir test` and compares with the models.

run.py WEIR_BINARY [--seed N ...] [--cases M] [--kind K ...] [--store URL] [--keep DIR]

One file per kind and seed. When a file fails, its cases are run one by one, so that the output is the
smallest file that shows the disagreement.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import selfcheck
from generate import KINDS, timelines

SHOWN = 10  # failing cases printed in full, per kind
SECONDS = 120  # a file that takes longer is a failure


def weir_test(command: list[str], file: Path) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            [*command, str(file)], capture_output=True, text=True, timeout=SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {SECONDS} s"
    return done.returncode == 0, done.stdout + done.stderr


def failing(command: list[str], cases: list[str], folder: Path) -> list[tuple[str, str]]:
    """(case, output) of the cases that fail alone."""
    out = []
    for case in cases:
        single = folder / "single.yaml"
        single.write_text(case, encoding="utf-8")
        passed, output = weir_test(command, single)
        if not passed:
            out.append((case, output))
    return out


def run_file(command: list[str], kind: str, seed: int, texts: list[str], folder: Path) -> tuple[int, int]:
    file = folder / f"{kind}-{seed}.yaml"
    file.write_text("".join(texts), encoding="utf-8")
    passed, output = weir_test(command, file)
    if passed:
        return len(texts), 0
    bad = failing(command, texts, folder)
    for case, said in bad[:SHOWN]:
        print(f"--- {kind}, seed {seed}\n{case}{said}")
    if len(bad) > SHOWN:
        print(f"... and {len(bad) - SHOWN} more of {kind}, seed {seed}")
    if not bad:  # they fail only together: the cases are not independent, or the run broke
        print(f"--- {file.name} fails though each case passes alone\n{output[-4000:]}")
        return 0, len(texts)
    return len(texts) - len(bad), len(bad)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the weir binary to judge")
    parser.add_argument("--seed", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--cases", type=int, default=40, help="of each kind and seed")
    parser.add_argument("--kind", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--store", help="passed on; arrivals are then on whole microseconds")
    parser.add_argument("--keep", help="write the timelines here instead of a temporary folder")
    args = parser.parse_args()

    command = [args.binary, "test"] + (["--store", args.store] if args.store else [])
    grain = 1000 if args.store else 1
    selfcheck.main()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="weir-conformance-") as temporary:
        folder = Path(args.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in args.seed:
            for kind in args.kind:
                texts = timelines(seed, args.cases, kind, grain)
                good, bad = run_file(command, kind, seed, texts, folder)
                passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
