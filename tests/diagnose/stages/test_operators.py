"""Compare the operators with torch, and find each wrong way of each."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from parity.diagnose.stages import find, operators
from parity.lab.faults.stage_faults import NEEDS, has_data
from parity.lab.pins.trace_hooks import ModuleTrace
from tests.diagnose.stages.op_rows import OPS
from tests.diagnose.stages.rows import MODULES, ROWS, draw

torch: Any = pytest.importorskip("torch")
#: A way that changes less looks like rounding.
_VISIBLE = 1e-4
_IDS = [name for name, _, _ in ROWS]


def _make_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [_make_torch(one) for one in value]
    return value


@pytest.mark.parametrize(("kind", "arguments"), [row[1:] for row in ROWS], ids=_IDS)
def test_operator_is_that_of_torch(kind: str, arguments: dict[str, Any]) -> None:
    call = torch.ops.aten
    for part in kind.split(".")[1:]:
        call = getattr(call, part)
    own = {key: _make_torch(value) for key, value in arguments.items() if key != "output"}
    target = call(**own)
    target = target[arguments.get("output", 0)] if isinstance(target, (tuple, list)) else target
    np.testing.assert_allclose(
        operators.compute(kind, arguments), target.numpy(), rtol=1e-9, atol=1e-9
    )


#: Functions of torch that have another name or place.
_TORCH: dict[str, Any] = {
    "norm": lambda input, p=2, **args: torch.linalg.vector_norm(input, p, **args),
    "cast": lambda input, dtype: input.to(getattr(torch, dtype)),
    "triangular_solve": lambda A, B, **args: torch.linalg.solve_triangular(A, B, **args),
    "broadcast_to": lambda input, shape: torch.broadcast_to(input, shape),
    "einsum": lambda operands, equation: torch.einsum(equation, *operands),
    "meshgrid": lambda tensors, indexing: torch.meshgrid(*tensors, indexing=indexing),
    "cholesky": torch.linalg.cholesky,
    "cross": torch.linalg.cross,
    "solve": torch.linalg.solve,
    "fft": lambda input, norm: torch.fft.fft(torch.view_as_complex(input), norm=norm),
    "ifft": lambda input, norm: torch.fft.ifft(torch.view_as_complex(input), norm=norm),
    "rfft": torch.fft.rfft,
    "irfft": lambda input, norm: torch.fft.irfft(torch.view_as_complex(input), norm=norm),
    "fftshift": torch.fft.fftshift,
    "ifftshift": torch.fft.ifftshift,
    "hann_window": lambda **args: torch.hann_window(**args, dtype=torch.float64),
    **{
        op: lambda op=op, **args: getattr(torch, op)(**args, dtype=torch.float64)
        for op in ("linspace", "logspace", "eye", "arange")
    },
}


def _call_torch(op: str, arguments: dict[str, Any]) -> Any:
    places = (torch.nn.functional, torch, torch.special)
    function = _TORCH.get(op) or next(getattr(one, op) for one in places if hasattr(one, op))
    first, *rest = (_make_torch(value) for value in arguments.values())
    names = list(arguments)[1:]
    if op in {"tril_indices", "triu_indices", *_TORCH}:
        return function(**dict(zip(arguments, (first, *rest), strict=True)))
    return function(first, **dict(zip(names, rest, strict=True)))


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize(
    ("op", "arguments"), OPS, ids=[f"{op}-{at}" for at, (op, _) in enumerate(OPS)]
)
def test_operator_at_its_edges_is_that_of_torch(op: str, arguments: dict[str, Any]) -> None:
    outputs = _call_torch(op, arguments)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for at, output in enumerate(outputs):
        number = {"output": at} if len(outputs) > 1 else {}
        found = np.asarray(operators.compute(f"aten.{op}.default", {**arguments, **number}))
        target = (
            (torch.view_as_real(output) if output.is_complex() else output).float()
            if output.dtype == torch.bfloat16
            else output
        )
        target = (torch.view_as_real(target) if target.is_complex() else target).numpy()
        assert found.shape == target.shape
        if target.dtype.kind == "f":
            rtol = 1e-9 if target.dtype == np.float64 else 2 * np.finfo(target.dtype).eps
            np.testing.assert_allclose(found, target, rtol=rtol, atol=1e-12)
            zeros = (found == 0) & (target == 0)
            np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(target[zeros]))
        else:
            np.testing.assert_array_equal(found, target)
            assert found.dtype == target.dtype


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm", "batch_norm", "group_norm"])
def test_normalising_nothing_warns_of_nothing(op: str) -> None:
    more = {"layer_norm": {"normalized_shape": [0]}, "rms_norm": {"normalized_shape": [0]}}
    more |= {"batch_norm": {"training": True}, "group_norm": {"num_groups": 2}}
    for shape in ((0, 4, 0), (2, 4, 0)):
        arguments = {"input": np.zeros(shape), **more[op]}
        assert operators.compute(f"aten.{op}.default", arguments).shape == shape
        assert not list(find.list_ways(f"aten.{op}.default", arguments))


def _step_with_torch(kind: str, arguments: dict[str, Any]) -> Any:
    """Take one step of torch's optimizer from the stated state."""
    own = ("param", "grad", "step", "exp_avg", "exp_avg_sq", "momentum_buffer")
    param = torch.nn.Parameter(torch.from_numpy(arguments["param"].copy()))
    param.grad = torch.from_numpy(arguments["grad"].copy())
    options = {name: value for name, value in arguments.items() if name not in own}
    optimizer = getattr(torch.optim, kind)([param], **options)
    state = {
        name: torch.from_numpy(arguments[name].copy()) for name in own[3:] if name in arguments
    }
    if "step" in arguments:
        state["step"] = torch.tensor(float(arguments["step"] - 1))
    optimizer.state[param].update(state)
    optimizer.step()
    return param.detach()


