"""Causes of wrong tensors: planted ones are named word for word, and nothing is named for nothing.

Each test plants by hand, without a look at how causes are searched for.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation, blocks
from parity.codes import list_codes
from parity.diagnose import Cause, FailingTensor, block_mistakes, diagnose, search
from parity.diagnose import layouts as in_storage
from parity.diagnose.hypothesis import iterate_tiles
from parity.tensors.bin import encode_tensor
from parity.tensors.bin import locate_tensor as stored_bin
from parity.tensors.compare import compare_arrays, select_bounds
from parity.tensors.dtypes import DTYPES, PACKED
from tests.support.blocks import make_random_blocks
from tests.support.tensors import store_tensor

EXACT = {"exact": 1.0}
DRAWS = np.random.default_rng(20_261_129)


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Short dyadic numbers, none of them zero."""
    draws = np.random.default_rng([seed, *shape])
    found = draws.integers(1, 8191, shape) * draws.choice([-1, 1], shape)
    return (found / 64).astype("<f4")


def subject(
    expected: Any,
    obtained: Any,
    *,
    dtype: str = "F32",
    bounds: Mapping[str, float] = EXACT,
    **more: Any,
) -> FailingTensor:
    kind = DTYPES[dtype]
    due = np.asarray(expected, kind.storage)
    received = np.ascontiguousarray(np.asarray(obtained, kind.storage)).reshape(due.shape)
    return FailingTensor(
        name="w",
        expected=due,
        obtained=received,
        expected_dtype=kind,
        obtained_dtype=kind,
        bounds=bounds,
        **more,
    )


def cause(expected: Any, obtained: Any, **more: Any) -> Cause:
    found = diagnose(subject(expected, obtained, **more))
    assert found is not None
    return found


def format_causes(causes: Mapping[str, Cause]) -> str:
    return "\n".join(f"# {name}\n[{one.code}] {one}\n" for name, one in causes.items())


def flat(change: Callable[[NDArray[Any]], Any]) -> Callable[[NDArray[Any]], Any]:
    def made(array: NDArray[Any]) -> Any:
        values = array.reshape(-1).copy()
        found = change(values)
        return values if found is None else found

    return made


def put(where: slice | int, value: float) -> Callable[[NDArray[Any]], Any]:
    def change(values: NDArray[Any]) -> None:
        values[where] = value

    return flat(change)


def bf16(array: NDArray[Any]) -> NDArray[Any]:
    code = array.view("<u4")
    return ((code + 0x7FFF + (code >> 16 & 1)) & 0xFFFF0000).astype("<u4").view("<f4")


_SMALL = numbers(3, 4)
_CUBE = numbers(2, 3, 4)
_FOUR = numbers(2, 3, 4, 5)
_LONG = (_CUBE * np.float32(1.2345678)).astype("<f4")

