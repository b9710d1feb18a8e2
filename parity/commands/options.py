"""Options and values of arguments that several verbs have beside ``verify``."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass

from parity.verify.options import Options, declare

_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return bytes from a number with K, M, G or T for powers of 1,024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a size such as 500M or 10G")
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))


@dataclass(frozen=True, kw_only=True)
class BundleOptions(Options):
    """Options of a verb on some or all bundles."""

    bundles: Sequence[str] = declare("ID", "bundles (default: all)", (), nargs="*")
