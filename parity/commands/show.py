"""``show``: print a tensor's expected and obtained values and their difference."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.commands.selection import choose_bundles
from parity.diagnose import FailingTensor
from parity.errors import ConfigError, DumpError, IntegrityError, Problem
from parity.github import display_path
from parity.lab import resolve_hook
from parity.lab.views.base import TensorView
from parity.port.dump_folder import open_temporary_folder
from parity.port.outcome_json import load_dump
from parity.port.run import DumpResult
from parity.reports.console import RunConsole
from parity.suites.base import Case, Dump
from parity.suites.messages import format_number
from parity.tensors.dtypes import view_bits
from parity.tensors.index_expression import Index, expand_index, parse_index
from parity.text import align_columns, format_count, sanitize_message
from parity.verify import execute
from parity.verify.options import VerifyOptions, declare, declare_flag
from parity.verify.prepare import PreparationError, PreparedBundle, prepare_bundle
from parity.verify.selection import is_selected
from parity.verify.store_guard import StoreGuard

#: Maximum number of printed elements.
MAX_ELEMENTS = 60
READ_DUMP = ("--dumps DIR", "read an existing dump in DIR/<bundle>/<case>/", None)
_RED, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class ShowOptions(VerifyOptions):
    """The command line of ``show``; ``cases`` is one glob."""

    cases: Sequence[str] = declare("CASE", "bundle/case, or a case's name", nargs=1)
    dumps: Path | None = declare(*READ_DUMP)
    tensor: str = declare("TENSOR", "its name, as findings print it")
    #: Empty for the elements that differ.
    slice: str = declare("SLICE", "NumPy's notation, for example 0,:,1:3", "", nargs="?")
    why: bool = declare_flag(
        "--why", "list the wrong ways that were tried for a stage, and what each leaves"
    )


def show(options: ShowOptions, console: RunConsole) -> int:
    """Print both sides of a tensor; return 0 whether they differ or not.

    Raises:
        ConfigError: No such case, tensor or element.
        DumpError: The port could not be built or run, or its dump has no such tensor.
        ReferenceSuspectError: The reference cannot be read.
    """
    index = parse_index(options.slice)
    prepared, case = find_case(options, console)
    with open_temporary_folder() as folder:
        dump_run = make_dump(prepared, case, options, console, folder)[0]
        if errors := [finding for finding in dump_run.findings if finding.level == "error"]:
            raise DumpError(*(Problem(f.code, f.message, f.where, f.details) for f in errors))
        view = resolve_hook(prepared.suite.view)(case, Dump(folder=dump_run.folder), options.tensor)
        _print_line("", f"{prepared.bundle.id}/{case.id} {options.tensor}")
        bounds = prepared.bounds[case.id] if view.bounds is None else view.bounds
        for mark, text in format_view(view, index, bounds, options.slice):
            _print_line(mark, text)
        if options.why:
            if view.explain is None:
                message = f"--why explains stages of a model; {options.tensor} is none"
                raise ConfigError(Problem("usage", message))
            for line in view.explain():
                _print_line("", line)
    return 0


def find_case(options: VerifyOptions, console: RunConsole) -> tuple[PreparedBundle, Case]:
    """Return the only case that ``options.cases`` selects, and its bundle.

    Raises:
        ConfigError: It selects none or several.
        ParityError: The bundle could not be prepared.
    """
    found = []
    options = replace(options, all_cases=True)  # also one that the port does not claim
    for bundle in choose_bundles(options)[1]:
        prepared = prepare_bundle(bundle, options, console, None)
        if isinstance(prepared, PreparationError):
            raise prepared.error
        found += [
            (prepared, case)
            for case in prepared.cases
            if is_selected(options.cases, bundle.id, case.id)
        ]
    if len(found) != 1:
        names = ", ".join(f"{prepared.bundle.id}/{case.id}" for prepared, case in found[:10])
        what = f"selects {names}; name one" if found else "selects no case of the lockfile"
        raise ConfigError(Problem("no-such-case", f"{options.cases[0]!r:.80} {what}"))
    return found[0]


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
    made: dict[str, DumpResult] = {}
    context = execute.RunContext(
        options=options, console=console, outputs=folder.resolve(), deadline=None
    )
    guard = StoreGuard([prepared])
    port, _ = execute.run_dumps(
        prepared, lambda one, run: made.setdefault(one.id, run), context, {}
    )
    for change in guard.find_changes(options.lockfile.resolve().parent).values():
        raise IntegrityError(Problem(change.code, change.message))
    if not made:
        raise DumpError(Problem("dump-empty", f"{case.id} was not run"))
    return made[case.id], port


def format_view(
    view: TensorView, index: Index, bounds: Mapping[str, float], text: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a view, each with its mark: ``!`` outside the tolerance, ``~`` within.

    ``index``, typed as ``text``, selects the elements; an empty one those that differ, or the first
    if none does.

    Raises:
        ConfigError: The index does not fit the tensor.
    """
    expected_shape, obtained_shape = list(view.expected.shape), list(view.obtained.shape)
    yield "", f"{view.dtype.name} {expected_shape}{', ' + view.note if view.note else ''}"
    if expected_shape != obtained_shape:
        yield "!", f"shapes differ: expected {expected_shape}, obtained {obtained_shape}"
        return
    marks = _mark_elements(view, bounds)
    beyond, within = int((marks == _BEYOND).sum()), int((marks == _WITHIN).sum())
    counts = f"{beyond:,} outside the tolerance, {within:,} differ within it"
    yield "", f"{format_count(marks.size, 'elements')}: {counts}"
    chosen = _choose_elements(marks, index, text)
    printed = chosen[:MAX_ELEMENTS]
    if len(printed):
        heading = ("", "expected", "obtained", "difference")
        first, *lines = align_columns([heading, *(_format_row(view, at) for at in printed)])
        yield "", f"  {first}"
        for at, line in zip(printed, lines, strict=True):
            mark = _SIGNS[marks.reshape(-1)[at]]
            yield mark, f"{mark or ' '} {line}"
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
    values: list[Any] = [side.reshape(-1)[at : at + 1] for side in (view.expected, view.obtained)]
    values = [(view.dtype.widen(v) if view.dtype.kind == "float" else v)[0] for v in values]
    label = str(position)
    if view.rows is not None:
        label = f"{view.rows(position[0])} {position[1:] or ''}".rstrip()
    expected, obtained = (
        format_number(float(v) if isinstance(v, np.float64) else v) for v in values
    )
    return label, expected, obtained, _format_difference(values[0], values[1], view.dtype.kind)


def _format_difference(expected: Any, obtained: Any, kind: str) -> str:
    if expected.tobytes() == obtained.tobytes():
        return ""
    if kind in ("int", "bool"):
        return f"{int(obtained) - int(expected):+,}"  # exact, beyond 2**53 too
    number = complex if kind == "complex" else float
    with np.errstate(all="ignore"):
        return f"{number(obtained) - number(expected):+.3g}"


def _print_line(mark: str, text: str) -> None:
    """Print one line, coloured on a terminal unless NO_COLOR is set."""
    line = sanitize_message(text)
    if mark and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        line = f"{_RED if mark == '!' else _YELLOW}{line}{_PLAIN}"
    print(line)  # noqa: T201 - this is what prints