#: By name: reference, what a port makes of it, and the cause's code; messages are golden.
SINGLE: dict[str, tuple[NDArray[Any], Callable[[NDArray[Any]], Any], str]] = {
    "zeros": (_SMALL, np.zeros_like, "all-zero"),
    "one value": (_SMALL, lambda a: np.full_like(a, 3.5), "all-equal"),
    "a tail of zeros": (_SMALL, put(slice(7, None), 0), "zero-tail"),
    "a block of zeros": (_SMALL, put(slice(3, 6), 0), "zero-block"),
    "a NaN": (_SMALL, put(5, np.nan), "only-nan"),
    "signs of zeros": (np.array([1, -0.0, 2, -0.0], "<f4"), lambda a: a + np.float32(0),
        "zero-sign-lost"),
    "subnormals": (np.array([1, 1e-40, 2, -3e-41], "<f4"),
        lambda a: np.where(np.abs(a) < 1e-38, 0, a), "subnormals-lost"),
    "negatives": (_SMALL, lambda a: np.maximum(a, 0), "negatives-lost"),
    "transposed (PTH-01)": (_SMALL, lambda a: a.T, "transposed"),
    "transposed when reading": (_CUBE, lambda a: a.reshape(2, 4, 3).transpose(0, 2, 1),
        "transposed"),
    "axes rotated": (_CUBE, lambda a: a.transpose(2, 0, 1), "axes-permuted"),
    "four axes": (_FOUR, lambda a: a.transpose(0, 2, 3, 1), "axes-permuted"),
    "Fortran order": (_FOUR, lambda a: a.ravel(order="F"), "dims-reversed"),
    "a header read as data (PTH-04)": (_SMALL,
        flat(lambda v: np.concatenate([[4.2e-45, 0], v[:-2]])), "shifted"),
    "halves as even and odd rows": (numbers(8, 4), lambda a: a.reshape(2, 4, 4).swapaxes(0, 1),
        "rows-permuted"),
    "two columns": (numbers(8, 8), lambda a: a[:, [0, 4, 2, 3, 1, 5, 6, 7]], "columns-permuted"),
    "rolled": (_SMALL, flat(lambda v: np.roll(v, -1)), "rolled"),
    "backwards": (_SMALL, flat(lambda v: v[::-1]), "reversed"),
    "big-endian (SFT-11)": (_SMALL, lambda a: a.byteswap(), "byte-swapped"),
    "bytes swapped in pairs": (_SMALL, lambda a: a.view("<u2").byteswap().view("<f4"),
        "byte-swapped"),
    "through float16": (_LONG, lambda a: a.astype("<f2").astype("<f4"), "rounded-f16"),
    "through bfloat16": (_LONG, bf16, "rounded-bf16"),
    "cut to bfloat16": (_LONG, lambda a: (a.view("<u4") & 0xFFFF0000).view("<f4"), "cut-bf16"),
    "through one of two narrow floats": (np.array([1, 1 + 2.0**-22, 2, 1 - 2.0**-20, -3], "<f4"),
        bf16, "narrowed"),
    "bits as integers (ONX-04)": (_SMALL, lambda a: a.view("<i4").astype("<f4"),
        "bits-as-integers"),
    "signs flipped": (_SMALL, np.negative, "sign-flipped"),
    "signs lost": (_SMALL, np.abs, "sign-lost"),
    "a factor": (_SMALL, lambda a: a * np.float32(0.5), "factor"),
    "an inexact factor": (_SMALL, lambda a: a * np.float32(1.1), "factor"),
    "an addend": (_SMALL, lambda a: a + np.float32(0.25), "addend"),
    "last bits": (_LONG, lambda a: np.nextafter(a, np.float32(np.inf)), "rounding"),
    "factors of groups (GGF-01)": (numbers(4, 32),
        lambda a: a.reshape(-1, 16) * np.resize([0.5, 3, 2], (8, 1)), "factor-of-groups"),
    "addends of groups": (numbers(4, 32),
        lambda a: a.reshape(-1, 16) + np.resize([0.5, 3, 2], (8, 1)), "addend-of-groups"),
    "order in groups (GGF-02)": (numbers(2, 64), lambda a: np.sort(a.reshape(-1, 32), axis=1),
        "order-in-groups"),
}  # fmt: skip


def test_planted_causes_are_named_in_these_words(golden: Callable[..., None]) -> None:
    found = {name: cause(right, wrong(right)) for name, (right, wrong, _) in SINGLE.items()}
    assert {name: one.code for name, one in found.items()} == {
        n: row[2] for n, row in SINGLE.items()
    }
    golden(format_causes(found))


@pytest.mark.parametrize("name", SINGLE)
def test_one_element_that_the_cause_does_not_explain_takes_its_name_away(name: str) -> None:
    """Near misses: all elements must bear a cause out."""
    right, wrong, code = SINGLE[name]
    received = np.array(wrong(right), "<f4").reshape(-1)
    at = len(received) // 2
    received[at] = 777.125 if received[at] != 777.125 else 1.5
    if code in ("factor-of-groups", "addend-of-groups", "order-in-groups"):
        received[:16] = np.arange(900, 916)

    assert code != cause(right, received).code


