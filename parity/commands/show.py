"""``show``: print a tensor's expected and obtained values and their difference."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose import FailingTensor
from parity.errors import ConfigError, DumpError, IntegrityError, Problem
from parity.github import display_path
from parity.lockfile import load
from parity.port.dump_folder import open_temporary_folder
from parity.port.outcome_json import load_dump
from parity.suites.base import Dump
from parity.suites.messages import format_number
from parity.tensors.dtypes import view_bits
from parity.tensors.index_expression import expand_index, parse_index
from parity.text import align_columns, sanitize_message
from parity.verify import execute, fixture_aliases, selection
from parity.verify.options import VerifyOptions
from parity.verify.prepare import PreparationError, prepare_bundle
from parity.verify.store_guard import StoreGuard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.port.run import DumpResult
    from parity.reports.console import RunConsole
    from parity.suites.base import Case, TensorView
    from parity.tensors.index_expression import Index
    from parity.verify.options import Options
    from parity.verify.prepare import PreparedBundle

#: Maximum number of printed elements.
MAX_ELEMENTS = 60
_RED, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The command line of ``show``.

    Attributes:
        case: ``bundle/case``, or a case's name if only one bundle has it.
        slice: In NumPy's notation; empty for the elements that differ.
        dumps: Folder of existing dumps; None to run the case.
        toolchain: For ``cargo +T``.
    """

    options: Options
    case: str
    tensor: str
    slice: str = ""
    dumps: Path | None = None
    toolchain: str = ""


def show(options: ShowOptions, console: RunConsole) -> int:
    """Print both sides of a tensor; return 0 whether they differ or not.

    Raises:
        ConfigError: No such case, tensor or element.
        DumpError: The port could not be built or run, or its dump has no such tensor.
        ReferenceSuspectError: The reference cannot be read.
    """
    index = parse_index(options.slice)
    verify = VerifyOptions(
        **options.options.__dict__,
        cases=(options.case,),
        dumps=options.dumps,
        toolchain=options.toolchain,
    )
    prepared, case = find_case(verify, console)
    with open_temporary_folder() as folder:
        dump_run = _check_dump(make_dump(prepared, case, verify, console, folder)[0])
        view = prepared.suite.view(case, Dump(folder=dump_run.folder), options.tensor)
        view_lines = format_view(view, index, prepared.bounds[case.id], options.slice)
        for mark, text in _prepend_heading(
            f"{prepared.bundle.id}/{case.id} {options.tensor}", view_lines
        ):
            _print_line(mark, text)
    return 0


def find_case(options: VerifyOptions, console: RunConsole) -> tuple[PreparedBundle, Case]:
    """Return the only case that ``options.cases`` selects, and its bundle.

    Raises:
        ConfigError: It selects none or several.
        ParityError: The bundle could not be prepared.
    """
    chosen = selection.select_bundles(load(options.lockfile), (), options.cases)
    selection.check_locked(chosen)
    found = []
    for bundle in chosen:
        prepared = prepare_bundle(bundle, options, console, None)
        if isinstance(prepared, PreparationError):
            raise prepared.error
        found += [(prepared, case) for case in prepared.cases]
    if len(found) != 1:
        names = ", ".join(f"{prepared.bundle.id}/{case.id}" for prepared, case in found[:10])
        what = f"selects {names}; name one" if found else "selects no case of the lockfile"
        raise ConfigError(Problem("no-such-case", f"{options.cases[0]!r:.80} {what}"))
    return found[0]


class _SingleDump:
    """Keeps the only dump that is made."""

    def __init__(self) -> None:
        self.dump_run: DumpResult | None = None

    def add(self, _case: Case, dump_run: DumpResult) -> None:
        """Keep the dump of the case."""
        self.dump_run = dump_run


def make_dump(
    prepared: PreparedBundle, case: Case, options: VerifyOptions, console: RunConsole, folder: Path
) -> tuple[DumpResult, Mapping[str, str]]:
    """Return the dump of ``case``, existing or made in ``folder``, and the port that made it.

    Raises:
        DumpError: The port could not be run.
        IntegrityError: ``reference-touched``.
    """
    if options.dumps is not None:
        port = {"dumps": display_path(options.dumps)}
        return load_dump(options.dumps, prepared.bundle.id, case.id), port
    sink = _SingleDump()
    context = execute.RunContext(
        options=options, console=console, outputs=folder.resolve(), deadline=None
    )
    guard = StoreGuard([prepared])
    with fixture_aliases.open_alias_folder(prepared.bundle) as alias_folder:
        port = execute.run_dumps(prepared, sink, context, {}, alias_folder)
    for change in guard.find_changes(options.lockfile.resolve().parent).values():
        raise IntegrityError(Problem(change.code, change.message))
    if sink.dump_run is None:
        raise DumpError(Problem("dump-empty", f"{case.id} was not run"))
    return sink.dump_run, port


def _check_dump(dump_run: DumpResult) -> DumpResult:
    """Return ``dump_run`` if the program succeeded.

    Raises:
        DumpError: The program failed.
    """
    errors = [finding for finding in dump_run.findings if finding.level == "error"]
    if errors:
        found = (Problem(f.code, f.message, f.where, f.details) for f in errors)
        raise DumpError(*found)
    return dump_run


