"""The text of `parity --help`, without argparse, whose import costs more than starting Python.

A test checks that argparse prints the same text.
"""

from __future__ import annotations

DESCRIPTION = "Proves that a port computes what the original computes."
EXIT_CODE_HELP = """\
exit codes:
  0  all verified
  1  a dump differs from its reference, or a known failure passes
  2  usage or lockfile
  3  a bundle could not be downloaded
  4  integrity: a hash, a length, an unsafe archive
  5  build or dump failed, or a dump cannot be read
  6  fewer cases verified than --min-cases
  7  the reference is suspect or incomplete
  10 bump --check: something newer exists
  70 a bug in this program
"""
VERB_SUMMARIES = {
    "verify": "compare a port with its pinned references",
    "fetch": "download, check and unpack bundles",
    "prove": "inject known faults and list those a bundle does not detect",
    "show": "print a tensor's expected and obtained values side by side",
    "pin": "make a bundle, byte for byte reproducible",
    "bump": "download a bundle, show what changed, update its lock",
    "diff": "print what changed between two states of a bundle",
    "audit": "compute every reference again",
    "cache": "list, check or shrink the store",
    "init": "write a first lockfile and workflow",
    "plan": "print a job matrix for GitHub",
    "merge": "merge several reports into one",
    "action": "run a step of the GitHub action",
    "scoreboard": "compare several ports' reports",
    "reproduce": "pack a case for the port's maintainer",
}
_COLUMN = 16


def format_help() -> str:
    """Return the help of the whole program."""
    lines = ["usage: parity [-h] [--version] VERB ...", "", DESCRIPTION, ""]
    lines += ["positional arguments:", "  VERB"]
    lines += [f"    {name}".ljust(_COLUMN) + text for name, text in VERB_SUMMARIES.items()]
    lines += ["", "options:"]
    for flags, text in (
        ("-h, --help", "show this help message and exit"),
        ("--version", "show program's version number and exit"),
    ):
        lines.append(f"  {flags}".ljust(_COLUMN) + text)
    return "\n".join([*lines, "", EXIT_CODE_HELP])
