"""The suite `tensors`: findings word for word, and wrong dumps of every kind in the trade."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity import suites
from parity.errors import ReferenceSuspectError
from parity.suites.base import Dump, DumpComparison
from parity.suites.tensors import suite
from parity.tensors.bin import encode_tensor
from tests.support.tensors import (
    bf16,
    encode_safetensors,
    f32,
    format_findings,
    from_bits,
    list_findings,
    make_tensors_case,
    name_dtypes,
    verify_dump,
    write_files,
)

NAN, INF = math.nan, math.inf
W = np.arange(6, dtype="<f4").reshape(2, 3)
ABS = {"max_abs": 1e-5}


def error(outcome: DumpComparison) -> tuple[str, str]:
    """Code and message of the one finding, which is an error."""
    ((level, code, message),) = list_findings(outcome)
    assert level == "error"
    return code, message


# --- what passes ---------------------------------------------------------------------------


def test_the_suite_is_registered() -> None:
    assert suites.find_suite("tensors") is suite.SUITE


@pytest.mark.parametrize("carrier", ["npy", "safetensors"])
def test_each_dtype_is_compared_as_itself(carrier: str, tmp_path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "double": np.array([0.1, 1e300]),
        "single": f32(0.1, 2.0),
        "half": np.array([0.1, 65504], "<f2"),
        "counter": np.array([2**63 - 1, 2**24 + 1], "<i8"),
        "mask": np.array([True, False]),
        "codes": np.array([0, 255], "u1"),
    }
    expected: dict[str, Any] = {"r.safetensors": encode_safetensors(name_dtypes(arrays))}
    dump = expected if carrier == "safetensors" else {f"{n}.npy": a for n, a in arrays.items()}
    outcome = verify_dump(tmp_path, expected, dump)
    assert list_findings(outcome) == []
    assert (outcome.compared, outcome.margin) == (12, None)
    assert outcome.tensors == tuple(arrays)
    assert outcome.measures["tensors"] == outcome.measures["tensors_expected"] == 6
    dtypes = {name: m["dtype"] for name, m in outcome.measures["per_tensor"].items()}
    assert dtypes["counter"] == "I64"
    off = arrays | {"counter": arrays["counter"] - np.array([0, 1])}
    wrong = verify_dump(tmp_path, expected, {"x.safetensors": encode_safetensors(name_dtypes(off))})
    assert error(wrong) == (
        "values",
        (
            "counter: 1 of 2 elements differs; worst at [1]: expected 16777217, obtained 16777216 "
            "(off by 1); bound: exact"
        ),
    )


def test_bfloat16_and_eight_bits_arrive_by_safetensors(tmp_path: Path) -> None:
    assert list_findings(verify_dump(tmp_path, NARROW, NARROW)) == []


def test_references_may_be_one_file(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    content = encode_safetensors(name_dtypes({"w": W}))
    write_files(root / "a", {"all.safetensors": content, "model.pth": b"x"})
    entry = {"reference": "all.safetensors", "checkpoint": "model.pth", "group": "g"}
    (root / "parity.json").write_text(json.dumps({"schema": 1, "cases": {"a": entry}}))
    (case,) = suite.read_cases(root, {})
    assert case.placeholders == {"group": "g", "checkpoint": str(root / "a" / "model.pth")}
    outcome = suite.verify(
        case, Dump(folder=write_files(tmp_path / "d", {"w.bin": W})), {"exact": 1.0}
    )
    assert (list_findings(outcome), outcome.compared) == ([], 6)


ODD = ["größe.weight", "n" * 200, "a.b.c", " ", "CON", "%0A::error::x", "-rf", "[0]", "W"]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_a_name(name: str, tmp_path: Path) -> None:
    expected = {"r.safetensors": encode_safetensors(name_dtypes({name: W, "w": W}))}
    assert list_findings(verify_dump(tmp_path, expected, {f"{name}.bin": W, "w.npy": W})) == []
    assert error(verify_dump(tmp_path, expected, {f"{name}.bin": W + 1, "w.npy": W}))[0] == "values"


@pytest.mark.parametrize("name", ["a/b", "../../etc/passwd", "", "n" * 300, "a\nb", "\x00"])
def test_a_name_that_no_file_can_have_arrives_by_safetensors(name: str, tmp_path: Path) -> None:
    expected = {"r.safetensors": encode_safetensors(name_dtypes({name: W}))}
    assert list_findings(verify_dump(tmp_path, expected, expected)) == []
    wrong = verify_dump(
        tmp_path, expected, {"x.safetensors": encode_safetensors(name_dtypes({name: W + 1}))}
    )
    (finding,) = wrong.findings
    assert (finding.code, finding.tensor) == ("values", name)


def test_a_scalar_and_an_empty_tensor_pass_beside_another(tmp_path: Path) -> None:
    arrays = {"s.npy": np.array(2.5), "e.npy": np.zeros((0, 3), "<f4"), "w.npy": W}
    outcome = verify_dump(tmp_path, arrays, arrays)
    assert (list_findings(outcome), outcome.compared) == ([], 7)
    shapes = verify_dump(tmp_path, arrays, arrays | {"e.npy": np.zeros((3, 0), "<f4")})
    assert error(shapes) == (
        "shape",
        "e has the shape [3, 0], expected [0, 3]; the dimensions are reversed",
    )


# --- what is reported ----------------------------------------------------------------------


def pack_narrow(wide: float, code: int) -> dict[str, Any]:
    """A file with a tensor in bfloat16 and one in 8 bits."""
    tensors = {
        "w": ("BF16", bf16(1.0, -2.5, wide)),
        "s": ("F8_E4M3", np.array([0x38, code], "u1")),
    }
    return {"r.safetensors": encode_safetensors(tensors)}


NARROW = pack_narrow(3.140625, 0x7E)
DOUBLE = {"w.npy": W.astype("<f8")}
WIDE = {
    "a.npy": np.array([0.1]),
    "b.npy": np.array([2**24 + 1]),
    "c.npy": np.array([0.1], "<f2"),
    "d.npy": np.array([7], "<i2"),
}
AS_BIN = {name.replace("npy", "bin"): array.astype("<f4") for name, array in WIDE.items()}
COMPLEX, OTHER = {"z.npy": np.array([1 + 2j], "<c8")}, {"z.npy": np.array([1.5 + 2j], "<c8")}
IDS, OFF = {"i.npy": np.array([2**53 + 1, 7])}, {"i.npy": np.array([2**53, 7])}
RAW = encode_tensor(W)
BROKEN: dict[str, Any] = {
    "a.bin": RAW[:-4],
    "b.bin": RAW + b"\x00",
    "c.bin": b"\xff" * 8,
    "d.npy": b"",
    "e.bin": W,
}
TWO = encode_safetensors(name_dtypes({"w": W, "v": W}))
#: The storage's length for the shape (PTH-14), dimensions reversed (GGF-07), and so on.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 2)),
    ((2, 3), (6,)),
    ((2, 3), (2, 3, 1)),
    ((1,), ()),
    ((), (1, 1)),
    ((2, 3, 4), (4, 3, 2)),
    ((2, 3), (2, 2)),
    ((2, 3), (1000,)),
]
BOUNDS: list[dict[str, Any]] = [
    {"exact": True},
    {"max_abs": 1e-5},
    {"ulp": 0},
    {"relative": 0.001, "ulp": 4},
    {"max_abs": 0.1, "cosine": 0.9999},
]
SPECIAL: list[tuple[list[float], list[float], dict[str, Any]]] = [
    ([1.0, 2.0], [NAN, 2.0], ABS),
    ([1.0, 2.0], [NAN, NAN], {"exact": True}),
    ([NAN, 1.0], [0.0, 1.0], ABS),
    ([INF], [-INF], ABS),
    ([0.0, 1.0], [-0.0, 1.0], {"exact": True}),
    ([0.0, 1.0], [-0.0, 2.0], {"exact": True}),
    ([0.0, 1.0], [-0.0, 2.0], ABS),
    ([NAN, 1.0], [-NAN, 2.0], ABS),
    ([NAN, 1.0], [-NAN, 1.0], {"exact": True}),
]
#: Reference, dump, bounds.
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = {
    "a tensor missing": ({"w.npy": W, "b.npy": np.array([1, 2]), "c.npy": np.array(1.0)},
        {"w.npy": W}, None),
    "a tensor too many": ({"w.npy": W}, {"w.npy": W, "v.bin": W, "W.bin": W}, None),
    "nothing at all": ({"w.npy": W}, {"log.txt": b"done"}, None),
    "a tensor twice": ({"w.npy": W}, {"w.npy": W, "w.bin": W}, None),
    "f32 for f64": (DOUBLE, {"w.npy": W}, None),
    "i64 for f64": (DOUBLE,
        {"x.safetensors": encode_safetensors(name_dtypes({"w": W.astype("<i8")}))}, None),
    "f64 for a .bin's f32": ({"w.bin": W}, DOUBLE, None),
    "f32 for more": (WIDE, AS_BIN, None),
    "f32 for more, and another value": (WIDE,
        AS_BIN | {"a.bin": f32(np.nextafter(np.float32(0.1), 1))}, None),
    "f32 for a complex number": (COMPLEX, {"z.bin": f32(1.0)}, None),
    "another complex number": (COMPLEX, OTHER, {"max_abs": 0.4}),
    "parts of complex numbers as an axis": ({"z.npy": np.arange(5) + 1j},
        {"z.npy": np.stack([np.arange(5.0), np.ones(5)], axis=1)}, None),
    "f32 in a typed file for f16": (
        {"r.safetensors": encode_safetensors({"w": ("F16", W.astype("<f2"))})},
        {"r.safetensors": encode_safetensors({"w": ("F32", W)})},
        None,
    ),
    **{f"{dtype} words read as f32": ({"w.bin": np.arange(8, dtype="<f4")},
        {"w.bin": np.frombuffer(words.tobytes(), "<f4")},
        None) for dtype, words in (("f16", np.arange(8, dtype="<f2")),
        ("bf16", (np.arange(8, dtype="<f4").view("<u4") >> 16).astype("<u2")),
        ("f64", np.arange(8.0)))},
    **{
        f"a tensor of the empty name, {why}": (
            {"r.safetensors": encode_safetensors({"": ("F32", W)})},
            {"r.safetensors": encode_safetensors({"": (dtype, wrong)})},
            None,
        )
        for why, dtype, wrong in (
            ("of another shape", "F32", W.reshape(-1)),
            ("of another dtype", "F64", W.astype("<f8")),
            ("with another value", "F32", W + 1),
        )
    },
    "another complex number of two f64": ({"z.npy": np.array([0.1 + 2j, 1])},
        {"z.npy": np.array([0.1 + 1e-9 + 2j, 1])}, {"max_abs": 1e-12}),
    "values of bf16 and 8 bits": (NARROW, pack_narrow(3.125, 0x7D), None),
    "a direction": ({"w.bin": f32(3, 4)}, {"w.bin": f32(4, 3)}, {"max_abs": 1, "cosine": 0.9999}),
    "more than five": ({"w.npy": np.zeros(2000)}, {"w.npy": np.ones(2000)}, None),
    "names mixed up": ({"a.bin": W, "b.bin": W + 1}, {"a.bin": W + 1, "b.bin": W}, None),
    "files that cannot be read": ({f"{name}.bin": W for name in "abcde"}, BROKEN, None),
    "a file of several that is cut": ({"r.safetensors": TWO}, {"d.safetensors": TWO[:-1]}, None),
    "integers within the ulp of floats": (IDS, OFF, {"ulp": 4}),
    **{f"integers beside floats under {bounds}": ({**IDS, "w.npy": f32(3.0)},
        {**OFF, "w.npy": f32(3.0)}, bounds) for bounds in ({"max_abs": 1.0}, {"ulp": 4},
        {"relative": 0.5})},
    **{f"shape {obtained} for {expected} as {suffix}": ({f"w.{suffix}": np.ones(expected, "<f4")},
        {f"w.{suffix}": np.ones(obtained, "<f4")},
        None) for expected, obtained in SHAPES for suffix in ("bin", "npy")},
    **{f"more than {bounds}": ({"w.npy": W}, {"w.npy": W + 1}, bounds) for bounds in BOUNDS},
    **{f"{obtained} for {expected} under {bounds}": ({"w.bin": f32(*expected)},
        {"w.bin": f32(*obtained)}, bounds) for expected, obtained, bounds in SPECIAL},
}  # fmt: skip


def test_each_wrong_dump_is_reported_in_these_words(
    golden: Callable[..., None], tmp_path: Path
) -> None:
    text = ""
    for name, (reference, dump, bounds) in WRONG.items():
        more = {} if bounds is None else {"bounds": bounds}
        outcome = verify_dump(tmp_path, reference, dump, **more)
        compared = f"{outcome.measures['tensors']} of {outcome.measures['tensors_expected']}"
        text += f"# {name}: {compared} tensors, {outcome.compared} elements\n"
        text += format_findings(outcome)
    golden(text)


BEYOND_F32 = {
    "all fit": ([0.1, -0.0, 3.4e38, 1e-45, INF, -INF, NAN], ""),
    "too large": ([1e300, 0.1], "; of 3 values, 1 is infinite as f32"),
    "too small": ([-1e-300, 0.0, 1e-50], "; of 4 values, 2 are zero as f32"),
    "just too large, both ways": (
        [3.4028235677973366e38, -3.5e38, 3.402823567797336e38],
        "; of 4 values, 2 are infinite as f32",
    ),
    "all at once": (
        [1e39, INF, 1e-46, NAN, -1e308],
        "; of 6 values, 2 are infinite and 1 is zero as f32",
    ),
}


@pytest.mark.parametrize(("values", "text"), BEYOND_F32.values(), ids=BEYOND_F32)
def test_values_that_f32_cannot_represent_are_counted_where_they_pass(
    values: list[float], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump of infinities is no proof that a port read 1e300."""
    monkeypatch.setattr("parity.tensors.paired_reads.CHUNK_BYTES", 16)
    expected = {"w.npy": np.array(values), "z.npy": np.array([2**62])}
    with np.errstate(over="ignore"):
        dump = {name.replace("npy", "bin"): array.astype("<f4") for name, array in expected.items()}
    head = "2 tensors wider than f32 compared as f32, since a .bin has no other dtype: w, z"
    tail = f"{text} and cannot be compared further" if text else ""
    assert list_findings(verify_dump(tmp_path, expected, dump)) == [
        ("notice", "seen-as-f32", head + tail)
    ]


