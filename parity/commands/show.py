"""``show``: a tensor's two sides and their difference, next to each other."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import dumps
from parity.codecs.dtypes import bits
from parity.commands import presenting, selection, work
from parity.commands.options import VerifyOptions
from parity.commands.plan import Failed, plan
from parity.commands.sides import sides
from parity.commands.slices import fit, parse
from parity.diagnose import Subject
from parity.errors import ConfigError, DumpError, Problem
from parity.lockfile import load
from parity.reports.wording import shown
from parity.suites.base import Dump
from parity.suites.words import number, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from parity.commands.options import Options
    from parity.commands.plan import Planned
    from parity.commands.sides import Sides
    from parity.commands.slices import Index
    from parity.dumps import Dumped
    from parity.reports.console import Teller
    from parity.suites.base import Case

#: Elements that are shown at most.
MOST = 60
_RED, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The command line of ``show``.

    Attributes:
        case: ``bundle/case``, or a case's name where no other bundle has one of it.
        slice: NumPy's notation, empty for the elements that differ.
        dumps: Folder of dumps that lie ready; without it the case is run.
        toolchain: Called as ``cargo +T``.
    """

    options: Options
    case: str
    tensor: str
    slice: str = ""
    dumps: Path | None = None
    toolchain: str = ""


def show(options: ShowOptions, teller: Teller) -> int:
    """Print both sides of a tensor; returns 0 whether they differ or not.

    Raises:
        ConfigError: No such case, tensor or element.
        DumpError: The port does not build or run, or its dump lacks the tensor.
        ReferenceSuspectError: The reference cannot be read.
    """
    index = parse(options.slice)
    verify = VerifyOptions(
        **options.options.__dict__,
        cases=(options.case,),
        dumps=options.dumps,
        toolchain=options.toolchain,
    )
    planned, case = one_case(verify, teller)
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        dumped = _whole(made(planned, case, verify, teller, Path(folder))[0])
        both = sides(planned.suite.name, case, Dump(folder=dumped.folder), options.tensor)
        told = lines(both, index, planned.bounds[case.id], options.slice)
        for mark, text in _with_heading(f"{planned.bundle.id}/{case.id} {options.tensor}", told):
            _say(mark, text)
    return 0


def one_case(options: VerifyOptions, teller: Teller) -> tuple[Planned, Case]:
    """The one case that ``options.cases`` means, and its bundle.

    Raises:
        ConfigError: It means none or several.
        ParityError: The bundle cannot be made ready.
    """
    chosen = selection.bundles(load(options.lockfile), (), options.cases)
    selection.locked(chosen)
    found = []
    for bundle in chosen:
        planned = plan(bundle, options, teller, None)
        if isinstance(planned, Failed):
            raise planned.error
        found += [(planned, case) for case in planned.cases]
    if len(found) != 1:
        names = ", ".join(f"{planned.bundle.id}/{case.id}" for planned, case in found[:10])
        what = f"means {names}; name one" if found else "means no case of the lockfile"
        raise ConfigError(Problem("no-such-case", f"{options.cases[0]!r:.80} {what}"))
    return found[0]


class _Kept:
    """Keeps the one dump that is made."""

    def __init__(self) -> None:
        self.dumped: Dumped | None = None

    def add(self, _case: Case, dumped: Dumped) -> None:
        """Keep it."""
        self.dumped = dumped


def made(
    planned: Planned, case: Case, options: VerifyOptions, teller: Teller, folder: Path
) -> tuple[Dumped, Mapping[str, str]]:
    """The dump of ``case``, made in ``folder`` unless it lies ready, and the port that made it.

    Raises:
        DumpError: It could not be run at all.
    """
    if options.dumps is not None:
        port = {"dumps": options.dumps.as_posix()}
        return dumps.ready(options.dumps, planned.bundle.id, case.id), port
    kept = _Kept()
    job = work.Work(options=options, teller=teller, outputs=folder.resolve(), deadline=None)
    with presenting.folder(planned.bundle) as place:
        port = work.dump_all(planned, kept, job, {}, place)
    if kept.dumped is None:
        raise DumpError(Problem("dump-empty", f"{case.id} was not run"))
    return kept.dumped, port


