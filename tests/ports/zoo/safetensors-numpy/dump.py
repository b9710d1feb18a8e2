"""safetensors.numpy over the zoo: `dump.py CHECKPOINT OUTPUT_DIR`.

What it cannot read ends in an exception, which is a refusal with a message.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors import numpy as reader


def main() -> None:
    """Read one checkpoint and write all its tensors as one `.safetensors`."""
    checkpoint, folder = sys.argv[1:]
    tensors = reader.load_file(checkpoint)
    # The writer wants rows that lie dense; this leaves a scalar without a dimension.
    dense = {name: np.require(array, requirements="C") for name, array in tensors.items()}
    reader.save_file(dense, Path(folder) / "tensors.safetensors")


if __name__ == "__main__":
    main()