def test_complex_numbers_are_not_seen_as_f32(tmp_path: Path) -> None:
    assert list_findings(verify_dump(tmp_path, COMPLEX, COMPLEX)) == []
    assert list_findings(verify_dump(tmp_path, COMPLEX, OTHER, bounds={"max_abs": 1.0})) == []


def test_integers_take_max_abs_among_themselves(tmp_path: Path) -> None:
    assert list_findings(verify_dump(tmp_path, IDS, OFF, bounds={"max_abs": 2.0})) == []


# --- values --------------------------------------------------------------------------------


def test_values_word_for_word(tmp_path: Path, golden: Callable[..., None]) -> None:
    expected = np.arange(12, dtype="<f4").reshape(3, 4)
    off = expected + f32(0, 0, 0, 0.5, 0, 1, 0, 0, 2, 0.25, 4, 8, shape=(3, 4))
    outcome = verify_dump(tmp_path, {"w.npy": expected}, {"w.npy": off}, bounds={"max_abs": 0.3})
    (finding,) = outcome.findings
    measures = [f"{name}: {value}" for name, value in finding.measures.items()]
    place = f"{finding.tensor} {finding.index} {finding.expected} {finding.obtained}"
    words = [finding.code, finding.message, *finding.details, place, str(finding.cause), *measures]
    golden("\n".join(words))
    assert outcome.margin == pytest.approx(8 / 0.3)


