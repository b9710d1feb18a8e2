"""Parts of a trace while it is made: parameters, and a stage's record, rounding and tolerance."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.errors import ConfigError, Problem
from parity.lab.bundle_writer import BundleWriter
from parity.lab.libraries import import_library

Array = NDArray[Any]

_ALLOWANCE = 16  # How much of its own rounding, summed over all stages before it, a port may be off
_LEAST_SHARE = 2.0**-20  # Least tolerance, as a share of a stage's largest value: 8 ULP of float32
_NOISE = 1e-3  # Largest value of a tensor that may be nothing but rounding
_MASK_KINDS = 2  # Values that an input has which is a mask
#: Values of a mask are this many times as large as any other, or as `_LEAST_OTHER`.
_MASK_GAP, _LEAST_OTHER = 100.0, 10.0


@dataclass(frozen=True, kw_only=True)
class TracedStage:
    """One stage of a trace."""

    name: str  # Path of the module, then the call: ``layers.3/add#2``
    kind: str  # ``aten.add.Tensor``, a type of ``torch.nn``, or empty where nobody can compute it
    module: str = ""  # Path of the module
    #: Numbers, texts and lists, by the names of ATen's schema or of the module
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: Names of stages, inputs and parameters, by argument
    feeds: Mapping[str, str | list[str]] = field(default_factory=dict)
    value: Array | None = None  # Its output; None where others compute it
    #: Largest difference that computing this call in float32 makes, from the same inputs
    rounding: float = 0.0
    #: Largest difference to the whole model in float64, all calls before it included, and to a run
    #: whose parameters and inputs differ by an ULP; that of masked elements as a share of them
    drift: tuple[float, float] = (0.0, 0.0)


def describe_stage(stage: TracedStage) -> dict[str, Any]:
    """Return a stage as the manifest has it, without keys that say nothing."""
    row = {
        "name": stage.name,
        "kind": stage.kind,
        "module": stage.module,
        "arguments": _spell_infinities(dict(stage.arguments)),
        "feeds": dict(stage.feeds),
        "rounding": stage.rounding,
    }
    return {key: value for key, value in row.items() if value}


def _spell_infinities(value: Any) -> Any:
    """Replace numbers that JSON cannot state, such as the fill value of a mask, by texts."""
    if isinstance(value, dict):
        return {key: _spell_infinities(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_spell_infinities(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def count_name(name: str, counts: dict[str, int]) -> str:
    """Return a name, with its number from the second time on."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"


def list_feeds(stage: TracedStage) -> list[str]:
    """Return the names of all that feeds a stage."""
    return [
        one for feed in stage.feeds.values() for one in ([feed] if isinstance(feed, str) else feed)
    ]


def rename_feeds(stage: TracedStage, names: Mapping[str, str]) -> TracedStage:
    """Return a stage with other names of what feeds it."""
    feeds = {
        key: names.get(feed, feed)
        if isinstance(feed, str)
        else [names.get(one, one) for one in feed]
        for key, feed in stage.feeds.items()
    }
    return replace(stage, feeds=feeds)


