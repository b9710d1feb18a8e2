"""Trace a torch model as a bundle: what each of its stages gives, and what feeds it.

`pin trace` runs the file that makes the model; `verify` never does.
"""

from __future__ import annotations

import copy
import inspect
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from parity.bundle.case_parts import MAX_SAMPLE
from parity.errors import ConfigError, Problem
from parity.known_failures import match_glob
from parity.lab.bundle_writer import BundleWriter
from parity.lab.faults.hidden_ways import state_hidden_ways
from parity.lab.libraries import import_library
from parity.lab.pins.trace_graph import trace_calls
from parity.lab.pins.trace_hooks import ModuleTrace, widen
from parity.lab.pins.trace_stage import (
    TracedStage,
    check_numbers,
    check_size,
    describe_stage,
    is_alike,
    jitter,
    measure_drift,
    prepare_parameters,
    state_tolerance,
    take_samples,
)
from parity.lab.pins.trace_training import trace_training

Array = NDArray[Any]

_MAX_NAMES = 60  # Stages that are printed
MAX_SIZE = 64 * 2**20  # Bytes of a bundle, unless `--max-size` says more


@dataclass(frozen=True)
class Traced:
    """The result of the function of a model file."""

    model: Any  # A ``torch.nn.Module``
    inputs: Mapping[str, Any]  # Example inputs of its ``forward``, tensors by name
    loss: Any = None  # Takes the model's output, returns a scalar tensor; None without training
    #: Takes the parameters, returns a ``torch.optim.Optimizer``; or a dict of such functions by
    #: name
    optimizer: Any = None


