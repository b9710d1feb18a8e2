"""Makers of bundles: one module a kind, each offering ``pin(target_dir, **options) -> Path``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.pins import dataloader, pipeline, serialize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The maker of each kind: takes the folder to write into and the kind's own keyword
#: options, writes ``<bundle id>.tar`` there and returns its path.
PINS: dict[str, Callable[..., Path]] = {
    "dataloader": dataloader.pin,
    "serialize": serialize.pin,
    "pipeline": pipeline.pin,
}
