"""A case of the zoo: its file, what a port must do with it, and why.

The modules ``accept_*`` and ``reject_*`` list the cases, a row each; the modules ``*_builder``
write their files byte by byte.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.lab.pins.seeded_random import SeededRandom

SEED = 20_261_129

Group = Literal["pth", "safetensors", "gguf"]
Expect = Literal["load", "refuse", "either"]
EXACT: Mapping[str, bool] = {"exact": True}
#: Equal as numbers: where a value is computed from a block, the sign of a zero and the payload
#: of a NaN are not specified.
EQUAL: Mapping[str, float] = {"max_abs": 0}


class ExpectedTensor(NamedTuple):
    """A tensor of a reference: safetensors' name of its dtype, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes


@dataclass(frozen=True)
class ZooCase:
    """One checkpoint with one feature."""

    id: str  # ``<group>-y-…`` must be loaded, ``-n-`` rejected, ``-i-`` either
    build: Callable[[], bytes]
    why: str  # The feature, in one line
    rule: str  # The source of the rule: a section of a document, or the readers that reject it
    _: KW_ONLY
    #: The rule is a sentence of a document, which overrules a reader that is more lenient.
    #: Otherwise every reference reader has to reject a ``-n-`` case.
    by_document: bool = False
    disputed: bool = False  # A reference reader loads an ``-i-`` case although the rule forbids it
    hostile: bool = False  # Must not be given to a reader that would execute it
    #: Tolerance of the comparison with the reference.
    bounds: Mapping[str, float] = field(default_factory=lambda: dict(EXACT))
    #: Tensors that a port may be asked for by name, of a case without a reference.
    names: tuple[str, ...] = ()
    #: The right tensors, where the reference reader is not asked for them.
    expected: Mapping[str, ExpectedTensor] | None = None

    @cached_property
    def content(self) -> bytes:
        """The file's bytes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls sparse and nested tensors a beta
            return self.build()

    @property
    def group(self) -> Group:
        """The format of the file."""
        group: Group = self.id.split("-")[0]  # type: ignore[assignment]  # an id begins with it
        return group

    @property
    def expect(self) -> Expect:
        """The expectation on a port, by the letter in the id."""
        letters: dict[str, Expect] = {"y": "load", "n": "refuse", "i": "either"}
        return letters[self.id.split("-")[1]]


def make_rows(prefix: str, rule: str, **fields: Any) -> Callable[..., ZooCase]:
    """Return a maker of cases whose ids begin with ``prefix``; ``rule`` is that of most."""

    def make(
        name: str, why: str, build: Callable[[], bytes], rule: str = rule, **more: Any
    ) -> ZooCase:
        return ZooCase(f"{prefix}-{name}", build, why, rule, **fields, **more)

    return make


def make_random(name: str) -> SeededRandom:
    """Make the zoo's stream of random numbers for ``name``."""
    return SeededRandom(SEED, name)


def draw_dyadic(name: str, *shape: int, most: int = 8191) -> NDArray[np.float32]:
    """Draw f32 numbers ``k / 64`` of ``shape``; no two tensors of the zoo are alike."""
    return make_random(name).draw_dyadic(*shape, largest=most)


def draw_float64(name: str, *shape: int, low: str) -> NDArray[np.float64]:
    """Draw f64 numbers of ``shape`` whose low bits, drawn for ``low``, f32 cannot represent."""
    low_bits = make_random(low).draw_integers(1, 2**20, *shape) / 2.0**40
    return draw_dyadic(name, *shape).astype("<f8") + low_bits


def make_expected(array: NDArray[np.generic], dtype: str) -> ExpectedTensor:
    """Make a reference of a NumPy array of any strides."""
    return ExpectedTensor(dtype, array.shape, np.ascontiguousarray(array).tobytes())
