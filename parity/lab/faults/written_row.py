"""A fault of a written file: the port's mistake, its finding, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from parity.lab.writers import WrittenContent

#: From a right content and its bytes to wrong bytes; None where the fault does not apply.
Break = Callable[[WrittenContent, bytes], bytes | None]


class Row(NamedTuple):
    """A fault of bytes: the port's mistake, the finding that names it, and what makes it."""

    text: str
    code: str
    make: Break
    warns: bool = False
