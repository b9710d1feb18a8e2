"""Checkpoints that torch itself saves: dtypes, special values, and tensors that are not plain."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from parity.lab.libraries import import_library
from parity.lab.zoo.accept_pth import make_f32, save_w
from parity.lab.zoo.case import ZooCase, draw_float64, make_random, make_rows

_VIEW = "torch._utils._rebuild_tensor_v2: storage, offset, size, stride"
_IEEE = "IEEE 754; OCP 8-bit floating point"
_SPARSE = "torch._utils._rebuild_sparse_tensor"


def _make_of_dtype(kind: str, rows: int = 3) -> Any:
    """Make a tensor [rows, 5] of random bytes as torch's dtype ``kind``; all of it is finite."""
    torch = import_library("torch")
    dtype = getattr(torch, kind)
    random = make_random(f"torch.{kind}")
    if kind == "bool":
        return torch.from_numpy(random.draw_integers(0, 1, rows, 5)).bool()
    if kind == "float64":
        return torch.from_numpy(draw_float64(f"torch.{kind}", rows, 5, low="low"))
    if kind == "complex64":
        return torch.complex(make_f32("real", rows, 5), make_f32("imaginary", rows, 5))
    if kind.startswith("float8"):
        signs = make_random(f"torch.{kind} signs").draw_integers(0, 1, rows, 5) << 7
        codes = random.draw_integers(1, 0x77, rows, 5) | signs
        codes &= 0x7F if "e8m0" in kind else 0xFF
        return torch.from_numpy(codes.astype(np.uint8)).view(dtype)
    if dtype.is_floating_point:
        return torch.from_numpy(random.draw_dyadic(rows, 5, largest=255)).to(dtype)
    return torch.from_numpy(random.draw_bytes(rows, 5 * dtype.itemsize)).view(dtype)


def _save_of_dtype(kind: str) -> bytes:
    return save_w(_make_of_dtype(kind))


def _save_slice(kind: str) -> bytes:
    return save_w(_make_of_dtype(kind, 13)[1:3])


def _save_bits(kind: str, code: str, *values: int) -> bytes:
    torch = import_library("torch")
    return save_w(torch.from_numpy(np.array(values, code)).view(getattr(torch, kind)))


def _save_float64(*values: float) -> bytes:
    torch = import_library("torch")
    return save_w(torch.tensor(values, dtype=torch.float64))


def _make_dense() -> Any:
    dense = make_f32("sparse", 3, 4)
    dense[:, 1:3] = 0
    return dense


def _save_quantized() -> bytes:
    torch = import_library("torch")
    return save_w(torch.quantize_per_tensor(_make_dense(), 0.25, 3, torch.qint8))


def _save_nested() -> bytes:
    ragged = [make_f32("one", 2, 3), make_f32("two", 4, 3)]
    return save_w(import_library("torch").nested.nested_tensor(ragged))


def _save_negated() -> bytes:
    return save_w(import_library("torch")._neg_view(_make_dense()))  # noqa: SLF001 - nothing public


_DTYPES = {
    "float16": "half precision",
    "bfloat16": "bfloat16, which is not f16",
    "float64": "f64, with low bits that f32 cannot represent",
    "bool": "bools, a byte each",
    "int8": "signed bytes",
    "int16": "16-bit integers",
    "int32": "32-bit integers",
    "int64": "64-bit integers that f32 cannot represent",
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
}
#: Slices of storages that are large enough for elements of four bytes, whatever theirs are.
#: A reader that takes an unknown class for f32 finds too few bytes where a tensor fills its
#: storage, and rejects it; here it finds enough, and is wrong.
_SLICES = {
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
}
yes = make_rows("pth-y", _IEEE)
may = make_rows("pth-i", _SPARSE)
# fmt: off
_SPECIALS = [
    yes("minus-zero", "-0.0 beside 0.0",
        lambda: _save_bits("float32", "i4", -(2**31), 0, -(2**31))),
    yes("infinities", "both infinities",
        lambda: save_w(import_library("torch").tensor([float("inf"), 1.5, -float("inf")]))),
    yes("nan-payload", "NaN, quiet and signalling, with payloads and sign",
        lambda: _save_bits("float32", "i4", 0x7FC12345, 0x7F812345, -0x3FDCBB)),
    yes("subnormals", "subnormal numbers of f32",
        lambda: _save_bits("float32", "i4", 1, 0x007FFFFF, -(2**31) + 0x1234)),
    yes("half-specials", "infinities, NaN, subnormals and -0.0 of f16",
        lambda: _save_bits("float16", "i2", 0x7C00, -0x400, 0x7E01, 1, 0x03FF, -(2**15))),
    yes("bfloat16-specials", "infinities, NaN, subnormals and -0.0 of bfloat16",
        lambda: _save_bits("bfloat16", "i2", 0x7F80, -0x80, 0x7FA4, 1, 0x7F, -(2**15))),
    yes("float8-specials", "infinities, NaN, subnormals and -0.0 of E5M2",
        lambda: _save_bits("float8_e5m2", "i1", 0x7C, -4, 0x7D, 1, 3, -128)),
    yes("double-ties", "f64 half way between two f32, beyond f32, and too small for it",
        lambda: _save_float64(1 + 2**-24, 1 + 3 * 2**-24, 1e300, 1e-310)),
]
#: torch reads them, and a format of tensors need not.
_UNUSUAL = [
    may("sparse-coo", "a sparse COO tensor", lambda: save_w(_make_dense().to_sparse())),
    may("sparse-csr", "a sparse CSR tensor", lambda: save_w(_make_dense().to_sparse_csr())),
    may("quantized", "a quantized tensor", _save_quantized, "torch._utils._rebuild_qtensor"),
    may("nested-tensor", "a nested tensor; right is padding with zeros", _save_nested,
        "torch._utils._rebuild_nested_tensor, which weights_only does not allow"),
    may("negated-view", "a view whose values are negated on reading", _save_negated,
        "_rebuild_tensor_v2: metadata neg"),
    may("conjugated-view", "a view whose values are conjugated on reading",
        lambda: save_w(_make_of_dtype("complex64").conj()), "_rebuild_tensor_v2: metadata conj"),
]
# fmt: on
CASES = [
    *(
        ZooCase(
            f"pth-y-{kind}".replace("_", "-"), partial(_save_of_dtype, kind), why, f"torch.{kind}"
        )
        for kind, why in _DTYPES.items()
    ),
    *(
        ZooCase(
            f"pth-y-{kind}-slice".replace("_", "-"),
            partial(_save_slice, kind),
            f"the second and third row of 13, of {what}",
            _VIEW,
        )
        for kind, what in _SLICES.items()
    ),
    *_SPECIALS,
    *_UNUSUAL,
]
