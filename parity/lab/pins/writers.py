"""Make `writer-parity-v1`: tensors that a port must write as .safetensors, .npy, .pth and GGUF.

The port reads a small file, and writes its tensors in a format. The references are those
tensors themselves, so that nothing is computed; the words of a case say what its program does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity.lab.bundle_writer import BundleWriter
from parity.lab.pins.packing import encode_json, encode_provenance
from parity.lab.readers.libraries import READERS
from parity.lab.writers import build_gguf, build_written, build_zip, push_view
from parity.lab.zoo import pth_builder
from parity.lab.zoo.case import SEED, ExpectedTensor, draw_dyadic, make_expected, make_random
from parity.lab.zoo.gguf_blocks import build_blocks, find_block_size, find_type_code
from parity.lab.zoo.gguf_builder import TensorInfo
from parity.lab.zoo.safetensors_builder import build_file
from parity.tensors.dtypes import DTYPES

BUNDLE = "writer-parity-v1"
_INPUT, _REFERENCE = "input.safetensors", "reference.safetensors"
_ARCHITECTURE = {"general.architecture": "test"}
_SAFETENSORS, _NPY, _GGUF, _PTH = _FORMS = ("safetensors", "npy", "gguf", "pth")
_GGUF_DTYPES = ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64")
_RULES = {
    _SAFETENSORS: "safetensors README, Format",
    _NPY: "NEP 1",
    _GGUF: "ggml docs/gguf.md",
    _PTH: "torch.save; caffe2/serialize/inline_container.h",
}


def pin(target_dir: Path) -> Path:
    """Write ``writer-parity-v1.tar`` into ``target_dir``; return its path. There are no options.

    Raises:
        ConfigError: A library is missing.
        ReferenceSuspectError: As ``BundleWriter.write``.
    """
    writer = BundleWriter(BUNDLE)
    for dtype in [one for one in DTYPES if one != "C128"]:  # which no .safetensors can have
        tensors = {"values": _draw_values(dtype, 3, 5), "row": _draw_values(dtype, 7)}
        _add_set(writer, f"dtype-{dtype.lower()}", tensors, f"elements of {dtype}", _support(dtype))
    for name, (tensors, why, forms) in _make_sets().items():
        _add_set(writer, name, tensors, why, forms)
    _add_metadata(writer)
    _add_again(writer)
    _add_shards(writer)
    _add_views(writer)
    _add_quantised(writer)
    provenance = encode_provenance(BUNDLE, libraries=("gguf", "numpy"), seeds={"data": SEED})
    writer.add_file("provenance.json", provenance)
    return writer.write(target_dir)


def _support(dtype: str) -> tuple[str, ...]:
    """Return the formats that have a dtype."""
    is_numpy = DTYPES[dtype].is_native or dtype == "BOOL"
    forms = {_NPY: is_numpy, _GGUF: dtype in _GGUF_DTYPES}
    return tuple(form for form in _FORMS if forms.get(form, True))


def _draw_values(dtype: str, *shape: int) -> ExpectedTensor:
    """Draw elements of any bits but NaN, beginning with the smallest and the largest codes."""
    row, count = DTYPES[dtype], int(np.prod(shape))
    raw = make_random(f"write {dtype} {shape}").draw_bytes(count * row.storage.itemsize)
    stored = raw.view(row.storage).copy()
    if row.kind == "bool":
        stored &= 1
    elif row.kind != "int":
        stored[np.isnan(row.decode(stored))] = 0
    elif count > 1:
        stored[:2] = np.iinfo(row.storage).min, np.iinfo(row.storage).max
    return ExpectedTensor(dtype, shape, stored.tobytes())


def _draw_f32(name: str, *shape: int) -> ExpectedTensor:
    return make_expected(draw_dyadic(f"write {name}", *shape).astype("<f4"), "F32")


def _make_sets() -> dict[str, tuple[dict[str, ExpectedTensor], str, tuple[str, ...]]]:
    """Return sets of tensors by name, each with its feature and the formats that can have it."""
    shapes = {"row": (7,), "one": (1,), "matrix": (2, 3), "cube": (2, 3, 4), "four": (1, 2, 1, 5)}
    plain = {"a b": (2, 3), "größe.重み": (3,), "with-dash_and.dot": (2, 2)}
    texts = {"model.layers.0.self_attn.weight": (2, 2), 'q"uo\\te': (2,), "tab\tname": (3,)}
    texts["n" * 63] = (2,)
    far = {"x" * 200: (3,), "with/slash": (2,), "🦀": (2,), "__metadata": (2,)}
    not_npy, not_gguf = (_SAFETENSORS, _GGUF, _PTH), (_SAFETENSORS, _NPY, _PTH)
    any_name = (_SAFETENSORS, _PTH)
    return {
        "shapes": (_draw_all(shapes), "one to four dimensions, some of length 1", _FORMS),
        "scalar": (_draw_all({"scalar": (), "w": (2,)}), "a scalar without dimensions", not_gguf),
        "empty": (
            _draw_all({"none": (0, 3), "w": (2, 2), "nil": (2, 0)}),
            "tensors without elements",
            _FORMS,
        ),
        "six-dims": (_draw_all({"w": (1, 2, 1, 3, 1, 2)}), "six dimensions", not_gguf),
        "names": (_draw_all(plain), "names with a blank, letters beyond ASCII, dots", _FORMS),
        "names-quoted": (_draw_all(texts), "names that are escaped, and long ones", not_npy),
        "names-long": (_draw_all(far), "200 bytes, a slash, an emoji in names", any_name),
        "many": (dict(_draw_many()), "40 tensors of odd sizes and four dtypes", not_npy),
    }


def _draw_all(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, ExpectedTensor]:
    return {name: _draw_f32(name, *shape) for name, shape in shapes.items()}


def _draw_many() -> Iterator[tuple[str, ExpectedTensor]]:
    sizes = make_random("write sizes").draw_integers(1, 50, 40)
    for number, size in enumerate(sizes):
        dtype = ("F32", "F16", "I8", "I64")[number % 4]
        name = f"layer.{number}.{dtype.lower()}"
        raw = make_random(f"write {name}").draw_bytes(int(size) * DTYPES[dtype].storage.itemsize)
        if dtype in ("F32", "F16"):
            raw = (raw.view(f"<u{2 if dtype == 'F16' else 4}") & 0x3FFF).view("u1")
        yield name, ExpectedTensor(dtype, (int(size),), raw.tobytes())


def _add_set(
    writer: BundleWriter,
    name: str,
    tensors: Mapping[str, ExpectedTensor],
    why: str,
    forms: tuple[str, ...],
) -> None:
    writer.add_file(f"{name}/{_INPUT}", build_file(dict(sorted(tensors.items())), _ARCHITECTURE))
    for form in forms:
        entry = _describe(form, name, why, _name_files(form, tensors))
        writer.manifest["cases"][f"{form}/{name}"] = entry | (
            {"metadata": True} if form == _GGUF else {}
        )


def _name_files(form: str, tensors: Mapping[str, Any]) -> dict[str, str]:
    return {f"{name}.npy": form for name in tensors} if form == _NPY else {f"out.{form}": form}


def _describe(form: str, folder: str, why: str, writes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "folder": folder,
        "group": form,
        "expect": "load",
        "why": why,
        "rule": _RULES[form],
        "words": {"input": _INPUT, "mode": "once"},
        "reference": _INPUT,
        "writes": dict(writes),
    }


def _add_metadata(writer: BundleWriter) -> None:
    """Add text beside the tensors, and of GGUF values of all types."""
    text = {"format": "pt", "author": 'Ünï "q" \\', "long": "x" * 300, "empty": ""}
    typed = {
        **_ARCHITECTURE,
        "general.alignment": "uint32 64",
        "test.bytes": "uint8[] [0, 255]",
        "test.count": "uint64 9007199254740993",
        "test.flag": "bool true",
        "test.name": "Ünï",
        "test.names": 'string[] ["a", "", "ü"]',
        "test.negative": "int32 -5",
        "test.rate": "float32 0.5",
        "test.sizes": "int32[] [1, -2, 3]",
        "test.wide": "float64 0.1",
    }
    tensors = _draw_all({"w": (2, 3), "bias": (3,)})
    for folder, metadata, forms in (
        ("metadata", text, (_SAFETENSORS, _PTH)),
        ("metadata-typed", typed, (_GGUF,)),
    ):
        writer.add_file(f"{folder}/{_INPUT}", build_file(dict(sorted(tensors.items())), metadata))
        for form in forms:
            entry = _describe(
                form, folder, "metadata beside the tensors", _name_files(form, tensors)
            )
            writer.manifest["cases"][f"{form}/{folder}"] = {**entry, "metadata": True}


def _add_again(writer: BundleWriter) -> None:
    """Add round trips: a file is read, written, read and written again.

    No document of the four formats prescribes one form of a content. Of safetensors and .npy the
    second file must have the bytes of the first, since their own libraries write the same content
    in the same way; of GGUF and .pth, where it replaces the first, its content is compared.
    """
    tensors = _draw_all({"matrix": (2, 3), "row": (5,)})
    for form in _FORMS:
        source = {"row": tensors["row"]} if form == _NPY else tensors
        folder, name = f"again-{form}", "row.npy" if form == _NPY else f"input.{form}"
        metadata = _ARCHITECTURE if form == _GGUF else {}
        writer.add_file(f"{folder}/{name}", build_written(form, source, metadata))
        entry = _describe(form, folder, "read, written, read and written again", {})
        entry["words"] |= {"input": name, "mode": "again"}
        if form in (_GGUF, _PTH):
            writer.add_file(f"{folder}/{_REFERENCE}", build_file(dict(sorted(source.items()))))
            entry |= {"reference": _REFERENCE, "inputs": [name], "writes": {f"out.{form}": form}}
            entry["words"]["mode"] = "over"
        else:
            first, second = (
                ("row.npy", "again/row.npy") if form == _NPY else (f"out.{form}", f"again.{form}")
            )
            entry |= {"reference": name, "writes": {first: form, second: first}}
        writer.manifest["cases"][f"{form}/again"] = entry


def _add_shards(writer: BundleWriter) -> None:
    tensors = _draw_all({"a": (2, 3), "b": (4,), "c": (3, 2), "d": (5,)})
    names = [f"out-0000{number}-of-00002.safetensors" for number in (1, 2)]
    index = "out.safetensors.index.json"
    total = sum(len(one.raw) for one in tensors.values())
    places = dict(zip(tensors, (names[0], names[0], names[1], names[1]), strict=True))
    writer.add_file(f"shards/{_INPUT}", build_file(tensors))
    writer.add_file(
        f"shards/{index}", encode_json({"metadata": {"total_size": total}, "weight_map": places})
    )
    writer.manifest["cases"]["safetensors/shards"] = {
        **_describe(_SAFETENSORS, "shards", "two files and their index", {}),
        "words": {"input": _INPUT, "mode": "shards"},
        "writes": dict.fromkeys(names, _SAFETENSORS),
        "json": {index: "exact"},
    }


def _add_views(writer: BundleWriter) -> None:
    """Add a .pth whose tensors are views of one storage."""
    data = draw_dyadic("write views", 24).astype("<f4")
    whole = make_expected(data, "F32")
    views: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
        "columns": (0, (6, 4), (1, 6)),
        "expanded": (2, (3, 2), (0, 1)),
        "shared": (0, (4, 6), (6, 1)),
        "sliced": (7, (2, 3), (6, 1)),
        "stepped": (1, (4,), (5,)),
    }
    pickled, expected = [], {}
    for name, (offset, size, stride) in views.items():
        view = {"offset": offset, "size": size, "stride": stride}
        pickled.append((name, push_view("0", whole, **view)))
        steps = tuple(4 * step for step in stride)
        array = np.lib.stride_tricks.as_strided(data[offset:], size, steps)
        expected[name] = make_expected(array, "F32")
    members = {
        "data.pkl": pth_builder.build_pickle(pth_builder.push_dict(*pickled)),
        "byteorder": b"little",
        "data/0": whole.raw,
        "version": b"3\n",
    }
    members = {f"archive/{name}": raw for name, raw in members.items()}
    writer.add_file("views/input.pth", build_zip(members.items()))
    writer.add_file(f"views/{_REFERENCE}", build_file(expected))
    why = "views of a shared storage, written as tensors of their own or as views"
    for form in (_SAFETENSORS, _NPY, _PTH):
        entry = _describe(form, "views", why, _name_files(form, expected))
        entry |= {"reference": _REFERENCE, "inputs": ["input.pth"]}
        entry["words"]["input"] = "input.pth"
        writer.manifest["cases"][f"{form}/views"] = entry


def _add_quantised(writer: BundleWriter) -> None:
    """Add a GGUF with blocks of four types, which must be written as they are."""
    infos = [
        TensorInfo(
            name=kind.lower(),
            dims=(2 * find_block_size(kind)[0], 2),
            kind=find_type_code(kind),
            data=build_blocks(kind, 4, f"write {kind}"),
        )
        for kind in ("Q4_0", "Q8_0", "Q4_K", "Q6_K")
    ]
    metadata = {**_ARCHITECTURE, "general.quantization_version": "uint32 2"}
    content = build_gguf(infos, metadata)
    writer.add_file("quantised/input.gguf", content)
    writer.add_file(f"quantised/{_REFERENCE}", build_file(dict(_decode(content)), metadata))
    writer.manifest["cases"]["gguf/quantised"] = {
        **_describe(_GGUF, "quantised", "blocks of four types, as they are", {"out.gguf": _GGUF}),
        "words": {"input": "input.gguf", "mode": "once"},
        "checkpoint": "input.gguf",
        "reference": _REFERENCE,
        "metadata": True,
    }


def _decode(content: bytes) -> Iterator[tuple[str, ExpectedTensor]]:
    """Decode with gguf-py; its shapes are in the stored order."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.gguf")
        path.write_bytes(content)
        found = READERS["gguf-py"]()(path)()
    for name, (dtype, shape, raw) in sorted(found.items()):
        yield name, ExpectedTensor(dtype, tuple(shape)[::-1], raw)