def test_each_bound_decides(tmp_path: Path) -> None:
    """Flipping the bound flips the verdict (CMP-04)."""
    expected, off = f32(100.0), f32(100.0005)
    for bounds, passes in (
        ({"max_abs": 1e-3}, True),
        ({"max_abs": 1e-4}, False),
        ({"relative": 1e-5}, True),
        ({"relative": 1e-6}, False),
        ({"ulp": 66}, True),
        ({"ulp": 65}, False),
        ({"max_abs": 1e-3, "ulp": 65}, False),
        ({"exact": True}, False),
    ):
        outcome = verify_dump(tmp_path, {"w.bin": expected}, {"w.bin": off}, bounds=bounds)
        assert all(found.level == "notice" for found in outcome.findings) is passes, bounds


def test_the_bounds_given_decide_not_the_stated_ones(tmp_path: Path) -> None:
    """The lockfile may tighten them; the suite is told the result."""
    case = make_tensors_case(tmp_path / "b", {"w.bin": f32(1.0)}, bounds={"max_abs": 1.0})
    dump = Dump(folder=write_files(tmp_path / "d", {"w.bin": f32(1.5)}))
    assert {f.code for f in suite.verify(case, dump, {"max_abs": 1.0}).findings} == {"blind-bound"}
    assert error(suite.verify(case, dump, {"max_abs": 0.25}))[0] == "values"


