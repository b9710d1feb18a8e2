"""Two trees: what changed, told from what is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from parity.drift import compare_trees, loaders, trees
from parity.drift.changes import (
    FileDrift,
    ItemMove,
    KeyDrift,
    LoaderDrift,
    TensorDrift,
    TensorForm,
    TreeDrift,
)
from parity.items.checks import BatchPosition
from parity.tensors.bin import encode_batch, encode_tensor
from tests.support.trees import Files, encode_f32, encode_json, make_loader_case, write_tree

F32 = "F32"


def drift(tmp_path: Path, before: Files, after: Files) -> TreeDrift:
    return compare_trees(write_tree(tmp_path / "old", before), write_tree(tmp_path / "new", after))


def one(tmp_path: Path, path: str, before: bytes, after: bytes) -> FileDrift:
    (found,) = drift(tmp_path, {path: before}, {path: after}).files
    return found


def one_tensor(tmp_path: Path, before: bytes, after: bytes) -> TensorDrift:
    (found,) = one(tmp_path, "a.bin", before, after).tensors
    return found


def test_equal_trees_differ_in_nothing(tmp_path: Path) -> None:
    files = {"a.bin": encode_f32([1]), "b/c.json": b"{}", "d": b""}

    assert drift(tmp_path, files, dict(files)) == TreeDrift(files=(), unchanged_files=3)


def test_files_are_added_removed_and_changed(tmp_path: Path) -> None:
    found = drift(
        tmp_path,
        {"a.txt": b"1", "b.txt": b"22", "same": b"s"},
        {"b.txt": b"23", "c.txt": b"333", "same": b"s"},
    )

    reported = [(file.path, file.state, file.before, file.after) for file in found.files]
    target = [
        ("a.txt", "removed", 1, None),
        ("b.txt", "changed", 2, 2),
        ("c.txt", "added", None, 3),
    ]
    assert reported == target
    assert found.unchanged_files == 1


def test_a_tensor_reports_how_many_elements_moved_and_how_far(tmp_path: Path) -> None:
    values = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    other = values.copy()
    other[0, 1] = np.nextafter(np.float32(2), np.float32(3))
    other[1, 2] = 6.5

    found = one_tensor(tmp_path, encode_f32(values), encode_f32(other))

    target = TensorDrift(
        name="",
        before=TensorForm(F32, (2, 3)),
        after=TensorForm(F32, (2, 3)),
        count=6,
        changed=2,
        max_abs=0.5,
        max_ulp=2**20,
    )
    assert found == target


@pytest.mark.parametrize(
    ("old", "new", "lost", "max_abs"),
    [
        ([1.0, 2.0], [np.nan, 2.0], 1, 0.0),
        ([np.inf, 2.0], [-np.inf, 2.5], 1, 0.5),
        ([0.0], [-0.0], 0, 0.0),
    ],
)
def test_what_is_not_finite_and_the_sign_of_zero_are_changes(
    tmp_path: Path, old: list[float], new: list[float], lost: int, max_abs: float
) -> None:
    found = one_tensor(tmp_path, encode_f32(old), encode_f32(new))

    changed = 2 if max_abs else 1
    assert (found.changed, found.lost, found.max_abs) == (changed, lost, max_abs)


def test_another_shape_is_reported_without_numbers(tmp_path: Path) -> None:
    found = one_tensor(tmp_path, encode_f32([[1, 2]]), encode_f32([1, 2]))

    assert found == TensorDrift(
        name="", before=TensorForm(F32, (1, 2)), after=TensorForm(F32, (2,))
    )


def test_the_tensors_of_a_batch_are_reported_one_by_one(tmp_path: Path) -> None:
    left, right = np.ones((2, 2), np.float32), np.zeros(2, np.float32)

    found = one(
        tmp_path, "batch_0000.bin", encode_batch([left, right]), encode_batch([left, right + 1])
    )

    assert [(t.name, t.changed, t.count) for t in found.tensors] == [("#1", 2, 2)]


def test_tensors_one_after_another_without_a_count_are_read(tmp_path: Path) -> None:
    parts = [encode_tensor(np.full((2, 1), n, np.float32)) for n in range(3)]

    found = one(tmp_path, "w.bin", b"".join(parts), b"".join([parts[0], parts[2], parts[2]]))

    assert [(t.name, t.max_abs) for t in found.tensors] == [("#1", 1.0)]


def safetensors(**entries: tuple[str, list[int], bytes]) -> bytes:
    header, data = {}, b""
    for name, (dtype, shape, raw) in entries.items():
        span = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": span}
        data += raw
    text = encode_json(header)
    return len(text).to_bytes(8, "little") + text + data


def test_the_tensors_of_a_safetensors_file_are_reported_by_name_and_dtype(tmp_path: Path) -> None:
    old = safetensors(a=("BF16", [1], b"\x80\x3f"), b=("I8", [2], b"\1\2"), c=("U8", [1], b"\1"))
    new = safetensors(a=("BF16", [1], b"\x81\x3f"), b=("I8", [2], b"\1\4"), d=("F16", [1], b"\0\0"))

    found = one(tmp_path, "m.safetensors", old, new).tensors

    assert [(t.name, t.changed, t.max_abs, t.max_ulp) for t in found] == [
        ("a", 1, 2**-7, 1),
        ("b", 1, 2.0, None),
        ("c", 0, None, None),
        ("d", 0, None, None),
    ]
    assert found[2].after is None
    assert found[3] == TensorDrift(name="d", before=None, after=TensorForm("F16", (1,)))


def test_a_npy_file_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.save(tmp_path / "b.npy", np.arange(3) * 2)
    old, new = ((tmp_path / name).read_bytes() for name in ("a.npy", "b.npy"))

    (found,) = one(tmp_path, "x.npy", old, new).tensors

    assert (found.before, found.changed, found.max_abs) == (TensorForm("I64", (3,)), 2, 2.0)


def test_the_tensors_of_added_and_removed_files_have_one_side(tmp_path: Path) -> None:
    found = drift(tmp_path, {"a.bin": encode_f32([1])}, {"b.bin": encode_f32([[2]])}).files

    assert found[0].tensors[0].before == TensorForm(F32, (1,))
    assert found[1].tensors[0].after == TensorForm(F32, (1, 1))


@pytest.mark.parametrize("path", ["a.bin", "a.npy", "a.safetensors", "batch_0000.bin"])
def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path, path: str) -> None:
    found = one(tmp_path, path, b"\xff" * 7, b"\xff" * 9)

    assert found.tensors == ()
    assert found.note.startswith("before ")
    assert "; after " in found.note


def test_a_checkpoint_is_one_opaque_file(tmp_path: Path) -> None:
    found = one(tmp_path, "a.pth", b"PK1", b"PK22")

    assert found == FileDrift(path="a.pth", before=3, after=4)


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

    assert (
        one_tensor(tmp_path, encode_f32([1]), encode_f32([2])).note
        == "became shorter while it was read"
    )


def test_symbolic_links_are_passed_over(tmp_path: Path) -> None:
    old = write_tree(tmp_path / "old", {"a": b"1"})
    new = write_tree(tmp_path / "new", {"a": b"1"})
    (new / "b").symlink_to("/etc/passwd")
    (new / "c").symlink_to(old)

    assert compare_trees(old, new) == TreeDrift(files=(), unchanged_files=1)


# JSON.


def test_the_keys_of_a_json_file_are_reported_with_both_values(tmp_path: Path) -> None:
    old = {"a": 1, "b": {"c": [1, 2], "d": None}, "gone": True}
    new = {"a": 1, "b": {"c": [1, 3], "d": None, "e": "x"}}

    found = one(tmp_path, "meta.json", encode_json(old), encode_json(new))

    assert found.keys == (
        KeyDrift("b.c", "[1, 2]", "[1, 3]"),
        KeyDrift("gone", "true", None),
        KeyDrift("b.e", None, '"x"'),
    )


def test_the_names_of_a_list_come_and_go(tmp_path: Path) -> None:
    found = one(tmp_path, "keys.json", encode_json(["a", "b"]), encode_json(["b", "c"]))

    assert found.keys == (KeyDrift("a", "listed", None), KeyDrift("c", None, "listed"))


def test_a_difference_far_behind_in_a_value_counts(tmp_path: Path) -> None:
    found = one(
        tmp_path, "m.json", encode_json({"a": [0] * 99}), encode_json({"a": [0] * 98 + [1]})
    )

    assert [key.path for key in found.keys] == ["a"]


def test_only_the_first_keys_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    old, new = ({str(key): key * factor for key in range(1, 51)} for factor in (1, 2))

    found = one(tmp_path, "m.json", encode_json(old), encode_json(new))

    assert (len(found.keys), found.more_keys) == (20, 30)


def test_json_that_is_only_written_otherwise_is_said_to_be_so(tmp_path: Path) -> None:
    found = one(tmp_path, "m.json", b'{"a": 1}', b'{"a":1}\n')

    assert (found.keys, found.note) == ((), "the same values, written or ordered otherwise")


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"{", "after is not JSON"),
        (b"[" * 100_000, "after is not JSON"),
        (b" " * (8 * 2**20 + 1), "after has 8,388,609 bytes; at most 8,388,608 are compared"),
    ],
)
def test_json_that_cannot_be_read_is_said_to_be_so(tmp_path: Path, data: bytes, note: str) -> None:
    assert one(tmp_path, "m.json", b"{}", data).note == note


def test_deep_json_is_one_value_from_some_depth_on(tmp_path: Path) -> None:
    old, new = b'{"a":' * 900 + b"1" + b"}" * 900, b'{"a":' * 900 + b"2" + b"}" * 900

    found = one(tmp_path, "m.json", old, new)

    assert [key.path for key in found.keys] == ["a.a.a.a.a.a"]


# Loaders.


def loaders_of(tmp_path: Path, before: Files, after: Files) -> tuple[LoaderDrift, ...]:
    return drift(tmp_path, before, after).loaders


def test_items_that_moved_are_reported_by_identity(tmp_path: Path) -> None:
    (found,) = loaders_of(
        tmp_path,
        make_loader_case("keep", [0, 1, 2, 3, 4, 5]),
        make_loader_case("keep", [0, 3, 2, 1, 4, 5]),
    )

    assert found == LoaderDrift(
        case="keep",
        items=6,
        moved=2,
        moves=(
            ItemMove(1, BatchPosition(0, 1), BatchPosition(1, 1)),
            ItemMove(3, BatchPosition(1, 1), BatchPosition(0, 1)),
        ),
    )


def test_items_that_only_moved_by_a_rounding_stay_where_they_are(tmp_path: Path) -> None:
    old, new = (
        make_loader_case("keep", [0, 1, 2, 3, 4, 5]),
        make_loader_case("keep", [0, 1, 2, 3, 4, 5], shift=5e-7),
    )

    found = drift(tmp_path, old, new)

    assert {file.path for file in found.files} >= {"keep/batch_0000.bin"}
    assert found.loaders == ()


def test_removed_and_added_items_and_other_sizes_are_reported(tmp_path: Path) -> None:
    (found,) = loaders_of(
        tmp_path, make_loader_case("k", [0, 1, 2, 3]), make_loader_case("k", [0, 1, 2, 5, 5], 3)
    )

    assert (found.moved, found.removed, found.added) == (0, (3,), (5, 5))
    assert found.batch_sizes == ((2, 2), (3, 2))


def test_rows_that_are_no_item_of_the_old_data_set_are_counted(tmp_path: Path) -> None:
    (found,) = loaders_of(
        tmp_path, make_loader_case("k", [0, 1]), make_loader_case("k", [0, 1], shift=0.5)
    )

    assert (found.unknown, found.removed, found.added) == (2, (0, 1), ())


def pipeline(name: str, ids: list[int], mask: list[int]) -> Files:
    columns = [np.array(column, np.float32) for column in (ids, ids, ids, mask)]
    return {f"{name}/meta.json": b"{}", f"{name}/batch_0000.bin": encode_batch(columns)}


def test_a_pipeline_has_its_ids_and_padding_has_none(tmp_path: Path) -> None:
    (found,) = loaders_of(
        tmp_path, pipeline("pad", [7, 9, -1], [1, 1, 0]), pipeline("pad", [9, 7, 8], [1, 1, 0])
    )

    assert (found.items, found.moved, found.added) == (2, 2, ())
    assert found.moves[0] == ItemMove(7, BatchPosition(0, 0), BatchPosition(0, 1))


@pytest.mark.parametrize(
    ("path", "data", "note"),
    [
        ("batch_0001.bin", b"\1", "ends at byte 1, where the number of tensors is expected"),
        ("meta.json", b"[]", "k/meta.json: contains list, not an object"),
    ],
)
def test_a_case_that_cannot_be_read_is_said_to_be_so(
    tmp_path: Path, path: str, data: bytes, note: str
) -> None:
    before, after = make_loader_case("k", [0, 1, 2]), make_loader_case("k", [0, 2, 1])
    (before if path == "meta.json" else after)[f"k/{path}"] = data

    found = loaders_of(tmp_path, before, after)

    assert [loader.note for loader in found] == [f"its items could not be followed: {note}"]


def test_a_case_too_large_to_follow_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "MAX_BYTES", 10)

    (found,) = loaders_of(tmp_path, make_loader_case("k", [0, 1]), make_loader_case("k", [1, 0]))

    assert found.note.endswith("the batches have 48 bytes, at most 10 are read")


def test_only_the_first_moves_are_kept(tmp_path: Path) -> None:
    (found,) = loaders_of(
        tmp_path, make_loader_case("k", range(6)), make_loader_case("k", [5, 4, 3, 2, 1, 0])
    )

    assert (found.moved, len(found.moves)) == (6, 5)


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
