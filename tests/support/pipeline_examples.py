"""Make the messages in ``docs/pipeline.md``, each by an injected fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from parity.lab.pins import pipeline as pins
from parity.reports.phrases import format_finding
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.pipeline import ranks
from parity.suites.pipeline.port_statements import check_state_file, check_stated_draws
from parity.suites.pipeline.runs import Run
from tests.support.pipeline import (
    LESSON,
    Dumps,
    find_neighbours,
    make_correct_dump,
    verify_dumps,
    write_bundle,
    write_case,
)
from tests.support.pipeline_faults import FAULTS, make_dumps, make_row

#: Two parts of one epoch: its first eight items, and the three that are left.
TRAIN = pins.RunSettings(name="train", policy="drop", batch_size=8)
VALID = pins.RunSettings(name="valid", batch_size=8, start_batch=1)


def write_split(tree: Path) -> Path:
    """Write a bundle of two cases that are declared disjoint."""
    write_case(tree, TRAIN, LESSON)
    write_case(tree, VALID, LESSON, disjoint_with=["train"])
    return tree


def make_split_dumps() -> Dumps:
    """Return the right dumps of that bundle."""
    return {case.name: make_correct_dump(case) for case in (TRAIN, VALID)}


def find_leakage(folder: Path) -> dict[str, list[Finding]]:
    """Return the findings of a port whose validation part contains an item of the training part."""
    dumps = make_split_dumps()
    dumps["valid"].set_rows({0: make_row(9)})
    dumps["valid"].correct_claims()
    return verify_dumps(write_split(folder / "tree"), dumps, folder / "work", order="free")


def collect_examples(folder: Path) -> dict[str, list[str]]:
    """Return the console's messages of all injected faults, by code, in the faults' order."""
    tree, messages = write_bundle(folder / "tree"), {}
    for number, fault in enumerate(FAULTS):
        near = find_neighbours(fault.case)
        dumps = {name: written for name, written in make_dumps(fault).items() if name in near}
        found = verify_dumps(tree, dumps, folder / str(number), order=fault.order)
        first = next(f for f in found[fault.case] if f.code == fault.code)
        messages.setdefault(fault.code, []).append("\n".join(format_finding(first)))
    leak = next(f for f in find_leakage(folder / "leak")["valid"] if f.code == "leakage")
    for finding in (leak, *find_faults_of_ranks()):
        messages.setdefault(finding.code, []).append("\n".join(format_finding(finding)))
    return messages


def find_faults_of_ranks() -> list[Finding]:
    """Return findings on ranks, states and draws: of two ranks, the second's last item is wrong."""
    first, second = np.array([9, 4, 0, 6, 2, 3]), np.array([10, 1, 7, 8, 4])
    shares = {"rank 0": Run(id=first, sizes=(4, 2)), "rank 1": Run(id=second, sizes=(5,))}
    values = np.array([0.5, 0.25, 0.5, 0.75, 0.125, 0.875])
    keep = Run(id=first, sizes=(4, 2), draws=values)
    workers = {"keep": keep, "keep-workers-2": replace(keep, draws=np.roll(values, 1))}
    case = Case(id="keep", folder=Path(), saves=True, load_from="keep-save-b")
    same = "seed 17, epoch 1 draws as epoch 0"
    return [
        *ranks.check_ranks(shares, LESSON.ids, "uneven"),
        *ranks.check_ranks(shares, LESSON.ids, "fill")[:1],
        *ranks.check_states({"after 1 batch": b"17 0", "after 2 batches": b"17 0"}),
        *ranks.check_saved_again(b"17 0 8", b"17 0 0", "keep-save-2"),
        *ranks.check_draws({"keep": keep}),
        *ranks.check_draws(workers)[1:],
        *ranks.check_other_draws(keep, keep, same),
        *check_stated_draws({"draws": [0.5]}, Run.of([[first] * 3])),
        *check_state_file(case, Dump(folder=Path("missing"), was_run=False)),
    ]
