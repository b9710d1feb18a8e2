"""What torch itself saves: dtypes, their special values, and tensors that are not plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.lab.pins.libraries import import_library
from parity.lab.zoo.accept_pth import f32, make_case
from parity.lab.zoo.case import ZooCase, draw_dyadic, make_random

if TYPE_CHECKING:
    from collections.abc import Callable

_SAVE = "torch.save, read back by torch.load"
_VIEW = "torch._utils._rebuild_tensor_v2: storage, offset, size, stride"


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_dtypes(), *_slices(), *_specials(), *_unusual()]


def _dtypes() -> list[ZooCase]:
    torch = import_library("torch")
    found = []
    for kind, why in {
        "float16": "half precision",
        "bfloat16": "bfloat16, which is not f16",
        "float64": "f64, with low bits that f32 has not",
        "bool": "bools, a byte each",
        "int8": "signed bytes",
        "int16": "16-bit integers",
        "int32": "32-bit integers",
        "int64": "64-bit integers, beyond what f32 can hold",
        "uint8": "unsigned bytes",
        "uint16": "unsigned 16-bit integers: no storage class, the dtype is an argument",
        "uint32": "unsigned 32-bit integers",
        "uint64": "unsigned 64-bit integers",
        "complex64": "complex numbers of two f32",
        "float8_e4m3fn": "8-bit floats, 4 exponent bits",
        "float8_e5m2": "8-bit floats, 5 exponent bits",
        "float8_e4m3fnuz": "8-bit floats, 4 exponent bits of bias 8, one zero",
        "float8_e5m2fnuz": "8-bit floats, 5 exponent bits of bias 16, one zero",
        "float8_e8m0fnu": "8-bit floats, an exponent alone",
    }.items():
        tensor = of_dtype(getattr(torch, kind))
        name = kind.replace("_", "-")
        found.append(make_case(name, {"w": tensor}, why, f"torch.{kind}"))
    return found


def _slices() -> list[ZooCase]:
    """Storages that are large enough for elements of four bytes, whatever theirs are.

    A reader that takes a class it does not know for f32 finds too few bytes where a tensor
    fills its storage, and refuses; here it would find enough, and be wrong.
    """
    torch = import_library("torch")
    found = []
    for kind, what in {
        "float16": "f16",
        "bfloat16": "bfloat16",
        "float64": "f64",
        "bool": "bools",
        "int8": "signed bytes",
        "uint8": "unsigned bytes",
        "int16": "16-bit integers",
        "int64": "64-bit integers",
        "uint16": "uint16, whose storage counts bytes while the offset counts elements",
        "float8_e4m3fn": "8-bit floats of 4 exponent bits",
        "float8_e5m2": "8-bit floats of 5 exponent bits",
    }.items():
        tensor = of_dtype(getattr(torch, kind), 13)[1:3]
        why = f"the second and third row of 13, of {what}"
        found.append(make_case(f"{kind.replace('_', '-')}-slice", {"w": tensor}, why, _VIEW))
    return found


def of_dtype(dtype: Any, rows: int = 3) -> Any:
    """A tensor [rows, 5] of random bytes as ``dtype`` sees them, all of them finite."""
    torch = import_library("torch")
    name = str(dtype)
    if dtype == torch.bool:
        return torch.from_numpy(make_random(name).draw_integers(0, 1, rows, 5)).bool()
    if dtype.is_floating_point and dtype.itemsize == 1:
        signs = make_random(f"{name} signs").draw_integers(0, 1, rows, 5) << 7
        codes = make_random(name).draw_integers(1, 0x77, rows, 5) | signs
        codes &= 0xFF if "e8m0" not in name else 0x7F
        return torch.from_numpy(codes.astype(np.uint8)).view(dtype)
    if dtype == torch.float64:
        low = make_random("low").draw_integers(1, 2**20, rows, 5) / 2.0**40
        return torch.from_numpy(draw_dyadic(name, rows, 5).astype(np.float64) + low)
    if dtype == torch.complex64:
        return torch.complex(f32("real", rows, 5), f32("imaginary", rows, 5))
    if dtype.is_floating_point:
        return torch.from_numpy(make_random(name).draw_dyadic(rows, 5, largest=255)).to(dtype)
    return torch.from_numpy(make_random(name).draw_bytes(rows, 5 * dtype.itemsize)).view(dtype)


def _specials() -> list[ZooCase]:
    torch = import_library("torch")

    def bits(code: str, dtype: Any, *values: int) -> Any:
        return torch.from_numpy(np.array(values, code)).view(dtype)

    made: list[tuple[str, Any, str]] = [
        ("minus-zero", bits("i4", torch.float32, -(2**31), 0, -(2**31)), "-0.0 beside 0.0"),
        ("infinities", torch.tensor([float("inf"), 1.5, -float("inf")]), "both infinities"),
        (
            "nan-payload",
            bits("i4", torch.float32, 0x7FC12345, 0x7F812345, -0x3FDCBB),
            "NaN, quiet and signalling, with payloads and sign",
        ),
        (
            "subnormals",
            bits("i4", torch.float32, 1, 0x007FFFFF, -(2**31) + 0x1234),
            "subnormal numbers of f32",
        ),
        (
            "half-specials",
            bits("i2", torch.float16, 0x7C00, -0x400, 0x7E01, 1, 0x03FF, -(2**15)),
            "infinities, NaN, subnormals and -0.0 of f16",
        ),
        (
            "bfloat16-specials",
            bits("i2", torch.bfloat16, 0x7F80, -0x80, 0x7FA4, 1, 0x7F, -(2**15)),
            "infinities, NaN, subnormals and -0.0 of bfloat16",
        ),
        (
            "float8-specials",
            bits("i1", torch.float8_e5m2, 0x7C, -4, 0x7D, 1, 3, -128),
            "infinities, NaN, subnormals and -0.0 of E5M2",
        ),
        (
            "double-ties",
            torch.tensor([1 + 2**-24, 1 + 3 * 2**-24, 1e300, 1e-310], dtype=torch.float64),
            "f64 half way between two f32, beyond f32, and too small for it",
        ),
    ]
    return [
        make_case(name, {"w": tensor}, why, "IEEE 754; OCP 8-bit floating point")
        for name, tensor, why in made
    ]


def _unusual() -> list[ZooCase]:
    """What torch reads and a format of tensors need not: right or refused."""
    torch = import_library("torch")
    dense = f32("sparse", 3, 4)
    dense[:, 1:3] = 0
    ragged = [f32("one", 2, 3), f32("two", 4, 3)]
    made: list[tuple[str, Callable[[], Any], str, str]] = [
        (
            "sparse-coo",
            dense.to_sparse,
            "a sparse COO tensor",
            "torch._utils._rebuild_sparse_tensor",
        ),
        (
            "sparse-csr",
            dense.to_sparse_csr,
            "a sparse CSR tensor",
            "torch._utils._rebuild_sparse_tensor",
        ),
        (
            "quantized",
            lambda: torch.quantize_per_tensor(dense, 0.25, 3, torch.qint8),
            "a quantized tensor",
            "torch._utils._rebuild_qtensor",
        ),
        (
            "nested-tensor",
            lambda: torch.nested.nested_tensor(ragged),
            "a nested tensor; right is padding with zeros",
            "torch._utils._rebuild_nested_tensor, which weights_only does not allow",
        ),
        (
            "negated-view",
            lambda: torch._neg_view(dense),
            "a view whose values are negated on reading",
            "_rebuild_tensor_v2: metadata neg",
        ),
        (
            "conjugated-view",
            lambda: of_dtype(torch.complex64).conj(),
            "a view whose values are conjugated on reading",
            "_rebuild_tensor_v2: metadata conj",
        ),
    ]
    return [make_case(name, {"w": make()}, why, rule, letter="i") for name, make, why, rule in made]
