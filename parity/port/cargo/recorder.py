"""Replace a program under ``cargo run``, and write down what cargo gives it.

Run by path, as ``python -I recorder.py RECORD PROGRAM ARGS…``; it imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Write arguments, folder and environment as JSON to the file named first."""
    record = {"argv": argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109 - a str
    Path(argv[0]).write_text(json.dumps(record), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
