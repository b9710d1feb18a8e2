"""Where a reference's tensor lies in its checkpoint, so that its raw bytes can be looked at.

Bundles of the suite `serialize` record it when they are pinned; of all others the
checkpoint's own header is asked. Values never come from here, places alone do: what a
diagnosis makes of them must come out bit for bit, so that a place which is wrong proves
nothing. Whatever is not plain is a record less, never an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.codecs.parts import parts
from parity.raw import gguf, pth, safetensors
from parity.raw.record import Raw, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Raw", "records"]

_LOOKS: dict[str, Callable[[Path], dict[str, Raw]]] = {
    ".pth": pth.looked,
    ".pt": pth.looked,
    ".safetensors": safetensors.looked,
    ".gguf": gguf.looked,
}


def records(folder: Path, checkpoint: Path) -> dict[str, Raw]:
    """Where the tensors of a case lie, by name.

    Args:
        folder: The case's; a `meta.json` in it is believed first.
        checkpoint: The file that they lie in, or one of several that do.
    """
    look = _LOOKS.get(checkpoint.suffix)
    found = recorded(folder, checkpoint)
    if found or look is None:
        return found
    return {name: raw for part in parts(checkpoint) for name, raw in look(part).items()}
