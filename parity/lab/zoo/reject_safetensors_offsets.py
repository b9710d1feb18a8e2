"""safetensors files that must be refused: offsets, lengths and products."""

from __future__ import annotations

import json

from parity.lab.zoo.accept_safetensors import f32, laid
from parity.lab.zoo.case import ExpectedTensor, ZooCase, draw_dyadic
from parity.lab.zoo.gguf_builder import build_safetensors
from parity.lab.zoo.reject_safetensors import good, make_case, with_fields

_README = "safetensors README, Format"
_LIBRARY = "the library safetensors refuses"


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_offsets(), *_products(), *_silent()]


def _offsets() -> list[ZooCase]:
    def two(first: list[int], second: list[int], size: int = 32) -> bytes:
        header, _ = good()
        header["a"]["data_offsets"], header["b"]["data_offsets"] = first, second
        return build_safetensors(header, draw_dyadic(f"two {first} {second}", 16).tobytes()[:size])

    rule = f"{_README}: the byte buffer is indexed whole and without holes"
    return [
        make_case(
            "offsets-float",
            with_fields("o float", data_offsets=[0, 24.0]),
            "an offset that is a float",
        ),
        make_case("offsets-exponent", _exponent(), "an offset written with an exponent"),
        make_case(
            "offsets-negative", with_fields("o neg", data_offsets=[-24, 0]), "negative offsets"
        ),
        make_case(
            "offsets-reversed",
            with_fields("o rev", data_offsets=[24, 0]),
            "an end before its begin",
        ),
        make_case(
            "offsets-three", with_fields("o three", data_offsets=[0, 12, 24]), "three offsets"
        ),
        make_case("offsets-one", with_fields("o one", data_offsets=[0]), "one offset"),
        make_case(
            "offsets-past-end",
            with_fields("o past", data_offsets=[8, 32]),
            "a tensor that ends past the file",
        ),
        make_case(
            "offsets-2-63",
            with_fields("o 63", data_offsets=[2**63, 2**63 + 24]),
            "offsets beyond 2^63",
        ),
        make_case(
            "offsets-2-64",
            with_fields("o 64", data_offsets=[0, 2**64 + 24]),
            "an offset that wraps around to the right one",
        ),
        make_case(
            "length-short",
            with_fields("short", data_offsets=[0, 20]),
            "offsets that hold less than the shape needs",
        ),
        make_case(
            "length-long",
            with_fields("long", shape=[5]),
            "offsets that hold more than the shape needs",
        ),
        make_case(
            "length-dtype", with_fields("wide", dtype="F64"), "a dtype that needs twice the bytes"
        ),
        make_case(
            "overlap", two([0, 24], [16, 24], 24), "two tensors that share eight bytes", rule
        ),
        make_case(
            "alias", two([0, 24], [0, 8], 24), "a tensor that lies at the start of another", rule
        ),
        make_case(
            "hole", two([0, 24], [28, 36], 36), "a hole of four bytes between two tensors", rule
        ),
        make_case("hole-first", _hole_first(), "four bytes before the first tensor", rule),
    ]


def _exponent() -> bytes:
    header, data = laid({"w": f32("o exp", 6)})
    return build_safetensors(json.dumps(header).replace("24]", "24e0]"), data)


def _hole_first() -> bytes:
    header, data = laid({"w": f32("hole first", 6)})
    header["w"]["data_offsets"] = [4, 28]
    return build_safetensors(header, b"\0\0\0\0" + data)


def _products() -> list[ZooCase]:
    return [
        make_case(
            "product-2-64",
            with_fields("p64", shape=[2**32, 2**32], data_offsets=[0, 0]),
            "a shape whose product is 2^64, zero in 64 bits",
        ),
        make_case(
            "product-wraps",
            with_fields("wraps", shape=[2**62 + 6]),
            "a count whose bytes wrap around to the right length",
        ),
        make_case(
            "shape-2-31", with_fields("s31", shape=[2**31]), "a dimension of 2^31 over 24 bytes"
        ),
        make_case(
            "shape-2-64", with_fields("s64", shape=[2**64 + 6]), "a dimension that no 64 bits hold"
        ),
    ]


def _silent() -> list[ZooCase]:
    """What the document does not forbid: right or refused."""
    huge = {"none": ExpectedTensor("F32", (0, 2**31, 2**20), b""), "some": f32("beside", 3)}
    header, data = laid({"w": f32("extra key", 6)})
    header["w"]["quant"] = "none"
    nul, nul_data = laid({"a\0b": f32("nul", 2)})
    cases = [
        (
            "extra-field",
            build_safetensors(header, data),
            "an entry with a field that the format does not have",
            None,
        ),
        (
            "empty-but-huge",
            build_safetensors(*laid(huge)),
            "a tensor without an element whose other dimensions multiply to 2^51",
            huge,
        ),
        (
            "entry-array",
            build_safetensors({"w": ["F32", [1], [0, 4]]}, draw_dyadic("array", 1).tobytes()),
            "a tensor whose fields stand in an array, in order",
            None,
        ),
        ("name-nul", build_safetensors(nul, nul_data), "a zero byte in a name, escaped", None),
    ]
    return [
        ZooCase(
            id=f"safetensors-i-{name}",
            content=content,
            why=why,
            rule="the document is silent",
            values=values,
        )
        for name, content, why, values in cases
    ]
