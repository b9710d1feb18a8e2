"""Every known mistake of a block type is detected in the zoo, and reported by its name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import blocks, locate_tensors
from parity.lab.faults.inject import write_tensors_dump
from parity.results import Finding
from parity.suites import find_suite
from parity.suites.base import Case, Dump
from parity.suites.tensors.suite import read_references
from parity.tensors.bin import encode_tensor
from parity.tensors.dtypes import DTYPES
from tests.support.bundles import unpack

KINDS = [kind for kind in blocks.DECODERS if kind not in DTYPES]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Case]:
    tree = unpack("checkpoint-zoo-v1", tmp_path_factory.mktemp("zoo"))
    kind = find_suite("tensors")
    assert kind is not None
    return {case.id: case for case in kind.cases(tree, {})}


def errors(case: Case, folder: Path) -> list[Finding]:
    kind = find_suite("tensors")
    assert kind is not None
    found = kind.verify(case, Dump(folder=folder), dict(case.tolerances)).findings
    return [finding for finding in found if finding.level == "error"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_mistake_of_a_block_type_is_detected_and_named(
    kind: str, cases: Mapping[str, Case], tmp_path: Path
) -> None:
    case = cases[f"gguf-y-{kind.lower().replace('_', '-')}"]
    (tmp_path / "right").mkdir()
    planted = write_tensors_dump(case, tmp_path / "right")
    assert planted is not None
    faults = [fault for fault in planted if fault.name.startswith("block-")]
    assert errors(case, tmp_path / "right") == []
    assert {f.name for f in faults} == {
        f"block-{m.name}:{kind}" for m in blocks.list_mistakes(kind)
    }

    for fault in faults:
        shutil.copytree(tmp_path / "right", tmp_path / "wrong")
        assert fault.inject(tmp_path / "wrong").changed == ("w",), fault.name
        (finding,) = errors(case, tmp_path / "wrong")
        assert finding.measures["cause_code"] in fault.codes, fault.name
        shutil.rmtree(tmp_path / "wrong")


#: Types with a codebook: bytes of a block, and where its fields end, after ``ggml-common.h``.
CODEBOOKS = {
    "IQ1_S": {"d": 2, "qs": 34, "qh": 50},
    "IQ1_M": {"qs": 32, "qh": 48, "scales": 56},
    "IQ2_XXS": {"d": 2, "qs": 66},
    "IQ2_XS": {"d": 2, "qs": 66, "scales": 74},
    "IQ2_S": {"d": 2, "qs": 34, "signs": 66, "qh": 74, "scales": 82},
    "IQ3_XXS": {"d": 2, "qs": 66, "scales and signs": 98},
    "IQ3_S": {"d": 2, "qs": 66, "qh": 74, "signs": 106, "scales": 110},
}
#: What a decoder may do to a field, uint8 ``(blocks, bytes)``.
WAYS: Mapping[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    "lost": np.zeros_like,
    "of the next block": lambda field: np.roll(field, -1, axis=0),
    "backwards": lambda field: field[:, ::-1],
    "a byte on": lambda field: np.roll(field, -1, axis=1),
    "nibbles swapped": lambda field: field << 4 | field >> 4,
    "bits reversed": lambda field: np.packbits(
        np.unpackbits(field, axis=1, bitorder="little"), axis=1
    ),
    "high bits lost": lambda field: field & 0x7F,
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", CODEBOOKS)
def test_every_misread_field_of_a_codebook_type_is_detected(
    kind: str, cases: Mapping[str, Case]
) -> None:
    """We have no wrong decoders of them: gguf-py decodes them from misread fields."""
    gguf = pytest.importorskip("gguf")
    case = cases[f"gguf-y-{kind.lower().replace('_', '-')}"]
    (stored,) = _storages(case)
    first, ends = 0, CODEBOOKS[kind]
    raw = np.frombuffer(stored, np.uint8).reshape(-1, max(ends.values()))
    (expected,) = (one.read_array().reshape(-1) for one in read_references(case.detail).values())
    type_ = gguf.GGMLQuantizationType[kind]
    assert np.array_equal(gguf.quants.dequantize(raw, type_).reshape(-1), expected)
    for field, last in ends.items():
        for way, misread in WAYS.items():
            wrong = raw.copy()
            wrong[:, first:last] = misread(raw[:, first:last])
            if (wrong == raw).all():
                assert (way, field) == ("high bits lost", "d")  # scales are positive
                continue
            with np.errstate(all="ignore"):
                obtained = gguf.quants.dequantize(wrong, type_)
            assert not np.array_equal(obtained.reshape(-1), expected), (field, way)
        first = last


def test_two_mistakes_in_one_byte_are_both_named(cases: Mapping[str, Case], tmp_path: Path) -> None:
    """Q5_1 decoded here as a port might: nibbles as neighbours, and no fifth bits."""
    case = cases["gguf-y-q5-1"]
    (stored,) = _storages(case)
    raw = np.frombuffer(stored, np.uint8).reshape(-1, 24)
    scale, least = raw[:, :2].copy().view("<f2"), raw[:, 2:4].copy().view("<f2")
    codes = np.stack([raw[:, 8:] & 15, raw[:, 8:] >> 4], axis=-1).reshape(len(raw), 32)
    values = codes.astype("<f4") * scale.astype("<f4") + least.astype("<f4")
    (tmp_path / "w.bin").write_bytes(encode_tensor(values.reshape(96, 5)))
    (finding,) = errors(case, tmp_path)

    assert finding.measures["cause_code"] == "block-nibbles-interleaved+block-high-bits-lost"
    assert finding.cause == (
        "two causes at once: the two nibbles of a byte were read as neighbours; GGUF keeps low "
        "and high nibbles apart, and the fifth bit of every code was lost: decoding 15 blocks of "
        "Q5_1 in that way, all 480 elements are bit-equal"
    )


def test_ignored_strides_of_a_pth_are_named(cases: Mapping[str, Case], tmp_path: Path) -> None:
    case = cases["pth-y-columns"]
    (tmp_path / "right").mkdir()
    planted = write_tensors_dump(case, tmp_path / "right") or []
    (fault,) = (fault for fault in planted if fault.name == "strides-ignored")
    fault.inject(tmp_path / "right")
    (finding,) = errors(case, tmp_path / "right")

    assert finding.cause == (
        "the strides [9, 1] were ignored: in the order of the storage all 28 elements are bit-equal"
    )


def test_complex_numbers_read_as_f32_are_named(cases: Mapping[str, Case], tmp_path: Path) -> None:
    """A `.bin` cannot contain them, so no values are compared; the bytes explain the dump."""
    case = cases["pth-y-complex64"]
    (span,) = _storages(case)
    halves = np.frombuffer(span, "<f4")[:15].reshape(3, 5)
    (tmp_path / "w.bin").write_bytes(encode_tensor(halves))
    (finding,) = errors(case, tmp_path)
    assert finding.code == "dtype"
    assert finding.cause == (
        "stored c64 was read as f32: after reading the checkpoint's bytes as f32 all 15 elements "
        "are bit-equal"
    )

    (tmp_path / "w.bin").write_bytes(encode_tensor(halves + 1))
    (finding,) = errors(case, tmp_path)
    assert (finding.code, finding.cause) == ("dtype", None)


def _storages(case: Case) -> list[bytes]:
    checkpoint = Path(case.placeholders["checkpoint"])
    found = locate_tensors(case.folder, checkpoint).values()
    return [checkpoint.read_bytes()[raw.start : raw.stop] for raw in found]
