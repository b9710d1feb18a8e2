"""The option ``checkpoint-names``: only names of a file that every system accepts."""

from __future__ import annotations

from typing import Any

import pytest

from parity.suites.tensors.suite import find_names_problem


@pytest.mark.parametrize(
    "names",
    [
        {".pth": "model.pth"},
        {".pth": "resnet18-f37072fd.pth", ".gguf": "Model-Q8_0.gguf"},
        {".pth": ".hidden"},
        {".tar.gz": "x"},
    ],
)
def test_file_names_are_accepted(names: dict[str, str]) -> None:
    assert find_names_problem(names) == ""


BAD_NAMES = (
    *("..", ".", "", "a/b", "/a", "a\\b", "a.", "a ", "...", "CONIN$", "nul", "a\u200b", "x" * 256),
    *("sampled_tensor_names.json", "Sampled_Tensor_Names.JSON", 7, None, ["a"]),
)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_other_names_are_rejected(name: Any) -> None:
    assert "is not a portable file name" in find_names_problem({".gguf": name})


@pytest.mark.parametrize("suffix", ["..", ".", "", "pth", "./x", ".a/b", ".a."])
def test_other_suffixes_are_rejected(suffix: str) -> None:
    assert "is not a suffix" in find_names_problem({suffix: "x"})


@pytest.mark.parametrize("value", [{}, [], "x", None, 3])
def test_other_values_are_rejected(value: Any) -> None:
    assert find_names_problem(value)