PAIRS: dict[str, tuple[NDArray[Any], Callable[[NDArray[Any]], Any], str]] = {
    "transposed and big-endian": (_SMALL, lambda a: a.T.byteswap(), "transposed+byte-swapped"),
    "transposed and negated": (_SMALL, lambda a: -a.T, "transposed+sign-flipped"),
    "transposed and scaled": (_CUBE, lambda a: a.transpose(0, 2, 1) * np.float32(1.5),
        "transposed+factor"),
    "transposed and rounded": (_LONG, lambda a: a.transpose(1, 0, 2).astype("<f2").astype("<f4"),
        "transposed+rounded-f16"),
    "scaled and moved": (_SMALL, lambda a: a * 2 + 1, "factor+addend"),
    "backwards and big-endian": (_SMALL, lambda a: a[::-1, ::-1].byteswap(),
        "reversed+byte-swapped"),
    "shifted and big-endian": (_SMALL,
        flat(lambda v: np.concatenate([[9], v[:-1]]).astype("<f4").byteswap()),
        "shifted+byte-swapped"),
    "transposed and cut short": (_SMALL,
        lambda a: put(slice(8, None), 0)(np.ascontiguousarray(a.T)), "transposed+zero-tail"),
    "big-endian and cut short": (_SMALL, lambda a: put(slice(8, None), 0)(a.byteswap()),
        "byte-swapped+zero-tail"),
}  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "code"), PAIRS.values(), ids=PAIRS)
def test_two_causes_are_said_to_be_two(
    right: NDArray[Any], wrong: Callable[[NDArray[Any]], Any], code: str
) -> None:
    found = cause(right, wrong(right))

    assert code == found.code
    assert found.text.startswith("two causes at once: ")


def test_two_causes_word_for_word() -> None:
    assert str(cause(_SMALL, -_SMALL.T)) == (
        "two causes at once: axes 0 and 1 are exchanged, and every sign is the opposite one: after "
        "transposing axes 0 and 1 and after negating the reference all 12 elements are bit-equal"
    )


def test_noise_has_no_simple_cause_but_a_distribution() -> None:
    noise = np.resize([0.003, -0.02, 0.2, -0.04], (3, 4)).astype("<f4")
    noise[1] = noise[1, [3, 0, 1, 2]]
    found = cause(np.ones((3, 4)) * np.arange(12).reshape(3, 4), _at(noise))

    assert found.code == "no-simple-cause"
    assert str(found) == (
        "no simple cause fits: 12 of 12 elements differ; their errors by power of ten: "
        "1e-3: 3, 1e-2: 6, 1e-1: 3"
    )


def _at(noise: NDArray[Any]) -> NDArray[Any]:
    return np.arange(12).reshape(3, 4) + noise


def test_noise_counts_what_is_not_finite() -> None:
    found = cause([1, 2, 3, 4, 5], [1.5, np.nan, 3, np.inf, 7])

    assert found.evidence == (
        "4 of 5 elements differ; their errors by power of ten: 1e-1: 1, 1e+0: 1, not finite: 2"
    )


# --- no false hints -------------------------------------------------------------------------

_SYMMETRIC = numbers(4, 4)
_SYMMETRIC = (_SYMMETRIC + _SYMMETRIC.T).astype("<f4")
_UNEVEN = np.resize([0.3, -0.7, 0.11, 0.9, -0.2, 0.05, 0.61], (4, 4)).astype("<f4")

FALSE: dict[str, tuple[Any, Any]] = {
    "symmetric, with noise (CMP-07)": (_SYMMETRIC, _SYMMETRIC + _UNEVEN),
    "all ones, all twos": (np.ones((3, 4)), np.full((3, 4), 2.0)),
    "all ones, all minus ones": (np.ones((3, 4)), -np.ones((3, 4))),
    "all zeros, all ones": (np.zeros((3, 4)), np.ones((3, 4))),
    "all ones, one off": (np.ones((3, 4)), put(5, 3)(np.ones((3, 4)))),
    "all zeros, one off": (np.zeros((3, 4)), put(5, 3)(np.zeros((3, 4)))),
    "all zeros, the first off": (np.zeros((3, 4)), put(0, 3)(np.zeros((3, 4)))),
    "a scalar": (3.0, 5.0),
    "one element": ([3.0], [-3.0]),
    "two elements": ([3.0, 5.0], [9.0, 10.0]),
    "one element off": (_SMALL, put(4, 7.25)(_SMALL)),
    "one element zero": (_SMALL, put(4, 0)(_SMALL)),
    "two values, both off": ([1, 1, 2, 2], [3, 3, 7, 7]),
    "groups by factors of their own, one infinite": (
        put(slice(16, 32), np.inf)(numbers(8, 16)),
        put(slice(16, 32), np.inf)(numbers(8, 16)) * np.repeat(np.arange(1.5, 9.5), 16),
    ),
}


@pytest.mark.parametrize(("right", "wrong"), FALSE.values(), ids=FALSE)
def test_what_cannot_be_distinguished_is_not_named(right: Any, wrong: Any) -> None:
    assert cause(right, wrong).code == "no-simple-cause"


