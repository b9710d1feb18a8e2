"""Mutants: the same for the same seed, built from views that leave a file as it was."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from parity.lab import zoo
from parity.lab.fuzz import draw
from parity.lab.fuzz.mutant import Base, Edit, Mutant, View
from parity.lab.fuzz.views import make_base
from parity.lab.readers.libraries import READERS

#: Cases are built by torch, whose import may start programs.
pytestmark = pytest.mark.process

_IDS = ("pth-y-transposed", "pth-y-legacy-views", "safetensors-y-metadata", "gguf-y-q4-0")
_BAD = ("safetensors-n-length-2-63", "gguf-n-version-4", "pth-n-empty-zip", "gguf-n-alignment-2-31")
CASES = {case.id: case for case in zoo.CASES}


def base(name: str) -> Base:
    case = CASES[name]
    return make_base(name, case.group, case.content)


@pytest.fixture(scope="module")
def bases() -> list[Base]:
    return [base(name) for name in _IDS]


def test_a_seed_has_one_sequence_of_mutants(bases: list[Base]) -> None:
    first, again, other = (
        [(m.id, m.content) for m in islice(draw.draw_mutants(seed, bases, []), 200)]
        for seed in (3, 3, 4)
    )
    assert first == again
    assert not {content for _, content in first} & {base.content for base in bases}
    assert len({content for _, content in first}) == 200, "none of them twice"
    assert len({content for _, content in first} & {content for _, content in other}) < 100


def test_a_mutant_depends_on_its_number_alone(bases: list[Base]) -> None:
    # What was drawn before it decides only whether it is a repetition.
    sequence = [m.content for m in islice(draw.draw_mutants(5, bases, []), 50)]
    assert [m.content for m in islice(draw.draw_mutants(5, bases, []), 20)] == sequence[:20]


FIELDS = {
    "pth-y-transposed": {
        *("storage length", "storage offset", "size", "stride", "pickle global", "pickle text"),
        *("opcode BINPERSID", "storage", "member name", "version", "byteorder"),
    },
    "pth-y-legacy-views": {"storage length", "size", "stride", "storage", "opcode STOP"},
    "safetensors-y-metadata": {
        *("dtype", "shape", "data_offsets", "name", "metadata", "key dtype", "data"),
    },
    "gguf-y-q4-0": {
        *("version", "tensor count", "metadata count", "tensor name", "length of tensor name"),
        *("dimension count", "dimension", "tensor type", "tensor offset", "data", "magic"),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_a_format(name: str) -> None:
    view = base(name).views[-1]
    assert FIELDS[name] <= {field.name for field in view.fields}
    for field in view.fields:
        assert 0 <= field.start <= field.stop <= len(view.parts[field.part]), field
        assert field.kind == "bytes" or field.kind in draw.KINDS


@pytest.mark.parametrize("name", _BAD)
def test_a_file_that_cannot_be_parsed_has_its_bytes_alone(name: str) -> None:
    found = base(name)
    assert [view.parts for view in found.views] == [(found.content,)]
    assert found.views[0].fields


#: A case whose checksums Python's zip library rejects, and one whose filler is no zeros.
_ALONE, _FILLED = "pth-y-no-checksums", "gguf-y-filler"


def test_every_case_that_must_be_loaded_has_a_view() -> None:
    """Joined again, the parts are the file, but for the headers of an archive."""
    for case in zoo.CASES:
        if case.expect == "load" and case.id != _ALONE:
            found = make_base(case.id, case.group, case.content)
            assert len(found.views) == 2, case.id
            view = found.views[-1]
            assert view.fields, case.id
            if case.group != "pth" and case.id != _FILLED:
                assert view.join(view.parts) == case.content, case.id


@pytest.mark.parametrize("name", ["pth-y-transposed", "pth-y-legacy-views"])
def test_torch_reads_joined_parts(name: str, tmp_path: Path) -> None:
    found = base(name)
    view = found.views[-1]
    path = tmp_path / "x.pth"
    tensors = []
    for content in (found.content, view.join(view.parts)):
        path.write_bytes(content)
        tensors.append(READERS["torch"]()(path)())
    assert tensors[0] == tensors[1]


def test_edits_are_applied_together() -> None:
    view = View((b"abcdef", b"xyz"), (), b"|".join)
    edits = (
        Edit(0, 4, 5, b"", "tail"),
        Edit(0, 1, 2, b"BB", "head"),
        Edit(1, 3, 3, b"!", "end"),
    )
    mutant = Mutant("m1", Base("y", "gguf", b"", (view,)), view, edits)
    assert mutant.content == b"aBBcdf|xyz!"
    assert mutant.place == "end + head + tail"
    assert mutant.describe() == (
        "y with tail at 4: 'e' becomes nothing; head at 1: 'b' becomes 'BB'; "
        "end at 3: nothing becomes '!'"
    )


def test_no_mutant_of_a_pickle_names_more_than_torch() -> None:
    """The globals that are drawn are torch's own: nothing that a port could be made to run."""
    modules = {one.split(b"\n")[0] for one in draw._GLOBALS}
    assert modules == {b"ctorch", b"ctorch._utils", b"ccollections"}
