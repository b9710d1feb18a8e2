"""Trace a torch module by ``torch.export``: one stage for each ATen call, with its feeds.

The exported graph before ``run_decompositions`` computes what the module computes, bit by bit
(torch 2.15; after decompositions it does not), and names the module that each call belongs to.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from parity.diagnose.stages.operators import NAMES
from parity.lab.libraries import import_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Calls that move elements or make constants: no stage of their own needs a reference, since
#: whoever looks for a cause computes them from what feeds them.
MOVING = frozenset(NAMES["moving"])


@dataclass(frozen=True, kw_only=True)
class TracedStage:
    """One stage of a trace.

    Attributes:
        name: Path of the module, then the call: ``layers.3/add#2``.
        kind: ``aten.add.Tensor``, a type of ``torch.nn``, or empty where nobody can compute it.
        module: Path of the module.
        arguments: Numbers, texts and lists, by the names of ATen's schema or of the module.
        feeds: Names of stages, inputs and parameters, by argument.
        value: Its output; None where others compute it.
        rounding: Largest difference that computing this call in float32 makes, from the same
            inputs.
        drift: Largest difference to the whole model in float64, all calls before it included.
    """

    name: str
    kind: str
    module: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    feeds: Mapping[str, str | list[str]] = field(default_factory=dict)
    value: Array | None = None
    rounding: float = 0.0
    drift: float = 0.0


def trace_calls(module: Any, inputs: Mapping[str, Any]) -> tuple[list[TracedStage], list[str]]:
    """Trace every call; returns the stages in the order of execution, and the outputs' names.

    Args:
        module: A ``torch.nn.Module`` in evaluation mode.
        inputs: Arguments of its ``forward`` by name, tensors.

    Raises:
        RuntimeError: ``torch.export`` rejects the module; the message says why.
    """
    torch = import_library("torch")
    program = torch.export.export(module, (), dict(inputs))
    names = _name_placeholders(program)
    single, local = _run(program, module, inputs, torch.float32)
    double = _run(program, module, inputs, torch.float64)[0]
    counts: dict[str, int] = {}
    stages = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if (same := _find_broadcast(node)) is not None:
            names[node.name] = names[same.name]
            continue
        names[node.name] = _name_stage(node, counts)
        stage = _make_stage(node, names)
        value, exact, alone = (_choose_output(each[node.name]) for each in (single, double, local))
        rounding, drift = measure_rounding(value, alone), measure_rounding(value, exact)
        stages.append(replace(stage, value=value, rounding=rounding, drift=drift))
    specs = program.graph_signature.output_specs
    outputs = [names[spec.arg.name] for spec in specs if spec.arg.name in names]
    return _drop_unused(stages, outputs), outputs


def _name_placeholders(program: Any) -> dict[str, str]:
    """Return the names of parameters, buffers and inputs, by their nodes' names."""
    return {
        spec.arg.name: spec.target or spec.arg.name for spec in program.graph_signature.input_specs
    }


def _find_broadcast(node: Any) -> Any:
    """Return what a part of ``broadcast_tensors``, with which losses begin, is unless it grew."""
    if node.target is not operator.getitem or "broadcast_tensors" not in str(node.args[0].target):
        return None
    fed = node.args[0].args[0][node.args[1]]
    return fed if fed.meta["val"].shape == node.meta["val"].shape else None


def _name_stage(node: Any, counts: dict[str, int]) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    call = _name_call(node).split(".")[-2] if "." in _name_call(node) else _name_call(node)
    name = f"{path}/{call}" if path else call
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"


def _name_call(node: Any) -> str:
    return "getitem" if node.target is operator.getitem else str(node.target)


def _make_stage(node: Any, names: Mapping[str, str]) -> TracedStage:
    arguments, feeds = {}, {}
    for name, value in _list_arguments(node):
        if _is_fed(value):
            feeds[name] = _name_feeds(value, names)
        elif (plain := _make_plain(value)) is not None:
            arguments[name] = plain
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = stack[-1][0] if stack else ""
    return TracedStage(
        name=names[node.name],
        kind=_name_call(node),
        module=module,
        arguments=arguments,
        feeds=feeds,
    )


def _list_arguments(node: Any) -> list[tuple[str, Any]]:
    if node.target is operator.getitem:
        return [("input", node.args[0]), ("index", node.args[1])]
    schema = [argument.name for argument in node.target._schema.arguments]  # noqa: SLF001 - torch's only way
    return [*zip(schema, node.args, strict=False), *node.kwargs.items()]


def _is_fed(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_fed, value))
    return hasattr(value, "op") and hasattr(value, "graph")


def _name_feeds(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_name_feeds(one, names) for one in value if one is not None]
    return names[value.name]


def _make_plain(value: Any) -> Any:
    """Return numbers, texts and lists of them; None for what JSON cannot state."""
    if isinstance(value, (list, tuple)):
        return [_make_plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def _run(
    program: Any, module: Any, inputs: Mapping[str, Any], dtype: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every node's value with all floats in ``dtype``, and the same in float64.

    The second one computes each call alone, from the inputs that it has in ``dtype``.
    """
    torch = import_library("torch")
    tree = torch.utils._pytree  # noqa: SLF001 - torch has no public name for it
    values: dict[str, Any] = {}
    alone: dict[str, Any] = {}

    def convert(kind: Any) -> Callable[[Any], Any]:
        def change(one: Any) -> Any:
            if isinstance(one, torch.Tensor) and one.is_floating_point():
                return one.to(kind)
            return kind if one is torch.float32 else one

        return change

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]  # torch is untyped
        def run_node(self, node: Any) -> Any:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            if node.op != "call_function":
                return super().run_node(node)
            for kind, found in ((torch.float64, alone), (dtype, values)):
                args, kwargs = tree.tree_map(convert(kind), (args, kwargs))
                result = node.target(*args, **kwargs)
                found[node.name] = _make_arrays(result)
            return result

    state = {**dict(module.named_parameters()), **dict(module.named_buffers()), **program.constants}
    given = [
        state[spec.target] if spec.target else inputs[spec.arg.name]
        for spec in program.graph_signature.input_specs
    ]
    with torch.no_grad():
        Recorder(program.graph_module).run(*map(convert(dtype), given))
    return values, alone


def _make_arrays(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    return [_make_arrays(one) for one in value] if isinstance(value, (list, tuple)) else None


def _choose_output(value: Any) -> Any:
    """Return a call's output, of several the first, which alone is a stage's value."""
    while isinstance(value, list):
        value = value[0] if value else None
    return value


def measure_rounding(value: Array | None, exact: Array | None) -> float:
    """Return the largest difference of two arrays; 0 for integers and booleans."""
    import numpy as np

    if value is None or exact is None or value.dtype.kind != "f":
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(value.astype(np.float64) - exact)
    return float(np.nanmax(difference, initial=0.0))


def _drop_unused(stages: Sequence[TracedStage], outputs: Sequence[str]) -> list[TracedStage]:
    """Drop calls that nothing uses, and values that are only moved elements of others."""
    used, kept = set(outputs), []
    for stage in reversed(stages):
        parts = stage.kind.split(".")
        is_moving = parts[min(1, len(parts) - 1)].removesuffix("_") in MOVING
        if is_moving and stage.name not in used:
            continue
        kept.append(
            replace(stage, value=None) if is_moving and stage.name not in outputs else stage
        )
        for feed in stage.feeds.values():
            used.update([feed] if isinstance(feed, str) else feed)
    return kept[::-1]
