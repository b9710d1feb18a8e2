"""Trace steps of training: losses, gradients, parameters and the optimizer's state."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.stages.values import GRADIENT
from parity.errors import ConfigError, Problem
from parity.lab.libraries import import_library
from parity.lab.pins.trace_stage import (
    check_numbers,
    check_size,
    is_alike,
    jitter,
    measure_drift,
    state_tolerance,
    take_samples,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.lab.bundle_writer import BundleWriter
    from parity.lab.pins.trace import Traced

    Array = NDArray[Any]
    Values = dict[str, Array]

#: Settings of an optimizer that are stated, by the names that torch gives them.
_SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "betas", "eps")
_STATES = ("momentum_buffer", "exp_avg", "exp_avg_sq")  # The optimizer's own arrays of a parameter


def trace_training(
    writer: BundleWriter, traced: Traced, case: str, *, folder: str, steps: int, **limits: int
) -> None:
    """Add a case of training for each optimizer, with its name behind if there are several.

    It has the inputs and parameters of the forward pass, whose ``folder`` gets its reference;
    ``limits`` are ``sample`` and ``max_size`` of ``pin``.

    The tensors are ``loss`` [steps], and for each step k from 1 on ``step_k/grad/NAME``,
    ``step_k/exp_avg/NAME`` and so on, and the parameter after the step, ``step_k/NAME``.

    Raises:
        ConfigError: ``usage``: there is no loss or no optimizer, or the bundle is too large.
    """
    if traced.loss is None or not traced.optimizer:
        message = "--train needs a function that returns (module, inputs, loss, optimizer)"
        raise ConfigError(Problem("usage", message))
    several = traced.optimizer if isinstance(traced.optimizer, dict) else {"": traced.optimizer}
    for suffix, optimizer in several.items():
        _add_training(
            writer,
            replace(traced, optimizer=optimizer),
            f"{case}-{suffix}".rstrip("-"),
            folder=folder,
            steps=steps,
            **limits,
        )


def _add_training(
    writer: BundleWriter,
    traced: Traced,
    case: str,
    *,
    folder: str,
    steps: int,
    sample: int,
    max_size: int,
) -> None:
    torch = import_library("torch")
    try:
        single, kind, settings = _train(traced, steps, torch.float32)
        again, _, _ = _train(traced, steps, torch.float32)
    except Exception as error:
        message = f"{case}: a step of training raises {type(error).__name__}: {error}"
        raise ConfigError(Problem("trace", message)) from error
    if name := next((key for key in single if not is_alike(single[key], again[key])), ""):
        message = f"{case}: {name} has other values in a second run: the model or loss is random"
        raise ConfigError(Problem("trace", message))
    double, _, _ = _train(traced, steps, torch.float64)
    moved, given = jitter(traced.model, traced.inputs)
    other, _, _ = _train(replace(traced, model=moved, inputs=given), steps, torch.float32)
    names = [name for name, _ in traced.model.named_parameters()]
    last = [f"step_{steps}/{name}" for name in names]
    values, samples = take_samples(writer, folder, single, sample)
    writer.add_case(
        case,
        values,
        {name: value.numpy() for name, value in traced.inputs.items()},
        folder=folder,
        reference=f"{case}.safetensors",
        checkpoint="model.safetensors",
        outputs=["loss", *last],
        stages=list_stages(names, steps, kind, settings),
        tensors=state_rules(single, double, other),
        words={"steps": steps, "optimizer": kind, **{f"{k}": str(v) for k, v in settings.items()}},
        **samples,
    )
    check_size(writer, f"{case}, {steps} steps", max_size)


def state_rules(single: Values, *others: Values) -> dict[str, dict[str, Any]]:
    """Return a rule for each tensor, and one for all steps of a gradient or an optimizer's state.

    Steps in which rounding alone makes up the tensor have rules of their own.
    """
    groups: dict[str, list[str]] = {}
    for name in single:
        # `step_1/grad/fc.weight`; `*/fc.weight`, for the parameter, would match its gradient, too.
        part = name.partition("/")[2]
        groups.setdefault(f"*/{part}" if "/" in part else name, []).append(name)
    rules = {}
    for glob, names in groups.items():
        values = [single[name] for name in names]
        drifts = [measure_drift(single[name], *(one[name] for one in others)) for name in names]
        for name, value, drift in zip(names, values, drifts, strict=True):
            check_numbers(name, value, *drift)
        rules[glob] = state_tolerance(tuple(map(max, zip(*drifts, strict=True))), *values)
        if "blind" in rules[glob]:
            del rules[glob]
            rules |= dict(zip(names, map(state_tolerance, drifts, values), strict=True))
    return rules


def list_stages(
    names: list[str], steps: int, kind: str, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the stages of training: gradients, then updates, then the curve of losses."""
    rows: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        before = [name if step == 1 else f"step_{step - 1}/{name}" for name in names]
        # One stage for all parameters, so that the list of stages does not grow with their square.
        whole = f"step_{step}/parameters"
        rows.append({"name": whole, "feeds": {"parameters": before}})
        for name in names:
            feeds = {"model": whole, "earlier": f"step_{step - 1}/grad/{name}"}
            later = {"kind": GRADIENT, "feeds": feeds} if step > 1 else {"feeds": {"model": whole}}
            rows.append({"name": f"step_{step}/grad/{name}", **later})
        for name, old in zip(names, before, strict=True):
            feeds = {"param": old, "grad": f"step_{step}/grad/{name}"}
            for key in _list_states(kind, settings):
                inputs = [feeds["param"], feeds["grad"]]
                if step > 1:
                    feeds[key] = f"step_{step - 1}/{key}/{name}"
                    inputs.append(feeds[key])
                rows.append({"name": f"step_{step}/{key}/{name}", "feeds": {"inputs": inputs}})
            arguments = {**settings, **({"step": step} if kind.startswith("Adam") else {})}
            row = {"name": f"step_{step}/{name}", "kind": kind, "arguments": arguments}
            rows.append({**row, "feeds": feeds})
    models = [f"step_{step}/parameters" for step in range(1, steps + 1)]
    rows.append({"name": "loss", "feeds": {"models": models}})
    return rows


