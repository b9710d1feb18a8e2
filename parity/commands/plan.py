"""``plan``: print a job matrix for GitHub; cases that share a build share a job."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

from parity import __version__, github
from parity.commands.selection import choose_bundles, prepare_bundles
from parity.port.cargo import make_build_key
from parity.reports.console import RunConsole
from parity.store.disk import replace_file
from parity.verify import publish
from parity.verify.options import VerifyOptions, declare
from parity.verify.prepare import PreparationError, PreparedBundle

MAX_JOBS = 256  # GitHub's limit of jobs in one matrix


@dataclass(frozen=True, kw_only=True)
class PlanOptions(VerifyOptions):
    """The command line of ``plan``; ``out`` is the file that ``merge`` checks reports against."""

    max_jobs: int = MAX_JOBS
    out: Path | None = declare("--out FILE", "write the plan to FILE, for merge", None)


def plan_jobs(options: PlanOptions, console: RunConsole) -> int:
    """Print the matrix as one line of JSON, and set it as the step's output.

    Raises:
        ConfigError: The lockfile or the command line cannot be used.
    """
    lock, chosen = choose_bundles(options)
    prepared = prepare_bundles(chosen, options, console)
    matrix = {"include": build_jobs(prepared, options.max_jobs)}
    text = json.dumps(matrix)
    if options.out is not None:
        plan = {
            **matrix,
            "version": __version__,
            "lock_sha256": lock.sha256,
            "bundles": {entry.bundle.id: _describe_bundle(entry) for entry in prepared},
        }
        publish.check_no_link(options.out)
        replace_file(options.out, json.dumps(plan).encode() + b"\n")
    github.set_outputs({"matrix": text})
    console.print_line(text)
    return 0


def _describe_bundle(entry: PreparedBundle | PreparationError) -> dict[str, str]:
    """Return what reports on the bundle must agree with; the tree is empty if unknown."""
    locked = entry.bundle.locked
    return {
        "suite": entry.bundle.suite,
        "digest": locked.sha256 if locked else "",
        "tree": entry.tree_digest if isinstance(entry, PreparedBundle) else "",
        "manifest": (isinstance(entry, PreparedBundle) and entry.manifest) or "",
    }


def build_jobs(
    prepared: Iterable[PreparedBundle | PreparationError], max_jobs: int
) -> list[dict[str, str]]:
    """Return at most ``max_jobs`` jobs, each with a name, its bundles and its cases, one a line."""
    groups: dict[Hashable, list[tuple[str, str]]] = {}
    for entry in prepared:
        if isinstance(entry, PreparedBundle):
            for case in entry.cases:
                key = _get_build_key(entry, case.id)
                groups.setdefault(key, []).append((entry.bundle.id, case.id))
        else:
            # The job that cannot fetch it either reports the error.
            groups[entry.bundle.id] = [(entry.bundle.id, "*")]
    folded: list[list[tuple[str, str]]] = [[] for _ in range(min(max_jobs, len(groups)))]
    for index, group in enumerate(groups.values()):
        folded[index % len(folded)] += group
    return [_build_job(index, group) for index, group in enumerate(folded)]


def _get_build_key(entry: PreparedBundle, case: str) -> Hashable:
    dump = entry.bundle.find_dump(case)
    if dump.command is not None:
        return (entry.bundle.id, dump.command)
    return make_build_key(dump, (dump.example or "").replace("{case}", case))


def _build_job(index: int, group: list[tuple[str, str]]) -> dict[str, str]:
    bundles = list(dict.fromkeys(bundle for bundle, _ in group))
    cases = [f"{bundle}/{case}" for bundle, case in group]
    name = f"{index + 1:03d}-{bundles[0]}"
    return {"name": name, "bundles": "\n".join(bundles), "cases": "\n".join(cases)}