def jitter(model: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Copy a model and its inputs, each float at random one ULP lower, the same, or higher.

    What it computes then differs by rounding alone, so that a tolerance does not depend on the
    luck of a single run. Whole numbers, such as those of a mask, stay: nothing rounds them.
    """
    torch = import_library("torch")
    rng = np.random.Generator(np.random.PCG64(0))
    moved, given = copy.deepcopy((model, dict(inputs)))
    with torch.no_grad():
        for value in [*moved.state_dict().values(), *given.values()]:
            if value.is_floating_point():
                steps = rng.integers(-1, 2, size=tuple(value.shape))
                moved_by = torch.as_tensor(steps) * (value != value.round())
                value.mul_(1 + moved_by * torch.finfo(value.dtype).eps)
    return moved, given


def prepare_parameters(traced: Any, seed: int, *, keep: bool) -> None:
    """Draw parameters and float inputs from PCG64, in the order of their names.

    Weights are normal with a deviation of 1/sqrt(fan-in), vectors named `weight` near 1, running
    variances positive. Integers stay as they are, and so do buffers that are tables or masks, and
    inputs of two values, which are masks.
    """
    torch = import_library("torch")
    rng = np.random.Generator(np.random.PCG64(seed))
    state = {} if keep else traced.model.state_dict()
    fixed = {
        *(name for name, value in traced.model.named_buffers() if _is_table(name, value)),
        *(name for name, value in traced.inputs.items() if _is_mask(value)),
    }
    with torch.no_grad():
        for name, value in [*sorted(state.items()), *sorted(traced.inputs.items())]:
            if value.is_floating_point() and name not in fixed:
                value.copy_(torch.from_numpy(_draw(rng, name, tuple(value.shape))))


def _is_table(name: str, value: Any) -> bool:
    """Return whether a buffer is a table or a mask, not a statistic or of one value."""
    return "running_" not in name and len(np.unique(value.numpy())) > 1


def _is_mask(value: Any) -> bool:
    """Return whether an input has two values in more elements than that."""
    kinds = len(np.unique(value.numpy()))
    return kinds == _MASK_KINDS and value.numel() > kinds + 1


def _draw(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Array:
    if name.endswith("running_var"):
        return rng.uniform(0.5, 1.5, shape)
    values = rng.standard_normal(shape)
    if len(shape) == 1 and name.endswith("weight"):
        return 1 + values / 4
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return values / np.sqrt(fan) if "." in name or name == "weight" else values


def read_settings(module: Any) -> dict[str, Any]:
    """Return the arguments that a module was made with, where it keeps them by their names."""
    constants = getattr(type(module), "__constants__", ())
    names = [*inspect.signature(type(module).__init__).parameters, *constants, "training"]
    found = {name: getattr(module, name, None) for name in names}
    kept = (bool, int, float, str, list, tuple)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in found.items()
        if isinstance(value, kept)
    }


def check_size(writer: BundleWriter, case: str, max_size: int) -> None:
    """Raise ``ConfigError`` (``usage``) if a case has made the bundle's files too large."""
    size = writer.measure_size()
    if size > max_size:
        message = (
            f"--max-size: with {case}, the files of the bundle have {size:,} bytes, more than "
            f"--max-size {max_size:,}; store fewer stages with --stages GLOB, or fewer steps, or "
            "samples of large tensors with --sample COUNT"
        )
        raise ConfigError(Problem("usage", message))


def take_samples(
    writer: BundleWriter, folder: str, arrays: Mapping[str, Array], size: int
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Replace arrays of more than ``size`` elements by as many of them; 0 replaces none.

    Returns the arrays, and the key ``samples`` of the case, whose files of indices are added.
    Arrays of one size have the same indices, drawn from PCG64.
    """
    taken, samples = dict(arrays), {}
    for name, array in arrays.items():
        if 0 < size < array.size:
            rng = np.random.Generator(np.random.PCG64(array.size))
            indices = np.sort(rng.choice(array.size, size, replace=False, shuffle=False))
            path = f"samples/{array.size}.npy"
            writer.add_file(f"{folder}/{path}", indices.astype(np.int64))
            samples[name] = {"shape": [*array.shape], "indices": path}
            taken[name] = array.reshape(-1)[indices]
    return taken, {"samples": samples} if samples else {}


def check_numbers(name: str, value: Array, *differences: float, may_be_nan: bool = False) -> None:
    """Raise ``ConfigError`` (``trace``) if a tensor's values could not be expected of a port.

    ``differences`` are those from other runs, infinite where one of the two overflows or has NaN.
    """
    reason = ""
    if not np.isfinite(differences).all():
        reason = "overflows, has NaN or another shape in one run of several, by rounding alone"
    elif value.dtype.kind == "f" and not may_be_nan and np.isnan(value).any():
        reason = "has NaN, which any mistake gives as well"
    if reason:
        message = f"{name} {reason}; try another --seed or --keep-parameters"
        raise ConfigError(Problem("trace", message))


def find_masked(value: Array) -> Array:
    """Return which elements of a tensor are so large that they must be values of a mask.

    Finite ones, such as -1e4, -1e9 and the least number of a dtype; their rounding is none of the
    other elements.
    """
    sizes = np.where(np.isfinite(value), np.abs(value).astype(np.float64), 0.0)
    if sizes.max(initial=0.0) < _MASK_GAP * _LEAST_OTHER:
        return np.zeros(value.shape, bool)
    steps = np.maximum(np.unique(sizes), _LEAST_OTHER)
    gaps = np.flatnonzero(steps[1:] / _MASK_GAP >= steps[:-1])
    return sizes >= steps[gaps[0] + 1] if gaps.size else np.zeros(value.shape, bool)


def measure_drift(value: Array | None, *others: Array | None) -> tuple[float, float]:
    """Return the largest difference from other arrays, 0 for integers and booleans.

    It is infinite where only one has NaN, or shapes differ. The second number is that of masked
    elements, as a share of them.
    """
    if value is not None and any(one is not None and one.shape != value.shape for one in others):
        return np.inf, 0.0
    if value is None or value.dtype.kind not in "fc":
        return 0.0, 0.0
    masked, plain, shares = find_masked(value), [0.0], [0.0]
    for other in others:
        if other is not None:
            with np.errstate(invalid="ignore"):
                difference = np.abs(value.astype(np.result_type(value, np.float64)) - other)
            difference = np.where(np.isnan(value) == np.isnan(other), difference, np.inf)
            plain.append(float(np.nanmax(difference, where=~masked, initial=0.0)))
            part = difference[masked] / np.abs(value[masked]).astype(np.float64)
            shares.append(float(np.nanmax(part, initial=0.0)))
    return max(plain), max(shares)


def is_alike(one: Array | None, other: Array | None) -> bool:
    """Return whether two runs gave one tensor, but for rounding."""
    if one is None or other is None or one.shape != other.shape:
        return one is other
    largest = np.abs(one)[np.isfinite(one)].max(initial=0)
    return np.allclose(one, other, rtol=1e-2, atol=1e-3 * float(largest), equal_nan=True)


def state_tolerance(drift: tuple[float, float], *values: Array) -> dict[str, Any]:
    """Return the tolerance of a stage, or of a gradient in all steps: a multiple of its drift.

    A tiny one that rounding alone makes up, such as the gradient of a bias before BatchNorm, has
    a tolerance under which zeros pass, and the manifest says so. Masked elements have a tolerance
    relative to them, lest theirs hide all others.
    """
    if values[0].dtype.kind not in "fc":
        return {"exact": True}
    masked = [find_masked(one) for one in values]
    finite = [
        np.abs(one, where=np.isfinite(one) & ~hidden, out=np.zeros(one.shape, np.abs(one).dtype))
        for one, hidden in zip(values, masked, strict=True)
    ]
    largest = [float(one.max(initial=0.0)) for one in finite]
    atol = max(_ALLOWANCE * drift[0], _LEAST_SHARE * max(largest), 1e-9)
    bounds = {"atol": float(f"{atol:.1e}")}
    if any(one.any() for one in masked):
        bounds["rtol"] = float(f"{max(_ALLOWANCE * drift[1], _LEAST_SHARE):.1e}")
    rule: dict[str, Any] = {"tolerance": bounds}
    if any(0 < one <= min(bounds["atol"], _NOISE) for one in largest):
        rule["blind"] = f"rounding makes it up: float32 and float64 differ by {drift[0]:.1e}"
    return rule