def format_view(
    view: TensorView, index: Index, bounds: Mapping[str, float], text: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a view, each with its mark: ``!`` outside the tolerance, ``~`` within.

    Args:
        view: Both sides.
        index: Elements to print; empty for those that differ, or the first if none does.
        bounds: Tolerances of the case.
        text: The index as typed.

    Raises:
        ConfigError: The index does not fit the tensor.
    """
    expected_shape, obtained_shape = view.expected.shape, view.obtained.shape
    yield "", f"{view.dtype.name} {list(expected_shape)}{', ' + view.note if view.note else ''}"
    if expected_shape != obtained_shape:
        yield (
            "!",
            f"shapes differ: expected {list(expected_shape)}, obtained {list(obtained_shape)}",
        )
        return
    marks = _mark_elements(view, bounds)
    beyond, within = int((marks == _BEYOND).sum()), int((marks == _WITHIN).sum())
    yield (
        "",
        f"{marks.size:,} elements: {beyond:,} outside the tolerance, {within:,} differ within it",
    )
    chosen = _choose_elements(marks, index, text)
    rows = [
        (_SIGNS[marks.reshape(-1)[at]], _format_row(view, at))
        for at in islice(chosen, MAX_ELEMENTS)
    ]
    if rows:
        heading = ("", "expected", "obtained", "difference")
        rows_text = align_columns([heading, *(row for _, row in rows)])
        yield "", f"  {rows_text[0]}"
        yield from (
            (mark, f"{mark or ' '} {line}")
            for (mark, _), line in zip(rows, rows_text[1:], strict=True)
        )
    if len(chosen) > MAX_ELEMENTS:
        yield "", f"  and {len(chosen) - MAX_ELEMENTS:,} more; use a slice to see others"
    cause = view.cause(bounds) if beyond else None
    if cause:
        yield "", f"cause: {cause}"


_SAME, _WITHIN, _BEYOND = 0, 1, 2
_SIGNS = ("", "~", "!")


def _mark_elements(view: TensorView, bounds: Mapping[str, float]) -> NDArray[np.uint8]:
    """Return for each element whether it differs, and whether outside the tolerance."""
    failing_tensor = FailingTensor(
        name="",
        expected=view.expected,
        obtained=view.obtained,
        expected_dtype=view.dtype,
        obtained_dtype=view.dtype,
        bounds=bounds,
    )
    is_same = view_bits(view.expected) == view_bits(view.obtained)
    beyond = failing_tensor.find_violations(view.expected, view.obtained)
    marks = np.where(is_same, _SAME, _WITHIN).astype(np.uint8)
    marks[beyond] = _BEYOND
    return marks


def _choose_elements(marks: NDArray[np.uint8], index: Index, text: str) -> NDArray[np.int64]:
    """Return the flat indices of the elements to print."""
    if index:
        places = np.arange(marks.size).reshape(marks.shape)
        return np.atleast_1d(places[expand_index(index, marks.shape, text)]).reshape(-1)
    flat = marks.reshape(-1)
    for level in (_BEYOND, _WITHIN):
        if (flat >= level).any():
            return np.flatnonzero(flat >= level)
    return np.arange(min(flat.size, MAX_ELEMENTS))


def _format_row(view: TensorView, at: int) -> tuple[str, str, str, str]:
    position = [int(axis) for axis in np.unravel_index(at, view.expected.shape)]
    expected, obtained = (
        _read_value(side.reshape(-1)[at : at + 1], view) for side in (view.expected, view.obtained)
    )
    label = str(position)
    if view.rows is not None:
        label = f"{view.rows(position[0])} {position[1:] or ''}".rstrip()
    difference = _format_difference(expected, obtained, view.dtype.kind)
    return label, _format_value(expected), _format_value(obtained), difference


def _format_difference(expected: Any, obtained: Any, kind: str) -> str:
    if expected.tobytes() == obtained.tobytes():
        return ""
    if kind in ("int", "bool"):
        return f"{int(obtained) - int(expected):+,}"  # exact, beyond 2**53 too
    with np.errstate(all="ignore"):
        if kind == "complex":
            return f"{complex(obtained) - complex(expected):+.3g}"
        return f"{float(obtained) - float(expected):+.3g}"


def _read_value(element: NDArray[Any], view: TensorView) -> Any:
    return view.dtype.widen(element)[0] if view.dtype.kind == "float" else element[0]


def _format_value(value: Any) -> str:
    return (
        format_number(value) if not isinstance(value, np.float64) else format_number(float(value))
    )


def _prepend_heading(
    heading: str, view_lines: Iterator[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    yield "", heading
    yield from view_lines


def _print_line(mark: str, text: str) -> None:
    """Print one line, coloured on a terminal unless NO_COLOR is set."""
    line = sanitize_message(text)
    if mark and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        line = f"{_RED if mark == '!' else _YELLOW}{line}{_PLAIN}"
    print(line)  # noqa: T201 - this is what prints