def pin(
    target_dir: Path,
    *,
    model: Sequence[str],
    name: str = "",
    level: Literal["op", "module"] = "op",
    train: int = 0,
    seed: int = 0,
    stages: Sequence[str] = (),
    sample: int = 0,
    max_size: int = MAX_SIZE,
    keep_parameters: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Path:
    """Trace the model that ``FILE.py:function`` returns; write ``<function>-trace.tar``.

    One model has the cases `forward` and `train`; several have cases named by their functions.

    Args:
        target_dir: Gets the bundle.
        model: Files and functions; each takes nothing and returns (model, inputs), or (model,
            inputs, loss, optimizer); inputs are a tensor, several, or a dict; several optimizers
            are a dict by name, each for a case of its own.
        name: Of the bundle; by default the first function's, with `-trace`.
        level: One stage for each ATen call, or for each module.
        train: Steps of training to trace besides the forward pass.
        seed: Of PCG64, which draws the parameters and the float inputs.
        stages: Globs of stages whose outputs are stored, besides the model's own; all if empty.
        sample: Elements that a larger output, gradient or state is stored by; 0 stores all.
        max_size: Bytes that all files of the bundle may have.
        keep_parameters: Parameters stay as the function made them, such as trained ones.
        report: Gets the stages, and the wrong ways that the trace does not show, in lines.

    Raises:
        ConfigError: ``usage``: the function is not there or returns something else, or the
            trace is too large; ``trace``: neither export nor hooks can trace the model, or what it
            computes has NaN or overflows.
    """
    if not 0 <= sample <= MAX_SAMPLE:
        _fail(f"--sample {sample}", f"it must be a number of elements, at most {MAX_SAMPLE:,}")
    import_library("torch").manual_seed(seed)  # For what the functions draw
    models = [load_model(one) for one in model]
    if len({each for each, _ in models}) < len(models):
        _fail("--model", "two functions have one name")
    writer = BundleWriter(name or f"{models[0][0].replace('_', '-').lower()}-trace")
    notes = {}
    for each, traced in models:
        case, train_case = ("forward", "train") if len(models) == 1 else (each, f"{each}-train")
        prepare_parameters(traced, seed, keep=keep_parameters)
        notes[case] = add_forward(
            writer, traced, case, level=level, globs=stages, sample=sample, max_size=max_size
        )
        _report_names(writer.manifest["cases"][case], f"{case}, traced {notes[case]}", report)
        if train and (len(models) == 1 or traced.loss is not None):
            limits = {"sample": sample, "max_size": max_size}
            trace_training(writer, traced, train_case, folder=case, steps=train, **limits)
    names = [row["name"] for one in writer.manifest["cases"].values() for row in one["stages"]]
    for glob in stages:
        if not any(match_glob(glob, each) for each in names):
            _fail(
                f"--stages {glob}", "no stage has such a name; a module that is not called is none"
            )
    writer.manifest["defaults"] = {"tolerance": {"atol": 1e-5, "rtol": 1e-4}}
    note = notes[case] if len(models) == 1 else notes
    writer.add_file("provenance.json", describe_provenance(level, seed, note))
    state_hidden_ways(writer, report)
    return writer.write(target_dir)


def load_model(place: str) -> tuple[str, Traced]:
    """Run the file and call the function of ``FILE.py:function``."""
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        _fail(f"--model {place}", "it must be FILE.py:function, and the file must exist")
    torch = import_library("torch")
    sys.path.insert(0, str(Path(file).resolve().parent))  # As Python does for a script
    try:
        function = runpy.run_path(file).get(name)
        if not callable(function):
            _fail(f"--model {place}", f"{file} has no function {name!r}")
        result = function()
        parts = result if isinstance(result, tuple) else (result,)
        if len(parts) not in (2, 3, 4) or not isinstance(parts[0], torch.nn.Module):
            form = "(module, inputs) or (module, inputs, loss, optimizer)"
            _fail(f"--model {place}", f"it must return {form}")
        traced = Traced(parts[0].eval(), _name_inputs(parts[0], parts[1]), *parts[2:])
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the user's own code
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {one.lineno}" for one in frames if one.filename == file]
        at = lines[-1] if lines else ""
        _fail(f"--model {place}", f"it raises {type(error).__name__}{at}: {error}")
    state = traced.model.state_dict()
    for what, value in (*state.items(), *traced.inputs.items()):
        if value.dtype == torch.bfloat16:
            _fail(what, "it is bfloat16, which a trace cannot store; return the model as .float()")
    if doubled := state.keys() & traced.inputs.keys():
        _fail(f"input {min(doubled)} of the model", "a parameter or a buffer has the same name")
    return name, traced


def _name_inputs(model: Any, given: Any) -> dict[str, Any]:
    inputs: dict[str, Any] = given if isinstance(given, dict) else {}
    if not isinstance(given, dict):
        values = given if isinstance(given, (list, tuple)) else [given]
        parameters = inspect.signature(model.forward).parameters.values()
        names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        if len(values) > len(names):
            _fail("inputs of the model", f"{len(values)} are given, and forward has {len(names)}")
        inputs = dict(zip(names, values, strict=False))
    if not inputs or not all(hasattr(value, "detach") for value in inputs.values()):
        _fail("inputs of the model", "they must be tensors")
    return inputs


def add_forward(
    writer: BundleWriter,
    traced: Traced,
    case: str,
    *,
    level: str,
    globs: Sequence[str],
    sample: int,
    max_size: int,
) -> str:
    """Add the case of a forward pass; returns what a reader should know of how it was traced."""
    stages, outputs, more, note = _trace(traced, level)
    kept = select_stages(stages, outputs, globs)
    for one in kept:
        if one.value is not None:
            is_inner = one.name not in outputs
            check_numbers(one.name, one.value, one.rounding, *one.drift, may_be_nan=is_inner)
    state = {name: value.numpy() for name, value in traced.model.state_dict().items()}
    inputs = {name: value.numpy() for name, value in traced.inputs.items()}
    writer.add_file(f"{case}/model.safetensors", state)
    values = {stage.name: stage.value for stage in kept if stage.value is not None}
    values, samples = take_samples(writer, case, values, sample)
    writer.add_case(
        case,
        values,
        {**inputs, **more},
        checkpoint="model.safetensors",
        outputs=outputs,
        stages=[describe_stage(stage) for stage in kept],
        tensors={
            stage.name: state_tolerance(stage.drift, stage.value)
            for stage in kept
            if stage.value is not None
        },
        **samples,
    )
    check_size(writer, f"{case}, {len(kept)} stages", max_size)
    return note


def _report_names(entry: Mapping[str, Any], what: str, report: Callable[[str], None]) -> None:
    """Report what a port must dump, and what it may, in the order of execution."""
    names = [row["name"] for row in entry["stages"] if row["name"] in entry["tensors"]]
    report(f"{what}: a port must dump {', '.join(entry['outputs'])}, and may dump others of")
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    report(f"  {', '.join(names[:_MAX_NAMES])}{more}")


def _trace(
    traced: Traced, level: str
) -> tuple[list[TracedStage], list[str], Mapping[str, Array], str]:
    """Trace by export, else by hooks; returns stages, outputs, further inputs, and how."""
    reason = ""
    if level == "op":
        try:
            stages, outputs, more = trace_calls(traced.model, traced.inputs)
            if stages and outputs:
                return stages, outputs, more, "by torch.export"
            reason = "it found no call, or no tensor as output"
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - export raises errors of many types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    start = f"the model cannot be traced: torch.export: {reason or 'not asked'}; hooks: "
    try:
        trace = ModuleTrace(traced.model, traced.inputs)
    except Exception as error:
        raise ConfigError(Problem("trace", f"{start}{error}")) from error
    if not trace.stages or not trace.outputs:
        message = f"{start}it calls no module, or returns no tensor that it computes"
        raise ConfigError(Problem("trace", message))
    note = (
        f"by forward hooks, since torch.export rejects the model: {reason}"
        if reason
        else "by hooks"
    )
    again = ModuleTrace(traced.model, traced.inputs).stages
    for one, other in zip(trace.stages, again, strict=False):
        if not is_alike(one.value, other.value):
            message = f"{one.name} has other values in a second run: it, or one before, is random"
            raise ConfigError(Problem("trace", message))
    double = ModuleTrace(copy.deepcopy(traced.model).double(), widen(dict(traced.inputs)))
    moved = ModuleTrace(*jitter(traced.model, traced.inputs))
    others = [{one.name: one.value for one in each.stages} for each in (double, moved)]
    stages = [
        replace(one, drift=measure_drift(one.value, *(each.get(one.name) for each in others)))
        for one in trace.stages
    ]
    return stages, trace.outputs, trace.inputs, note


def select_stages(
    stages: Sequence[TracedStage], outputs: Sequence[str], globs: Sequence[str]
) -> list[TracedStage]:
    """Drop the values of stages that no glob matches, other than outputs."""

    def is_stored(name: str) -> bool:
        return not globs or name in outputs or any(match_glob(glob, name) for glob in globs)

    return [one if is_stored(one.name) else replace(one, value=None) for one in stages]


def describe_provenance(level: str, seed: int, note: str | Mapping[str, str]) -> dict[str, Any]:
    """Return where the references come from: versions, the processor's capability, the seed."""
    torch = import_library("torch")
    return {
        "versions": {"torch": torch.__version__.partition("+")[0], "numpy": np.__version__},
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "level": level,
        "seed": seed,
        "trace": note,
    }


def _fail(what: str, message: str) -> NoReturn:
    raise ConfigError(Problem("usage", f"{what}: {message}"))
