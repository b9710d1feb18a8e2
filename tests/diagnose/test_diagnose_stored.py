"""What a storage holds when it is read as elements of another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from parity.checkpoints import StorageLocation
from parity.diagnose import FailingTensor, diagnose
from parity.tensors.dtypes import F32

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("kind", "code"), [("U8", "u1"), ("I16", "<i2"), ("F16", "<f2")])
@pytest.mark.parametrize("first", [0, 3])
def test_a_slice_that_is_read_as_f32(kind: str, code: str, first: int, tmp_path: Path) -> None:
    """A class that is not known is taken for f32: the offset counts elements of four bytes."""
    whole = np.random.default_rng(3).integers(1, 251, 64).astype(code)
    path = tmp_path / "storage"
    path.write_bytes(whole.tobytes())
    raw = StorageLocation(
        path=path, start=0, stop=whole.nbytes, type_name=kind, shape=(5,), storage_offset=first
    )
    due, came = whole[first : first + 5].astype("<f4"), whole.view("<f4")[first : first + 5]
    found = diagnose(
        FailingTensor(
            name="w", expected=due, obtained=came, expected_dtype=F32, obtained_dtype=F32, raw=raw
        )
    )
    assert found is not None
    assert (found.code, str(found)) == (
        "other-dtype",
        (
            f"stored {kind.lower()} was read as f32: after reading the storage as f32 "
            f"from its element "
            f"{first} on all 5 elements are bit-equal"
        ),
    )
