"""Annotations for GitHub: the worst first, each on the line that a person would open.

GitHub keeps ten annotations of a kind per action and drops the rest unseen, so causes
that several cases share are told once, and the last one says how many there are more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity import runner
from parity.errors import EXIT_CODES, Where
from parity.reports import wording
from parity.results import Finding
from parity.safetext import counted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from parity.errors import ParityError
    from parity.results import CaseResult, Level, Report

_NAMES, _DETAILS = 5, 30
_GRAVITY = list(EXIT_CODES)


@dataclass
class _Cause:
    """What one annotation tells: a finding, further ones beside it, and whom it concerns."""

    finding: Finding
    where: Where | None
    severity: float = 0.0
    command: str = ""
    names: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def rank(self) -> tuple[int, float]:
        """Gravest kind first, then what is furthest off."""
        return _GRAVITY.index(self.finding.kind), -self.severity


def lines(report: Report, most: int) -> list[str]:
    """At most ``most`` errors and as many warnings, as lines for the runner."""
    levels: tuple[Level, ...] = ("error", "warning")
    return [line for level in levels for line in _ranked(report, level, most)]


def _ranked(report: Report, level: Level, most: int) -> list[str]:
    causes = sorted(_causes(report, level), key=lambda cause: cause.rank)
    return _within(causes, level, most)


def _within(causes: list[_Cause], level: Level, most: int) -> list[str]:
    if most <= 0:
        return []
    shown = causes if len(causes) <= most else causes[: most - 1]
    rest = causes[len(shown) :]
    return [_line(cause) for cause in shown] + ([_roll_up(level, rest)] if rest else [])


def problems(error: ParityError, most: int) -> list[str]:
    """The annotations of an error that ends a verb."""
    found = [Finding.of(problem, error.kind) for problem in error.problems]
    causes = [_Cause(finding, finding.where, names=["parity"]) for finding in found]
    shown = causes if len(causes) <= most else causes[: max(0, most - 1)]
    lines = [_line(cause) for cause in shown]
    return lines + [_roll_up("error", causes[len(shown) :])] * (
        len(shown) < len(causes) and most > 0
    )


def _causes(report: Report, level: Level) -> list[_Cause]:
    shared = Counter(_key(f) for case in report.cases for f in _distinct(case.findings))
    found: dict[Hashable, _Cause] = {}
    loose = [("parity", report.findings), *((b.bundle, b.findings) for b in report.bundles)]
    for name, findings in loose:
        for finding in _of(level, findings):
            _note(found, _key(finding), _Cause(finding, finding.where, names=[name]))
    for case in report.cases:
        for finding in _of(level, case.findings):
            # A finding on a line of its own, or of several cases, is a cause by itself.
            alone = finding.where is not None or shared[_key(finding)] > 1
            where = finding.where or case.source
            cause = _Cause(finding, where, _severity(case), case.command, [case.name])
            _note(found, _key(finding) if alone else case.name, cause)
    causes = list(found.values())
    # That too little was verified is no news where it is told why.
    told = [cause for cause in causes if cause.finding.code != "nothing-verified"]
    return told or causes


def _of(level: Level, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == level]


def _note(found: dict[Hashable, _Cause], key: Hashable, cause: _Cause) -> None:
    known = found.setdefault(key, cause)
    if known is cause:
        return
    known.names += [name for name in cause.names if name not in known.names]
    known.more += known.finding != cause.finding


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    return list({_key(finding): finding for finding in findings}.values())


def _key(finding: Finding) -> Hashable:
    return (finding.code, finding.message, finding.where)


def _severity(case: CaseResult) -> float:
    """How far a case is past its bound; what is not finite is furthest."""
    if any(finding.code == "nan" for finding in case.errors):
        return float("inf")
    return case.margin if case.margin is not None and case.margin == case.margin else 0.0


def _line(cause: _Cause) -> str:
    finding = cause.finding
    place = _place(cause.where)
    title = f"{_listed(cause.names)}: {finding.code}"
    shown = plain(title, runner.TITLE_CHARACTERS)
    return runner.command(finding.level, _message(cause), **place, title=shown)


def _place(where: Where | None) -> dict[str, str | int]:
    """``file`` and ``line``; without a line GitHub would leave the file out."""
    inside = None if where is None else runner.in_workspace(where.path)
    if where is None or inside is None:
        return {}
    place: dict[str, str | int] = {"file": inside, "line": where.line or 1}
    return place | ({"col": where.column} if where.column else {})


def _message(cause: _Cause) -> str:
    finding = cause.finding
    lines = [finding.message]
    if finding.cause:
        lines.append(f"cause: {finding.cause}")
    if len(cause.names) > 1:
        lines.append(f"in {counted(len(cause.names), 'cases')}: {_listed(cause.names)}")
    if cause.more:
        lines.append(f"and {counted(cause.more, 'more findings')} in this case")
    if cause.command:
        lines.append(f"repeat: {cause.command}")
    lines += [f"| {detail}" for detail in finding.details[:_DETAILS]]
    text = "\n".join(plain(line) for line in lines)
    # Cut where GitHub cuts, but say so.
    limit = runner.MESSAGE_CHARACTERS
    return text if len(text) <= limit else text[: limit - 2] + "\n…"


def _roll_up(level: Level, rest: Sequence[_Cause]) -> str:
    names = list(dict.fromkeys(name for cause in rest for name in cause.names))
    title = plain(f"parity: {counted(len(rest), f'more {level}s')}", runner.TITLE_CHARACTERS)
    message = f"{counted(len(rest), f'more {level}s')} not shown here: {_listed(names)}. "
    return runner.command(level, plain(f"{message}The job's summary tells all."), title=title)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def plain(text: str, limit: int = 2000) -> str:
    """Foreign text on one line; ``::`` may stay, since what follows a command's head is data."""
    shown = wording.shown(text).replace(r"\x3a\x3a", "::")
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
