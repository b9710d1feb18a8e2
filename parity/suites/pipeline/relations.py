"""Compare runs of an input pipeline with each other: repeats, epochs, seeds, resumes, splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.results import Finding
from parity.suites.item_findings import check_other_shuffle
from parity.suites.messages import format_list, format_number, report_error
from parity.suites.pipeline.audit import check_resumed_ids
from parity.suites.pipeline.groups import ComparedCase, check_groups
from parity.suites.pipeline.ranks import check_other_draws, check_saved_again
from parity.suites.pipeline.runs import COLUMNS, Run
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.runs import Numbers

#: Fewest items whose orders are compared: two orders of 8 are equal by chance in 1/8! = 2.5e-5.
MIN_ITEMS = 8
_RESUME = {"resume-start", "resume-order"}  # Errors that say already how resuming failed
#: For another key that gives the same order: the code, and the reason.
SAME_ORDER = {
    "other_epoch_of": ("epoch-ignored", "the order does not depend on the epoch"),
    "other_seed_of": ("seed-ignored", "the order does not depend on the seed"),
    "other_key_of": ("order-shared", "seed and epoch seem to be added up into one key"),
}


def check_relations(
    compared: Mapping[str, tuple[Case, Dump | None]],
) -> Mapping[str, tuple[Finding, ...]]:
    """Report what only several runs show, by the case that names the other.

    Relations to cases that were not selected are left out; a case may have no dump.
    """
    cases = {name: ComparedCase.read(case, dump) for name, (case, dump) in compared.items()}
    found = {
        name: [
            finding
            for key, partner in _iterate_relations(related, cases)
            for finding in _check_relation(key, related, cases[partner])
        ]
        for name, related in cases.items()
        if related.run is not None
    }
    for name, finding in check_groups(cases.values()):
        found[name].append(finding)
    return {name: tuple(each) for name, each in found.items()}


def _iterate_relations(
    related: ComparedCase, cases: Mapping[str, ComparedCase]
) -> Iterator[tuple[str, str]]:
    """Yield each relation of a case, and the case that it is to."""
    pairs = [*related.meta.relations.items()]
    pairs += [("disjoint_with", partner) for partner in related.meta.disjoint_with]
    pairs += [("load_from", related.meta.load_from)] * (related.meta.stop_after == 0)
    yield from (pair for pair in pairs if pair[1] in cases)
    base = related.meta.relations.get("other_seed_of", "")
    other = cases[base].run if base in cases else None
    if base not in cases or (other and other.ids) == (related.run and related.run.ids):
        return
    # (seed + 1, epoch) and (seed, epoch + 1): one key to a port that adds the two up.
    key = related.meta.seed + related.meta.epoch
    for name, one in cases.items():
        related_to = one.meta.relations.get("other_epoch_of")
        if related_to == base and one.meta.seed + one.meta.epoch == key:
            yield "other_key_of", name


def _check_relation(key: str, related: ComparedCase, other: ComparedCase) -> list[Finding]:
    run, whole, name, meta = related.run, other.run, other.meta.name, related.meta
    if run is None or whole is None:
        return [_report_skipped(f"not compared with {name} ({key}), whose dump could not be read")]
    if key == "disjoint_with":
        return check_disjoint(run, whole, name)
    if meta.stop_after is not None:
        whole = whole.slice_batches(0, meta.start_batch + meta.stop_after - whole.first_batch)
    if not related.errors and other.errors:
        return [_report_skipped(f"not compared with {name} ({key}), which has errors of its own")]
    if related.errors:
        if other.errors or key != "resume_of" or related.errors & _RESUME:
            return []
        # Only a wrong start of a resumed run: its other errors follow from it.
        before = whole.slice_batches(0, run.first_batch - whole.first_batch)
        return check_resumed_ids(whole.ids, run, len(before.ids), strict=True)
    return _compare_runs(key, related, other, run, whole)


def _compare_runs(
    key: str, related: ComparedCase, other: ComparedCase, run: Run, whole: Run
) -> list[Finding]:
    meta, name = related.meta, other.meta.name
    if key == "load_from":
        return check_saved_again(other.state, related.state, name)
    if key in ("resume_of", "same_as"):
        return (check_resumed if key == "resume_of" else check_repeated)(whole, run, name)
    own, others = (f"seed {one.seed}, epoch {one.epoch}" for one in (meta, other.meta))
    code, why = SAME_ORDER[key]
    message = f"{own} gives the order of {name} ({others}): {why}"
    found = check_other_order(run, whole, code, message, name)
    if related.share and other.share and meta.draws and other.meta.draws:
        message = f"{own} draws as {name} ({others})"
        found += check_other_draws(related.share, other.share, message)
    return found


def _report_skipped(message: str) -> Finding:
    return Finding(level="notice", code="relation-skipped", message=message)


def check_resumed(whole: Run, rest: Run, name: str) -> list[Finding]:
    """Compare what came before the cut, and after it, with the uninterrupted run ``name``.

    The cut is the ``first_batch`` of the resumed run ``rest``.
    """
    cut = rest.first_batch - whole.first_batch
    if not 0 <= cut <= len(whole.sizes):
        message = (
            f"the restart at batch {rest.first_batch} is not in {name}, which has "
            f"{format_count(len(whole.sizes), 'batches', 'batch')} from {whole.first_batch} on"
        )
        return [report_error("resume-start", message)]
    before = whole.slice_batches(0, cut)
    if found := check_resumed_ids(whole.ids, rest, len(before.ids)):
        return found
    text = _describe_difference(whole.slice_batches(cut), rest)
    message = f"batches from {rest.first_batch} on differ from those of {name}: {text}"
    return [report_error("resume-values", message)] if text else []


def check_repeated(first: Run, second: Run, name: str) -> list[Finding]:
    """Check that the same (seed, epoch) gave the same run, to the byte."""
    text = _describe_difference(first, second)
    message = f"another run than {name} of the same seed and epoch: {text}"
    return [report_error("not-repeated", message)] if text else []


def check_other_order(
    run: Run, other: Run, code: str, message: str, name: str = "the other run"
) -> list[Finding]:
    """Check that another key gave another order; else report ``code`` and ``message``.

    An order that is close to that of ``name``, such as a rotation of it, is a warning.
    """
    if run.ids != other.ids:
        return check_other_shuffle(np.asarray(run.ids), np.asarray(other.ids), name)
    return [report_error(code, message)] if len(run.ids) >= MIN_ITEMS else []


def check_disjoint(run: Run, other: Run, name: str) -> list[Finding]:
    """Check that no item of ``run`` occurs in ``other``, the run of this name."""
    shared = sorted(set(run.ids) & set(other.ids))
    if not shared:
        return []
    message = (
        f"{format_count(len(shared), 'items')} in common with {name}, though the two are declared "
        f"disjoint: {format_list(shared)}"
    )
    return [report_error("leakage", message, measures={"items": len(shared)})]


def _describe_difference(expected_run: Run, obtained_run: Run) -> str | None:
    """Describe where two runs differ first; None where they are equal to the byte."""
    if expected_run.sizes != obtained_run.sizes:
        sizes = [format_list(run.sizes) for run in (obtained_run, expected_run)]
        return f"sizes [{sizes[0]}] instead of [{sizes[1]}]"
    for name in COLUMNS:
        expected, obtained = getattr(expected_run, name), getattr(obtained_run, name)
        differing = np.flatnonzero(_view_bits(expected, obtained) != _view_bits(obtained, expected))
        if len(differing):
            slot = int(differing[0])
            count = f"{format_count(len(differing), 'slots')} of {len(expected):,}"
            return (
                f"{obtained_run.format_position(slot)} has {name} {format_number(obtained[slot])} "
                f"instead of {format_number(expected[slot])} ({count} differ in {name})"
            )
    return None


def _view_bits(column: Numbers, other: Numbers) -> Numbers:
    """View the elements' bits as integers, of the dtype that fits both columns."""
    packed = np.ascontiguousarray(column, np.result_type(column, other))
    return packed.view(f"u{packed.dtype.itemsize}")
