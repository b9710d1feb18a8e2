"""The store of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.store import disk
from parity.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store")
    yield made
    disk.remove(made.root)