@pytest.mark.parametrize("bounds", [EXACT, {"max_abs": 1e-4}])
def test_what_is_right_has_no_cause(bounds: Mapping[str, float]) -> None:
    assert diagnose(subject(_SMALL, _SMALL, bounds=bounds)) is None
    assert diagnose(subject([], [], bounds=bounds)) is None
    assert diagnose(subject([np.nan, 1], [np.nan, 1], bounds=bounds)) is None


def test_a_bound_that_is_blind_proves_nothing() -> None:
    """Big-endian short numbers are all about 1e-40: below the bound anything agrees with them."""
    right = (numbers(4, 8) * 8).astype("<f4")
    found = cause(right, right.T.byteswap(), bounds={"max_abs": 1e-4})

    assert found.code == "transposed+byte-swapped"


@pytest.mark.parametrize("bounds", [{"max_abs": 1e-4}, {"atol": 1e-4, "rtol": 1e-9}])
def test_under_a_bound_a_cause_may_be_off_by_it(bounds: Mapping[str, float]) -> None:
    noise = (DRAWS.uniform(-9e-5, 9e-5, (4, 3))).astype("<f4")
    found = cause(_SMALL, _SMALL.T + noise, bounds=bounds)

    assert str(found) == (
        "axes 0 and 1 are exchanged: after transposing axes 0 and 1 all 12 "
        "elements are equal but for a rounding or the tolerance"
    )


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from(
        [EXACT, {"max_abs": 1e-4}, {"max_abs": 0.0}, {"ulp": 2.0}, {"relative": 0.5, "ulp": 9.0}]
    ),
    st.sampled_from(["F32", "I8", "C64"]),
)
def test_any_difference_has_a_known_cause_and_the_figures_of_the_verdict(
    rows: int, columns: int, seed: int, bounds: Mapping[str, float], dtype: str
) -> None:
    """Few distinct values of every kind, so that all hypotheses come near."""
    draws = np.random.default_rng(seed)
    pool = np.array([0, -0.0, 1, -1, 2, 0.5, np.nan, np.inf, -np.inf, 1e-42, 3e38], "<f4")
    if dtype == "I8":
        pool = np.array([0, 1, 2, 3, -1, -2, 127, -128], "i1")
    elif dtype == "C64":
        pool = draws.choice(pool, 14).view("<c8")
    right, wrong = (draws.choice(pool, (rows, columns)) for _ in range(2))
    bounds = select_bounds(DTYPES[dtype], bounds)
    one = subject(right, wrong, dtype=dtype, bounds=bounds)
    found, verdict = diagnose(one), compare_arrays(right, wrong, DTYPES[dtype], bounds)

    assert one.summary.differing == verdict.bad
    assert (found is None) is (verdict.bad == 0)
    assert found is None or set(found.code.split("+")) <= set(list_codes("causes"))


# --- other tensors and raw bytes ------------------------------------------------------------


def bin_file(folder: Path, name: str, array: NDArray[Any]) -> Any:
    path = folder / f"{name}.bin"
    path.write_bytes(encode_tensor(np.asarray(array, "<f4")))
    return stored_bin(path)


def test_names_that_are_mixed_up(tmp_path: Path) -> None:
    due, other = numbers(3, 4), numbers(4, 3, seed=1)
    others = {"w": bin_file(tmp_path, "w", due), "v": bin_file(tmp_path, "v", other)}
    requested = []

    def ask() -> Any:
        requested.append(1)
        return others

    found = cause(due, other, others=ask)
    assert (found.code, str(found)) == (
        "other-tensor",
        "these are the values of v: all 12 are equal to those of v",
    )
    cause(due, due.T, others=ask)
    assert len(requested) == 1, "other tensors are looked at where nothing else fits"


@pytest.mark.parametrize("left", [None, 0, 8, 40])
def test_another_tensor_that_cannot_be_read_is_passed_over(
    left: int | None, tmp_path: Path
) -> None:
    due, other = numbers(3, 4), numbers(4, 3, seed=1)
    names = {"gone": numbers(12, seed=2), "unlike": numbers(12, seed=3), "v": other}
    others = {name: bin_file(tmp_path, name, array) for name, array in names.items()}
    gone = others["gone"].path
    gone.unlink() if left is None else gone.write_bytes(gone.read_bytes()[:left])
    assert cause(due, other, others=lambda: others).text == "these are the values of v"


