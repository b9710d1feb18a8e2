"""Make the messages in ``docs/pipeline.md``, each by an injected fault."""

from __future__ import annotations

from pathlib import Path

from parity.lab.pins import pipeline as pins
from parity.reports.phrases import format_finding
from parity.results import Finding
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
    return messages | {"leakage": ["\n".join(format_finding(leak))]}
