"""GGUF's block types decoded wrongly: which of the known mistakes a dump bears out.

Blocks are decoded a run at a time by all mistakes that still fit, with a block more on
either side, since some mistakes look at a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints import blocks
from parity.diagnose.cause import Cause
from parity.diagnose.error_summary import sum_squared_errors
from parity.diagnose.failing_tensor import MAX_PART
from parity.diagnose.hypothesis import Source, identity, is_nearer
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from parity.diagnose.failing_tensor import FailingTensor

    Decode = Callable[[NDArray[np.uint8]], NDArray[np.float32]]

#: Blocks that are looked at before all are.
_PROBED_BLOCKS = 4
#: Elements of a tensor that is decoded whole, for two causes at once.
MAX_WHOLE = 1 << 20
#: Bytes by which a slip of the whole tensor is looked for, both ways; then by steps.
_MAX_FINE_SHIFT, _STEP, _MAX_SHIFT = 64, 32, 1024


@dataclass(frozen=True)
class _Trial:
    """A wrong way of decoding; ``raw`` are the blocks that it is applied to."""

    code: str
    text: str
    decode: Decode
    content: NDArray[np.uint8]


def find_decoder_mistake(tensor: FailingTensor) -> Cause | None:
    """The mistake that explains all elements: one, a slip of all bytes, or two."""
    raw = _read_blocks(tensor)
    if raw is None or tensor.raw is None:
        return None
    kind = tensor.raw.type_name
    single = [
        _Trial(f"block-{one.name}", one.text, one.decoder, raw)
        for one in blocks.list_mistakes(kind)
    ]
    pairs = (
        _Trial(
            f"block-{one.name}+block-{other.name}",
            f"two causes at once: {one.text}, and {other.text}",
            both,
            raw,
        )
        for one, other, both in blocks.pair_mistakes(kind)
    )
    for trials in (single, _propose_shifts(tensor, kind, raw), pairs):
        found = _find_fitting(tensor, [trial for trial in trials if _is_likely(tensor, trial)])
        if found is not None:
            return found
    return None


def _read_blocks(tensor: FailingTensor) -> NDArray[np.uint8] | None:
    raw = tensor.raw
    # What is stored element by element is the business of ``stored``.
    if raw is None or raw.type_name not in blocks.DECODERS or raw.type_name in DTYPES:
        return None
    if tensor.obtained_dtype.name != "F32":
        return None
    decoder = blocks.DECODERS[raw.type_name]
    count, rest = divmod(tensor.count, decoder.elements)
    if rest or not count or raw.stop - raw.start != count * decoder.size:
        return None
    return tensor.maps.map_bytes(raw.path)[raw.start : raw.stop].reshape(count, decoder.size)


def _propose_shifts(tensor: FailingTensor, kind: str, raw: NDArray[np.uint8]) -> Iterator[_Trial]:
    if tensor.raw is None:
        return
    content = tensor.maps.map_bytes(tensor.raw.path)
    far = [*range(1, _MAX_FINE_SHIFT + 1), *range(_MAX_FINE_SHIFT + _STEP, _MAX_SHIFT + 1, _STEP)]
    for by in (sign * step for step in far for sign in (1, -1)):
        first = tensor.raw.start + by
        if first >= 0 and first + raw.size <= len(content):
            moved = content[first : first + raw.size].reshape(raw.shape)
            way = f"{abs(by):,} byte{'s' * (abs(by) != 1)} too {'late' if by > 0 else 'early'}"
            text = f"the blocks were read {way}: a header, an offset or the alignment was misread"
            yield _Trial("shifted", text, partial(blocks.decode, kind), moved)


def _is_likely(tensor: FailingTensor, trial: _Trial) -> bool:
    """Whether it fits the first few blocks, and those around the first wrong element."""
    elements = tensor.count // len(trial.content)
    spot = tensor.summary.first // elements
    return all(_check_fit(tensor, trial, start)[0] for start in dict.fromkeys((0, spot)))


def _check_fit(
    tensor: FailingTensor, trial: _Trial, start: int, length: int = _PROBED_BLOCKS
) -> tuple[bool, float]:
    """Whether blocks from ``start`` on are what the dump holds, and the squared error left."""
    stop, before = min(start + length, len(trial.content)), max(start - 1, 0)
    decoded = trial.decode(np.array(trial.content[before : stop + 1]))[start - before :][
        : stop - start
    ]
    elements = decoded.shape[1]
    obtained = np.array(tensor.obtained_flat[start * elements : stop * elements])
    flat = decoded.reshape(-1).astype("<f4")
    good, equal = tensor.compare(flat, obtained)
    values = tensor.obtained_dtype.decode
    return bool(good.all()), sum_squared_errors(values(flat[~equal]), values(obtained[~equal]))


def _find_fitting(tensor: FailingTensor, trials: Sequence[_Trial]) -> Cause | None:
    """The first trial that fits all blocks."""
    for trial in trials:
        elements = tensor.count // len(trial.content)
        step, error = max(1, MAX_PART // elements), 0.0
        for start in range(0, len(trial.content), step):
            good, left = _check_fit(tensor, trial, start, step)
            error += left
            tensor.maps.release()
            if not good:
                break
        else:
            if is_nearer(tensor, error, tensor.count):
                return _make_cause(tensor, trial, exact=error == 0)
    return None


def _make_cause(tensor: FailingTensor, trial: _Trial, *, exact: bool) -> Cause:
    kind = "" if tensor.raw is None else tensor.raw.type_name
    how = "bit-equal" if exact else "within the bound"
    evidence = (
        f"decoding {len(trial.content):,} blocks of {kind} in that way, all {tensor.count:,} elements "
        f"are {how}"
    )
    return Cause(trial.code, trial.text, evidence)


def propose_sources(tensor: FailingTensor) -> Iterator[Source]:
    """The tensor decoded by each mistake, whole; only where it is small."""
    raw = _read_blocks(tensor)
    if raw is None or tensor.raw is None or tensor.count > MAX_WHOLE:
        return
    for one in blocks.list_mistakes(tensor.raw.type_name):
        values: Any = one.decoder(np.array(raw)).reshape(tensor.expected_logical.shape)
        yield Source(
            code=f"block-{one.name}",
            text=one.text,
            how="after decoding the blocks in that way",
            values=values.astype("<f4"),
            convert=identity,
        )
