"""Find which known mistake of a decoder of GGUF's block types explains a dump.

Blocks are decoded a run at a time, with one more block on either side, since some mistakes
read a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import blocks
from parity.diagnose.cause import Cause
from parity.diagnose.failing_tensor import MAX_PART, FailingTensor
from parity.diagnose.hypothesis import Source, Step, identity, is_nearer
from parity.diagnose.layouts import format_byte_shift, read_shifted
from parity.tensors.dtypes import DTYPES

_PROBED_BLOCKS = 4  # Blocks that are compared before all are
MAX_WHOLE = 1 << 20  # Elements up to which a tensor is decoded whole, for two causes at once
#: Bytes of a shift of the whole tensor that is tried, both ways.
_SHIFTS = (*range(1, 65), *range(96, 1025, 32))


class _Trial(NamedTuple):
    """A wrong decoder and the blocks that it is applied to."""

    code: str
    text: str
    decode: Callable[[NDArray[np.uint8]], NDArray[np.float32]]
    content: NDArray[np.uint8]


def find_decoder_mistake(tensor: FailingTensor) -> Cause | None:
    """Find the mistake that explains all elements: one, a shift of all bytes, or two."""
    content = _read_blocks(tensor)
    if content is None:
        return None
    for propose in (_propose_single, _propose_shifts, _propose_pairs):
        for trial in propose(tensor, content):
            error = _compare_blocks(tensor, trial) if _is_likely(tensor, trial) else None
            if error is not None:
                return _make_cause(tensor, trial, error)
    return None


def find_exact_mistake(tensor: FailingTensor) -> Cause | None:
    """Find the mistake that gives the dump bit for bit, where the correct decoder does not."""
    content, tensor = _read_blocks(tensor), replace(tensor, bounds={"exact": 1.0})
    if content is None:
        return None
    if _is_exact(tensor, _Trial("", "", blocks.DECODERS[_get_type(tensor)], content)):
        return None
    for trial in _propose_single(tensor, content):
        if _is_likely(tensor, trial) and _is_exact(tensor, trial):
            return _make_cause(tensor, trial, 0.0)
    return None


def propose_sources(tensor: FailingTensor) -> Iterator[Source]:
    """Yield the tensor decoded by each mistake; only where it is small."""
    content = _read_blocks(tensor)
    if content is None or tensor.count > MAX_WHOLE:
        return
    for code, text, decode, _ in _propose_single(tensor, content):
        values: Any = decode(np.array(content)).reshape(tensor.expected_logical.shape)
        how = "after decoding the blocks in that way"
        yield Source(values.astype("<f4"), identity, Step(code, text, how))


def _read_blocks(tensor: FailingTensor) -> NDArray[np.uint8] | None:
    raw = tensor.raw
    # Elements stored one by one are left to ``layouts``.
    if raw is None or raw.type_name not in blocks.DECODERS or raw.type_name in DTYPES:
        return None
    if tensor.obtained_dtype.name != "F32":
        return None
    decoder = blocks.DECODERS[raw.type_name]
    count, rest = divmod(tensor.count, decoder.elements)
    if rest or not count or raw.stop - raw.start != count * decoder.size:
        return None
    return tensor.maps.map_bytes(raw.path)[raw.start : raw.stop].reshape(count, decoder.size)


def _propose_single(tensor: FailingTensor, content: NDArray[np.uint8]) -> Iterator[_Trial]:
    for one in blocks.list_mistakes(_get_type(tensor)):
        yield _Trial(f"block-{one.name}", one.text, one.decoder, content)


def _propose_pairs(tensor: FailingTensor, content: NDArray[np.uint8]) -> Iterator[_Trial]:
    for one, other, both in blocks.pair_mistakes(_get_type(tensor)):
        text = f"two causes at once: {one.text}, and {other.text}"
        yield _Trial(f"block-{one.name}+block-{other.name}", text, both, content)


def _propose_shifts(tensor: FailingTensor, content: NDArray[np.uint8]) -> Iterator[_Trial]:
    decode = partial(blocks.decode, _get_type(tensor))
    for by, moved in read_shifted(tensor, 0, content.size, _SHIFTS):
        text = (
            f"the blocks were read {format_byte_shift(by)}: a header, an offset or the alignment "
            "was misread"
        )
        yield _Trial("shifted", text, decode, moved.reshape(content.shape))


def _get_type(tensor: FailingTensor) -> str:
    return "" if tensor.raw is None else tensor.raw.type_name


def _is_likely(tensor: FailingTensor, trial: _Trial) -> bool:
    """Return whether it fits the first few blocks, and those around the first wrong element."""
    spot = tensor.summary.first // (tensor.count // len(trial.content))
    runs = (_decode_run(tensor, trial, start, _PROBED_BLOCKS) for start in {0, spot})
    return all(tensor.compare(*run)[0].all() for run in runs)


def _is_exact(tensor: FailingTensor, trial: _Trial) -> bool:
    return all(tensor.compare(*run)[1].all() for run in _decode_all(tensor, trial))


def _compare_blocks(tensor: FailingTensor, trial: _Trial) -> float | None:
    """Return the squared error that is left; None where a block does not fit, or few do well."""
    error = 0.0
    for decoded, obtained in _decode_all(tensor, trial):
        good, equal = tensor.compare(decoded, obtained)
        if not good.all():
            return None
        error += tensor.sum_errors(decoded[~equal], obtained[~equal])
    return error if is_nearer(tensor, error, tensor.count) else None


def _decode_all(
    tensor: FailingTensor, trial: _Trial
) -> Iterator[tuple[NDArray[np.float32], NDArray[Any]]]:
    step = max(1, MAX_PART // (tensor.count // len(trial.content)))
    for start in range(0, len(trial.content), step):
        yield _decode_run(tensor, trial, start, step)
        tensor.maps.release()


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


def _make_cause(tensor: FailingTensor, trial: _Trial, error: float) -> Cause:
    how = "within the tolerance" if error else "bit-equal"
    evidence = (
        f"decoding {len(trial.content):,} blocks of {_get_type(tensor)} in that way, all "
        f"{tensor.count:,} elements are {how}"
    )
    return Cause(trial.code, trial.text, evidence)
