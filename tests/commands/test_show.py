"""``parity show``: both sides next to each other, slices read strictly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.__main__ import run_command_line
from parity.commands.show import MAX_ELEMENTS, format_view
from parity.errors import ConfigError
from parity.lab.views.base import TensorView
from parity.tensors.bin import encode_batch, encode_tensor, read_batch
from parity.tensors.dtypes import DTYPES
from parity.tensors.index_expression import expand_index, parse_index
from tests.support.bundles import lock_bundle, unpack

_PARTS = st.one_of(
    st.integers(-9, 9),
    st.builds(
        slice,
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(-3, 3).filter(bool),
    ),
    st.just(...),
)


def typed(part: Any) -> str:
    if part is ...:
        return "..."
    if isinstance(part, int):
        return str(part)
    ends = ["" if end is None else str(end) for end in (part.start, part.stop, part.step)]
    return ":".join(ends)


@given(st.lists(_PARTS, max_size=4).filter(lambda parts: parts.count(...) < 2))
def test_a_slice_is_read_as_numpy_reads_it(parts: list[Any]) -> None:
    text = ", ".join(map(typed, parts))

    assert parse_index(text) == parse_index(f"[{text}]") == tuple(parts)


@given(st.lists(_PARTS, max_size=3).filter(lambda parts: parts.count(...) < 2))
def test_a_slice_takes_what_numpy_takes(parts: list[Any]) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    try:
        due = array[tuple(parts)]
    except IndexError:
        with pytest.raises(ConfigError):
            expand_index(tuple(parts), array.shape, "")
    else:
        assert np.array_equal(array[expand_index(tuple(parts), array.shape, "")], due)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1;2",
        "1:2:3:4",
        "__import__('os')",
        "1.5",
        "::0",
        "..., ...",
        "1,,2",
        "[[1]]",
        "٣",
        "1e3",
        "None",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_index(text)
    assert caught.value.problems[0].code == "slice"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0,0,0", "slice '0,0,0': has 3 parts, the tensor has 2 dimensions: [2, 3]"),
        ("0,3", "slice '0,3': 3 is outside of axis 1, which has 3 elements"),
        ("-3", "slice '-3': -3 is outside of axis 0, which has 2 elements"),
    ],
)
def test_a_slice_that_does_not_fit_says_why(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand_index(parse_index(text), (2, 3), text)
    assert caught.value.problems[0].message == why


def sides(expected: Any, obtained: Any, dtype: str = "F32", **more: Any) -> TensorView:
    due, received = (np.asarray(side, DTYPES[dtype].storage) for side in (expected, obtained))
    return TensorView(expected=due, obtained=received, dtype=DTYPES[dtype], **more)


def reported(both: TensorView, text: str = "", **bounds: float) -> list[str]:
    return [
        line for _, line in format_view(both, parse_index(text), bounds or {"exact": 1.0}, text)
    ]


def test_differences_are_printed_and_marked() -> None:
    both = sides([[1, 2, 3], [4, 5, 6]], [[1, 2.5, 3], [4, 5, 6.00001]])

    assert reported(both, max_abs=1e-3) == [
        "F32 [2, 3]",
        "6 elements: 1 outside the tolerance, 1 differ within it",
        "          expected  obtained  difference",
        "! [0, 1]  2         2.5       +0.5",
    ]
    assert reported(both, "1,1:", max_abs=1e-3)[2:] == [
        "          expected  obtained  difference",
        "  [1, 1]  5         5",
        "~ [1, 2]  6         6.00001   +1e-05",
    ]


def test_bits_decide_under_exact() -> None:
    assert reported(sides([0.0, np.nan, 1], [-0.0, np.nan, np.nan]))[1:] == [
        "3 elements: 2 outside the tolerance, 0 differ within it",
        "       expected  obtained  difference",
        "! [0]  0         -0        -0",
        "! [2]  1         nan       +nan",
    ]


def test_complex_numbers_of_two_f64_have_all_their_digits() -> None:
    both = sides([0.1 + 2j, 1], [0.1 + 1e-15 + 2j, 1], "C128")
    assert reported(both)[-1] == "! [0]  (0.1+2j)  (0.100000000000001+2j)  +9.99e-16+0j"


def test_the_output_is_bounded() -> None:
    found = reported(sides(np.zeros(1000), np.ones(1000)))

    assert len(found) == MAX_ELEMENTS + 4
    assert found[-1] == f"  and {1000 - MAX_ELEMENTS} more; use a slice to see others"


def test_shapes_that_differ_are_reported_and_no_more() -> None:
    assert reported(sides(np.zeros((2, 3)), np.zeros((3, 2)))) == [
        "F32 [2, 3]",
        "shapes differ: expected [2, 3], obtained [3, 2]",
    ]


def test_the_cause_comes_last() -> None:
    both = sides([1, 2], [2, 1], cause=lambda _bounds: "because")
    assert reported(both)[-1] == "cause: because"
    assert "because" not in reported(sides([1, 2], [1, 2], cause=lambda _bounds: "because"))[-1]


# --- the verb -------------------------------------------------------------------------------


def test_a_tensor_of_a_dump_that_lies_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = unpack("serialize-parity-v1", tmp_path / "tree")
    dump = tmp_path / "dumps" / "serialize-parity-v1" / "pth"
    dump.mkdir(parents=True)
    for path in (tree / "resnet18-pth" / "reference_state_dict").iterdir():
        (dump / path.name).write_bytes(path.read_bytes())
    right = np.frombuffer((dump / "views.transposed.bin").read_bytes()[12:], "<f4").reshape(7, 5)
    wrong = np.ascontiguousarray(right.T).reshape(7, 5)
    (dump / "views.transposed.bin").write_bytes(encode_tensor(wrong))
    lock = lock_bundle(tmp_path, "serialize-parity-v1", "serialize")
    words = ["show", "--lockfile", str(lock), "--dumps", str(tmp_path / "dumps")]

    assert run_command_line([*words, "serialize-parity-v1/pth", "views.transposed", "0:1,:2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "serialize-parity-v1/pth views.transposed",
        "F32 [7, 5]",
        "35 elements: 32 outside the tolerance, 0 differ within it",
        "          expected     obtained     difference",
        "  [0, 0]  -114.921875  -114.921875",
        "! [0, 1]  68.609375    -23.5        -92.1",
        (
            "cause: the strides [1, 7] were ignored: in the order of the storage all 35 elements "
            "are "
            "bit-equal"
        ),
    ]
    assert run_command_line([*words, "pth", "views.nothing"]) == 2
    assert "[no-such-tensor] the case has no tensor 'views.nothing'" in capsys.readouterr().err
    (dump / "views.rows.bin").unlink()
    assert run_command_line([*words, "pth", "views.rows"]) == 5
    assert "[tensor-missing] views.rows is not in the dump" in capsys.readouterr().err
    assert run_command_line([*words, "nothing", "views.rows"]) == 2


def test_rows_of_a_loader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = unpack("dataloader-batches-v1", tmp_path / "tree")
    dump = tmp_path / "dumps" / "dataloader-batches-v1" / "shuffled_seeded"
    dump.mkdir(parents=True)
    for path in (tree / "shuffled_seeded").glob("*.bin"):
        features, labels = read_batch(path)
        (dump / path.name).write_bytes(encode_batch([features[::-1], labels[::-1] + 1]))
    lock = lock_bundle(tmp_path, "dataloader-batches-v1", "dataloader")
    words = ["show", "--lockfile", str(lock), "--dumps", str(tmp_path / "dumps")]

    assert run_command_line([*words, "shuffled_seeded", "labels", ":2", "--why"]) == 2
    assert "--why explains stages of a model; labels is none" in capsys.readouterr().err
    assert run_command_line([*words, "shuffled_seeded", "labels", ":2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "dataloader-batches-v1/shuffled_seeded labels",
        "F32 [10], each row beside the item that it is",
        "10 elements: 10 outside the tolerance, 0 differ within it",
        "                         expected  obtained  difference",
        "! batch 0 row 0, item 1  1         2         +1",
        "! batch 0 row 1, item 9  0         1         +1",
    ]


def test_a_single_element_is_counted_in_the_singular() -> None:
    one = np.ones(1, "<f4")
    view = TensorView(expected=one, obtained=one, dtype=DTYPES["F32"])
    assert "1 element: " in [text for _, text in format_view(view, (), {"exact": 1.0})][1]


def test_colours_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from parity.commands.show import _print_line  # noqa: PLC0415 - not in every environment

    _print_line("!", "wrong")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    _print_line("!", "wrong \x1b[2J")
    _print_line("", "right")
    monkeypatch.setenv("NO_COLOR", "1")
    _print_line("~", "within")

    assert capsys.readouterr().out.splitlines() == [
        "wrong",
        "\x1b[31mwrong \\x1b[2J\x1b[0m",
        "right",
        "within",
    ]