def test_number_of_other_tensors_tried_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_OTHERS", 3)
    expected, other = numbers(3, 4), numbers(4, 3, seed=1)
    files = {name: bin_file(tmp_path, name, numbers(12, seed=2)) for name in "abc"}
    last = {"v": bin_file(tmp_path, "v", other)}
    assert cause(expected, other, others=lambda: {**files, **last}).code == "no-simple-cause"
    assert cause(expected, other, others=lambda: {**last, **files}).code == "other-tensor"


def raw_of(folder: Path, stored: NDArray[Any], kind: str, **fields: Any) -> StorageLocation:
    """A checkpoint of 40 bytes, the storage, and 24 bytes."""
    path = folder / "checkpoint"
    rest = np.random.default_rng(3).integers(1, 255, 64, np.uint8).tobytes()
    content = stored.tobytes()
    path.write_bytes(rest[:40] + content + rest[40:])
    fields = {"shape": stored.shape, "stride": None, "storage_offset": 0, **fields}
    return StorageLocation(path=path, start=40, stop=40 + len(content), type_name=kind, **fields)


def view(stored: NDArray[Any], raw: StorageLocation, offset: int) -> NDArray[Any]:
    flat_values = stored.reshape(-1)[offset:]
    steps = [step * stored.itemsize for step in raw.stride or ()]
    return np.lib.stride_tricks.as_strided(flat_values, raw.shape, steps).astype("<f4")


def strided(folder: Path, read: Callable[[NDArray[Any], StorageLocation], Any]) -> Cause:
    """Seven by five elements, transposed in the storage from its tenth on, as ``read`` has them."""
    stored = numbers(60)
    raw = raw_of(folder, stored, "F32", shape=(7, 5), stride=(1, 7), storage_offset=9)
    return cause(view(stored, raw, 9), read(stored, raw), raw=raw)


def at_byte(folder: Path, by: int) -> Cause:
    stored = numbers(6, 4)
    raw = raw_of(folder, stored, "F32")
    content = raw.path.read_bytes()[40 + by :][: stored.nbytes]
    return cause(stored, np.frombuffer(content, "<f4"), raw=raw)


def as_dtype(folder: Path, kind: str, code: str, wrong: Callable[[NDArray[Any]], Any]) -> Cause:
    """PTH-10, PTH-17, ONX-04: stored ``kind``, of numpy's ``code``, taken for another dtype."""
    values = numbers(4, 5)
    stored = (values.view("<u4") >> 16 if kind == "BF16" else values).astype(code)
    raw = raw_of(folder, stored, kind)
    with np.errstate(all="ignore"):
        return cause(DTYPES[kind].round_to_f32(stored), wrong(stored), raw=raw)


def sliced(folder: Path, code: str, first: int) -> Cause:
    """A class that is not known is taken for f32: the offset counts elements of four bytes."""
    whole = np.random.default_rng(3).integers(1, 251, 64).astype(code)
    kind = {"u1": "U8", "<i2": "I16", "<f2": "F16"}[code]
    (folder / "storage").write_bytes(whole.tobytes())
    raw = StorageLocation(
        path=folder / "storage", start=0, stop=whole.nbytes, type_name=kind, shape=(5,),
        storage_offset=first,
    )  # fmt: skip
    due, received = whole[first : first + 5].astype("<f4"), whole.view("<f4")[first : first + 5]
    return cause(due, received, raw=raw)


