"""The files of arrays that `pin tensors` reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ConfigError
from parity.lab.array_files import read_arrays
from tests.support.tensors import encode_safetensors, write_files

ONES = np.ones((2, 3), np.float32)


def save_torch(path: Path) -> None:
    import torch  # noqa: PLC0415 - slow, and the other tests do without

    torch.save({"model": {"w": torch.ones(2, 3)}, "steps": 3, "n": torch.tensor([1])}, path)


FILES: dict[str, tuple[Callable[[Path], object], dict[str, tuple[str, tuple[int, ...]]]]] = {
    "x.npy": (lambda path: np.save(path, np.asfortranarray(ONES)), {"x": ("F32", (2, 3))}),
    "x.npz": (lambda path: np.savez(path,
        **{"inputs/a": ONES.astype(">f8"), "out": np.array([True])}), {"inputs/a": ("F64", (2, 3)),
        "out": ("BOOL", (1,))}),
    "x.safetensors": (lambda path: path.write_bytes(encode_safetensors({"w": ("F32", ONES)})),
        {"w": ("F32", (2, 3))}),
    "folder": (lambda path: write_files(path, {"inputs/a.npy": np.asfortranarray(ONES),
        "g/h.safetensors": encode_safetensors({"w": ("F32", ONES)})}),
        {"inputs/a": ("F32", (2, 3)), "g/w": ("F32", (2, 3))}),
    "x.pt": (save_torch, {"model.w": ("F32", (2, 3)), "n": ("I64", (1,))}),
    "x.json": (lambda path: path.write_text(json.dumps({"in": {"a": [[0.5, 1]]}, "ids": [3, 4]})),
        {"in.a": ("F64", (1, 2)), "ids": ("I64", (2,))}),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.process  # torch asks for the processor
@pytest.mark.parametrize("name", FILES)
def test_arrays_by_name(name: str, tmp_path: Path) -> None:
    write, expected = FILES[name]
    write(tmp_path / name)
    found = read_arrays(tmp_path / name)
    assert {key: (one.dtype, one.shape) for key, one in found.items()} == expected


@pytest.mark.torch
@pytest.mark.process  # torch asks for the processor
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", b"no array"),
        ("x.npz", b"no archive"),
        ("x.safetensors", b"\xff" * 20),
        ("x.pt", b"no checkpoint"),
        ("x.json", b'{"a": ['),
        ("x.txt", b"note"),
        ("x.json", b'{"a": "text"}'),
        ("x.json", b'{"a": [[1], [2, 3]]}'),
        ("missing.npy", None),
    ],
)
def test_what_cannot_be_read_is_named(name: str, content: Any, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        read_arrays(tmp_path / name)
    assert raised.value.problems[0].code == "usage"


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ConfigError, match="allow_pickle"):
        read_arrays(tmp_path / "x.npy")
