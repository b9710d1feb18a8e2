"""No pin makes a bundle of which zeros or one constant would pass."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from parity.errors import ReferenceSuspectError

NEEDS_TORCH = [pytest.mark.torch, pytest.mark.slow, pytest.mark.process]
WIDE = {"max_abs": 1e9}
#: The kind, what is made wide, the case that the message names.
PINS: list[Any] = [
    ("pipeline", ("parity.suites.pipeline.suite.DEFAULT_TOLERANCES", WIDE), "drop"),
    pytest.param(*("dataloader", ("parity.suites.dataloader.suite.DEFAULT_TOLERANCES", WIDE)),
        "batch_size_3", marks=NEEDS_TORCH),
    pytest.param(*("serialize", ("parity.lab.pins.serialize_gguf.MAX_ABS", 1e9), "gguf"),
        marks=NEEDS_TORCH),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "case"), PINS)
def test_a_blind_tolerance_is_not_pinned(
    kind: str, change: tuple[str, Any], case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = import_module(f"parity.lab.pins.{kind}")
    monkeypatch.setattr(*change)
    with pytest.raises(ReferenceSuspectError) as caught:
        pins.pin(tmp_path)
    (problem,) = caught.value.problems
    assert problem.code == "blind-bound"
    assert problem.message.startswith(f"case '{case}': the tolerance is blind for ")
    assert list(tmp_path.iterdir()) == []
