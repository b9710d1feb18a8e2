"""Decode GGUF's block types in NumPy: correctly, and with every mistake that has a name.

``diagnose`` compares a dump with the mistakes, ``lab.faults`` injects them. Tests compare
the correct decoders with gguf-py. Source of the layouts: ``ggml-common.h`` and
``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints.blocks import codes, scales
from parity.checkpoints.blocks.codes import Blocks
from parity.checkpoints.blocks.scales import Floats
from parity.checkpoints.gguf_header import BY_NAME

__all__ = ["DECODERS", "Decoder", "Mistake", "decode", "list_mistakes", "pair_mistakes"]

Read = Callable[[Any], Any]  # Reads a part of each block, from bytes as uint8 ``(n, size)``


@dataclass(frozen=True)
class Decoder:
    """A decoder of blocks of ``size`` bytes to ``elements`` numbers."""

    elements: int
    size: int
    scales: Read  # The scale of each group of a block, float32 ``(n, groups)``
    codes: Read  # The whole number of each element, ``(n, elements)``
    #: The number that is added to each group, or subtracted; None where nothing is.
    mins: Read | None = None
    subtracts_mins: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        """``(n, size)`` bytes to ``(n, elements)`` float32."""
        with np.errstate(all="ignore"):
            factors = self.scales(raw)
            groups = (len(raw), factors.shape[1], -1)
            values = factors[:, :, None] * self.codes(raw).reshape(groups).astype(np.float32)
            if self.mins is not None:
                combine = np.subtract if self.subtracts_mins else np.add
                values = combine(values, self.mins(raw)[:, :, None])
        flat: Floats = values.reshape(len(raw), self.elements)
        return flat


@dataclass(frozen=True)
class _FloatDecoder(Decoder):
    """A decoder of one element a block; bfloat16 is the upper half of a float32."""

    dtype: str = ""
    is_upper_half: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        values = np.ascontiguousarray(raw).view(self.dtype)
        if self.is_upper_half:
            values = (values.astype("<u4") << np.uint32(16)).view("<f4")
        with np.errstate(all="ignore"):
            return values.astype(np.float32)


def make_float_decoder(dtype: str) -> Decoder:
    """Make the decoder of NumPy's ``dtype``, or of ``<bf16`` and ``>bf16``."""
    code = dtype.replace("bf16", "u2")
    size = np.dtype(code).itemsize
    return _FloatDecoder(1, size, len, len, dtype=code, is_upper_half=code != dtype)


FLOATS = {"F32": "f4", "F16": "f2", "BF16": "bf16"}
_F16 = partial(scales.read_f16, at=0)


def _read_subs(at: int, read: Callable[..., Any], **settings: Any) -> Read:
    return partial(scales.read_scales, at=at, subs=partial(read, **settings))


def _read_plain(**settings: Any) -> Read:
    return partial(codes.read_codes, **settings)


def _look_up(at: int, parts: int, width: int, table: Any) -> Read:
    return partial(codes.look_up_codes, at=at, parts=parts, width=width, table=table)


_SIX_BIT_SCALES, _SIX_BIT_MINS = (_read_subs(2 * of, scales.read_six_bit, of=of) for of in (0, 1))
_FIELDS = ("scales", "codes", "mins")
#: Readers of these parts; of minima where a type has some.
_PARTS: dict[str, tuple[Any, ...]] = {
    "Q4_0": (_F16, _read_plain(at=2, zero=8)),
    "Q4_1": (_F16, _read_plain(at=4, zero=0), partial(scales.read_f16, at=2)),
    "Q5_0": (_F16, _read_plain(at=6, zero=16, high_at=2)),
    "Q5_1": (_F16, _read_plain(at=8, zero=0, high_at=4), partial(scales.read_f16, at=2)),
    "Q8_0": (_F16, codes.read_byte_codes),
    "Q2_K": (
        _read_subs(80, scales.read_low_nibbles),
        codes.read_q2_codes,
        _read_subs(82, scales.read_high_nibbles),
    ),
    "Q3_K": (
        _read_subs(108, scales.read_q3_subs),
        partial(codes.read_q3_codes, low=codes.read_bit_pairs, high=codes.read_bit_planes),
    ),
    "Q4_K": (_SIX_BIT_SCALES, codes.read_q4_codes, _SIX_BIT_MINS),
    "Q5_K": (
        _SIX_BIT_SCALES,
        partial(codes.read_q5_codes, high=codes.read_bit_planes),
        _SIX_BIT_MINS,
    ),
    "Q6_K": (
        _read_subs(208, scales.read_q6_subs),
        partial(codes.read_q6_codes, high=codes.read_bit_pairs),
    ),
    "IQ4_NL": (_F16, _look_up(2, 1, 16, codes.NONLINEAR)),
    "IQ4_XS": (scales.read_xs_scales, _look_up(8, 8, 16, codes.NONLINEAR)),
    "MXFP4": (scales.decode_e8m0, _look_up(1, 1, 16, codes.E2M1)),
    "NVFP4": (scales.decode_ue4m3, _look_up(4, 4, 8, codes.E2M1)),
    "TQ1_0": (partial(scales.read_f16, at=52), codes.read_tq1_codes),
    "TQ2_0": (partial(scales.read_f16, at=64), codes.read_tq2_codes),
}


