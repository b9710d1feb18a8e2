"""Find which known mistake of a decoder of GGUF's block types explains a dump.

Blocks are decoded a run at a time, with one more block on either side, since some mistakes
read a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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

#: Blocks that are compared before all are.
_PROBED_BLOCKS = 4
#: Elements up to which a tensor is decoded whole, for two causes at once.
MAX_WHOLE = 1 << 20
#: Bytes of a shift of the whole tensor that is tried, both ways; beyond the first, by steps.
_MAX_FINE_SHIFT, _STEP, _MAX_SHIFT = 64, 32, 1024


@dataclass(frozen=True)
class _Trial:
    """A wrong decoder and the blocks that it is applied to."""

    code: str
    text: str
    decode: Decode
    content: NDArray[np.uint8]


def find_decoder_mistake(tensor: FailingTensor) -> Cause | None:
    """Find the mistake that explains all elements: one, a shift of all bytes, or two."""
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


def find_exact_mistake(tensor: FailingTensor) -> Cause | None:
    """Find the mistake that gives the dump bit for bit, where the correct decoder does not.

    For dumps that pass a tolerance: a wrong decoder is wrong however small its error is.
    """
    content = _read_blocks(tensor)
    if content is None or tensor.raw is None:
        return None
    kind, strict = tensor.raw.type_name, replace(tensor, bounds={"exact": 1.0})
    right = _Trial("", "", blocks.DECODERS[kind], content)
    if _is_exact(strict, right):
        return None
    for one in blocks.list_mistakes(kind):
        trial = _Trial(f"block-{one.name}", one.text, one.decoder, content)
        if _is_likely(strict, trial) and _is_exact(strict, trial):
            return _make_cause(strict, trial, exact=True)
    return None


def _is_exact(tensor: FailingTensor, trial: _Trial) -> bool:
    step = max(1, MAX_PART // (tensor.count // len(trial.content)))
    starts = range(0, len(trial.content), step)
    return all(_check_bits(tensor, trial, start, step) for start in starts)


def _check_bits(tensor: FailingTensor, trial: _Trial, start: int, length: int) -> bool:
    decoded, obtained = _decode_run(tensor, trial, start, length)
    _, same = tensor.compare(decoded, obtained)
    tensor.maps.release()
    return bool(same.all())


def _read_blocks(tensor: FailingTensor) -> NDArray[np.uint8] | None:
    raw = tensor.raw
    # Elements stored one by one are left to ``misread_storage``.
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
    """Return whether it fits the first few blocks, and those around the first wrong element."""
    elements = tensor.count // len(trial.content)
    spot = tensor.summary.first // elements
    return all(_check_fit(tensor, trial, start)[0] for start in dict.fromkeys((0, spot)))


def _check_fit(
    tensor: FailingTensor, trial: _Trial, start: int, length: int = _PROBED_BLOCKS
) -> tuple[bool, float]:
    """Return whether blocks from ``start`` on fit the dump, and the squared error that is left."""
    flat, obtained = _decode_run(tensor, trial, start, length)
    good, equal = tensor.compare(flat, obtained)
    values = tensor.obtained_dtype.decode
    return bool(good.all()), sum_squared_errors(values(flat[~equal]), values(obtained[~equal]))


def _decode_run(
    tensor: FailingTensor, trial: _Trial, start: int, length: int
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Decode blocks from ``start`` on, and return them beside the dump's elements."""
    stop, before = min(start + length, len(trial.content)), max(start - 1, 0)
    run = np.array(trial.content[before : stop + 1])
    decoded = trial.decode(run)[start - before :][: stop - start]
    elements = decoded.shape[1]
    obtained = np.array(tensor.obtained_flat[start * elements : stop * elements])
    return decoded.reshape(-1).astype("<f4"), obtained


def _find_fitting(tensor: FailingTensor, trials: Sequence[_Trial]) -> Cause | None:
    """Find the first trial that fits all blocks."""
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
    how = "bit-equal" if exact else "within the tolerance"
    evidence = (
        f"decoding {len(trial.content):,} blocks of {kind} in that way, all {tensor.count:,} "
        f"elements are {how}"
    )
    return Cause(trial.code, trial.text, evidence)


def propose_sources(tensor: FailingTensor) -> Iterator[Source]:
    """Yield the tensor decoded by each mistake; only where it is small."""
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