def test_a_direction_is_independent_of_size(tmp_path: Path) -> None:
    bounds = {"max_abs": 1, "cosine": 0.9999}
    scaled = verify_dump(tmp_path, {"w.bin": f32(3, 4)}, {"w.bin": f32(3.3, 4.4)}, bounds=bounds)
    assert (list_findings(scaled), scaled.margin) == ([], pytest.approx(0.4))


def test_every_failing_tensor_is_reported(tmp_path: Path) -> None:
    expected = {f"t{number:02}.bin": W for number in range(30)}
    outcome = verify_dump(tmp_path, expected, dict.fromkeys(expected, W + 1))
    assert [finding.tensor for finding in outcome.findings] == [f"t{n:02}" for n in range(30)]
    assert outcome.compared == 180


# --- dump files that cannot be read ---------------------------------------------------------


def test_a_file_that_shrinks_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_tensors_case(tmp_path / "b", {"w.bin": W})
    folder = write_files(tmp_path / "d", {"w.bin": W})
    real = suite.read_files

    def shrinking(*given: Any) -> Any:
        found = real(*given)
        (folder / "w.bin").write_bytes(b"")
        return found

    monkeypatch.setattr(suite, "read_files", shrinking)
    outcome = suite.verify(case, Dump(folder=folder), {"exact": 1.0})
    assert error(outcome) == ("truncated", "w became shorter while it was read")


