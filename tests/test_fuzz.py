"""The fuzz targets, for a moment: seeds, what once went wrong, and mutations without coverage."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutants
from tests.fuzz.targets import FOUND, TARGETS

#: Bytes that any input may cost: inputs are of a few kilobytes at most.
MOST = 32 * 2**20
FEW = {"diagnose": 12, "compare": 40, "meta": 60, "blocks": 40}


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_a_crash_or_costs_memory(name: str, tmp_path: Path) -> None:
    place = tmp_path / "case"
    place.mkdir()
    target = TARGETS[name]
    inputs = target.inputs(name)
    tracemalloc.start()
    try:
        for data in [*inputs, *islice(mutants(inputs, 1), FEW.get(name, 100))]:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            target.run(data, place)
            assert tracemalloc.get_traced_memory()[1] - before < MOST, data[:80]
    finally:
        tracemalloc.stop()


def test_what_was_found_belongs_to_a_target() -> None:
    assert {path.name for path in FOUND.glob("*") if path.is_dir()} <= TARGETS.keys()


def test_mutants_are_the_same_in_every_run() -> None:
    one, other = (list(islice(mutants([b"abcdef", b"ghi"], 3), 50)) for _ in range(2))
    assert one == other
    assert len(set(one)) > 40


@pytest.mark.process
@pytest.mark.slow
def test_it_runs_by_itself(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.fuzz.run", "--seconds", "1", "--target", "bin"]
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "out")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 targets, 1 s each; failed: none" in done.stdout
    assert list((tmp_path / "out" / "bin").iterdir()) == []
