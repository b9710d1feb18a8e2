"""Compare the error function with that of the standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from parity.diagnose.stages.elementwise import erf

_RNG = np.random.Generator(np.random.PCG64(0))
_SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 6.0, -6.0, 1e308]


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(-7, 7, 50_001),
        (np.arange(3_073) - 1_536) / 256 + _RNG.choice([0.0, 1 / 512, 1e-9], 3_073),
        10.0 ** _RNG.uniform(-323, 2, 50_000) * _RNG.choice([-1.0, 1.0], 50_000),
        np.array([_SPECIAL, _SPECIAL]),
        np.zeros((0, 3)),
        np.float32(0.5),
    ],
    ids=["linear", "nodes", "logarithmic", "special", "empty", "number"],
)
def test_erf_is_within_two_units_in_the_last_place(values: Any) -> None:
    found = erf(values)
    expected = np.reshape([math.erf(one) for one in np.ravel(values)], np.shape(values))
    units = np.abs(found - expected) / np.spacing(np.abs(expected))
    assert np.nanmax(units, initial=0) <= 2
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
