"""Checkpoints that torch itself saves: states, layouts and names; a reader must load them."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

from parity.lab.libraries import import_library
from parity.lab.zoo.case import draw_dyadic, make_random, make_rows

_SAVE = "torch.save, read back by torch.load"
_PROTOCOL_4 = f"{_SAVE}; weights_only lacks the opcodes of protocol 4"
_VIEW = "torch._utils._rebuild_tensor_v2: storage, offset, size, stride"
_NAME = "a key of a dict is any string; BINUNICODE, CPython Lib/pickletools.py"


def make_f32(name: str, *shape: int) -> Any:
    """Make a tensor of short dyadic numbers."""
    return import_library("torch").from_numpy(draw_dyadic(name, *shape))


def save(state: Any, *, checksums: bool = True, **options: Any) -> bytes:
    """Build what ``torch.save`` writes; a buffer has no name that would become part of it."""
    buffer = io.BytesIO()
    settings = import_library("torch.serialization")
    before = settings.get_crc32_options()
    settings.set_crc32_options(checksums)
    try:
        import_library("torch").save(state, buffer, **options)
    finally:
        settings.set_crc32_options(before)
    return buffer.getvalue()


def save_w(tensor: Any) -> bytes:
    """Build a checkpoint with the tensor ``w``."""
    return save({"w": tensor})


def _make_plain() -> dict[str, Any]:
    return {"weight": make_f32("plain", 3, 5), "bias": make_f32("bias", 3)}


def _make_parameter(values: Any) -> Any:
    return import_library("torch").nn.Parameter(values)


def _make_attributed(tensor: Any) -> Any:
    tensor.tag = "a Python attribute"
    return tensor


def _make_uint16() -> Any:
    codes = make_random("attributed uint16").draw_bytes(7, 6)
    return import_library("torch").from_numpy(codes.view("<u2")).t()


def _make_checkpoint() -> dict[str, Any]:
    views = make_f32("nested views", 6, 7)
    state = {"a": views[1:4].t(), "b": views[:, 2:5]}
    return {"model": {"state_dict": state}, "config": {"lr": 0.5}, "epoch": 3}


def _make_module_state() -> Any:
    torch = import_library("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    state = model.state_dict()
    for key in state:
        state[key] = make_f32(key, *state[key].shape)
    return state


def _make_many() -> dict[str, Any]:
    shared = make_f32("many", 290)
    return {f"p{index:03}": shared[index : index + 1 + index % 4] for index in range(280)}


def _make_large_offset() -> Any:
    halves = import_library("torch").from_numpy(draw_dyadic("far", 66_006, most=7)).half()
    return halves[66_000:]


def _make_shared_pair() -> dict[str, Any]:
    flat = make_f32("flat", 30)
    return {"left": flat[:12].view(3, 4), "right": flat[6:26].view(4, 5).t()}


def _make_images() -> Any:
    images = make_f32("images", 2, 3, 4, 5)
    return images.contiguous(memory_format=import_library("torch").channels_last)


yes = make_rows("pth-y", _VIEW)
# fmt: off
_STATES = [
    yes("zip", "a dict of two tensors in a zip, as torch.save writes by default",
        lambda: save(_make_plain()), _SAVE),
    yes("ordered-dict", "an OrderedDict, which REDUCE makes empty and SETITEMS fills",
        lambda: save(OrderedDict(_make_plain())), _SAVE),
    yes("module", "a module's state dict, whose _metadata BUILD attaches",
        lambda: save(_make_module_state()), _SAVE),
    yes("parameter", "a Parameter around its tensor",
        lambda: save({"weight": _make_parameter(make_f32("parameter", 4, 3))}),
        "torch._utils._rebuild_parameter"),
    yes("nested", "a state dict beside an epoch and a loss; a tensor under a, then b is a.b",
        lambda: save(
            {"state_dict": {"fc.weight": make_f32("nested", 2, 5)}, "epoch": 7, "loss": 0.5}),
        _SAVE),
    yes("nested-views", "a state dict two keys deep; its tensors are views of one storage",
        lambda: save(_make_checkpoint()), _SAVE),
    yes("parameter-with-state", "a transposed Parameter with a Python attribute",
        lambda: save({"weight": _make_attributed(_make_parameter(make_f32("stateful", 3, 4).t()))}),
        "torch._utils._rebuild_parameter_with_state"),
    yes("tensor-with-state", "a transposed tensor with a Python attribute",
        lambda: save_w(_make_attributed(make_f32("of type", 3, 5).t())),
        "torch._tensor._rebuild_from_type_v2"),
    yes("uint16-with-state", "a transposed tensor of uint16 with a Python attribute",
        lambda: save_w(_make_attributed(_make_uint16())),
        "torch._tensor._rebuild_from_type_v2 around _rebuild_tensor_v3"),
    yes("many-entries", "280 entries: memo indices beyond 255 need LONG_BINPUT and LONG_BINGET",
        lambda: save(_make_many()), _SAVE),
    yes("protocol-3", "pickle protocol 3", lambda: save(_make_plain(), pickle_protocol=3), _SAVE),
    yes("protocol-4", "pickle protocol 4: FRAME, SHORT_BINUNICODE, MEMOIZE, STACK_GLOBAL",
        lambda: save(_make_plain(), pickle_protocol=4), _PROTOCOL_4),
    yes("protocol-5", "pickle protocol 5", lambda: save(_make_plain(), pickle_protocol=5),
        _PROTOCOL_4),
    yes("no-checksums", "members whose CRC-32 is not computed",
        lambda: save(_make_plain(), checksums=False), "torch.serialization.set_crc32_options"),
]
_LAYOUTS = [
    yes("transposed", "a transposed matrix: strides 1 and 7",
        lambda: save_w(make_f32("transposed", 5, 7).t())),
    yes("permuted", "three permuted axes",
        lambda: save_w(make_f32("permuted", 2, 3, 4).permute(2, 0, 1))),
    yes("channels-last", "channels_last: the second axis varies fastest",
        lambda: save_w(_make_images())),
    yes("columns", "a slice of columns: rows with gaps between them",
        lambda: save_w(make_f32("layouts", 7, 9)[:, 2:6])),
    yes("rows", "a slice of rows: contiguous, at an offset",
        lambda: save_w(make_f32("layouts", 7, 9)[2:5])),
    yes("stepped", "every third row, every second column",
        lambda: save_w(make_f32("layouts", 7, 9)[1::3, ::2])),
    yes("expanded", "an expanded axis: stride 0",
        lambda: save_w(make_f32("expanded", 1, 6).expand(4, 6))),
    yes("offset", "a storage offset", lambda: save_w(make_f32("flat", 30)[11:])),
    yes("large-offset", "an offset beyond 16 bits, which needs BININT",
        lambda: save_w(_make_large_offset())),
    yes("fortran", "column-major: shape [3, 4], strides 1 and 3",
        lambda: save_w(make_f32("fortran", 4, 3).t())),
    yes("overlapping", "rows that share elements: shape [14, 4], strides 2 and 1",
        lambda: save_w(make_f32("flat", 30).unfold(0, 4, 2))),
    yes("scalar", "a scalar: no dimensions, one element", lambda: save_w(make_f32("scalar"))),
    yes("ones", "dimensions of one element", lambda: save_w(make_f32("ones", 1, 1, 5, 1))),
    yes("six-dims", "six dimensions, two of them swapped",
        lambda: save_w(make_f32("six", 2, 1, 3, 2, 1, 2).transpose(0, 3))),
    yes("shared-storage", "two tensors on one storage, one of them transposed",
        lambda: save(_make_shared_pair())),
    yes("tied", "one tensor under two names: the second is a BINGET",
        lambda: save(dict.fromkeys(["embed.weight", "head.weight"], make_f32("layouts", 7, 9))),
        _SAVE),
    yes("empty", "a tensor without an element beside one with some",
        lambda: save(
            {"none": import_library("torch").empty(0, 3), "some": make_f32("some", 2, 3)}), _SAVE),
]
_NAMES = [
    yes("name-dots", "dots in a name", lambda: save({"a.b.0.weight": make_f32("dots", 2, 3)}),
        _NAME),
    yes("name-slash", "a slash in a name", lambda: save({"block/weight": make_f32("slash", 2, 3)}),
        _NAME),
    yes("name-spaces", "a space in a name", lambda: save({"my weight": make_f32("spaces", 2, 3)}),
        _NAME),
    yes("name-unicode", "a name beyond ASCII",
        lambda: save({"größe.重み": make_f32("unicode", 2, 3)}), _NAME),
    yes("name-long", "a name of 300 characters", lambda: save({"w" * 300: make_f32("long", 2, 3)}),
        _NAME),
    yes("name-case-twins", "two names that differ by case alone",
        lambda: save({"Weight": make_f32("upper", 2, 3), "weight": make_f32("lower", 2, 3)}),
        _NAME),
]
# fmt: on
CASES = [*_STATES, *_LAYOUTS, *_NAMES]
