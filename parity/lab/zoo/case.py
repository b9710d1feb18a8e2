"""What a case of the zoo is made of, before it is packed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from parity.lab.pins.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SEED = 20_261_129

Group = Literal["pth", "safetensors", "gguf"]
Expect = Literal["load", "refuse", "either"]
EXACT: Mapping[str, bool] = {"exact": True}
#: Equal as numbers: the sign of a zero and a NaN's payload are nobody's promise where a
#: value is computed from a block.
EQUAL: Mapping[str, float] = {"max_abs": 0}


class ExpectedTensor(NamedTuple):
    """A tensor of a reference: safetensors' name of its dtype, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes


@dataclass(frozen=True, kw_only=True)
class ZooCase:
    """One checkpoint with one feature.

    Attributes:
        id: ``<group>-y-…`` must be loaded, ``-n-`` refused, ``-i-`` either.
        why: What it is, in one line.
        rule: Where the rule stands: a section of a document, or the readers that refuse it.
        document: Whether that is a document's sentence, which wins over a reader that is
            more lenient; otherwise every reference reader has to refuse a ``-n-`` case.
        against: Of an ``-i-`` case: the rule speaks against what a reference reader loads.
        names: Tensors that a port may be asked for by name; the reference's, if there is one.
        values: What is right where no reference reader is asked.
        hostile: It must not be given to a reader that would execute it.
    """

    id: str
    content: bytes
    why: str
    rule: str
    document: bool = False
    against: bool = False
    bounds: Mapping[str, float] = field(default_factory=lambda: dict(EXACT))
    names: tuple[str, ...] = ()
    values: Mapping[str, ExpectedTensor] | None = None
    hostile: bool = False

    @property
    def group(self) -> Group:
        """Which format it is of."""
        found: Group = self.id.split("-")[0]  # type: ignore[assignment]
        return found

    @property
    def expect(self) -> Expect:
        """What is owed of a port, by the letter in the id."""
        letters: dict[str, Expect] = {"y": "load", "n": "refuse", "i": "either"}
        return letters[self.id.split("-")[1]]


def make_random(name: str) -> SeededRandom:
    """The zoo's stream of numbers for ``name``."""
    return SeededRandom(SEED, name)


def draw_dyadic(name: str, *shape: int, most: int = 8191) -> NDArray[np.float32]:
    """Random ``k / 64``, f32 of ``shape``: no two tensors of the zoo look alike."""
    return make_random(name).draw_dyadic(*shape, largest=most)


def make_expected(array: NDArray[np.generic], dtype: str) -> ExpectedTensor:
    """A NumPy array of any strides as a reference, stored row-major."""
    return ExpectedTensor(dtype, array.shape, np.ascontiguousarray(array).tobytes())
