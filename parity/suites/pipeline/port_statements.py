"""Compare a port's statements on its run, in `meta.json`, with its batches.

A missing statement is only a notice. A port that counts, names or digests other things than it
delivers misleads its users.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import MAX_JSON
from parity.items.matching import UNKNOWN
from parity.items.records import compute_fingerprint, compute_masked_mean
from parity.port import dump_folder
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.messages import format_list, report_error
from parity.suites.pipeline.audit import find_omitted_ids
from parity.suites.pipeline.runs import COLUMNS, ExpectedRun, Run, SlotKinds, find_indices
from parity.text import format_count

PortStatements = Mapping[str, Any]

#: Keys that `meta.json` should have.
STATEMENT_KEYS = (
    *("num_batches", "batch_sizes", "order", "omitted_ids", "fingerprint", "masked_mean"),
)
#: Largest difference of a mean of f32 values, relative to its size above 1.
_MEAN_TOLERANCE = 1e-6
_MAX_DRAW = 1e300
_MEAN_OF_MEANS = (
    "it is the mean of the batches' means, where a short batch weighs as much as a full one"
)


def read_statements(folder: Path) -> tuple[PortStatements | None, list[Finding]]:
    """Read the JSON object of a dump's `meta.json`; None, and any finding, without one."""
    path = folder / "meta.json"
    if not path.is_file():
        return None, []
    code, problem, value = "not-json", "", None
    try:
        if path.stat().st_size > MAX_JSON:
            code, problem = "too-large", f"has more than {MAX_JSON:,} bytes"
        elif not isinstance(value := json.loads(path.read_bytes()), dict):
            problem = f"contains {type(value).__name__}, not an object"
    except OSError as error:
        code, problem = "unreadable", f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON: {error}"
    if not problem:
        return value, []
    return None, [report_error(code, f"meta.json {problem}", kind="dump", tensor="meta.json")]


def check_state_file(case: Case, dump: Dump) -> list[Finding]:
    """Report a state that cannot be loaded, and a loading run that nobody watched."""
    found = []
    if case.saves:
        try:
            dump_folder.read_file(dump.folder / dump_folder.STATE_FILE, dump_folder.MAX_STATE)
        except dump_folder.DumpFileError as error:
            message = (
                f"the file {dump_folder.STATE_FILE} {error}; the run must save its state there"
            )
            found.append(report_error("state-missing", message, tensor=dump_folder.STATE_FILE))
    if case.load_from and not dump.was_run:
        message = (
            f"the dump was made before, so that it was not checked whether the run had the state "
            f"of {case.load_from} alone"
        )
        found.append(Finding(level="notice", code="state-unproven", message=message))
    return found


def read_draws(statements: PortStatements | None, run: Run) -> NDArray[np.float64] | None:
    """Return the random number that the port drew for each slot, ``[n]``; None if not stated so."""
    stated = (statements or {}).get("draws")
    given = stated if isinstance(stated, list) else []
    numbers = [one for one in given if type(one) in (int, float) and abs(one) < _MAX_DRAW]
    is_whole = len(numbers) == len(given) == len(run.id)
    return np.asarray(numbers, np.float64) if is_whole else None


def check_stated_draws(statements: PortStatements | None, run: Run) -> list[Finding]:
    """Report draws that a port must state and does not, or not one for each slot."""
    if read_draws(statements, run) is not None:
        return []
    message = (
        f"meta.json must state draws, a list of {format_count(len(run.id), 'numbers')}: what was "
        "drawn at random for each slot"
    )
    return [report_error("draws-missing", message, tensor="meta.json")]