# --- references that cannot be right ---------------------------------------------------------

SUSPECT: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"notes.txt": b""}, "a/reference: contains no tensor"),
    "no element": ({"w.npy": np.zeros((0, 2))}, "a/reference: contains no element"),
    "one that is cut": ({"w.bin": b"\x01"}, ("a/reference: w.bin ends at byte 1, where the number "
                        "of dimensions is expected")),
    "one twice": ({"w.bin": W, "w.npy": W}, "a/reference: the tensor 'w' is in two files"),
    "column-major": ({"w.npy": np.asfortranarray(W)}, ("a/reference: w.npy is in column-major "
                     "(Fortran) order; write it in row-major order")),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "message"), SUSPECT.values(), ids=SUSPECT)
def test_a_reference_that_is_suspect(
    reference: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ReferenceSuspectError) as caught:
        verify_dump(tmp_path, reference, {"w.bin": W})
    assert [problem.message for problem in caught.value.problems] == [message]


def test_a_refusal_needs_no_reference(tmp_path: Path) -> None:
    case = make_tensors_case(tmp_path, {"w.bin": W}, expect="refuse")
    assert (case.expect, case.placeholders["group"]) == ("refuse", case.id)


# --- faults of the trade, as wrong dumps ------------------------------------------------------

rows = np.arange(6, dtype="<f4").reshape(2, 3)
square = f32(1, 2, 3, 2, 4, 5, 3, 5, 6, shape=(3, 3))
halves = np.array([1.0, 2.0, -3.5, 0.25], "<f2")
FAULTS: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
    "strides ignored (PTH-01)": (rows.T, rows.reshape(3, 2)),
    "Fortran order (PTH-08)": (rows, np.asfortranarray(rows).ravel("F").reshape(2, 3)),
    "zeros at the end (PTH-02)": (f32(0, 1, 2, 3), f32(0, 1, 0, 0)),
    "all zero": (rows, np.zeros_like(rows)),
    "a header as data (PTH-04)": (f32(1, 2, 3), f32(*np.array([3, 0], "<u4").view("<f4"), 1)),
    "the neighbour's bytes (GGF)": (f32(1, 2, 3), f32(4, 5, 6)),
    "one element late": (f32(1, 2, 3), f32(0, 1, 2)),
    "bytes swapped (PTH-13, SFT-11)": (f32(0, 1, 2), f32(0, 1, 2).byteswap()),
    "bytes swapped in doubles": (np.array([1.0, 2.0]), np.array([1.0, 2.0]).byteswap()),
    "bytes swapped in integers": (np.array([1, 2]), np.array([1, 2]).byteswap()),
    "rounded through f16": (f32(0.1, 1, 2), f32(0.1, 1, 2).astype("<f2").astype("<f4")),
    "a counter through f32": (np.array([2**24 + 1]), np.array([2**24])),
    "a counter through f64": (np.array([2**53 + 1]), np.array([2**53])),
    "scaled": (f32(1, 2, 3), f32(1.1, 2.2, 3.3)),
    "a sign lost": (f32(1, -2, 3), f32(1, 2, 3)),
    "one off in the last bit": (f32(1, 2, 3), f32(1, 2, np.nextafter(np.float32(3), 9))),
    "rows exchanged": (rows, rows[::-1]),
    "a NaN for all": (rows, np.full_like(rows, np.nan)),
    "another dtype's bits (PTH-10)": (halves.astype("<f4"), np.resize(halves.view("<f4"), 4)),
    "bits of integers (ONX-04)": (f32(1, 2), f32(15360, 16384)),
    "half a symmetric square": (square, np.triu(square)),
}