#: How a checkpoint is read, and the cause's code; messages are golden.
CHECKPOINT: dict[str, tuple[Callable[[Path], Cause], str]] = {
    "strides ignored": (lambda f: strided(f, lambda v, _: v[9:44]), "strides-ignored"),
    "offset ignored": (lambda f: strided(f, lambda v, raw: view(v, raw, 0)), "offset-ignored"),
    "offset and strides ignored": (lambda f: strided(f, lambda v, _: v[:35]),
        "offset-ignored+strides-ignored"),
    "strides ignored and negated": (lambda f: strided(f, lambda v, _: -v[9:44]),
        "strides-ignored+sign-flipped"),
    "7 bytes too late": (lambda f: at_byte(f, 7), "shifted"),
    "3 bytes too early": (lambda f: at_byte(f, -3), "shifted"),
    "1 byte too late": (lambda f: at_byte(f, 1), "shifted"),
    "f16 read as bf16": (lambda f: as_dtype(f, "F16", "<f2",
        lambda v: (v.view("<u2").astype("<u4") << 16).view("<f4")), "other-dtype"),
    "bf16 read as f16": (lambda f: as_dtype(f, "BF16", "<u2",
        lambda v: v.view("<f2").astype("<f4")), "other-dtype"),
    "f16 read as u16": (lambda f: as_dtype(f, "F16", "<f2",
        lambda v: v.view("<u2").astype("<f4")), "other-dtype"),
    "f64 read as i64": (lambda f: as_dtype(f, "F64", "<f8",
        lambda v: v.view("<i8").astype("<f4")), "other-dtype"),
    "f16 read as f32, half as many": (lambda f: as_dtype(f, "F16", "<f2",
        lambda v: np.concatenate([v.reshape(-1).view("<f4"), np.full(10, 7, "<f4")])),
        "other-dtype"),
    "a slice of u8 read as f32": (lambda f: sliced(f, "u1", 0), "other-dtype"),
    "a slice of u8 read as f32 from 3 on": (lambda f: sliced(f, "u1", 3), "other-dtype"),
    "a slice of i16 read as f32": (lambda f: sliced(f, "<i2", 0), "other-dtype"),
    "a slice of i16 read as f32 from 3 on": (lambda f: sliced(f, "<i2", 3), "other-dtype"),
    "a slice of f16 read as f32": (lambda f: sliced(f, "<f2", 0), "other-dtype"),
    "a slice of f16 read as f32 from 3 on": (lambda f: sliced(f, "<f2", 3), "other-dtype"),
    "big-endian f16": (lambda f: as_dtype(f, "F16", "<f2",
        lambda v: v.byteswap().astype("<f4")), "byte-swapped"),
    "big-endian f16, transposed": (lambda f: as_dtype(f, "F16", "<f2",
        lambda v: v.byteswap().astype("<f4").T), "byte-swapped+transposed"),
}  # fmt: skip


def test_checkpoints_that_are_read_wrongly_are_named_in_these_words(
    tmp_path: Path, golden: Callable[..., None]
) -> None:
    found = {name: read(tmp_path) for name, (read, _) in CHECKPOINT.items()}
    assert {name: one.code for name, one in found.items()} == {
        name: code for name, (_, code) in CHECKPOINT.items()
    }
    golden(format_causes(found))


def test_storage_that_explains_nothing_is_not_named(tmp_path: Path) -> None:
    stored = numbers(60)
    raw = raw_of(tmp_path, stored, "F32", shape=(7, 5), stride=(1, 7), storage_offset=9)
    right = view(stored, raw, 9)
    for received in (right + np.resize(_UNEVEN, (7, 5)), numbers(7, 5, seed=4)):
        assert cause(right, received, raw=raw).code == "no-simple-cause"


@pytest.mark.parametrize("kind", ["F16", "F32"])
def test_a_record_that_reaches_out_of_its_storage_is_no_record(kind: str, tmp_path: Path) -> None:
    right = numbers(7, 5)
    for offset, stride in ((30, None), (0, (1, 70)), (30, (1, 7))):
        raw = raw_of(tmp_path, right[:6], kind, shape=(7, 5), stride=stride, storage_offset=offset)
        assert cause(right, right * 2, raw=raw).code == "factor"
        assert in_storage.view_tensor(subject(right, right * 2, raw=raw), DTYPES[kind]) is None
        assert cause(right, numbers(7, 5, seed=4), raw=raw).code == "no-simple-cause"


def test_a_dump_of_the_stored_dtype_is_read_as_that(tmp_path: Path) -> None:
    stored = numbers(4, 6).astype("<f2")
    raw = raw_of(tmp_path, stored, "F16")
    received = np.frombuffer(raw.path.read_bytes()[43:][: stored.nbytes], "<f2")
    assert cause(stored, received, dtype="F16", raw=raw).text.startswith(
        "the checkpoint was read 3 bytes too late"
    )
    assert cause(stored, numbers(4, 6, seed=4), dtype="F16", raw=raw).code == "no-simple-cause"


@pytest.mark.parametrize(("count", "named"), [(1, False), (7, False), (8, True)])
def test_few_bytes_that_are_found_elsewhere_prove_no_place(
    count: int, *, named: bool, tmp_path: Path
) -> None:
    """Of a single byte there is nearly always another one near by."""
    right = np.arange(1, count + 1, dtype="u1")
    raw = raw_of(tmp_path, right, "U8")
    received = np.frombuffer(raw.path.read_bytes()[30:][:count], "u1")
    assert (cause(right, received, dtype="U8", raw=raw).code == "shifted") is named


