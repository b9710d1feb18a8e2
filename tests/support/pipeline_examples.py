"""The messages that ``docs/pipeline.md`` shows, each made by a planted fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.pins import pipeline as pins
from parity.reports.wording import finding_lines
from tests.support.pipeline import LESSON, judge, neighbours, write_bundle, write_case, written
from tests.support.pipeline_faults import FAULTS, dumps_of, row

if TYPE_CHECKING:
    from pathlib import Path

    from parity.results import Finding
    from tests.support.pipeline import Dumps

#: Two parts of one epoch: its first eight items, and the three that are left.
TRAIN = pins.Case(name="train", policy="drop", batch_size=8)
VALID = pins.Case(name="valid", batch_size=8, start_batch=1)


def write_split(tree: Path) -> Path:
    """A bundle of two cases that are declared disjoint."""
    write_case(tree, TRAIN, LESSON)
    write_case(tree, VALID, LESSON, disjoint_with=["train"])
    return tree


def split() -> Dumps:
    """What a right port writes for that bundle."""
    return {case.name: written(case) for case in (TRAIN, VALID)}


def leaking(folder: Path) -> dict[str, list[Finding]]:
    """Findings of a port whose validation part holds an item of the training part."""
    dumps = split()
    dumps["valid"].set_rows({0: row(9)})
    dumps["valid"].honest()
    return judge(write_split(folder / "tree"), dumps, folder / "work", order="free")


def examples(folder: Path) -> dict[str, list[str]]:
    """Messages of all planted faults as a console shows them, by code, in the faults' order."""
    tree, shown = write_bundle(folder / "tree"), {}
    for number, fault in enumerate(FAULTS):
        near = neighbours(fault.case)
        dumps = {name: written for name, written in dumps_of(fault).items() if name in near}
        found = judge(tree, dumps, folder / str(number), order=fault.order)
        first = next(f for f in found[fault.case] if f.code == fault.code)
        shown.setdefault(fault.code, []).append("\n".join(finding_lines(first)))
    leak = next(f for f in leaking(folder / "leak")["valid"] if f.code == "leakage")
    return shown | {"leakage": ["\n".join(finding_lines(leak))]}
