"""What torch itself saves: layouts, dtypes, values and names."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

from parity.lab.pins.libraries import import_library
from parity.lab.zoo.case import ZooCase, draw_dyadic

_SAVE = "torch.save, read back by torch.load"
_LACKS = "weights_only lacks the opcodes of protocol 4"
_VIEW = "torch._utils._rebuild_tensor_v2: storage, offset, size, stride"


def saved(state: Any, **options: Any) -> bytes:
    """What ``torch.save`` writes; a buffer has no name that would become part of it."""
    buffer = io.BytesIO()
    import_library("torch").save(state, buffer, **options)
    return buffer.getvalue()


def f32(name: str, *shape: int) -> Any:
    """A tensor of short dyadic numbers."""
    return import_library("torch").from_numpy(draw_dyadic(name, *shape))


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_states(), *_layouts(), *_names()]


def _states() -> list[ZooCase]:
    torch = import_library("torch")
    plain = {"weight": f32("plain", 3, 5), "bias": f32("bias", 3)}
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    state = model.state_dict()
    for key in state:
        state[key] = f32(key, *state[key].shape)
    parameter = {"weight": torch.nn.Parameter(f32("parameter", 4, 3))}
    nested = {"state_dict": {"fc.weight": f32("nested", 2, 5)}, "epoch": 7, "loss": 0.5}
    shared = f32("many", 290)
    many = {f"p{index:03}": shared[index : index + 1 + index % 4] for index in range(280)}
    return [
        make_case("zip", plain, "a dict of two tensors in a zip, as torch.save writes by default"),
        make_case(
            "ordered-dict",
            OrderedDict(plain),
            "an OrderedDict, which REDUCE makes empty and SETITEMS fills",
        ),
        make_case("module", state, "a module's state dict, whose _metadata BUILD attaches"),
        make_case(
            "parameter",
            parameter,
            "a Parameter around its tensor",
            "torch._utils._rebuild_parameter",
        ),
        make_case(
            "nested",
            nested,
            "a state dict beside an epoch and a loss; a tensor under a, then b is a.b",
        ),
        make_case(
            "many-entries",
            many,
            "280 entries: memo indices beyond 255 take LONG_BINPUT and LONG_BINGET",
        ),
        make_case("protocol-3", plain, "pickle protocol 3", pickle_protocol=3),
        make_case(
            "protocol-4",
            plain,
            "pickle protocol 4: FRAME, SHORT_BINUNICODE, MEMOIZE, STACK_GLOBAL",
            f"{_SAVE}; {_LACKS}",
            pickle_protocol=4,
        ),
        make_case(
            "protocol-5", plain, "pickle protocol 5", f"{_SAVE}; {_LACKS}", pickle_protocol=5
        ),
        make_case(
            "no-checksums",
            plain,
            "members whose CRC-32 is not computed",
            "torch.serialization.set_crc32_options",
            crc=False,
        ),
    ]


def make_case(
    name: str, state: Any, why: str, rule: str = _SAVE, *, crc: bool = True, **more: Any
) -> ZooCase:
    """What torch saves of ``state``; positive, unless ``letter`` says otherwise."""
    options = {key: more.pop(key) for key in ["pickle_protocol"] if key in more}
    settings = import_library("torch.serialization")
    before = settings.get_crc32_options()
    settings.set_crc32_options(crc)
    try:
        content = saved(state, **options)
    finally:
        settings.set_crc32_options(before)
    letter = more.pop("letter", "y")
    return ZooCase(id=f"pth-{letter}-{name}", content=content, why=why, rule=rule, **more)


def _layouts() -> list[ZooCase]:
    torch = import_library("torch")
    base, images = f32("layouts", 7, 9), f32("images", 2, 3, 4, 5)
    flat, halves = f32("flat", 30), torch.from_numpy(draw_dyadic("far", 66_006, most=7)).half()
    views: dict[str, tuple[Any, str]] = {
        "transposed": (f32("transposed", 5, 7).t(), "a transposed matrix: strides 1 and 7"),
        "permuted": (f32("permuted", 2, 3, 4).permute(2, 0, 1), "three permuted axes"),
        "channels-last": (
            images.contiguous(memory_format=torch.channels_last),
            "channels_last: the second axis lies fastest",
        ),
        "columns": (base[:, 2:6], "a slice of columns: rows with gaps between them"),
        "rows": (base[2:5], "a slice of rows: contiguous, at an offset"),
        "stepped": (base[1::3, ::2], "every third row, every second column"),
        "expanded": (f32("expanded", 1, 6).expand(4, 6), "an expanded axis: stride 0"),
        "offset": (flat[11:], "a storage offset"),
        "large-offset": (halves[66_000:], "an offset beyond 16 bits, which takes BININT"),
        "fortran": (f32("fortran", 4, 3).t(), "column-major: shape [3, 4], strides 1 and 3"),
        "overlapping": (
            flat.unfold(0, 4, 2),
            "rows that share elements: shape [14, 4], strides 2 and 1",
        ),
        "scalar": (f32("scalar"), "a scalar: no dimensions, one element"),
        "ones": (f32("ones", 1, 1, 5, 1), "dimensions of one element"),
        "six-dims": (
            f32("six", 2, 1, 3, 2, 1, 2).transpose(0, 3),
            "six dimensions, two of them swapped",
        ),
    }
    found = [make_case(name, {"w": view}, why, _VIEW) for name, (view, why) in views.items()]
    pair = {"left": flat[:12].view(3, 4), "right": flat[6:26].view(4, 5).t()}
    tied = {"embed.weight": base, "head.weight": base}
    empty = {"none": torch.empty(0, 3), "some": f32("some", 2, 3)}
    return [
        *found,
        make_case(
            "shared-storage", pair, "two tensors on one storage, one of them transposed", _VIEW
        ),
        make_case("tied", tied, "one tensor under two names: the second is a BINGET"),
        make_case("empty", empty, "a tensor without an element beside one with some"),
    ]


def _names() -> list[ZooCase]:
    made = {
        "dots": ("a.b.0.weight", "dots in a name"),
        "slash": ("block/weight", "a slash in a name"),
        "spaces": ("my weight", "a space in a name"),
        "unicode": ("größe.重み", "a name beyond ASCII"),
        "long": ("w" * 300, "a name of 300 characters"),
    }
    rule = "a key of a dict is any string; BINUNICODE, CPython Lib/pickletools.py"
    found = [
        make_case(f"name-{key}", {name: f32(key, 2, 3)}, why, rule)
        for key, (name, why) in made.items()
    ]
    twins = {"Weight": f32("upper", 2, 3), "weight": f32("lower", 2, 3)}
    return [
        *found,
        make_case("name-case-twins", twins, "two names that differ by case alone", rule),
    ]
