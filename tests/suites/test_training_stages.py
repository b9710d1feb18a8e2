"""Judge steps of training: the loss, a gradient or an update diverges first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parity.diagnose.stages.operators import compute
from parity.suites.base import Dump
from parity.suites.tensors import suite
from parity.suites.tensors.training import find_place
from tests.suites.test_stages import format_outcome
from tests.support.traces import write_bundle, write_dump

_STEPS, _SETTINGS = 3, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
_RNG = np.random.Generator(np.random.PCG64(3))
_PARAMETERS = {
    name: _RNG.standard_normal(4).astype(np.float32) for name in ("fc.weight", "out.bias")
}


def _list_stages() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step in range(1, _STEPS + 1):
        before = {name: name if step == 1 else f"step_{step - 1}/{name}" for name in _PARAMETERS}
        for name in _PARAMETERS:
            feeds = {"parameters": [*before.values()]}
            more = {"feeds": {**feeds, "earlier": f"step_{step - 1}/grad/{name}"}}
            later = {"kind": "gradient", **more} if step > 1 else {}
            rows.append({"name": f"step_{step}/grad/{name}", "feeds": feeds, **later})
        for name, old in before.items():
            state, gradient = f"/momentum_buffer/{name}", f"step_{step}/grad/{name}"
            feeds = {"param": old, "grad": gradient}
            feeds |= {} if step == 1 else {"momentum_buffer": f"step_{step - 1}{state}"}
            rows.append({"name": f"step_{step}{state}", "feeds": {"inputs": [*feeds.values()]}})
            row = {"name": f"step_{step}/{name}", "kind": "SGD", "arguments": _SETTINGS}
            rows.append({**row, "feeds": feeds})
    losses = [f"step_{step}/{name}" for step in range(1, _STEPS) for name in _PARAMETERS]
    return [*rows, {"name": "loss", "feeds": {"parameters": losses}}]


def _train(
    change: Callable[[str, Any], Any] = lambda _name, value: value, **settings: Any
) -> dict[str, Any]:
    """Train on a loss of squares; ``change`` sees each value after it was computed."""
    values: dict[str, Any] = {}
    current, buffers, losses = dict(_PARAMETERS), {}, []
    for step in range(1, _STEPS + 1):
        total = sum(float(np.square(value).sum()) for value in current.values())
        losses.append(change(f"step_{step}/loss", total))
        gradients = {}
        for name, value in current.items():
            place = f"step_{step}/grad/{name}"
            gradients[name] = values[place] = change(place, 2 * value)
        for name, gradient in gradients.items():
            arguments = {"param": current[name], "grad": gradient, **_SETTINGS, **settings}
            full = gradient + arguments["weight_decay"] * current[name]
            old = buffers.get(name)
            buffer = full if old is None else np.float32(0.9) * old + full
            if old is not None:
                arguments["momentum_buffer"] = old
            buffers[name] = values[f"step_{step}/momentum_buffer/{name}"] = buffer
            updated = np.asarray(compute("SGD", arguments)).astype(np.float32)
            current[name] = values[f"step_{step}/{name}"] = change(f"step_{step}/{name}", updated)
    return {**values, "loss": np.array(losses, np.float32)}


def _scale(*names: str) -> Callable[[str, Any], Any]:
    return lambda name, value: value * np.float32(1.5) if name in names else value


def _add_up() -> Callable[[str, Any], Any]:
    """Add the gradients of earlier steps, which nothing sets to zero."""
    sums: dict[str, Any] = {}

    def change(name: str, value: Any) -> Any:
        key = name.partition("/grad/")[2]
        sums[key] = sums.get(key, 0) + value
        return sums[key] if key else value

    return change


#: What a port does, and what it does not dump: beginnings of names.
_PORTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "right": (_train(), ()),
    "a wrong gradient": (_train(_scale("step_2/grad/fc.weight")), ()),
    "wrong gradients": (_train(_scale("step_1/grad/fc.weight", "step_1/grad/out.bias")), ()),
    "no weight decay": (_train(weight_decay=0.0), ()),
    "gradients that add up": (_train(_add_up()), ()),
    "gradients that add up, not dumped": (
        _train(_add_up()),
        ("step_1/grad", "step_2/grad", "step_3/grad"),
    ),
    "an update, its gradient not dumped": (_train(_scale("step_2/fc.weight")), ("step_2/grad",)),
    "a loss of another scale": (_train(lambda n, v: v / 2 if n.endswith("loss") else v), ()),
    "another loss": (_train(_scale("step_1/loss", "step_1/grad/fc.weight")), ()),
    "outputs alone": (_train(_scale("step_1/grad/fc.weight")), ("step_1", "step_2", "step_3/g")),
}


def test_first_wrong_step_is_described(tmp_path: Path, golden: Callable[..., None]) -> None:
    outputs = ["loss", *(f"step_{_STEPS}/{name}" for name in _PARAMETERS)]
    tree = write_bundle(
        tmp_path / "tree",
        references=_train(),
        parameters=_PARAMETERS,
        stages=_list_stages(),
        outputs=outputs,
    )
    (case,) = suite.read_cases(tree, {})
    parts = []
    for number, (title, (values, without)) in enumerate(_PORTS.items()):
        kept = {name: one for name, one in values.items() if not name.startswith(without)}
        dump = Dump(folder=write_dump(tmp_path / str(number), kept))
        outcome = suite.verify(case, dump, case.tolerances)
        parts.append(f"# {title}\n{format_outcome(outcome)}\n")
    golden("\n".join(parts))


def test_module_named_step_is_no_step_of_training() -> None:
    assert find_place("step_1/fc/linear", ["step_1/fc/linear"]) is None
