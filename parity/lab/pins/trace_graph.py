"""Trace a torch module by ``torch.export``: one stage for each ATen call, with its feeds.

The exported graph before ``run_decompositions`` computes what the module computes, bit by bit
(torch 2.15; after decompositions it does not), and names the module that each call belongs to.
"""

from __future__ import annotations

import operator
import warnings
from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from parity.diagnose.stages.base import NAMES
from parity.errors import ConfigError, Problem
from parity.lab.libraries import import_library
from parity.lab.pins.trace_stage import (
    TracedStage,
    count_name,
    is_alike,
    jitter,
    list_feeds,
    measure_drift,
    read_settings,
    rename_feeds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Calls that move elements or make constants: no stage of their own needs a reference, since
#: whoever looks for a cause computes them from what feeds them.
MOVING = frozenset(NAMES["moving"])

#: Modules that are one stage, since their single calls do not say what a mistake in them is.
_WHOLE = ("RotaryEmbedding",)


def trace_calls(
    module: Any, inputs: Mapping[str, Any]
) -> tuple[list[TracedStage], list[str], dict[str, Array]]:
    """Trace every call; returns the stages in the order of execution, and the outputs' names.

    The third result has the tensors that feed stages and are neither inputs nor in the state dict.

    Args:
        module: A ``torch.nn.Module`` in evaluation mode.
        inputs: Arguments of its ``forward`` by name, tensors.

    Raises:
        RuntimeError: ``torch.export`` rejects the module; the message says why.
    """
    torch = import_library("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own GRU, and an error would stop it
        program = torch.export.export(module, (), dict(inputs))
        changed = [one for one in map(_find_changed, program.graph.nodes) if one is not None]
        if any(map(_is_view, chain(changed, *(one.users for one in changed)))):
            # What is changed through or under a view is no stage; without calls in place it is.
            program = program.run_decompositions({})
    for node in program.graph.nodes:
        if any(not isinstance(size, int) for size in getattr(node.meta.get("val"), "shape", ())):
            raise ValueError(f"the shape of {node.name} depends on data")
    given = program.graph_signature.input_specs
    names = {spec.arg.name: spec.target or spec.arg.name for spec in given}
    local: dict[str, Any] = {}
    single = _run(program, module, inputs, alone=local)
    double = _run(program, module, inputs, torch.float64)
    moved = _run(program, *jitter(module, inputs))
    # A stage may not have the name of an input or a parameter.
    counts = dict.fromkeys(names.values(), 1)
    stages: list[TracedStage] = []
    calls: list[str] = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if (same := _find_broadcast(node)) is not None:
            names[node.name] = names[same.name]
            continue
        names[node.name] = _name_stage(node, counts)
        stage = _make_stage(node, names)
        if (same := _find_changed(node)) is not None:
            names[same.name] = names[node.name]
        value, alone, *others = (
            _choose_output(each[node.name]) for each in (single, local, double, moved)
        )
        rounding, drift = measure_drift(value, alone)[0], measure_drift(value, *others)
        tags = map(str, getattr(node.target, "tags", ()))
        if "Tag.nondeterministic_seeded" in tags and not is_alike(value, alone):
            message = f"{names[node.name]} ({stage.kind}) is random: no port can give its values"
            raise ConfigError(Problem("trace", message))
        stages.append(replace(stage, value=value, rounding=rounding, drift=drift))
        calls.append(_find_whole(node))
    made, specs = {stage.name for stage in stages}, program.graph_signature.output_specs
    ends = [names.get(spec.arg.name) for spec in specs if spec.kind.name == "USER_OUTPUT"]
    outputs = [name for name in dict.fromkeys(ends) if name in made]
    tables = {**dict(module.named_buffers()), **program.constants}
    fed = {spec.target for spec in given} - {*module.state_dict()}
    more = {name: value.numpy() for name, value in tables.items() if name in fed}
    return _drop_unused(_merge_calls(stages, calls, module, outputs), outputs), outputs, more


def _find_whole(node: Any) -> str:
    """Return the key of the module call that a node is a part of, where it is one stage."""
    stack = [*(node.meta.get("nn_module_stack") or {}).items()]
    is_whole = stack and str(stack[-1][1][1]).rpartition(".")[2] in _WHOLE
    return stack[-1][0] if is_whole else ""


def _merge_calls(
    stages: Sequence[TracedStage], calls: Sequence[str], module: Any, outputs: Sequence[str]
) -> list[TracedStage]:
    """Merge the calls of a module that is one stage, unless others see into it."""
    result: list[TracedStage] = []
    renamed: dict[str, str] = {}
    for call, pairs in groupby(zip(calls, stages, strict=True), itemgetter(0)):
        group = [rename_feeds(stage, renamed) for _, stage in pairs]
        inner, last = {stage.name for stage in group}, group[-1]
        outer = list(dict.fromkeys(feed for stage in group for feed in list_feeds(stage)))
        given = [feed for feed in outer if feed not in inner]
        rest = [stage for stage in stages if stage.name not in inner]
        seen = {feed for stage in rest for feed in list_feeds(stage)} | set(outputs)
        if not call or len(given) != 1 or seen & inner - {last.name} or last.name in outputs:
            result += group
            continue
        count = sum(stage.kind == _WHOLE[0] and stage.module == last.module for stage in result)
        renamed[last.name] = f"{last.module}#{count + 1}" if count else last.module
        result.append(
            replace(
                last,
                name=renamed[last.name],
                kind=type(module.get_submodule(last.module)).__name__,
                arguments=read_settings(module.get_submodule(last.module)),
                feeds={"input": given[0]},
                rounding=sum(stage.rounding for stage in group),
            )
        )
    return result


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
    return count_name(f"{path}/{call}" if path else call, counts)


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
    name, kind = names[node.name], _name_call(node)
    return TracedStage(name=name, kind=kind, module=module, arguments=arguments, feeds=feeds)


def _list_arguments(node: Any) -> list[tuple[str, Any]]:
    if node.target is operator.getitem:
        return [("input", node.args[0]), ("index", node.args[1])]
    schema = [argument.name for argument in _get_schema(node).arguments]
    return [*zip(schema, node.args, strict=False), *node.kwargs.items()]


def _get_schema(node: Any) -> Any:
    """Return the schema of a call, None for other nodes."""
    return getattr(node.target, "_schema", None)


def _find_changed(node: Any) -> Any:
    """Return the node whose tensor a call changes in place, else None."""
    is_changing = getattr(_get_schema(node), "is_mutable", False)
    return node.args[0] if is_changing and "detach_" not in str(node.target) else None


def _is_view(node: Any) -> bool:
    """Return whether a call may give elements of what feeds it, in the same memory."""
    shared = (one.alias_info for one in getattr(_get_schema(node), "returns", ()))
    is_view = any(one is not None and not one.is_write for one in shared)
    return is_view or _is_moving(_name_call(node))


def _is_moving(kind: str) -> bool:
    parts = kind.split(".")
    return parts[min(1, len(parts) - 1)].removesuffix("_") in MOVING


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
    program: Any,
    module: Any,
    inputs: Mapping[str, Any],
    dtype: Any = None,
    alone: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return every node's value, with all floats in ``dtype``, if any.

    ``alone`` gets each call's value in float64, from the inputs that it has otherwise.
    """
    torch = import_library("torch")
    tree = torch.utils._pytree  # noqa: SLF001 - torch has no public name for it
    values: dict[str, Any] = {}
    runs = [(dtype, values)] if alone is None else [(torch.float64, alone), (dtype, values)]

    def convert(kind: Any, *, copied: bool = True) -> Callable[[Any], Any]:
        def change(one: Any) -> Any:
            if isinstance(one, torch.Tensor):
                is_other = kind is not None and one.is_floating_point()
                return one.to(kind if is_other else one.dtype, copy=copied)
            return kind if kind is not None and one is torch.float32 else one

        return change

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]  # torch is untyped
        def run_node(self, node: Any) -> Any:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            if node.op != "call_function":
                return super().run_node(node)
            for kind, found in runs:
                # Only the run itself may change a tensor in place.
                change = convert(kind, copied=found is alone)
                given, named = tree.tree_map(change, (args, kwargs))
                result = node.target(*given, **named)
                found[node.name] = _make_arrays(result)
            return result

    own = (module.named_parameters(remove_duplicate=False), module.named_buffers())
    state = {**dict(chain.from_iterable(own)), **program.constants}
    given = [
        state[spec.target] if spec.target else inputs[spec.arg.name]
        for spec in program.graph_signature.input_specs
    ]
    with torch.no_grad():
        Recorder(program.graph_module).run(*map(convert(dtype), given))
    return values


def _make_arrays(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    return [_make_arrays(one) for one in value] if isinstance(value, (list, tuple)) else None


def _choose_output(value: Any) -> Any:
    """Return a call's output, of several the first, which alone is a stage's value."""
    while isinstance(value, list):
        value = value[0] if value else None
    return value


def _drop_unused(stages: Sequence[TracedStage], outputs: Sequence[str]) -> list[TracedStage]:
    """Drop calls that nothing uses, and values that are only moved elements of others."""
    used, kept = set(outputs), []
    for stage in reversed(stages):
        is_inner = _is_moving(stage.kind) and stage.name not in outputs
        if is_inner and stage.name not in used:
            continue
        kept.append(replace(stage, value=None) if is_inner else stage)
        used.update(list_feeds(stage))
    return kept[::-1]
