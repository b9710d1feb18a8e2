"""Decode GGUF's block types in NumPy: correctly, and with every mistake that has a name.

``diagnose`` compares a dump with the mistakes, ``lab.faults`` injects them. Tests compare
the correct decoders with gguf-py. Source of the layouts: ``ggml-common.h`` and
``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints.blocks import codes, scales
from parity.checkpoints.blocks.decoder import DECODERS, FLOATS, Decoder, make_float_decoder
from parity.checkpoints.gguf_types import BY_NAME

__all__ = ["DECODERS", "Decoder", "Mistake", "decode", "list_mistakes", "pair_mistakes"]

#: Functions and tables that `mistakes.toml` names.
_NAMED: Mapping[str, Any] = {**vars(codes), **vars(scales)}
_PARTS = ("scales", "codes", "mins")
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
    for part in row.keys() & _PARTS:
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
        changes = _merge_changes(right, one.changes, other.changes)
        if changes:
            found.append((one, other, replace(right, **changes)))
    return found


def _merge_changes(
    right: Decoder, one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge the changes of two mistakes; return none where they change the same thing."""
    changes = {**one, **other} if one and other else {}
    for part in one.keys() & other.keys():
        changes[part] = _merge_readers(getattr(right, part), one[part], other[part])
    return {} if None in (changes[part] for part in one.keys() & other.keys()) else changes


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
