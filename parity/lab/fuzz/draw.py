"""Draw mutants: which case, which field, which value; each depends on the seed and its number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from random import Random

from parity.checkpoints.gguf_header import BY_CODE
from parity.lab.fuzz.mutant import Base, Edit, Field, Mutant, View, overlap
from parity.lab.zoo.pth_builder import push_global, push_int, push_text
from parity.tensors.dtypes import DTYPES

#: Shares: of bases that a reader loads; of edits of fields, exchanged fields, and values alone,
#: which leave most files readable.
_LOADED, _STRUCTURED, _SWAPPED, _VALUES = 0.85, 0.75, 0.15, 0.3
_VALUE_FIELDS = ("data", "storage")
_COUNTS = (1, 1, 1, 1, 2, 2, 3)  # Edits of a mutant
_NUMBERS = [0, 1, 2, 3, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31]
_NUMBERS += [2**32 - 1, 2**32, 2**53, 2**60, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
_BYTES = (0, 1, 0x7F, 0x80, 0xFF)
_MAX_RANGE = 16  # Bytes that are removed or inserted at once
_TEXTS = ("", "w", "0", "a.b", "a/b", "../w", "w\0", "é", "W", "w" * 65, "storage", "cpu", "data/0")
#: Globals of torch's own; no other is ever written into a pickle.
_STORAGES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Byte", "Bool", "ComplexFloat")
_GLOBALS = [push_global("torch", f"{name}Storage") for name in (*_STORAGES, "Untyped")]
_GLOBALS += [push_global("torch._utils", f"_rebuild_{name}") for name in ("tensor", "tensor_v2")]
_GLOBALS += [push_global("torch._utils", "_rebuild_parameter"), push_global("torch", "Size")]
_GLOBALS += [push_global("collections", "OrderedDict")]
#: Opcodes without an argument.
_OPCODES = b"()]}tlsuaebRQN.012\x85\x86\x87\x88\x89\x8f\x90\x91\x94"
_DTYPES = (*DTYPES, "F99", "")


def draw_mutants(seed: int, loaded: Sequence[Base], others: Sequence[Base]) -> Iterator[Mutant]:
    """Yield the endless sequence of mutants of ``seed``, none of them twice.

    ``loaded`` are the cases that a reader loads, ``others`` those that it rejects.
    """
    seen = {_hash(base.content) for base in (*loaded, *others)}
    number = 0
    while loaded or others:
        number += 1
        random = Random(f"{seed}/{number}")  # noqa: S311 - reproducible, not secret
        bases = loaded if (random.random() < _LOADED and loaded) or not others else others
        base = random.choice(bases)
        view = base.views[-1] if random.random() < _STRUCTURED else base.views[0]
        mutant = Mutant(f"m{number}", base, view, tuple(_draw_edits(random, view)))
        if mutant.edits and (digest := _hash(mutant.content)) not in seen:
            seen.add(digest)
            yield mutant


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _draw_edits(random: Random, view: View) -> list[Edit]:
    by_name: dict[str, list[Field]] = {}
    for field in view.fields:
        by_name.setdefault(field.name, []).append(field)
    values = {name: found for name, found in by_name.items() if name in _VALUE_FIELDS}
    if values and random.random() < _VALUES:
        by_name = values
    edits: list[Edit] = []
    for _ in range(random.choice(_COUNTS)):
        # By name first: a file has hundreds of opcodes, and one version.
        fields = by_name[random.choice(list(by_name))]
        field = random.choice(fields)
        others = [one for one in fields if one.kind == field.kind and one != field]
        if others and random.random() < _SWAPPED:
            pair = (field, random.choice(others))
            drawn = [_replace(a, _read(view, b)) for a, b in (pair, pair[::-1])]
        else:
            drawn = [_draw_edit(random, view, field)]
        if not any(overlap(one, other) for one in drawn for other in edits):
            edits += [edit for edit in drawn if edit.new != _read(view, edit)]
    return edits


def _read(view: View, place: Field | Edit) -> bytes:
    return view.parts[place.part][place.start : place.stop]


def _replace(field: Field, new: bytes) -> Edit:
    return Edit(field.part, field.start, field.stop, new, field.name)


def _draw_edit(random: Random, view: View, field: Field) -> Edit:
    old = _read(view, field)
    if field.kind == "bytes":
        return _draw_bytes(random, field, old)
    return _replace(field, KINDS[field.kind](random, old))


def _draw_bytes(random: Random, field: Field, old: bytes) -> Edit:
    """Flip, set, draw, remove, repeat or insert bytes, or cut the rest off."""
    at = random.randrange(len(old) + 1)
    stop = min(len(old), at + random.choice((1, 1, 2, 4, random.randint(1, _MAX_RANGE))))
    piece = old[at:stop]
    flipped = bytes([piece[0] ^ (1 << random.randrange(8))]) + piece[1:] if piece else b""
    filled = bytes([random.choice(_BYTES)]) * len(piece)
    drawn = random.randbytes(random.randint(1, _MAX_RANGE))
    start, end = field.start + at, field.start + stop
    if field.name in _VALUE_FIELDS and random.random() < 0.8:  # noqa: PLR2004 - a share
        return Edit(
            field.part, start, end, random.choice((flipped, filled, piece[::-1])), field.name
        )
    ways = [(end, flipped)] * 4 + [(end, filled)] * 2 + [(end, drawn[: len(piece)])] * 2
    ways += [(end, b""), (end, piece * 2), (start, drawn), (field.stop, b"")]
    stop, new = random.choice(ways)
    return Edit(field.part, start, stop, new, field.name)


def _draw_number(random: Random, value: int) -> int:
    """Draw a number near ``value``, or one at which others overflow."""
    near = (
        value + 1,
        value - 1,
        2 * value,
        value // 2,
        value ^ (1 << random.randrange(64)),
        -value,
    )
    return random.choice((*near, *random.sample(_NUMBERS, 4), random.randrange(16)))


def _draw_integer(random: Random, old: bytes) -> bytes:
    """Draw an unsigned integer of the same size."""
    value = _draw_number(random, int.from_bytes(old, "little"))
    return (value % (1 << 8 * len(old))).to_bytes(len(old), "little")


def _draw_type(random: Random, _old: bytes) -> bytes:
    code: int = random.choice((*BY_CODE, 4, 5, 37, 2**16))
    return code.to_bytes(4, "little")


def _draw_digits(random: Random, old: bytes) -> bytes:
    value = _draw_number(random, int(old))
    forms = (f"{value}.0", f"{value}e1", f"0{value}")
    return random.choice((*[str(value)] * 6, *forms)).encode()


def _draw_text(random: Random, old: bytes) -> bytes:
    """Draw another text, or a change of one byte, which may not be UTF-8 then."""
    if old and random.random() < 0.3:  # noqa: PLR2004 - a share
        at = random.randrange(len(old))
        return old[:at] + bytes([old[at] ^ (1 << random.randrange(8))]) + old[at + 1 :]
    return random.choice(_TEXTS).encode()


def _draw_text8(random: Random, old: bytes) -> bytes:
    new = _draw_text(random, old[8:])
    return len(new).to_bytes(8, "little") + new


def _draw_opcode(random: Random, old: bytes) -> bytes:
    """Remove or repeat an opcode, or put another before or in place of it."""
    other = bytes([random.choice(_OPCODES)])
    return random.choice((b"", old + old, other + old, other, other + old[1:]))


def _draw_pickle_int(random: Random, old: bytes) -> bytes:
    """Draw an integer near that of BININT1, BININT2 or BININT, else any."""
    value = int.from_bytes(old[1:], "little", signed=old[:1] == b"J") if old[:1] in b"KMJ" else 0
    return push_int(_draw_number(random, value))


#: By kind of a field, how another value is drawn; of `bytes`, a range of it is.
KINDS: dict[str, Callable[[Random, bytes], bytes]] = {
    "u1": _draw_integer,
    "u2": _draw_integer,
    "u4": _draw_integer,
    "u8": _draw_integer,
    "type": _draw_type,
    "text8": _draw_text8,
    "digits": _draw_digits,
    "json": _draw_text,
    "dtype": lambda random, _old: random.choice(_DTYPES).encode(),
    "pickle-int": _draw_pickle_int,
    "pickle-text": lambda random, old: push_text(
        _draw_text(random, old[5:] if old[:1] == b"X" else b"").decode("utf-8", "replace")
    ),
    "pickle-global": lambda random, _old: random.choice(_GLOBALS),
    "opcode": _draw_opcode,
}
