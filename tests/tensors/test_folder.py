"""The tensors of a folder: found by name, none lost, none guessed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from parity.tensors.bin import encode_batch, encode_tensor
from parity.tensors.folder import list_named, list_tensors, locate_all
from tests.support.tensors import encode_safetensors, f32, name_dtypes, write_files

ONE = f32(1.0, 2.0)


def test_names_are_stems_or_keys(tmp_path: Path) -> None:
    many = name_dtypes({"a/b": ONE, "": np.arange(3), "x" * 400: ONE.astype("<f2")})
    folder = write_files(
        tmp_path,
        {
            "conv1.weight.bin": ONE,
            "größe.npy": np.arange(4),
            f"{'n' * 240}.bin": ONE,
            ".bin": ONE,
            "m.safetensors": encode_safetensors(many),
            "notes.txt": b"no tensor",
            "model.onnx": b"",
            "w.BIN": b"",
        },
    )
    (folder / "folder.bin").mkdir()
    found = list_tensors(folder)
    assert {name: tensor.dtype.name for name, tensor in found.tensors.items()} == {
        "conv1.weight": "F32",
        "größe": "I64",
        "n" * 240: "F32",
        "a/b": "F32",
        "": "I64",
        "x" * 400: "F16",
    }
    assert (found.unreadable, found.duplicates) == ({}, [])


def test_one_file_is_a_place_too(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"m.safetensors": encode_safetensors(name_dtypes({"a": ONE})), "b.bin": ONE}
    )
    assert list(list_tensors(tmp_path / "m.safetensors").tensors) == ["a"]
    assert list(list_tensors(tmp_path / "b.bin").tensors) == ["b"]


@pytest.mark.parametrize(
    ("name", "data", "names"),
    [
        ("x.bin", encode_tensor(f32([1])), [""]),
        (".bin", encode_tensor(f32([1])), [""]),
        ("weights.bin", encode_tensor(f32([1])) * 2, ["#0", "#1"]),
        ("batch_0.bin", encode_batch([f32([1])]), ["#0"]),
    ],
)
def test_tensors_of_a_bin_are_named_by_its_form(
    tmp_path: Path, name: str, data: bytes, names: list[str]
) -> None:
    (tmp_path / name).write_bytes(data)

    assert list(locate_all(tmp_path / name)) == names


def test_what_macos_keeps_of_a_file_is_passed_over(tmp_path: Path) -> None:
    double = b"\x00\x05\x16\x07" + bytes(78)
    files = {
        "a.npy": ONE,
        "b.bin": ONE,
        "m.safetensors": encode_safetensors(name_dtypes({"c": ONE})),
    }
    folder = write_files(tmp_path, files | {f"._{name}": double for name in files})
    found = list_tensors(folder)
    assert (set(found.tensors), found.unreadable) == ({"a", "b", "c"}, {})


def test_a_name_like_macos_s_is_a_tensor_s_where_it_has_one_or_is_alone(
    tmp_path: Path,
) -> None:
    folder = write_files(tmp_path, {"a.npy": ONE, "._a.npy": ONE, "._b.npy": b"x", "._": b"x"})
    found = list_tensors(folder)
    assert (set(found.tensors), set(found.unreadable)) == ({"a", "._a"}, {"._b.npy"})


def test_what_cannot_be_read_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = write_files(
        tmp_path,
        {"a.bin": ONE, "b.bin": b"\x01", "c.npy": b"", "d.safetensors": b"{}", "e.npy": ONE},
    )
    found = list_tensors(folder)
    assert list(found.tensors) == ["a", "e"]
    assert {name: error.code for name, error in found.unreadable.items()} == {
        "b.bin": "truncated",
        "c.npy": "bad-header",
        "d.safetensors": "truncated",
    }
    assert found.list_problems() == [
        f"{name} {error.message}" for name, error in found.unreadable.items()
    ]


def test_a_name_twice_is_reported(tmp_path: Path) -> None:
    many = encode_safetensors(name_dtypes({"a": ONE, "b": ONE, "c": ONE}))
    folder = write_files(tmp_path, {"a.bin": ONE, "b.npy": ONE, "m.safetensors": many})
    found = list_tensors(folder)
    assert sorted(found.duplicates) == ["a", "b"]
    assert found.list_problems() == [
        "the tensor 'a' is in two files",
        "the tensor 'b' is in two files",
    ]


def test_equal_names_in_several_files_get_a_folder_each(tmp_path: Path) -> None:
    state = encode_safetensors(name_dtypes({"w": ONE}))
    write_files(tmp_path, {"epoch_1.safetensors": state, "epoch_2.safetensors": state})
    layout = {f"epoch_{number}.safetensors": [f"{number}/"] for number in (1, 2)}
    for found in (list_tensors(tmp_path, layout), list_named(tmp_path, layout)):
        assert sorted(found.tensors) == ["1/w", "2/w"]
        assert found.list_problems() == []
    for names in (["w"], ["1/", "2/"]):
        found = list_tensors(tmp_path, {"epoch_1.safetensors": names})
        assert "epoch_1.safetensors" in found.unreadable


def test_references_have_something(tmp_path: Path) -> None:
    assert list_tensors(tmp_path).list_problems() == ["contains no tensor"]
    write_files(tmp_path, {"a.npy": np.zeros((0, 3), "<f4"), "b.bin": f32()})
    assert list_tensors(tmp_path).list_problems() == ["contains no element"]
    write_files(tmp_path, {"c.bin": ONE})
    assert list_tensors(tmp_path).list_problems() == []


@pytest.mark.skipif(os.name == "nt", reason="file systems of Windows hold no such name")
def test_a_name_of_any_bytes_is_a_name(tmp_path: Path) -> None:
    for name in (b"\xff.bin", b"a\nb.bin", b"::error::x.bin"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"\x01")
    assert set(list_tensors(tmp_path).unreadable) == {"\udcff.bin", "a\nb.bin", "::error::x.bin"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such links without rights")
def test_a_link_to_nothing_is_no_tensor(tmp_path: Path) -> None:
    (tmp_path / "a.bin").symlink_to("nowhere")
    (tmp_path / "b.bin").symlink_to("b.bin")
    found = list_tensors(tmp_path)
    assert (found.tensors, found.unreadable) == ({}, {})


def test_only_headers_are_read(tmp_path: Path) -> None:
    """A sparse file of 4 GiB costs nothing until it is compared."""
    with (tmp_path / "a.bin").open("wb") as file:
        file.write(b"\x01\x00\x00\x00\x00\x00\x00\x40")
        file.truncate(8 + 4 * 2**30)
    assert list_tensors(tmp_path).tensors["a"].shape == (2**30,)


#: Name and content of a file, and the end of the error's message.
RECOGNISED = {
    "raw values": ("a.bin", f32(*[1.5] * 6).tobytes(),
                   "accepted; 6 values of f32 without a header look so; write their shape first"),
    "tensors": ("a.bin", encode_tensor(np.ones((3, 1), "<f4")) + encode_tensor(ONE),
                "; the file is 2 tensors of the shapes [3, 1], [2]; write a file for each tensor"),
    "counted tensors": ("a.bin", encode_batch([ONE]),
                        ("; the file is 1 tensor of the shapes [2], after their number; "
                        "write a file for each tensor")),
    "a cut tensor": ("a.bin", encode_tensor(ONE)[:-1], "the file has 7 left"),
    "nothing": ("a.bin", b"", "ends at byte 0, where the number of dimensions is expected"),
    "bytes": ("a.bin", b"\xff" * 7, "at most 32 are accepted"),
    "an archive": ("a.npy", b"PK\x03\x04" + bytes(9),
                   "; it looks like a ZIP archive, as numpy.savez and torch.save write them"),
    "NumPy's": ("a.bin", b"\x93NUMPY\x01\x00", "; it looks like a .npy file"),
    "damaged": ("a.npy", b"\x93NUMPY\x01\x00", ("is not a .npy file: EOF: reading array header "
                "length, expected 2 bytes got 0")),
    "safetensors": ("a.bin", encode_safetensors(name_dtypes({"c": ONE})),
                    "; it looks like a .safetensors file"),
    "damaged too": ("a.safetensors", b"\x09" + bytes(7) + b"{" + bytes(8), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOGNISED)
def test_the_content_of_a_file_is_recognised(name: str, tmp_path: Path) -> None:
    file, content, expected = RECOGNISED[name]
    (tmp_path / file).write_bytes(content)
    (error,) = list_tensors(tmp_path).unreadable.values()
    assert error.message.endswith(expected)
    assert ("look" in error.message) is ("look" in expected)