#: The right decoder of each type, by GGUF's name for it.
DECODERS: dict[str, Decoder] = {
    **{kind: make_float_decoder(f"<{code}") for kind, code in FLOATS.items()},
    **{
        kind: Decoder(
            elements=row.elements,
            size=row.size,
            subtracts_mins=kind.endswith("_K"),
            **dict(zip(_FIELDS, parts, strict=False)),
        )
        for kind, parts in _PARTS.items()
        if (row := BY_NAME[kind])
    },
}


#: Functions and tables that `mistakes.toml` names.
_NAMED: Mapping[str, Any] = {**codes.WRONG, **scales.WRONG}
#: Other dtypes that floats are taken for: the mistake, the dtype, its name in a message.
_MISREADINGS = {
    "F32": (("as-integers", "<i4", "32-bit integers"),),
    "F16": (("as-bf16", "<bf16", "bfloat16"), ("as-integers", "<u2", "16-bit integers")),
    "BF16": (("as-f16", "<f2", "float16"), ("as-integers", "<u2", "16-bit integers")),
}


@dataclass(frozen=True)
class Mistake:
    """A wrong decoder; `mistakes.toml` describes the fields."""

    name: str
    text: str
    decoder: Decoder
    #: Parts of the right decoder that are exchanged; none where it is another one altogether.
    changes: Mapping[str, Any]


def decode(kind: str, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Decode ``(n, size)`` bytes of blocks to ``(n, elements)`` float32, as gguf-py 0.19 does."""
    return DECODERS[kind](raw)


@cache
def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type, those seen most often in ports first."""
    if kind in FLOATS:
        ways = [("byte-order", f">{FLOATS[kind]}", "big-endian"), *_MISREADINGS[kind]]
        return tuple(
            Mistake(name, f"{kind} was read as {what}", make_float_decoder(dtype), {})
            for name, dtype, what in ways
        )
    text = files("parity.checkpoints.blocks").joinpath("mistakes.toml").read_text(encoding="utf-8")
    table, found = tomllib.loads(text), []
    for row in (row for group in table["types"].get(kind, ()) for row in table["groups"][group]):
        changes = dict(_change_parts(kind, row))
        decoder = replace(DECODERS[kind], **changes)
        found.append(Mistake(row["name"], row["text"], decoder, changes))
    return tuple(found)


def _change_parts(kind: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of the right decoder that a row exchanges, with what replaces them."""
    right = DECODERS[kind]
    for part in row.keys() & _FIELDS:
        change = row[part]
        if change.get("wrap") == "read_positive_scales":
            change = {**change, "at": BY_NAME[kind].scale_offsets[0]}
        yield part, _change_reader(getattr(right, part), change)
    if "drop" in row:
        yield row["drop"], None
    if "flip" in row:
        yield from (("mins", right.mins), (row["flip"], not getattr(right, row["flip"])))
    if key := row.get("exchange"):
        one, other = _split(right.scales), _split(right.mins)
        for part, (read, keywords), (_, others) in (("scales", one, other), ("mins", other, one)):
            yield part, partial(read, **{**keywords, key: others[key]})


def _split(reader: Any) -> tuple[Any, dict[str, Any]]:
    """Return a reader's function and its keywords."""
    return (reader.func, reader.keywords) if isinstance(reader, partial) else (reader, {})


def _change_reader(reader: Any, change: Mapping[str, Any]) -> Any:
    """Return a reader with other keywords, another function, or wrapped in one."""
    read, keywords = _split(reader)
    changed = {
        key: _change_reader(keywords[key], value)
        if isinstance(value, dict)
        else _NAMED[value]
        if isinstance(value, str)
        else value
        for key, value in change.items()
        if key not in ("read", "wrap")
    }
    if "wrap" in change:
        return partial(_NAMED[change["wrap"]], inner=reader, **changed)
    if "read" in change:
        read = _NAMED[change["read"]]
    return partial(read, **{**keywords, **changed})


def pair_mistakes(kind: str) -> list[tuple[Mistake, Mistake, Decoder]]:
    """List decoders that make two mistakes at once, in different parts."""
    right, found = DECODERS[kind], []
    for one, other in combinations(list_mistakes(kind), 2):
        shared = one.changes.keys() & other.changes.keys()
        merged = {
            part: _merge_readers(getattr(right, part), one.changes[part], other.changes[part])
            for part in shared
        }
        if one.changes and other.changes and None not in merged.values():
            changes = {**one.changes, **other.changes, **merged}
            found.append((one, other, replace(right, **changes)))
    return found


def _merge_readers(right: Any, one: Any, other: Any) -> Any:
    """Merge the changes of two readers, such as those of nibbles and of high bits of codes.

    None where both change the same keyword, or are other functions than ``right``.
    """
    (read, plain), *wrong = map(_split, (right, one, other))
    if any(func is not read for func, _ in wrong):
        return None
    first, second = (
        {key: value for key, value in keywords.items() if plain.get(key) is not value}
        for _, keywords in wrong
    )
    return None if first.keys() & second.keys() else partial(read, **{**plain, **first, **second})
