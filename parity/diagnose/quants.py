"""GGUF's block types decoded wrongly: which of the known mistakes a dump bears out.

Blocks are decoded a run at a time by all mistakes that still fit, with a block more on
either side, since some mistakes look at a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import blocks
from parity.codecs.dtypes import DTYPES
from parity.diagnose.cause import Cause
from parity.diagnose.claims import Base, nearer, same
from parity.diagnose.overview import squares
from parity.diagnose.subject import PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject

    Decode = Callable[[NDArray[np.uint8]], NDArray[np.float32]]

#: Blocks that are looked at before all are.
_FEW = 4
#: Elements of a tensor that is decoded whole, for two causes at once.
WHOLE = 1 << 20
#: Bytes by which a slip of the whole tensor is looked for, both ways; then by steps.
_SLIP, _STEP, _FAR = 64, 32, 1024


@dataclass(frozen=True)
class _Trial:
    """A wrong way of decoding; ``raw`` are the blocks that it is applied to."""

    code: str
    text: str
    decode: Decode
    raw: NDArray[np.uint8]


def mistaken(subject: Subject) -> Cause | None:
    """The mistake that explains all elements: one, a slip of all bytes, or two."""
    raw = _blocks(subject)
    if raw is None or subject.raw is None:
        return None
    kind = subject.raw.kind
    single = [
        _Trial(f"block-{one.name}", one.text, one.decoder, raw) for one in blocks.mistakes(kind)
    ]
    pairs = (
        _Trial(
            f"block-{one.name}+block-{other.name}",
            f"two causes at once: {one.text}, and {other.text}",
            both,
            raw,
        )
        for one, other, both in blocks.two_mistakes(kind)
    )
    for trials in (single, _slips(subject, kind, raw), pairs):
        found = _fitting(subject, [trial for trial in trials if _likely(subject, trial)])
        if found is not None:
            return found
    return None


def _blocks(subject: Subject) -> NDArray[np.uint8] | None:
    raw = subject.raw
    # What is stored element by element is the business of ``stored``.
    if raw is None or raw.kind not in blocks.DECODERS or raw.kind in DTYPES:
        return None
    if subject.seen.name != "F32":
        return None
    decoder = blocks.DECODERS[raw.kind]
    count, rest = divmod(subject.count, decoder.elements)
    if rest or not count or raw.last - raw.first != count * decoder.size:
        return None
    return subject.maps.bytes_of(raw.path)[raw.first : raw.last].reshape(count, decoder.size)


def _slips(subject: Subject, kind: str, raw: NDArray[np.uint8]) -> Iterator[_Trial]:
    if subject.raw is None:
        return
    content = subject.maps.bytes_of(subject.raw.path)
    far = [*range(1, _SLIP + 1), *range(_SLIP + _STEP, _FAR + 1, _STEP)]
    for by in (sign * step for step in far for sign in (1, -1)):
        first = subject.raw.first + by
        if first >= 0 and first + raw.size <= len(content):
            moved = content[first : first + raw.size].reshape(raw.shape)
            way = f"{abs(by):,} byte{'s' * (abs(by) != 1)} too {'late' if by > 0 else 'early'}"
            text = f"the blocks were read {way}: a header, an offset or the alignment was misread"
            yield _Trial("shifted", text, partial(blocks.decode, kind), moved)


def _likely(subject: Subject, trial: _Trial) -> bool:
    """Whether it fits the first few blocks, and those around the first wrong element."""
    elements = subject.count // len(trial.raw)
    spot = subject.overview.first // elements
    return all(_fits(subject, trial, start)[0] for start in dict.fromkeys((0, spot)))


def _fits(subject: Subject, trial: _Trial, start: int, length: int = _FEW) -> tuple[bool, float]:
    """Whether blocks from ``start`` on are what the dump holds, and the squared error left."""
    stop, before = min(start + length, len(trial.raw)), max(start - 1, 0)
    decoded = trial.decode(np.array(trial.raw[before : stop + 1]))[start - before :][: stop - start]
    elements = decoded.shape[1]
    obtained = np.array(subject.target[start * elements : stop * elements])
    flat = decoded.reshape(-1).astype("<f4")
    good, equal = subject.agree(flat, obtained)
    values = subject.seen.values
    return bool(good.all()), squares(values(flat[~equal]), values(obtained[~equal]))


def _fitting(subject: Subject, trials: Sequence[_Trial]) -> Cause | None:
    """The first trial that fits all blocks."""
    for trial in trials:
        elements = subject.count // len(trial.raw)
        step, off = max(1, PART // elements), 0.0
        for start in range(0, len(trial.raw), step):
            good, left = _fits(subject, trial, start, step)
            off += left
            subject.maps.forget()
            if not good:
                break
        else:
            if nearer(subject, off, subject.count):
                return _cause(subject, trial, exact=off == 0)
    return None


def _cause(subject: Subject, trial: _Trial, *, exact: bool) -> Cause:
    kind = "" if subject.raw is None else subject.raw.kind
    how = "bit-equal" if exact else "within the bound"
    evidence = (
        f"decoding {len(trial.raw):,} blocks of {kind} in that way, all {subject.count:,} elements "
        f"are {how}"
    )
    return Cause(trial.code, trial.text, evidence)


def bases(subject: Subject) -> Iterator[Base]:
    """The tensor decoded by each mistake, whole; only where it is small."""
    raw = _blocks(subject)
    if raw is None or subject.raw is None or subject.count > WHOLE:
        return
    for one in blocks.mistakes(subject.raw.kind):
        values: Any = one.decoder(np.array(raw)).reshape(subject.source.shape)
        yield Base(
            code=f"block-{one.name}",
            text=one.text,
            how="after decoding the blocks in that way",
            values=values.astype("<f4"),
            turn=same,
        )
