"""Verify ferrotorch's rows one after another, and print a table: row, cases, verdict, seconds.

`--all` takes every row, else only those whose examples the package `examples/quick` builds. Other
arguments go to `parity verify`. A row's seconds are those of its whole verification, with the build;
so are those of a processor, to which other work of the machine adds nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from parity.lockfile import load

LOCKFILE = Path(__file__).with_name("registry.lock.yaml")
#: Package whose rows run without `--all`.
QUICK = "ferrotorch-quick"


def main(words: list[str]) -> int:
    """Verify the chosen rows; return the largest exit code."""
    chosen = [
        bundle
        for bundle in load(LOCKFILE).bundles
        if "--all" in words or bundle.dump.package == QUICK
    ]
    more = [word for word in words if word != "--all"]
    results = [(bundle, *verify(bundle.id, more)) for bundle in chosen]
    head = f"{'row':>3}  {'check':<64} {'cases':>5}  {'verdict':<28} {'seconds':>7}  {'processor':>9}"
    print(f"\n{head}")  # noqa: T201 - its output
    for bundle, code, report, seconds, busy in results:
        verdicts = count_verdicts(report)
        text = ", ".join(f"{count} {name}" for name, count in verdicts.items()) or f"exit {code}"
        cases = sum(verdicts.values())
        row, check = bundle.why.removeprefix("row ").split(": ", 1)
        line = f"{row:>3}  {check:<64.64} {cases:>5}  {text:<28} {seconds:>7.1f}  {busy:>9.1f}"
        print(line)  # noqa: T201 - its output
    return max((code for _, code, *_ in results), default=0)


def verify(bundle: str, more: list[str]) -> tuple[int, dict, float, float]:
    """Verify one bundle; return its exit code, report, seconds, and those of a processor."""
    started, before = time.monotonic(), measure_children()
    with TemporaryDirectory(prefix="parity-") as folder:
        args = ["--lockfile", LOCKFILE, "--bundle", bundle, "--report-dir", folder, *more]
        code = subprocess.run([sys.executable, "-m", "parity", "verify", *args]).returncode
        report = Path(folder, "report.json")
        content = json.loads(report.read_bytes()) if report.exists() else {}
    return code, content, time.monotonic() - started, measure_children() - before


def measure_children() -> float:
    """Return the processor's seconds of all processes that ended, the compilers' too."""
    times = os.times()
    return times.children_user + times.children_system


def count_verdicts(report: dict) -> Counter[str]:
    """Count the cases of a report by their verdict."""
    return Counter(
        case["verdict"] for bundle in report.get("bundles", []) for case in bundle["cases"]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