def check_statements(
    statements: PortStatements | None,
    run: Run,
    expected: ExpectedRun,
    parameters: PortStatements,
    fingerprint: str,
) -> list[Finding]:
    """Report a port's statements that the batches, the call or the reference contradict.

    The port need not repeat the call's ``parameters``; ``fingerprint`` is that of the data set.
    """
    stated = {
        key: value if key == "masked_mean" else _normalize_number(value)
        for key, value in (statements or {}).items()
    }
    found = []
    if absent := [key for key in STATEMENT_KEYS if key not in stated]:
        message = f"meta.json does not state {', '.join(absent)}, so that was not checked"
        found.append(Finding(level="notice", code="claims-missing", message=message))
    counts = {"num_batches": len(run.sizes), "batch_sizes": list(run.sizes)}
    for key, value in counts.items():
        if key in stated and not _is_same(stated[key], value):
            found.append(_report_contradiction(key, stated[key], value))
    for key in [key for key in stated if key in _CHECKS]:
        found += _CHECKS[key](stated[key], run, expected)
    for key, value in parameters.items():
        if key in stated and not _is_same(stated[key], value):
            found.append(_report_claim(key, stated[key], value, "the case has"))
    if "fingerprint" in stated:
        found += _check_fingerprint(stated["fingerprint"], run, expected, fingerprint)
    return found


def _report_contradiction(
    key: str, stated: Any, observed: Any, what: str = "the batches have"
) -> Finding:
    return replace(_report_claim(key, stated, observed, what), code="contradiction")


def _report_claim(key: str, stated: Any, expected: Any, what: str) -> Finding:
    message = f"meta.json states {key} = {_format_value(stated)}, {what} {_format_value(expected)}"
    return report_error("claim", message, measures={"key": key}, tensor="meta.json")


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{format_list(value, len(value))}]"
    return f"{value!r:.100}"