def _attend_with_torch(kind: str, arguments: dict[str, Any]) -> Any:
    own = ("in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias")
    module = getattr(torch.nn, kind)(
        6, arguments["num_heads"], batch_first=True, dtype=torch.float64
    )
    module.load_state_dict(
        {name.replace("out_proj_", "out_proj."): torch.from_numpy(arguments[name]) for name in own}
    )
    inputs = [torch.from_numpy(arguments[name]) for name in ("query", "key", "value")]
    return module(*inputs, attn_mask=torch.from_numpy(arguments["attn_mask"]))[0].detach()


@pytest.mark.parametrize(
    ("kind", "arguments"), [row[1:] for row in MODULES if row[1] not in ("rotary", "gradient")]
)
def test_module_is_that_of_torch(kind: str, arguments: dict[str, Any]) -> None:
    run = _attend_with_torch if kind == "MultiheadAttention" else _step_with_torch
    target = run(kind, arguments).numpy()
    np.testing.assert_allclose(operators.compute(kind, arguments), target, rtol=1e-9, atol=1e-9)


_SEVERAL = ("max", "min", "median", "sort", "topk", "kthvalue", "cummax", "cummin")
#: A name, kind, arguments, and the rounding that is as good as none, for each output of `OPS`.
_EDGE_ROWS = [
    (f"{op}-{at}-{output}", f"aten.{op}.default", {**arguments, "output": output}, 5e-324)
    if op in _SEVERAL
    else (f"{op}-{at}", f"aten.{op}.default", arguments, 5e-324)
    for at, (op, arguments) in enumerate(OPS)
    for output in range(1 + (op in _SEVERAL))
]
_ALL_ROWS = [*((*row, 0.0) for row in (*ROWS, *MODULES)), *_EDGE_ROWS]
_ALL_IDS = [row[0] for row in _ALL_ROWS]


def _list_ways(kind: str, arguments: dict[str, Any], rounding: float) -> tuple[Any, list[Any]]:
    """Return the right output, and the ways that data in float64 or float32 can show."""
    right = np.asarray(operators.compute(kind, arguments))
    least = 0.0 if rounding else _VISIBLE * max(1.0, np.abs(right).max())
    ways = find.list_ways(kind, arguments)
    return right, [way for way in ways if find.measure_distance(way[2], right) > least]


