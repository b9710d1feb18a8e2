"""Trace a torch module by hooks: one stage for each call of a module without children.

For a model that ``torch.export`` rejects, and for ports that know modules only. What feeds a
module is known where the very tensor is an earlier stage's output or an input of the model; else
its input, such as a sum, is recorded beside the model's inputs, and the feed ``unknown`` names the
stages that it may be made of, so that a mistake in one of these is not reported once more here.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from parity.lab.libraries import import_library
from parity.lab.pins.trace_stage import (
    TracedStage,
    count_name,
    list_feeds,
    measure_drift,
    read_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Modules whose children are parts of one computation.
_WHOLE = ("MultiheadAttention", "LSTM", "GRU", "RNN")


class ModuleTrace:
    """The stages of one run of a model, recorded by hooks.

    Attributes:
        stages: In the order in which the modules returned.
        inputs: Arrays that no stage made, by name, besides the model's own inputs.
        outputs: Names of the model's outputs.
    """

    def __init__(self, model: Any, inputs: Mapping[str, Any]) -> None:
        model, inputs = copy.deepcopy((model, dict(inputs)))  # A module may change its own
        self.stages: list[TracedStage] = []
        self.inputs: dict[str, Array] = {}
        self._names = {_identify(value): name for name, value in inputs.items()}
        self._kept = [*inputs.values()]
        # A stage may not have the name of an input.
        self._counts = dict.fromkeys(inputs, 1)
        self._before: dict[str, list[str]] = {}
        handles = []
        for path, module in _list_modules(model):
            before, after = self._record(path)
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(module.register_forward_hook(after, with_kwargs=True))
        try:
            with import_library("torch").no_grad():
                output = model(**inputs)
        finally:
            for handle in handles:
                handle.remove()
        state, fed = model.state_dict(), {feed for one in self.stages for feed in list_feeds(one)}
        tables = {name: value for name, value in model.named_buffers() if name not in state}
        self.inputs |= {name: tables[name].numpy() for name in tables.keys() & fed}
        ends = self._list_ends()
        found = dict.fromkeys(self._name_output(value, ends) for value in _list_tensors(output))
        self.outputs = [name for name in found if name not in inputs]

    def _list_ends(self) -> list[str]:
        """Return the stages that feed no other one yet: all before them lead to one of these."""
        fed = {feed for stage in self.stages for feed in list_feeds(stage)}
        return [stage.name for stage in self.stages if stage.name not in fed]

    def _name_output(self, value: Any, ends: list[str]) -> str:
        """Return the name of an output; one that no module made becomes a stage of its own."""
        known = self._names.get(_identify(value), "")
        if not known or known in self.inputs:
            name = count_name("output", self._counts)
            feeds = {"unknown": self._before.get(known, ends)}
            array = value.detach().numpy().copy()
            self.stages.append(TracedStage(name=name, kind="", feeds=feeds, value=array))
            self._names[_identify(value)] = name
        return self._names[_identify(value)]

    def _record(self, path: str) -> tuple[Any, Any]:
        """Return hooks for before a module's call, which may change its inputs, and after it."""
        calls: list[tuple[str, dict[str, Any], Array | None]] = []

        def before(module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
            name = count_name(path or type(module).__name__, self._counts)
            names = list(inspect.signature(module.forward).parameters)
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            feeds: dict[str, Any] = {
                key: self._name(f"{name}.{key}", value)
                for key, value in given.items()
                if hasattr(value, "detach")
            }
            unknown = [one for fed in feeds.values() for one in self._before.get(fed, ())]
            feeds |= {key: f"{path}.{key}" if path else key for key in _list_parameters(module)}
            feeds |= {"unknown": list(dict.fromkeys(unknown))} if unknown else {}
            calls.append((name, feeds, _run_alone(module, args, kwargs)))

        def after(module: Any, _args: Any, _kwargs: Mapping[str, Any], output: Any) -> None:
            name, feeds, alone = calls.pop()
            value = next(_list_tensors(output), None)
            if value is None:
                return
            array = value.detach().numpy().copy()
            self.stages.append(
                TracedStage(
                    name=name,
                    kind=type(module).__name__,
                    module=path,
                    arguments=read_settings(module),
                    feeds=feeds,
                    value=array,
                    rounding=measure_drift(array, alone)[0],
                )
            )
            self._names[_identify(value)] = name
            self._kept.append(output)  # so that no other tensor gets its id

        return before, after

    def _name(self, name: str, value: Any) -> str:
        if _identify(value) not in self._names:
            self._names[_identify(value)] = name
            self._kept.append(value)
            self.inputs[name] = value.detach().numpy().copy()
            self._before[name] = self._list_ends()
        return self._names[_identify(value)]


def _identify(value: Any) -> tuple[int, int]:
    """Return what a tensor is until it is changed in place."""
    return id(value), value._version  # noqa: SLF001 - torch has no public name for it


def _list_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield modules without children, and those that compute as a whole."""
    whole = "-"  # No path begins with it
    for path, module in model.named_modules():
        if path.startswith(whole):
            continue
        is_whole = type(module).__name__ in _WHOLE
        whole = (f"{path}." if path else "") if is_whole else "-"
        if is_whole or not any(module.children()):
            yield path, module


def _list_tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "detach"):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _list_tensors(one)
    elif isinstance(value, dict) or is_dataclass(value):
        for one in (value if isinstance(value, dict) else vars(value)).values():
            yield from _list_tensors(one)


def _list_parameters(module: Any) -> list[str]:
    return [name for name, _ in [*module.named_parameters(), *module.named_buffers()]]


def _run_alone(module: Any, args: Any, kwargs: Mapping[str, Any]) -> Array | None:
    """Return the output of the module alone in float64."""
    double = copy.deepcopy(module).double()
    double._forward_pre_hooks.popitem()  # noqa: SLF001 - that of the trace
    for each in double.modules():
        each._forward_hooks.clear()  # noqa: SLF001 - a copy has its own
    given = widen((args, dict(kwargs)))
    value = next(_list_tensors(double(*given[0], **given[1])), None)
    return None if value is None else value.detach().numpy()


def widen(values: Any) -> Any:
    """Return copies of tensors in lists and dicts, the floats among them in float64."""
    torch = import_library("torch")

    def convert(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        wide = torch.complex128 if value.is_complex() else torch.float64
        is_float = value.is_complex() or value.is_floating_point()
        return value.to(wide if is_float else value.dtype, copy=True)

    return torch.utils._pytree.tree_map(convert, values)  # noqa: SLF001 - torch has no other
