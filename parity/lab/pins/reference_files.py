"""Single-tensor reference files of a serialize case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.lab.pins.member_names import check_member_names
from parity.tensors.bin import encode_tensor

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def write_reference(folder: Path, name: str, values: NDArray[np.float32]) -> None:
    """Write ``values`` to ``<name>.bin`` in ``folder``, an existing folder.

    Args:
        folder: Where references lie.
        name: The tensor's name in its checkpoint.
        values: Any shape and strides, f32; stored in row-major order.

    Raises:
        ConfigError: The name cannot be a file name. It is foreign where the
            checkpoint is, so it is looked at before anything is written.
    """
    check_member_names([f"{name}.bin"])
    path = folder / f"{name}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_tensor(values))
