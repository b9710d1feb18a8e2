"""Decoders of GGUF's block types: right as gguf-py is right, and wrong as ports are wrong."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.checkpoints import blocks
from parity.tensors.dtypes import DTYPES
from tests.support.blocks import SCALE_OFFSETS, make_random_blocks

KINDS = tuple(blocks.DECODERS)
QUANTISED = tuple(kind for kind in KINDS if kind not in DTYPES)


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_what_gguf_py_dequantises(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    for seed in range(8):
        raw = make_random_blocks(kind, 64, seed)
        due = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])

        assert blocks.decode(kind, raw).tobytes() == due.astype("<f4").tobytes()


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_what_gguf_py_dequantises_whatever_the_scales(kind: str) -> None:
    """Scales that are NaN, infinite, negative, zero or subnormal."""
    gguf = pytest.importorskip("gguf")
    raw = np.random.default_rng(1).integers(0, 256, (4096, blocks.DECODERS[kind].size), np.uint8)
    for at in SCALE_OFFSETS.get(kind, ()):
        raw[:8, at : at + 2] = (
            np.array([0x7E00, 0x7C00, 0xFC00, 0, 0x8000, 1, 0x8001, 0xBC00])[:, None]
            .astype("<u2")
            .view(np.uint8)
        )
    with np.errstate(all="ignore"):
        due = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind]).reshape(-1)
    obtained = blocks.decode(kind, raw).reshape(-1)

    np.testing.assert_array_equal(np.isnan(due), np.isnan(obtained))
    there = ~np.isnan(due)
    assert obtained[there].tobytes() == due.astype("<f4")[there].tobytes()


def test_the_blocks_of_public_reports() -> None:
    """GGF-01, GGF-02 and GGF-04 of the field's reports, with the numbers seen there."""
    index = np.arange(256)
    scales = bytes.fromhex("1be427d8728d39c6e41b936c")
    q3 = [(29 * index[:32] + 7) & 255, (37 * index[:64] + 11) & 255, [*scales], [0, 0x34]]
    raw = np.concatenate(q3).astype(np.uint8)[None]
    right = blocks.decode("Q3_K", raw)
    assert (right.min(), right.max()) == (-23.0, 24.0)
    assert _differing("Q3_K", "sub-scales-4-bit", raw)[0] > 128

    q2 = [(index[:16] << 4) | (15 - index[:16]), index[:64], [0, 0x38, 0, 0x30]]
    raw = np.concatenate(q2).astype(np.uint8)[None]
    assert _differing("Q2_K", "codes-sequential", raw) == (153, 22.5)

    q4 = [[0, 0x38, 0, 0xC2], index[:16] | ((15 - index[:16]) << 4)]
    raw = np.concatenate(q4).astype(np.uint8)[None]
    assert _differing("Q4_1", "header-two-short", raw) == (31, 7.5)


def _differing(kind: str, name: str, raw: np.ndarray) -> tuple[int, float]:
    (wrong,) = (m for m in blocks.list_mistakes(kind) if m.name == name)
    gap = np.abs(wrong.decoder(raw) - blocks.decode(kind, raw))
    return int(np.count_nonzero(gap)), float(gap.max())


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_have_names_and_sentences_of_their_own(kind: str) -> None:
    found = blocks.list_mistakes(kind)

    assert len({m.name for m in found}) == len({m.text for m in found}) == len(found) > 1
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", m.name) for m in found)


@pytest.mark.parametrize("kind", KINDS)
def test_no_mistake_is_another_one_or_none(kind: str) -> None:
    """Each changes something, and no two change the same: else a name would be a guess."""
    raw = make_random_blocks(kind, 32)
    decoded = {m.name: m.decoder(raw).tobytes() for m in blocks.list_mistakes(kind)}
    decoded["right"] = blocks.decode(kind, raw).tobytes()

    same = [pair for pair in combinations(decoded, 2) if decoded[pair[0]] == decoded[pair[1]]]
    assert same == []


@pytest.mark.parametrize("kind", QUANTISED)
def test_two_mistakes_are_neither_of_the_two(kind: str) -> None:
    raw = make_random_blocks(kind, 8)
    pairs = blocks.pair_mistakes(kind)

    assert pairs
    for one, other, both in pairs:
        assert both(raw).tobytes() not in (one.decoder(raw).tobytes(), other.decoder(raw).tobytes())


@pytest.mark.parametrize("kind", QUANTISED)
def test_blocks_of_zeros_hide_most_mistakes(kind: str) -> None:
    raw = np.zeros((3, blocks.DECODERS[kind].size), np.uint8)

    assert not blocks.decode(kind, raw).any()
    assert not any(m.decoder(raw).any() for m in blocks.list_mistakes(kind))


@given(st.sampled_from(KINDS), st.integers(0, 2**32), st.integers(1, 9), st.integers(0, 9))
def test_blocks_are_decoded_each_for_itself(kind: str, seed: int, count: int, cut: int) -> None:
    raw = make_random_blocks(kind, count, seed)
    whole = blocks.decode(kind, raw)

    parts = [blocks.decode(kind, part) for part in (raw[:cut], raw[cut:]) if len(part)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert (whole.shape, whole.dtype) == ((count, blocks.DECODERS[kind].elements), np.float32)


@given(st.sampled_from(QUANTISED), st.integers(0, 2**32))
def test_mistakes_look_no_further_than_the_neighbours(kind: str, seed: int) -> None:
    """What makes it possible to try them on a part of a tensor: one block more on each side."""
    raw = make_random_blocks(kind, 9, seed)
    for wrong in blocks.list_mistakes(kind):
        part = wrong.decoder(raw[2:7])[1:-1]
        assert part.tobytes() == wrong.decoder(raw)[3:6].tobytes()