def test_one_byte_is_no_element_of_another_size(tmp_path: Path) -> None:
    raw = raw_of(tmp_path, np.array([3], "u1"), "U8")
    assert cause(np.float32(3), np.float32(7), raw=raw).code == "no-simple-cause"


# --- GGUF -----------------------------------------------------------------------------------


def quantised(folder: Path, kind: str, rows: int = 3) -> tuple[StorageLocation, NDArray[Any]]:
    decoder = blocks.DECODERS[kind]
    count = rows * 2
    stored = make_random_blocks(kind, count)
    shape = (rows, 2 * decoder.elements)
    raw = raw_of(folder, stored, kind, shape=shape)
    # The reference states its dimensions in GGUF's order, the fastest first.
    return raw, blocks.decode(kind, stored).reshape(shape[::-1])


def _mistakes() -> list[tuple[str, str]]:
    return [(k, m.name) for k in blocks.DECODERS if k[0] == "Q" for m in blocks.list_mistakes(k)]


@pytest.mark.parametrize(("kind", "name"), _mistakes())
def test_each_wrong_decoder_is_named(kind: str, name: str, tmp_path: Path) -> None:
    raw, right = quantised(tmp_path, kind)
    (wrong,) = (m for m in blocks.list_mistakes(kind) if m.name == name)
    stored = np.frombuffer(raw.path.read_bytes()[raw.start : raw.stop], np.uint8)
    received = wrong.decoder(stored.reshape(-1, blocks.DECODERS[kind].size))
    found = cause(right, received, raw=raw, bounds={"max_abs": 1e-4})

    assert found == Cause(
        f"block-{name}",
        wrong.text,
        f"decoding 6 blocks of {kind} in that way, all {right.size:,} elements are bit-equal",
    )
    received[-1, -1] += 1
    near = cause(right, received, raw=raw, bounds={"max_abs": 1e-4})
    assert not near.code.startswith("block-")


def test_two_wrong_ways_of_decoding_at_once(tmp_path: Path) -> None:
    raw, right = quantised(tmp_path, "Q4_K")
    stored = np.frombuffer(raw.path.read_bytes()[raw.start : raw.stop], np.uint8).reshape(-1, 144)
    pairs = {(a.name, b.name): both for a, b, both in blocks.pair_mistakes("Q4_K")}
    found = cause(right, pairs["nibbles-interleaved", "min-ignored"](stored), raw=raw)

    assert found.code == "block-nibbles-interleaved+block-min-ignored"
    assert found.text.startswith("two causes at once: the two nibbles of a byte were read as ")


def test_a_wrong_decoder_whose_rows_are_transposed_too(tmp_path: Path) -> None:
    raw, right = quantised(tmp_path, "Q4_0", rows=4)
    (wrong,) = (m for m in blocks.list_mistakes("Q4_0") if m.name == "codes-unsigned")
    stored = np.frombuffer(raw.path.read_bytes()[raw.start : raw.stop], np.uint8).reshape(-1, 18)
    found = cause(right, wrong.decoder(stored).reshape(raw.shape).T, raw=raw)

    assert found.code == "block-codes-unsigned+transposed"


def test_blocks_that_are_read_at_another_byte(tmp_path: Path) -> None:
    """The alignment of a GGUF file misread."""

    raw, right = quantised(tmp_path, "Q8_0")
    content = raw.path.read_bytes()[raw.start - 32 : raw.stop - 32]
    received = blocks.decode("Q8_0", np.frombuffer(content, np.uint8).reshape(-1, 34))
    found = cause(right, received, raw=raw)

    assert found.code == "shifted"
    assert found.text == (
        "the blocks were read 32 bytes too early: a header, an offset or the alignment was misread"
    )


def test_blocks_that_are_dumped_as_f16_are_not_decoded_wrongly_on_trial(tmp_path: Path) -> None:
    """Decoders give float32, which is not what such a dump should hold."""
    raw, right = quantised(tmp_path, "Q4_0")
    (wrong,) = (m for m in blocks.list_mistakes("Q4_0") if m.name == "codes-unsigned")
    stored = np.frombuffer(raw.path.read_bytes()[raw.start : raw.stop], np.uint8)
    received = wrong.decoder(stored.reshape(-1, 18)).astype("<f2").astype("<f4")
    for dtype, named in (("F32", True), ("F16", False)):
        found = cause(right, received, dtype=dtype, raw=raw, bounds={"max_abs": 0.01})
        assert (found.code == "block-codes-unsigned") is named