def _normalize_number(value: Any) -> Any:
    """Return 9 for 9.0: a port whose ids are f32 writes integers so."""
    if isinstance(value, list):
        return [_normalize_number(one) if isinstance(one, float) else one for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_same(stated: Any, observed: Any) -> bool:
    """Compare two values; 1, true and "1" are three different ones."""
    if isinstance(observed, list):
        return (
            isinstance(stated, list)
            and len(stated) == len(observed)
            and all(map(_is_same, stated, observed))
        )
    return type(stated) is type(observed) and bool(stated == observed)


def _check_omitted_ids(stated: Any, run: Run, expected: ExpectedRun) -> list[Finding]:
    observed = find_omitted_ids(run, expected)
    known = isinstance(stated, list) and all(type(value) is int for value in stated)
    if observed is None or (known and sorted(stated) == observed):
        return []
    what = "not delivered in this epoch are"
    return [_report_contradiction("omitted_ids", stated, observed, what)]


def _check_order(stated: Any, run: Run, expected: ExpectedRun) -> list[Finding]:
    """Compare the epoch's order with the batches, which show a part, and the reference."""
    start = expected.position
    filler = SlotKinds.of(run, expected.dataset).filler
    observed = replace(run, **{name: getattr(run, name)[~filler] for name in COLUMNS}).ids
    part = stated[start : start + len(observed)] if isinstance(stated, list) else stated
    if not _is_same(part, observed):
        place = f"order[{start}:{start + len(observed)}]"
        return [_add_place(_report_contradiction(place, part, observed), part, observed, start)]
    if expected.order is None:
        return []
    expected_ids = expected.dataset.ids[expected.order].tolist()
    if _is_same(stated, expected_ids) or observed != expected_ids[start : start + len(observed)]:
        return []
    finding = _report_claim("order", stated, expected_ids, "the reference's is")
    return [_add_place(finding, stated, expected_ids)]


def _add_place(finding: Finding, stated: Any, observed: list[Any], start: int = 0) -> Finding:
    """Add the first position where two lists differ, which the message may not show."""
    if not isinstance(stated, list):
        return finding
    shorter = min(len(stated), len(observed))
    place = next((k for k in range(shorter) if not _is_same(stated[k], observed[k])), shorter)
    left, right = (
        _format_value(side[place]) if place < len(side) else "nothing"
        for side in (stated, observed)
    )
    where = f"; they differ first at position {start + place}: {left} and {right}"
    return replace(finding, message=finding.message + where)


def _check_mean(stated: Any, run: Run, _expected: ExpectedRun) -> list[Finding]:
    real = np.asarray(run.mask == 1)
    observed = compute_masked_mean(run.y, real)
    if _is_near(stated, observed):
        return []
    if not real.all() and _is_near(stated, compute_masked_mean(run.y, np.ones_like(real))):
        message = (
            f"meta.json states masked_mean = {_format_value(stated)}, which is the mean of all "
            f"{len(real):,} slots; of the {int(real.sum()):,} observations it is "
            f"{_format_value(observed)}"
        )
        return [report_error("padding-counted", message, measures={"key": "masked_mean"})]
    what = "the mean of the batches' labels is"
    finding = _report_contradiction("masked_mean", stated, observed, what)
    if run.sizes and _is_near(stated, _compute_mean_of_means(run)):
        finding = replace(finding, cause=_MEAN_OF_MEANS)
    return [finding]


def _compute_mean_of_means(run: Run) -> float | None:
    """Compute the mean of the batches' means, which gives each batch one weight."""
    starts = np.cumsum((0, *run.sizes[:-1]))
    real = (run.mask == 1).astype(np.float64)
    counts = np.add.reduceat(real, starts)
    sums = np.add.reduceat(np.where(real > 0, run.y, 0).astype(np.float64), starts)
    known = counts > 0
    return float((sums[known] / counts[known]).mean()) if known.any() else None


def _is_near(stated: Any, observed: float | None) -> bool:
    if observed is None or stated is None:
        return stated is observed
    if isinstance(stated, bool) or not isinstance(stated, (int, float)):
        return False
    if math.isnan(observed):
        return math.isnan(stated)
    return stated == observed or abs(stated - observed) <= _MEAN_TOLERANCE * max(1.0, abs(observed))


def _check_fingerprint(
    stated: Any, run: Run, expected: ExpectedRun, expected_digest: str
) -> list[Finding]:
    """Compare the fingerprint; a port's own values within the tolerance have their own."""
    stated = stated.lower() if isinstance(stated, str) else stated
    if stated == expected_digest:
        return []
    own_digest, exact = _compute_own_digest(run, expected)
    reason = ""
    if own_digest is not None and own_digest == stated:
        reason = "is that of the delivered values, which are not the reference's to the byte"
    elif own_digest is None and not exact:
        reason = "was not checked: the values differ within the bound, and items are missing"
    if reason:
        message = f"meta.json's fingerprint {reason}"
        return [Finding(level="notice", code="fingerprint", message=message)]
    message = (
        f"meta.json states fingerprint = {_format_value(stated)}, expected {expected_digest!r}: "
        "the port uses another data set, or digests it in another way"
    )
    given = str(stated)[:100]
    return [report_error("fingerprint", message, expected=expected_digest, obtained=given)]


def _compute_own_digest(run: Run, expected: ExpectedRun) -> tuple[str | None, bool]:
    """Return the digest of x and y as delivered (None unless all items came), and exactness."""
    data = expected.dataset
    item = find_indices(data.ids, run.id)
    known = np.flatnonzero(item != UNKNOWN)
    columns = {}
    for name in ("x", "y"):
        column = getattr(data, name).copy()
        column[item[known]] = getattr(run, name)[known]
        columns[name] = column
    exact = all(columns[name].tobytes() == getattr(data, name).tobytes() for name in columns)
    if len(np.unique(item[known])) < len(data):
        return None, exact
    return compute_fingerprint(replace(data, **columns)), exact


_CHECKS: dict[str, Callable[[Any, Run, ExpectedRun], list[Finding]]] = {
    "order": _check_order,
    "omitted_ids": _check_omitted_ids,
    "masked_mean": _check_mean,
}