@pytest.mark.parametrize(("expected", "obtained"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("bounds", [{"exact": True}, {"max_abs": 1e-6}, {"ulp": 0}], ids=str)
def test_a_fault_of_the_trade_is_red(
    bounds: dict[str, Any], expected: NDArray[Any], obtained: NDArray[Any], tmp_path: Path
) -> None:
    if "max_abs" in bounds and np.allclose(expected, obtained, atol=1e-6, rtol=0):
        bounds = {"max_abs": 1e-8}
    expected, obtained = np.ascontiguousarray(expected), np.ascontiguousarray(obtained)
    code, message = error(
        verify_dump(tmp_path, {"w.npy": expected}, {"w.npy": obtained}, bounds=bounds)
    )
    assert code in ("values", "nan")
    assert message.startswith("w: ")
    assert (
        list_findings(
            verify_dump(tmp_path, {"w.npy": expected}, {"w.npy": expected}, bounds=bounds)
        )
        == []
    )


def test_f16_read_as_bf16_is_red(tmp_path: Path) -> None:
    """PTH-17: `803f20c04940` is [1, -2.5, 3.140625]; read as f16 it is [1.875, ...]."""
    expected = {"r.safetensors": encode_safetensors({"w": ("BF16", bf16(1.0, -2.5, 3.140625))})}
    as_f16 = bf16(1.0, -2.5, 3.140625).view("<f2")
    by_bin = error(verify_dump(tmp_path, expected, {"w.bin": as_f16.astype("<f4")}))
    assert by_bin == (
        "values",
        (
            "w: 3 of 3 elements differ; worst at [2]: expected 3.140625, obtained 2.1425781 "
            "(off by 0.998, 4,186,112 ULP); bound: exact"
        ),
    )
    by_name = error(verify_dump(tmp_path, expected, {"w.npy": as_f16}))
    assert by_name == (
        "dtype",
        "w is F16 in the .npy dump, expected BF16; these are the bytes of BF16, read as F16",
    )


def test_a_symmetric_square_transposed_is_equal_and_reported_so(tmp_path: Path) -> None:
    """It is its own transpose: nothing is wrong, and nothing may be hinted at (CMP-07)."""
    obtained = np.ascontiguousarray(square.T)
    assert list_findings(verify_dump(tmp_path, {"w.npy": square}, {"w.npy": obtained})) == []


def test_a_signalling_nan_is_kept_bit_by_bit(tmp_path: Path) -> None:
    expected = from_bits("<f4", 0x7F800001, 0x7FC00000)
    assert (
        list_findings(verify_dump(tmp_path, {"w.npy": expected}, {"w.npy": expected.copy()})) == []
    )
    quieted = from_bits("<f4", 0x7FC00001, 0x7FC00000)
    assert error(verify_dump(tmp_path, {"w.npy": expected}, {"w.npy": quieted}))[0] == "nan-payload"