@pytest.mark.parametrize(("name", "kind", "arguments", "rounding"), _ALL_ROWS, ids=_ALL_IDS)
def test_wrong_ways_are_named(
    name: str, kind: str, arguments: dict[str, Any], rounding: float
) -> None:
    del name
    right, ways = _list_ways(kind, arguments, rounding)
    dtype = right.dtype if rounding else np.dtype(np.float32)
    for code, text, values in ways:
        wrong = find.fit_type(values, right, is_exact=True) if rounding else values.astype(dtype)
        if find.measure_distance(wrong, right) == 0:
            continue
        stage = find.Stage(
            kind=kind,
            arguments=arguments,
            expected=right.astype(dtype),
            obtained=wrong,
            rounding=rounding,
        )
        assert (code, text) in find.find_stage_cause(stage).ways


_DIVIDED = {"input": np.array([7.5, -7.5, 8.5, 1e8]), "other": np.array([2.0, 2.0, -4.0, 7.0])}
_FLAT = {"input": draw(3, 8) * 0.1, "normalized_shape": [8], "eps": 1e-8}
_TRUNCATED = ("rounding-other", "it is rounded towards zero")
#: Operator, arguments, the way that the port goes, what is added to its output and to the
#: reference, the stage's rounding, which is that of its largest element, and the ways named.
_COARSE: dict[str, tuple[str, dict[str, Any], Any, Any, Any, float, tuple[Any, ...]]] = {
    "a way is given exactly": (
        "floor_divide", _DIVIDED, _TRUNCATED, 0, 0, 0.85, (_TRUNCATED,)),
    "one element is off by 1": (
        "floor_divide", _DIVIDED, _TRUNCATED, [0, 0, 1, 0], 0, 0.85, ()),
    "the reference has a rounding": (
        "floor_divide", _DIVIDED, _TRUNCATED, 0, 1e-6, 0.85, ()),
    "a way makes no more than a rounding": (
        "layer_norm", _FLAT, ("eps-other", "eps is 1e-12"), 0, 0, 1e-5, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", _COARSE)
def test_coarse_rounding_leaves_ways_that_an_exact_stage_shows(name: str) -> None:
    op, arguments, way, added, off, rounding, named = _COARSE[name]
    kind = f"aten.{op}.default"
    ways = {(code, text): values for code, text, values in find.list_ways(kind, arguments)}
    expected = (operators.compute(kind, arguments) + off).astype(np.float32)
    obtained = (ways[way] + added).astype(np.float32)
    stage = find.Stage(
        kind=kind, arguments=arguments, expected=expected, obtained=obtained, rounding=rounding
    )
    assert find.measure_distance(obtained, expected) > 0
    assert find.find_stage_cause(stage).ways == named


def test_every_way_can_be_seen_in_some_row() -> None:
    seen = {
        (name, text)
        for _, kind, arguments, rounding in _ALL_ROWS
        for _, text, _ in _list_ways(kind, arguments, rounding)[1]
        for name in (operators.find_operator(kind), "*")
    }
    all_ways = {(name, way.text) for name, ways in find.read_ways().items() for way in ways}
    assert all_ways - seen == set()


@pytest.mark.parametrize("needs", NEEDS)
def test_data_that_show_a_way_have_what_it_needs(needs: str) -> None:
    count = 0
    for _, kind, arguments, rounding in _ALL_ROWS:
        right, ways = _list_ways(kind, arguments, rounding)
        for way in find.read_ways().get(operators.find_operator(kind), ()):
            if way.needs == needs and any(way.text == text for _, text, _ in ways):
                count += 1
                assert has_data(needs, [*arguments.values(), right]), (kind, way.text)
    assert count or needs == "subnormal"  # a way of every operator alone


@pytest.mark.parametrize(("name", "kind", "arguments", "rounding"), _ALL_ROWS, ids=_ALL_IDS)
def test_noise_gets_no_name(
    name: str, kind: str, arguments: dict[str, Any], rounding: float
) -> None:
    rng = np.random.Generator(np.random.PCG64(len(name)))
    right = np.asarray(operators.compute(kind, arguments))
    if right.size < 3 or right.dtype == bool:  # one number fits many ways by chance
        return
    scale = np.abs(right[np.isfinite(right)]).max(initial=0.0) or 1.0
    scale += 0 if right.dtype.kind == "f" else 1e5  # places are few, and one of them fits by chance
    for size in (0.0123,) if rounding else (1e-4, 1e-3, 1e-2, 0.1, 1.0):
        noise = rng.standard_normal(right.shape) * size * scale
        one = np.zeros(right.shape)
        one.flat[rng.integers(right.size)] = size * scale
        for change in (noise, one, noise * (rng.random(right.shape) < 0.3), np.abs(noise)):
            with np.errstate(all="ignore"):
                changed = np.where(change == 0, right, right + change)
                obtained = changed.astype(right.dtype if rounding else np.float32)
            stage = find.Stage(
                kind=kind,
                arguments=arguments,
                expected=right,
                obtained=obtained,
                rounding=rounding,
            )
            assert find.find_stage_cause(stage).ways == ()


_MODULE_ROWS = [
    ("Linear", (4, 6), {}, [(3, 4)]),
    ("LayerNorm", (8,), {}, [(3, 8)]),
    ("RMSNorm", (8,), {}, [(3, 8)]),
    ("BatchNorm2d", (3,), {}, [(2, 3, 4, 4)]),
    ("GroupNorm", (2, 6), {}, [(2, 6, 4)]),
    ("InstanceNorm1d", (3,), {"affine": True}, [(2, 3, 5)]),
    ("Conv1d", (3, 4, 3), {"padding": "same"}, [(2, 3, 8)]),
    ("Conv2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [(2, 4, 7, 7)]),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1}, [(2, 4, 5, 5)]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 7, 7)]),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False}, [(2, 3, 7, 7)]),
    ("AdaptiveAvgPool2d", (2,), {}, [(2, 3, 7, 5)]),
    ("Upsample", (), {"scale_factor": 2.0, "mode": "bilinear"}, [(1, 2, 4, 5)]),
    ("Upsample", (), {"size": (7, 6), "mode": "bicubic", "align_corners": True}, [(1, 2, 4, 5)]),
    ("GELU", ("tanh",), {}, [(3, 8)]),
    ("SiLU", (), {}, [(3, 8)]),
    ("ELU", (0.7,), {}, [(3, 8)]),
    ("LeakyReLU", (0.2,), {}, [(3, 8)]),
    ("Softplus", (2.0,), {}, [(3, 8)]),
    ("Softmax", (1,), {}, [(3, 8)]),
    ("LogSoftmax", (1,), {}, [(3, 8)]),
    ("Flatten", (), {}, [(3, 4, 5)]),
    ("MultiheadAttention", (8, 2), {"batch_first": True}, [(2, 5, 8), (2, 5, 8), (2, 5, 8)]),
    ("MultiheadAttention", (8, 2), {"bias": False}, [(5, 2, 8), (5, 2, 8), (5, 2, 8)]),
    ("LSTM", (4, 5), {"num_layers": 2, "bidirectional": True, "batch_first": True}, [(2, 6, 4)]),
    ("GRU", (4, 5), {"bias": False}, [(6, 2, 4)]),
    ("Dropout", (0.3,), {}, [(3, 8)]),
    ("MSELoss", (), {}, [(3, 4), (3, 4)]),
    ("SmoothL1Loss", (), {"beta": 0.3, "reduction": "sum"}, [(3, 4), (3, 4)]),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, [(3, 4), (3, 4)]),
]


@pytest.mark.parametrize(("kind", "args", "options", "shapes"), _MODULE_ROWS)
def test_traced_module_is_computed_from_its_settings(
    kind: str, args: tuple[Any, ...], options: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    module = getattr(torch.nn, kind)(*args, **options).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(draw(*parameter.shape)))
    names = list(inspect.signature(module.forward).parameters)
    tensors = [torch.from_numpy(draw(*shape)).float() for shape in shapes]
    inputs = dict(zip(names, tensors, strict=False))
    trace = ModuleTrace(module, inputs)
    stage = trace.stages[0]  # further outputs of a layer come after it
    state = {key.removeprefix("."): value.numpy() for key, value in module.state_dict().items()}
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()} | state
    fed = {key: arrays[feed] for key, feed in stage.feeds.items()}
    value = operators.compute(kind, {**stage.arguments, **fed})
    np.testing.assert_allclose(value, stage.value, rtol=1e-5, atol=1e-5)