def _whole(dumped: Dumped) -> Dumped:
    """``dumped``, which can be looked at.

    Raises:
        DumpError: The program failed.
    """
    errors = [finding for finding in dumped.findings if finding.level == "error"]
    if errors:
        found = (Problem(f.code, f.message, f.where, f.details) for f in errors)
        raise DumpError(*found)
    return dumped


def lines(
    both: Sides, index: Index, bounds: Mapping[str, float], text: str = ""
) -> Iterator[tuple[str, str]]:
    """What is shown, line by line, each with its mark: ``!`` beyond the bound, ``~`` within it.

    Args:
        both: The sides.
        index: Elements to show; empty for those that differ, or the first where none does.
        bounds: Those of the case.
        text: The index as typed.

    Raises:
        ConfigError: The index does not fit the tensor.
    """
    due, came = both.expected.shape, both.obtained.shape
    yield "", f"{both.dtype.name} {list(due)}{', ' + both.note if both.note else ''}"
    if due != came:
        yield "!", f"shapes differ: expected {list(due)}, obtained {list(came)}"
        return
    marks = _marks(both, bounds)
    beyond, within = int((marks == _BEYOND).sum()), int((marks == _WITHIN).sum())
    yield "", f"{marks.size:,} elements: {beyond:,} beyond the bound, {within:,} differ within it"
    chosen = _chosen(marks, index, text)
    rows = [(_SIGNS[marks.reshape(-1)[at]], _row(both, at)) for at in islice(chosen, MOST)]
    if rows:
        heading = ("", "expected", "obtained", "difference")
        told = table([heading, *(row for _, row in rows)])
        yield "", f"  {told[0]}"
        yield from (
            (mark, f"{mark or ' '} {line}") for (mark, _), line in zip(rows, told[1:], strict=True)
        )
    if len(chosen) > MOST:
        yield "", f"  and {len(chosen) - MOST:,} more; a slice shows others"
    cause = both.cause(bounds) if beyond else None
    if cause:
        yield "", f"cause: {cause}"


_SAME, _WITHIN, _BEYOND = 0, 1, 2
_SIGNS = ("", "~", "!")


def _marks(both: Sides, bounds: Mapping[str, float]) -> NDArray[np.uint8]:
    """For each element whether it differs, and beyond the bound, as ``compare`` judges it."""
    subject = Subject(
        name="",
        expected=both.expected,
        obtained=both.obtained,
        dtype=both.dtype,
        seen=both.dtype,
        bounds=bounds,
    )
    same = bits(both.expected) == bits(both.obtained)
    good, _ = subject.agree(both.expected, both.obtained, claim=False)
    marks = np.where(same, _SAME, _WITHIN).astype(np.uint8)
    marks[~good] = _BEYOND
    return marks


def _chosen(marks: NDArray[np.uint8], index: Index, text: str) -> NDArray[np.int64]:
    """Flat places of the elements to show."""
    if index:
        places = np.arange(marks.size).reshape(marks.shape)
        return np.atleast_1d(places[fit(index, marks.shape, text)]).reshape(-1)
    flat = marks.reshape(-1)
    for least in (_BEYOND, _WITHIN):
        if (flat >= least).any():
            return np.flatnonzero(flat >= least)
    return np.arange(min(flat.size, MOST))


def _row(both: Sides, at: int) -> tuple[str, str, str, str]:
    place = [int(axis) for axis in np.unravel_index(at, both.expected.shape)]
    left, right = (
        _value(side.reshape(-1)[at : at + 1], both) for side in (both.expected, both.obtained)
    )
    with np.errstate(all="ignore"):
        gap = f"{float(right) - float(left):+.3g}" if left.tobytes() != right.tobytes() else ""
    where = str(place)
    if both.rows is not None:
        where = f"{both.rows(place[0])} {place[1:] or ''}".rstrip()
    return where, _text(left), _text(right), gap


def _value(element: NDArray[Any], both: Sides) -> Any:
    return both.dtype.widened(element)[0] if both.dtype.kind == "float" else element[0]


def _text(value: Any) -> str:
    return number(value) if not isinstance(value, np.float64) else number(float(value))


def _with_heading(heading: str, told: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield "", heading
    yield from told


def _say(mark: str, text: str) -> None:
    """One line, coloured on a terminal unless NO_COLOR is set."""
    line = shown(text)
    if mark and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        line = f"{_RED if mark == '!' else _YELLOW}{line}{_PLAIN}"
    print(line)  # noqa: T201 - this is what prints
