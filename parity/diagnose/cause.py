"""The result of a diagnosis: a cause that the data prove, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A cause.

    Attributes:
        code: Kebab-case word of ``CODES``; two causes at once are two words with a ``+``.
        text: The mistake, in a clause.
        evidence: The proof, with the number of elements that it covers.
        complete: It explains every element that differs.
    """

    code: str
    text: str
    evidence: str
    complete: bool = True

    def __str__(self) -> str:
        return f"{self.text}: {self.evidence}"


#: What each code means. A mistake of GGUF's block types is ``block-`` and the name that
#: ``parity.checkpoints.blocks`` gives it.
CODES: dict[str, str] = {
    # Values of a whole tensor or of a part of it.
    "all-zero": "all values are zero",
    "all-equal": "all elements have one value",
    "zero-tail": "right up to an element, then only zeros",
    "zero-block": "right but for a run of zeros",
    "only-nan": "right but for elements that are NaN or infinite",
    "zero-sign-lost": "right but for the sign of zeros",
    # Places of elements.
    "transposed": "two axes are exchanged",
    "axes-permuted": "the axes are in another order",
    "dims-reversed": "all axes are in the reverse order",
    "strides-ignored": "the order of the storage, not of the tensor",
    "offset-ignored": "the storage was read from its first element",
    "shifted": "elements or bytes are further on or back",
    "rolled": "elements are shifted, those that fall out come in at the other end",
    "reversed": "the elements run backwards, or those along an axis",
    "rows-permuted": "the rows are in another order",
    "columns-permuted": "the columns are in another order",
    "slices-permuted": "the slices along an inner axis are in another order",
    "other-tensor": "the values of another tensor of the bundle",
    # Changes of each element.
    "byte-swapped": "bytes are in the reverse order",
    "other-dtype": "bytes were read as another dtype",
    "bits-as-integers": "the bits of floats were read as integers",
    "rounded-f16": "values went through float16",
    "rounded-f32": "values went through float32",
    "rounded-bf16": "values went through bfloat16",
    "rounded-f64": "integers went through float64",
    "cut-bf16": "values were cut to bfloat16 without rounding",
    "narrowed": "values went through a narrower float, and more than one fits",
    "subnormals-lost": "subnormal numbers became zero",
    "negatives-lost": "negative values became zero",
    "sign-flipped": "every sign is the opposite one",
    "sign-lost": "every sign was lost",
    "factor": "every value is multiplied by one number",
    "addend": "one number is added to every value",
    "rounding": "differences of a few units in the last place, or of 1 in integers",
    "low-bits": "only the low bits of integers were kept",
    "saturated": "integers stop at the limits of a narrower type",
    "inverted": "all bits, or all booleans, are inverted",
    "conjugated": "every complex number is conjugated",
    "parts-exchanged": "real and imaginary part are exchanged",
    "imaginary-lost": "the imaginary part is 0 everywhere",
    "real-lost": "the real part is 0 everywhere",
    # Patterns of groups.
    "factor-of-groups": "each row or group of neighbours is multiplied by its own number",
    "addend-of-groups": "a different number is added to each row or group of neighbours",
    "order-in-groups": "the right values in another order within each row or group of neighbours",
    # Exported models.
    "onnx-trans-b": "a Gemm took its weight without transposing it",
    "onnx-bias": "a bias is missing",
    "onnx-activation": "an activation is missing, another one, or one too many",
    "onnx-factor": "a Gemm multiplies its product or its bias by a factor",
    "onnx-precision": "weights were rounded to f16 or bf16",
    "onnx-dtype": "weights are stored as f16 and labelled bf16, or the reverse",
    "onnx-weight-zero": "the weight of a layer is all zero",
    "onnx-byte-order": "weights are stored big-endian",
    "onnx-swapped": "two weights or biases are exchanged",
    "onnx-inputs": "weights are inputs of the graph, without a value of their own",
    "onnx-raw-data": "weights are stored under a field that is not theirs",
    # Loaders.
    "labels-rolled": "labels are shifted against features",
    "labels-unshuffled": "features were shuffled and labels were not",
    "classes-mapped": "classes have the numbers of others",
    "mirrored": "every value was subtracted from one number",
    "never-shuffled": "the items are in the data set's order",
    "sorted": "the expected items are in ascending order",
    "order-reversed": "the items are in the reverse order",
    "order-inverse": "the inverse of the expected order",
    "order-in-batches": "the right items in another order within batches",
    "ids-wrong": "the ids are not those of the items, which are as expected",
    "last-batch-dropped": "the last batch, which is not full, is missing",
    "last-batch-kept": "the last batch, which must be dropped, was delivered",
    "last-batch-padded": "the last batch was filled up",
    "batches-swapped": "whole batches are exchanged",
    "batch-repeated": "a whole batch was delivered twice",
    "batch-lost": "a whole batch is missing",
    "head-skipped": "the run began late",
    "tail-lost": "the run ended early",
    "shard-repeated": "the items of one worker were delivered twice",
    "shard-missing": "the items of one worker are missing",
    "every-item-again": "every item was delivered equally often, more than once",
    "other-epoch": "the order of another epoch or seed",
    "no-simple-cause": "no simple cause fits",
}
