"""``plan``: a job matrix for GitHub, in which cases that share a build share a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parity import runner
from parity.cargo import build_key
from parity.commands import selection
from parity.commands.options import VerifyOptions
from parity.commands.plan import Planned, plan
from parity.lockfile import load

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from pathlib import Path

    from parity.commands.plan import Failed
    from parity.reports.console import Teller

#: Jobs that GitHub makes of one matrix at most.
MOST_JOBS = 256


@dataclass(frozen=True, kw_only=True)
class PlanOptions(VerifyOptions):
    """The command line of ``plan``.

    Attributes:
        out: File for the plan, which ``merge`` holds reports against; None to print it alone.
    """

    jobs_at_most: int = MOST_JOBS
    out: Path | None = None


def matrix(options: PlanOptions, teller: Teller) -> int:
    """Print the matrix as one line of JSON, and set it as the step's output.

    Raises:
        ConfigError: The lockfile or the command line cannot be used.
    """
    lock = load(options.lockfile)
    chosen = selection.bundles(lock, options.bundles, options.cases)
    selection.locked(chosen)
    planned = [plan(bundle, options, teller, None) for bundle in chosen]
    ready = [entry for entry in planned if isinstance(entry, Planned)]
    names = [(entry.bundle.id, case.id) for entry in ready for case in entry.all_cases]
    selection.hold_all_match(options.cases, names, sure=len(ready) == len(planned))
    value = {"include": jobs(planned, options.jobs_at_most)}
    text = json.dumps(value)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    runner.set_outputs({"matrix": text})
    teller.line(text)
    return 0


def jobs(planned: Iterable[Planned | Failed], most: int) -> list[dict[str, str]]:
    """At most ``most`` jobs, each with a name, its bundles and its cases, one a line."""
    groups: dict[Hashable, list[tuple[str, str]]] = {}
    for entry in planned:
        if isinstance(entry, Planned):
            for case in entry.cases:
                key = _build(entry, case.id)
                groups.setdefault(key, []).append((entry.bundle.id, case.id))
        else:
            # Its trouble is told by the job that cannot fetch it either.
            groups[entry.bundle.id] = [(entry.bundle.id, "*")]
    folded: list[list[tuple[str, str]]] = [[] for _ in range(min(most, len(groups)))]
    for index, group in enumerate(groups.values()):
        folded[index % len(folded)] += group
    return [_job(index, group) for index, group in enumerate(folded)]


def _build(entry: Planned, case: str) -> Hashable:
    dump = entry.bundle.dump_of(case)
    if dump.command is not None:
        return (entry.bundle.id, dump.command)
    return build_key(dump, (dump.example or "").replace("{case}", case))


def _job(index: int, group: list[tuple[str, str]]) -> dict[str, str]:
    bundles = list(dict.fromkeys(bundle for bundle, _ in group))
    cases = [f"{bundle}/{case}" for bundle, case in group]
    name = f"{index + 1:03d}-{bundles[0]}"
    return {"name": name, "bundles": "\n".join(bundles), "cases": "\n".join(cases)}


def read(path: Path) -> list[dict[str, Any]]:
    """The jobs of a plan that ``matrix`` wrote.

    Raises:
        ValueError, KeyError, TypeError, OSError: It is none.
    """
    jobs_read = json.loads(path.read_bytes())["include"]
    return [{key: job[key] for key in ("name", "bundles", "cases")} for job in jobs_read]
