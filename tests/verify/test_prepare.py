"""What is checked before a case runs: the tolerances that a lockfile requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.errors import ConfigError
from parity.lockfile import Bundle, Dump
from parity.suites import find_suite
from parity.suites.base import Case
from parity.verify.prepare import _tighten_bounds


@pytest.mark.parametrize("suite", ["dataloader", "pipeline"])
def test_a_measure_that_a_suite_cannot_compare_is_rejected(suite: str, tmp_path: Path) -> None:
    case = Case(id="a", folder=tmp_path, tolerances={"max_abs": 1e-6})
    bundle = Bundle(
        id="b", source="b.tar", suite=suite, dump=Dump(), bounds={"a": {"cosine": 0.9, "exact": 1}}
    )
    with pytest.raises(ConfigError) as caught:
        _tighten_bounds(bundle, (case,), find_suite(suite))
    assert str(caught.value).startswith(
        f"[no-such-option] bounds of b/a: the suite {suite} cannot compare with cosine; "
        "it has exact and max_abs"
    )
