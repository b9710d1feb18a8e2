"""What `parity --help` says, as words alone: argparse costs more than an interpreter's start.

A test holds that argparse would say the same, word by word.
"""

from __future__ import annotations

DESCRIPTION = "Proves that a port computes what the original computes."
EXIT_CODE_HELP = """\
exit codes:
  0  all verified
  1  a dump differs from its reference, or a known failure passes
  2  usage or lockfile
  3  a bundle could not be fetched
  4  integrity: a hash, a length, an unsafe archive
  5  build or dump failed, or a dump cannot be read
  6  fewer cases verified than --min-cases
  7  the reference is suspect or incomplete
  10 bump --check: something newer exists
  70 a fault of this program
"""
VERB_SUMMARIES = {
    "verify": "hold a port against its pinned references",
    "fetch": "fetch, check and unpack bundles",
    "prove": "show which faults a bundle can see",
    "show": "a tensor's two sides next to each other",
    "pin": "make a bundle, byte for byte reproducible",
    "bump": "lock a new or re-pinned bundle, with open eyes",
    "diff": "what changed between two states of a bundle",
    "audit": "derive every reference once more",
    "cache": "list, check or shrink the store",
    "init": "write a first lockfile and workflow",
    "plan": "print a job matrix for GitHub",
    "merge": "make one report of many",
    "action": "a step of the action",
    "scoreboard": "several ports' reports side by side",
    "reproduce": "pack a case for the port's maintainer",
}
_COLUMN = 16


def format_help() -> str:
    """The help of the whole program."""
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
