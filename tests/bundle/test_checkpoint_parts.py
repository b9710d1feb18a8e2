"""List the parts of a split checkpoint from the name of any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.bundle.layout import list_parts

ALL = tuple(f"a-{n:05}-of-00003.gguf" for n in (1, 2, 3))


@pytest.mark.parametrize("name", ALL)
def test_each_part_names_all_parts(name: str) -> None:
    assert list_parts(Path("x") / name) == tuple(Path("x") / part for part in ALL)


@pytest.mark.parametrize(
    "name",
    ["a.gguf", "a-00001-of-00001.gguf", "model-00001-of-00002.gguf.tmp", "a-00004-of-00003.gguf",
     "a-00000-of-00003.gguf", "a-1-of-3.gguf", "-00001-of-00002.gguf", "a-00001-of-99999.gguf",
     "a-00001-of-00000.gguf"],
)  # fmt: skip
def test_other_names_have_one_part(name: str) -> None:
    assert list_parts(Path(name)) == (Path(name),)


def test_prefix_may_look_like_a_part_number() -> None:
    name = "a-00001-of-00002-00002-of-00002.safetensors"
    assert [part.name for part in list_parts(Path(name))] == [
        name.replace("-00002-of", "-00001-of"),
        name,
    ]
