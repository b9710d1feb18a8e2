"""Causes of wrong integers, booleans and complex numbers, and of tensors that several fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation, blocks
from parity.codes import list_codes
from parity.diagnose import block_mistakes, diagnose
from parity.tensors.dtypes import DTYPES
from tests.diagnose.test_diagnose import bf16, cause, subject
from tests.support.blocks import make_random_blocks
from tests.support.tensors import encode_safetensors, verify_dump

DRAWS = np.random.default_rng(7)
WIDE = DRAWS.integers(-(2**40), 2**40, (6, 8))
SHORT = DRAWS.integers(-40_000, 90_000, (6, 8))
BYTES = DRAWS.integers(0, 256, (5, 4, 3))
FLAGS = DRAWS.integers(0, 2, (6, 8))
WAVES = (DRAWS.normal(size=(4, 5)) + 1j * DRAWS.normal(size=(4, 5))).astype("<c8")

INTEGERS: dict[str, tuple[str, NDArray[Any], Any, str, str]] = {
    "one more": ("I64", WIDE, lambda a: a + 1, "addend", "1 is added to every value"),
    "doubled": ("I32", SHORT, lambda a: a * 2, "factor", "every value is multiplied by 2"),
    "halved": ("I64", SHORT, lambda a: a // 2, "factor", "every value is divided by 2"),
    "cut in half": (*("I64", SHORT, lambda a: np.trunc(a / 2).astype(int), "factor"),
        "every value is divided by 2"),
    "line": (*("I64", SHORT, lambda a: 3 * a - 7, "factor+addend"),
        "two causes at once: every value is multiplied by 3, and -7 is added to it"),
    "negated": ("I16", SHORT // 4, lambda a: -a, "sign-flipped", "every sign is the opposite one"),
    "absolute": ("I64", WIDE, np.abs, "sign-lost", "every sign was lost"),
    "through f16": (*("I32", SHORT // 2, lambda a: a.astype("<f2").astype("<i4"), "rounded-f16"),
        "the values went through float16"),
    "through f32": (*("I64", WIDE, lambda a: a.astype("<f4").astype("<i8"), "rounded-f32"),
        "the values went through float32"),
    "through f64": (*("I64", WIDE << 20 | 1, lambda a: a.astype("<f8").astype("<i8"),
        "rounded-f64"), "the values went through float64"),
    "through bf16": (*("I32", SHORT, lambda a: bf16(a.astype("<f4")).astype("<i4"), "rounded-bf16"),
        "the values went through bfloat16"),
    "cut to bf16": (*("I32", SHORT,
        lambda a: (a.astype("<f4").view("<u4") & 0xFFFF0000).view("<f4"), "cut-bf16"),
        "the values were cut to bfloat16 without rounding"),
    "low 32 bits": (*("I64", WIDE, lambda a: a.astype("<i4"), "low-bits"),
        "only the low 32 bits were kept, as signed 32-bit integers"),
    "low 16 bits": (*("I32", SHORT, lambda a: a.astype("<u2"), "low-bits"),
        "only the low 16 bits were kept, as unsigned 16-bit integers"),
    "bytes as signed": (*("I16", BYTES, lambda a: a.astype("i1"), "low-bits"),
        "only the low 8 bits were kept, as signed 8-bit integers"),
    "saturated as i32": (*("I64", WIDE, lambda a: a.clip(-(2**31), 2**31 - 1), "saturated"),
        "the values stop at -2,147,483,648 and 2,147,483,647, as signed 32-bit integers do"),
    "saturated as i16": (*("I32", SHORT, lambda a: a.clip(-(2**15), 2**15 - 1), "saturated"),
        "the values stop at -32,768 and 32,767, as signed 16-bit integers do that saturate"),
    "saturated as u8": (*("I32", SHORT, lambda a: a.clip(0, 255), "saturated"),
        "the values stop at 0 and 255, as unsigned 8-bit integers do that saturate"),
    "bytes saturated as signed": (*("U8", BYTES, lambda a: a.clip(0, 127), "saturated"),
        "the values stop at 0 and 127, as signed 8-bit integers do that saturate"),
    "inverted bytes": (*("U8", BYTES, lambda a: 255 - a, "inverted"),
        "all bits are inverted (255 - x)"),
    "inverted": ("I32", SHORT, lambda a: ~a, "inverted", "all bits are inverted (-1 - x)"),
    "inverted flags": ("BOOL", FLAGS, lambda a: 1 - a, "inverted", "every boolean is inverted"),
    "all flags": ("BOOL", FLAGS, np.ones_like, "all-equal", "all elements have one value"),
    "consecutive": (*("I64", np.arange(10), lambda a: a + 1, "addend"),
        "1 is added to every value"),
    "transposed": ("U8", BYTES, lambda a: a.transpose(2, 0, 1), "axes-permuted", "the axes are"),
    "zeros": ("I64", WIDE, np.zeros_like, "all-zero", "all values are zero"),
    "negatives lost": ("I64", WIDE, lambda a: a.clip(0), "negatives-lost",
        "negative values became"),
    "cut, not rounded": (*("U8", BYTES + 1, lambda a: a - (DRAWS.integers(0, 2, a.shape)),
        "rounding"), "the values are rounded in another way"),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_causes_of_integers(name: str) -> None:
    dtype, due, change, code, text = INTEGERS[name]
    storage = DTYPES[dtype].storage
    obtained = np.asarray(change(due.astype(storage))).astype(storage)
    found = cause(due, obtained, dtype=dtype)
    assert (found.code, found.complete) == (code, True), str(found)
    assert found.text.startswith(text)
    assert set(found.code.split("+")) <= set(list_codes("causes"))


BINARY: dict[str, tuple[NDArray[Any], NDArray[Any], str]] = {
    "inverted flags": (FLAGS.astype(bool), 1 - FLAGS, "inverted"),
    "inverted bytes": (BYTES.astype("u1"), 255 - BYTES, "inverted"),
    "low 16 bits": (SHORT, SHORT & 0xFFFF, "low-bits"),
    "one more": (SHORT, SHORT + 1, "addend"),
    "not whole": (SHORT, SHORT / 2 + 0.25, "factor+addend"),
}


@pytest.mark.parametrize("name", BINARY)
def test_integers_in_a_bin_have_the_causes_of_integers(name: str, tmp_path: Path) -> None:
    right, wrong, code = BINARY[name]
    outcome = verify_dump(tmp_path, {"w.npy": right}, {"w.bin": wrong.astype("<f4")})
    (finding,) = [one for one in outcome.findings if one.level == "error"]
    assert finding.measures["cause_code"] == code
    assert "ULP" not in finding.message


def test_zeros_alone_are_no_limit_of_a_type() -> None:
    right = np.array([5, -3, 70_000, 9, 11, 13, 17, 19, 23])
    assert cause(right, right.clip(0), dtype="I64").code == "no-simple-cause"
    assert cause(right, right.clip(0, 65_535), dtype="I64").code == "saturated"


@pytest.mark.parametrize(("name", "code"), [("f16", "<i2"), ("f16", "<u2"), ("bf16", "<u2")])
@pytest.mark.parametrize("stored", ["F32", "own"])
def test_words_of_floats_that_are_dumped_as_integers(
    name: str, code: str, stored: str, tmp_path: Path
) -> None:
    """The reference in a `.bin`, or in its own dtype beside a `.bin` of the port."""
    values = DRAWS.normal(size=(4, 6)).astype("<f4")
    words = values.astype("<f2") if name == "f16" else (values.view("<u4") >> 16).astype("<u2")
    rounded = words.astype("<f4") if name == "f16" else (words.astype("<u4") << 16).view("<f4")
    right: Any = {"w.bin": rounded}
    if stored == "own":
        tensors = {"w": (name.upper(), words)}
        right = {"w.safetensors": encode_safetensors(tensors)}
    wrong = {"w.bin": words.view(code).astype("<f4")}
    (finding,) = [one for one in verify_dump(tmp_path, right, wrong).findings if one.cause]
    assert finding.measures["cause_code"] == "bits-as-integers"
    assert f"the bits of the values as {name} were read as integers" in (finding.cause or "")


def test_random_changes_have_no_cause() -> None:
    """Elements changed at random to others of their range, in tensors of every type."""
    for seed in range(40):
        draws = np.random.default_rng(seed)
        dtype = ("I64", "I32", "I16", "U8", "F32")[seed % 5]
        limit = (2**40, 2**20, 300, 255, 2**9)[seed % 5]
        right, other = draws.integers(0 if dtype == "U8" else -limit, limit, (2, 5, 7))
        wrong = np.where(draws.random((5, 7)) < draws.uniform(0.1, 1), other, right)
        found = cause(right, wrong, dtype=dtype)
        assert found.code == "no-simple-cause", (seed, str(found))


def test_an_error_of_one_is_a_number_beyond_all_digits_of_a_float() -> None:
    right = np.array([2**53 + 1, 5, 2**60])
    wrong = np.array([2**53, 5, 2**60 + 5])
    assert str(cause(right, wrong, dtype="I64")) == (
        "no simple cause fits: 2 of 3 elements differ; their errors by power of ten: 1e+0: 2"
    )


def test_noise_in_integers_has_no_cause() -> None:
    wrong = SHORT + DRAWS.integers(-3, 4, SHORT.shape)
    assert cause(SHORT, wrong, dtype="I64").code == "no-simple-cause"
    assert cause(FLAGS, np.roll(FLAGS, 3) ^ (SHORT > 0), dtype="BOOL").code == "no-simple-cause"


COMPLEX: dict[str, tuple[Any, str, str]] = {
    "conjugated": (np.conj, "conjugated", "every number is conjugated"),
    "exchanged": (*(lambda a: a.imag + 1j * a.real, "parts-exchanged"),
        "real and imaginary part are exchanged"),
    "real only": (lambda a: a.real + 0j, "imaginary-lost", "the imaginary part is 0 everywhere"),
    "imaginary only": (lambda a: 1j * a.imag, "real-lost", "the real part is 0 everywhere"),
    "negated": (np.negative, "sign-flipped", "every sign is the opposite one"),
    "through f16": (*(lambda a: _change_parts(a, "f", lambda x: x.astype("<f2").astype(x.dtype)),
        "rounded-f16"), "the values went through float16"),
    "doubled": (lambda a: a * 2, "factor", "every value is multiplied by 2"),
    "rotated": (lambda a: a * 1j, "factor", "every number is multiplied by 0+1j"),
    "transposed": (lambda a: a.T, "transposed", "axes 0 and 1 are exchanged"),
    "big-endian": (*(lambda a: _change_parts(a, "u", np.ndarray.byteswap), "byte-swapped"),
        "the bytes of each value are swapped"),
    "zeros": (np.zeros_like, "all-zero", "all values are zero"),
    "rows exchanged": (lambda a: a[[0, 3, 2, 1]], "rows-permuted", "the rows are in another order"),
}  # fmt: skip


def _change_parts(waves: NDArray[Any], kind: str, change: Any) -> NDArray[Any]:
    parts = waves.view(f"<{kind}{waves.itemsize // 2}")
    return np.ascontiguousarray(change(parts)).view(waves.dtype)


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [("C64", {"exact": 1.0}), ("C64", {"max_abs": 1e-6}), ("C128", {"exact": 1.0})],
)
def test_causes_of_complex_numbers(name: str, dtype: str, bounds: dict[str, float]) -> None:
    change, code, text = COMPLEX[name]
    waves = WAVES.astype(DTYPES[dtype].storage) * (1 + 1e-3)
    wrong = np.asarray(change(waves), waves.dtype)
    found = cause(waves, wrong, dtype=dtype, bounds=bounds)
    assert (found.code, found.complete) == (code, True), str(found)
    assert found.text.startswith(text)


def test_bfloat16_has_the_causes_of_floats() -> None:
    values = (DRAWS.integers(1, 128, 20) * DRAWS.choice([-1, 1], 20) / 16).astype("<f4")
    codes = (values.view("<u4") >> 16).astype("<u2")
    for change, code in (
        (lambda v: -v, "sign-flipped"),
        (np.abs, "sign-lost"),
        (lambda v: v * 2, "factor"),
        (lambda v: v + 1024, "addend"),
    ):
        wrong = (bf16(change(values)).view("<u4") >> 16).astype("<u2")
        assert cause(codes, wrong, dtype="BF16").code == code
    found = cause(codes, values.astype("<f2").view("<u2"), dtype="BF16")
    assert (found.code, found.text) == ("other-dtype", "f16 words were read as bf16")


def test_a_cause_of_all_elements_comes_before_one_of_most() -> None:
    ramp = np.arange(20, dtype="<f4")
    found = cause(ramp, ramp + 1)
    assert (found.code, found.complete) == ("addend", True)
    found = cause(DRAWS.normal(size=20), np.roll(DRAWS.normal(size=20), 1))
    assert found.code == "no-simple-cause"
    values = DRAWS.normal(size=20)
    shifted = np.concatenate([[3.0], values[:-1]])
    assert (cause(values, shifted).code, cause(values, shifted).complete) == ("shifted", False)


def quantised(
    folder: Path, kind: str, mistake: str, scale: int | None = None
) -> tuple[Any, Any, Any]:
    """Return a location of random blocks, their values, and those of a wrong decoder."""
    content = make_random_blocks(kind, 16)
    if scale is not None:
        content[:, 0] = scale
    (folder / "w.gguf").write_bytes(content.tobytes())
    raw = StorageLocation(
        path=folder / "w.gguf",
        start=0,
        stop=content.size,
        type_name=kind,
        shape=(blocks.DECODERS[kind].elements * 16,),
    )
    wrong = next(one for one in blocks.list_mistakes(kind) if one.name == mistake)
    return raw, blocks.decode(kind, content), wrong.decoder(content)


def test_a_zero_of_the_other_sign_hides_no_decoder(tmp_path: Path) -> None:
    raw, right, wrong = quantised(tmp_path, "MXFP4", "nibbles-interleaved")
    wrong = np.where(wrong == 0, np.float32(0), wrong)
    found = cause(right.reshape(-1), wrong.reshape(-1), raw=raw)
    assert found.code == "block-nibbles-interleaved"


def test_a_wrong_decoder_is_found_within_a_tolerance(tmp_path: Path) -> None:
    for kind, mistake in (("Q4_0", "nibbles-interleaved"), ("Q6_K", "zero-point-low")):
        raw, right, wrong = quantised(tmp_path, kind, mistake)
        loose = {"raw": raw, "bounds": {"max_abs": 1e9}}
        one = subject(right.reshape(-1), wrong.reshape(-1), **loose)
        assert diagnose(one) is None
        found = block_mistakes.find_exact_mistake(one)
        assert found is not None
        assert found.code == f"block-{mistake}"
        near = np.nextafter(right, np.float32(9e9))
        assert block_mistakes.find_exact_mistake(subject(near, right, **loose)) is None
        assert block_mistakes.find_exact_mistake(subject(right, near, **loose)) is None


def test_all_causes_that_fit_a_few_elements_are_named(tmp_path: Path) -> None:
    values = np.array([1, 2, 3, 4], "<f4")
    (tmp_path / "w.bin").write_bytes(bytes(32) + values.tobytes())
    raw = StorageLocation(path=tmp_path / "w.bin", start=32, stop=48, type_name="F32", shape=(4,))
    assert str(cause(values, values * 0, raw=raw)) == (
        "2 causes fit its 4 elements: all values are zero: all 4 elements of the dump are 0, 4 of "
        "the reference are not; or the checkpoint was read 32 bytes too early: a header, an offset "
        "or the alignment was misread: read 32 bytes too early in the checkpoint all 4 elements "
        "are bit-equal"
    )
    assert str(cause(values, -values)).startswith("every sign is the opposite one: ")