def test_large_blocks_are_tried_for_one_cause_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = numbers(4, 5).astype("<f2")
    raw = raw_of(tmp_path, stored, "F16")
    with np.errstate(all="ignore"):
        wrong = stored.byteswap().astype("<f4").T
    monkeypatch.setattr(block_mistakes, "MAX_WHOLE", 19)
    assert cause(stored.astype("<f4"), wrong, raw=raw).code == "no-simple-cause"
    monkeypatch.setattr(block_mistakes, "MAX_WHOLE", 20)
    assert cause(stored.astype("<f4"), wrong, raw=raw).code == "byte-swapped+transposed"


def test_a_record_that_does_not_fit_is_no_record(tmp_path: Path) -> None:
    raw, right = quantised(tmp_path, "Q4_0")
    for last in (raw.stop - 18, raw.stop - 1):
        odd = StorageLocation(**{**raw.__dict__, "stop": last})
        assert cause(right, right * 2, raw=odd).code == "factor"


def test_floats_that_share_bytes_are_diagnosed_one_by_one(tmp_path: Path) -> None:
    codes = (np.arange(48).reshape(6, 8) * 29 % 61).astype("u1")
    turned = np.ascontiguousarray(codes.T).reshape(6, 8)
    due = store_tensor(tmp_path, codes, "F6_E2M3")
    wide = PACKED["F6_E2M3"].round_to_f32(turned)
    for received in (store_tensor(tmp_path, turned, "F6_E2M3"), bin_file(tmp_path, "w", wide)):
        assert diagnose(FailingTensor.of("w", due, received)).code == "transposed"


# --- size -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (7,), (5, 7), (1, 40), (3, 4, 5), (0, 3)])
@pytest.mark.parametrize("most", [1, 6, 1000])
def test_tiles_cover_each_element_once(shape: tuple[int, ...], most: int) -> None:
    seen = np.zeros(shape, int)
    for tile in iterate_tiles(shape, most):
        assert seen[tile].size <= most
        seen[tile] += 1
    assert (seen == 1).all()


def test_large_maps_forget_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.tensors.stored._MAX_READ", 1)
    due, received = numbers(3, 4), numbers(3, 4).T
    sides = bin_file(tmp_path, "w", due), bin_file(tmp_path, "v", received.reshape(3, 4))
    assert diagnose(FailingTensor.of("w", *sides)).code == "transposed"


def test_an_empty_tensor_in_a_file_has_no_cause(tmp_path: Path) -> None:
    empty = bin_file(tmp_path, "w", np.zeros((0, 3)))
    assert diagnose(FailingTensor.of("w", empty, empty)) is None


_LIMIT = """
import sys
from pathlib import Path
from parity.tensors.bin import locate_tensor
from parity.diagnose import FailingTensor, diagnose
folder = Path(sys.argv[1])
subject = FailingTensor.of("w", locate_tensor(folder / "w.bin"), locate_tensor(folder / "v.bin"))
code = diagnose(subject).code
# Not getrusage: its peak is the parent's at the time of the fork, where that is larger.
status = Path("/proc/self/status").read_text()
print(code, int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak on Linux alone")
@pytest.mark.parametrize("code", ["transposed", "no-simple-cause"])
def test_a_large_tensor_is_not_kept_in_memory(code: str, tmp_path: Path) -> None:
    """288 MB a side, more than 512 MiB together, which is what a diagnosis may take."""
    rows, columns = 8_000, 9_000
    header = np.array([2, rows, columns], "<u4").tobytes()
    line = np.arange(columns, dtype="<f4") * 3
    with (tmp_path / "w.bin").open("wb") as due, (tmp_path / "v.bin").open("wb") as received:
        due.write(header)
        received.write(header)
        for row in range(rows):
            due.write((line + row * 0.5).astype("<f4").tobytes())
        for part in range(0, rows * columns, columns):
            place = np.arange(part, part + columns)
            values = (place // rows) * 3 + (place % rows) * 0.5
            if code == "no-simple-cause":
                values = values + np.sin(place) * (place % 7)
            received.write(values.astype("<f4").tobytes())
    ended = subprocess.run(
        [sys.executable, "-c", _LIMIT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    found, megabytes = ended.stdout.split()
    assert found == code
    assert int(megabytes) <= 512