def _list_states(kind: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    if kind.startswith("Adam"):
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if settings.get("momentum") else ()


def _train(traced: Traced, steps: int, dtype: Any) -> tuple[Values, str, dict[str, Any]]:
    """Train a copy of the model; returns the values, the optimizer's name and its settings."""
    torch = import_library("torch")
    model = copy.deepcopy(traced.model).to(dtype).train()
    for module in model.modules():
        if type(module).__name__.startswith("Dropout"):
            module.eval()  # a random mask cannot be compared
    inputs = {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in traced.inputs.items()
    }
    optimizer = traced.optimizer(model.parameters())
    values: Values = {}
    losses = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = traced.loss(model(**copy.deepcopy(inputs)))  # which a model may change
        loss.backward()
        losses.append(float(loss.detach()))
        _record(values, model, f"step_{step}/grad/", lambda parameter: parameter.grad)
        optimizer.step()
        for key in _STATES:
            own = lambda parameter, key=key: optimizer.state[parameter].get(key)  # noqa: E731 - of this key
            _record(values, model, f"step_{step}/{key}/", own)
        _record(values, model, f"step_{step}/", lambda parameter: parameter)
    values["loss"] = np.array(losses, np.float32 if dtype == torch.float32 else np.float64)
    group = optimizer.param_groups[0]
    settings = {
        name: list(group[name]) if isinstance(group[name], tuple) else group[name]
        for name in _SETTINGS
        if isinstance(group.get(name), (bool, int, float, tuple)) and group[name] is not False
    }
    return values, type(optimizer).__name__, settings


def _record(values: Values, model: Any, prefix: str, choose: Any) -> None:
    for name, parameter in model.named_parameters():
        if (value := choose(parameter)) is not None:
            values[prefix + name] = value.detach().numpy().copy()
