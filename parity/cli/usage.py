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


class Verb:
    """One subcommand; ``options`` and ``call`` (by default its name) are names in its module.

    ``fields`` are those with an argument, beside those of every verb; all where it is empty.
    """

    def __init__(self, summary: str, options: str, fields: str = "", call: str = "") -> None:
        self.summary, self.options, self.fields, self.call = summary, options, fields, call


_OPTIONS = "parity.verify.options:"
VERBS = {
    "verify": Verb("compare a port with its pinned references", f"{_OPTIONS}VerifyOptions"),
    "fetch": Verb("download, check and unpack bundles", "parity.commands.options:BundleOptions"),
    "prove": Verb(
        "inject known faults and list those a bundle does not detect", "ProveOptions", "bundles"
    ),
    "show": Verb(
        "print a tensor's expected and obtained values side by side",
        "ShowOptions",
        "cases tensor slice why dumps toolchain",
    ),
    "pin": Verb("make a bundle, byte for byte reproducible", "PinOptions"),
    "bump": Verb("download a bundle, show what changed, update its lock", "BumpOptions"),
    "diff": Verb("print what changed between two states of a bundle", "DiffOptions"),
    "audit": Verb("compute every reference again", "AuditOptions"),
    "cache": Verb("list, check or shrink the store", "CacheOptions", call="run_cache"),
    "init": Verb("write a first lockfile and workflow", "InitOptions"),
    "plan": Verb("print a job matrix for GitHub", "PlanOptions", "bundles cases out", "plan_jobs"),
    "merge": Verb("merge several reports into one", "MergeOptions"),
    "action": Verb("run a step of the GitHub action", "StepOptions", call="run_step"),
    "scoreboard": Verb(
        "compare several ports' reports", "ScoreboardOptions", call="print_scoreboard"
    ),
    "reproduce": Verb(
        "pack a case for the port's maintainer", "ReproduceOptions", "cases out dumps toolchain"
    ),
    "fuzz": Verb(
        "compare a port with reference readers on mutated checkpoints",
        "FuzzOptions",
        "bundles cases seconds seed mutants out jobs toolchain",
        "fuzz_port",
    ),
}
_COLUMN = 16


def format_help() -> str:
    """Return the help of the whole program."""
    lines = ["usage: parity [-h] [--version] VERB ...", "", DESCRIPTION, ""]
    lines += ["positional arguments:", "  VERB"]
    lines += [f"    {name}".ljust(_COLUMN) + verb.summary for name, verb in VERBS.items()]
    lines += ["", "options:"]
    for flags, text in (
        ("-h, --help", "show this help message and exit"),
        ("--version", "show program's version number and exit"),
    ):
        lines.append(f"  {flags}".ljust(_COLUMN) + text)
    return "\n".join([*lines, "", EXIT_CODE_HELP])
