"""Two trees: what changed, apart from what is the same."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from parity.drift import compare_trees, loaders, trees
from parity.drift.changes import FileDrift, TreeDrift
from parity.tensors.bin import encode_batch, encode_tensor
from tests.support.tensors import encode_safetensors
from tests.support.trees import Files, encode_f32, encode_json, make_loader_case, write_tree


def drift(tmp_path: Path, before: Files, after: Files) -> TreeDrift:
    return compare_trees(write_tree(tmp_path / "old", before), write_tree(tmp_path / "new", after))


def one(tmp_path: Path, path: str, before: bytes, after: bytes) -> FileDrift:
    (found,) = drift(tmp_path, {path: before}, {path: after}).files
    return found


def encode_npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def make_pipeline_case(ids: list[int], mask: list[int]) -> Files:
    columns = [np.array(column, np.float32) for column in (ids, ids, ids, mask)]
    return {"pad/meta.json": b"{}", "pad/batch_0000.bin": encode_batch(columns)}


ABOVE_2 = np.nextafter(np.float32(2), np.float32(3))
PARTS = [encode_tensor(np.full((2, 1), n, np.float32)) for n in range(3)]
SAFETENSORS = (
    {"a": ("BF16", np.array([0x3F80], "<u2")), "b": ("I8", np.array([1, 2], "i1")),
     "c": ("U8", np.array([1], "u1"))},
    {"a": ("BF16", np.array([0x3F81], "<u2")), "b": ("I8", np.array([1, 4], "i1")),
     "d": ("F16", np.array([0], "<f2"))},
)  # fmt: skip
ONES, ZEROS = np.ones((2, 2), np.float32), np.zeros(2, np.float32)
#: Files of one path in both trees: their path, the earlier and the later content.
FILES: dict[str, tuple[str, bytes, bytes]] = {
    "elements that moved": ("a.bin", encode_f32([[1, 2, 3], [4, 5, 6]]),
        encode_f32([[1, ABOVE_2, 3], [4, 5, 6.5]])),
    "NaN": ("a.bin", encode_f32([1, 2]), encode_f32([np.nan, 2])),
    "infinities": ("a.bin", encode_f32([np.inf, 2]), encode_f32([-np.inf, 2.5])),
    "the sign of zero": ("a.bin", encode_f32([0.0]), encode_f32([-0.0])),
    "another shape": ("a.bin", encode_f32([[1, 2]]), encode_f32([1, 2])),
    "a tensor of a batch": ("batch_0000.bin", encode_batch([ONES, ZEROS]),
        encode_batch([ONES, ZEROS + 1])),
    "tensors one after another": ("w.bin", b"".join(PARTS), b"".join([PARTS[0], *PARTS[2:] * 2])),
    "safetensors": ("m.safetensors", *map(encode_safetensors, SAFETENSORS)),
    "npy": ("x.npy", encode_npy(np.arange(3)), encode_npy(np.arange(3) * 2)),
    "a checkpoint": ("a.pth", b"PK1", b"PK22"),
    "keys of JSON": ("meta.json",
        encode_json({"a": 1, "b": {"c": [1, 2], "d": None}, "gone": True}),
        encode_json({"a": 1, "b": {"c": [1, 3], "d": None, "e": "x"}})),
    "names of a list": ("keys.json", encode_json(["a", "b"]), encode_json(["b", "c"])),
    "a value's end": ("m.json", encode_json({"a": [0] * 99}), encode_json({"a": [0] * 98 + [1]})),
    "many keys": ("m.json", encode_json({f"k{n}": n for n in range(1, 51)}),
        encode_json({f"k{n}": 2 * n for n in range(1, 51)})),
    "JSON written otherwise": ("m.json", b'{"a": 1}', b'{"a":1}\n'),
    "JSON that is cut": ("m.json", b"{}", b"{"),
    "JSON that is too deep": ("m.json", b"{}", b"[" * 100_000),
    "JSON that is too large": ("m.json", b"{}", b" " * (8 * 2**20 + 1)),
    "deep JSON": ("m.json", b'{"a":' * 900 + b"1" + b"}" * 900, b'{"a":' * 900 + b"2" + b"}" * 900),
}  # fmt: skip
SIX = make_loader_case("keep", range(6))
#: Trees: the earlier and the later one.
TREES: dict[str, tuple[Files, Files]] = {
    "equal": ({"a.bin": encode_f32([1]), "b/c.json": b"{}", "d": b""},
        {"a.bin": encode_f32([1]), "b/c.json": b"{}", "d": b""}),
    "files": ({"a.txt": b"1", "b.txt": b"22", "same": b"s"},
        {"b.txt": b"23", "c.txt": b"333", "same": b"s"}),
    "tensors of added and removed files": ({"a.bin": encode_f32([1])},
        {"b.bin": encode_f32([[2]])}),
    "items that moved": (SIX, make_loader_case("keep", [0, 3, 2, 1, 4, 5])),
    "items beside a rounding": (SIX, make_loader_case("keep", range(6), shift=5e-7)),
    "items that come and go": (make_loader_case("k", [0, 1, 2, 3]),
        make_loader_case("k", [0, 1, 2, 5, 5], 3)),
    "rows of no item": (make_loader_case("k", [0, 1]), make_loader_case("k", [0, 1], shift=0.5)),
    "a pipeline, whose padding has no id": (make_pipeline_case([7, 9, -1], [1, 1, 0]),
        make_pipeline_case([9, 7, 8], [1, 1, 0])),
    "a broken batch": (make_loader_case("k", [0, 1, 2]),
        {**make_loader_case("k", [0, 2, 1]), "k/batch_0001.bin": b"\1"}),
    "broken meta data": ({**make_loader_case("k", [0, 1, 2]), "k/meta.json": b"[]"},
        make_loader_case("k", [0, 2, 1])),
    "many moves": (SIX, make_loader_case("keep", [5, 4, 3, 2, 1, 0])),
}  # fmt: skip


def describe(found: Any, indent: str = "  ") -> str:
    """Format records, without the fields that have their defaults, each in a line."""
    if isinstance(found, tuple) and found and is_dataclass(found[0]):
        return "".join(f"\n{indent}{describe(each, indent + '  ')}" for each in found)
    if not is_dataclass(found):
        return f"{found!r:.100}"
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    defaults = {field.name: field.default for field in fields(found)}
    parts = (
        f" {name}={describe(value, indent)}"
        for name, value in values.items()
        if value != defaults[name]
    )
    return f"{type(found).__name__}{''.join(parts)}"


def test_changes_of_a_file(tmp_path: Path, golden: Callable[..., None]) -> None:
    found = {
        name: one(tmp_path / str(number), *row) for number, (name, row) in enumerate(FILES.items())
    }
    golden("\n".join(f"{name}: {describe(file)}" for name, file in found.items()))


def test_changes_of_a_tree(tmp_path: Path, golden: Callable[..., None]) -> None:
    found = {
        name: drift(tmp_path / str(number), *row)
        for number, (name, row) in enumerate(TREES.items())
    }
    golden("\n".join(f"{name}: {describe(tree)}" for name, tree in found.items()))


@pytest.mark.parametrize("path", ["a.bin", "a.npy", "a.safetensors", "batch_0000.bin"])
def test_a_file_that_cannot_be_read_is_named_so(tmp_path: Path, path: str) -> None:
    found = one(tmp_path, path, b"\xff" * 7, b"\xff" * 9)

    assert found.tensors == ()
    assert found.note.startswith("before ")
    assert "; after " in found.note


def test_a_file_without_permission_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(trees.filecmp, "cmp", refused)

    assert one(tmp_path, "a.txt", b"1", b"2").note == "cannot be read: Permission denied"


def test_a_file_that_shrinks_meanwhile_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrunk(*_: object) -> None:
        code, message = "truncated", "became shorter while it was read"
        raise trees.FormatError(code, message)

    monkeypatch.setattr(trees, "compare", shrunk)

    (tensor,) = one(tmp_path, "a.bin", encode_f32([1]), encode_f32([2])).tensors
    assert tensor.note == "became shorter while it was read"


def test_symbolic_links_are_passed_over(tmp_path: Path) -> None:
    old = write_tree(tmp_path / "old", {"a": b"1"})
    new = write_tree(tmp_path / "new", {"a": b"1"})
    (new / "b").symlink_to("/etc/passwd")
    (new / "c").symlink_to(old)

    assert compare_trees(old, new) == TreeDrift(files=(), unchanged_files=1)


def test_a_case_too_large_to_follow_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "MAX_BYTES", 10)

    case = make_loader_case("k", [1, 0])
    (found,) = drift(tmp_path, make_loader_case("k", [0, 1]), case).loaders

    assert found.note.endswith("the batches have 48 bytes, at most 10 are read")


# Whatever the files hold.


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_nothing_in_a_file_makes_it_raise(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = st.sampled_from(
        ["k/batch_0000.bin", "k/meta.json", "a.bin", "a.npy", "a.safetensors", "keys.json"]
    )
    good = [*make_loader_case("k", [0, 1]).values(), encode_f32([1, 2]), b"{}", b'["a"]', b"null"]
    content = st.sampled_from(good) | st.binary(max_size=40)
    trees = st.dictionaries(names, content, max_size=6)
    root = tmp_path_factory.mktemp("any")
    before, after = data.draw(trees), data.draw(trees)

    found = compare_trees(write_tree(root / "old", before), write_tree(root / "new", after))

    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {file.path for file in found.files} == changed
    assert found.unchanged_files == len(before.keys() | after.keys()) - len(changed)


_FLOATS = st_numpy.arrays(np.float32, (7,), elements=st.floats(width=32, allow_nan=False))


@settings(max_examples=100, deadline=None)
@given(old=_FLOATS, new=_FLOATS)
def test_numbers_are_those_of_numpy(
    old: np.ndarray, new: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> None:
    differing = int(np.count_nonzero(old.view(np.uint32) != new.view(np.uint32)))
    found = one(tmp_path_factory.mktemp("n"), "a.bin", encode_f32(old), encode_f32(new)) if (
        differing
    ) else None  # fmt: skip

    if found is not None:
        finite = np.isfinite(old) & np.isfinite(new)
        gap = np.abs(old[finite].astype(np.float64) - new[finite].astype(np.float64))
        assert found.tensors[0].changed == differing
        assert found.tensors[0].max_abs == gap.max(initial=0.0)
