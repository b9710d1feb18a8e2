"""The right values of a case, by the reference reader of its format, and its reference file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from parity.errors import Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.readers.libraries import READERS
from parity.lab.zoo.case import ExpectedTensor, ZooCase
from parity.lab.zoo.safetensors_builder import build_file
from parity.tensors.dtypes import DTYPES, PACKED

#: The reader of each format. The full one of torch: every object was made here, and protocols
#: beyond 2 need it.
_READERS = {"pth": "torch-full", "safetensors": "safetensors", "gguf": "gguf-py"}


def read_expected(case: ZooCase) -> dict[str, ExpectedTensor]:
    """Read the right tensors of ``case``, unless it states them.

    Raises:
        ReferenceSuspectError: Its reference reader does not read it, or finds no tensor.
    """
    if case.expected is not None:
        return dict(case.expected)
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of protocols beyond 2, and of beta layouts
        path = Path(folder, f"x.{case.group}")
        path.write_bytes(case.content)
        try:
            tensors = READERS[_READERS[case.group]]()(path)()
        except Exception as error:
            message = f"{case.id}: {type(error).__name__}: {error}"
            raise ReferenceSuspectError(Problem("reload-differs", message)) from error
    if not tensors:
        raise ReferenceSuspectError(Problem("reload-differs", f"{case.id} contains no tensor"))
    return {name: ExpectedTensor(*tensor) for name, tensor in tensors.items()}


def build_reference(tensors: Mapping[str, ExpectedTensor]) -> bytes:
    """Build a `.safetensors` file, aligned, its tensors in order of their names.

    Raises:
        ReferenceSuspectError: The library does not read back what was written.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES and tensor.dtype not in PACKED:
            message = f"{name!r} has the unknown dtype {tensor.dtype}"
            raise ReferenceSuspectError(Problem("reload-differs", message))
    content = build_file(dict(sorted(tensors.items())))
    found = {
        name: ExpectedTensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in import_library("safetensors").deserialize(content)
    }
    if found != dict(tensors):
        message = f"{', '.join(sorted(tensors))[:80]}: not read back as written"
        raise ReferenceSuspectError(Problem("reload-differs", message))
    return content
