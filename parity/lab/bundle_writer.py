"""Write a bundle for the suite `tensors` from arrays, with a tolerance for each reference."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from math import floor, log10
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity.errors import ConfigError, Problem
from parity.lab.array_files import encode_file, to_array, to_tensor, widen
from parity.lab.pins import packing, tensors
from parity.lockfile.parse import ID, ID_FORM

#: Outputs by name, or a function of the inputs that returns them, or a single output.
Expected = Mapping[str, Any] | Callable[..., Any]

#: How far beyond the reference's own rounding error a port may be.
_ALLOWANCE = 4
_STEPS = (1, 2, 5, 10)


class BundleWriter:
    """Collects the files of a bundle by their paths, and its `parity.json`, and packs them."""

    def __init__(self, name: str, **defaults: Any) -> None:
        """Begin the bundle ``name``; ``defaults`` are keys of the manifest's `defaults`.

        Raises:
            ConfigError: ``usage``: a lockfile would not accept the name.
        """
        if not re.fullmatch(ID, name):
            raise ConfigError(Problem("usage", f"{name!r} cannot be a bundle's id: {ID_FORM}"))
        self.name = name
        self.files: dict[str, bytes] = {}
        self.manifest: dict[str, Any] = {"schema": 2, "cases": {}}
        if defaults:
            self.manifest["defaults"] = defaults

    def add_file(self, path: str, value: Any) -> None:
        """Add a file, encoded by its suffix (``array_files.encode_file``).

        Raises:
            ConfigError: ``usage``: it cannot be encoded, or another file has the path.
        """
        content = encode_file(path, value)
        if self.files.setdefault(path, content) != content:
            raise ConfigError(Problem("usage", f"the bundle {self.name!r} has two files {path!r}"))

    def add_case(
        self, case: str, expected: Expected, inputs: Mapping[str, Any] | None = None, **keys: Any
    ) -> None:
        """Add a case: `inputs/NAME.npy` and `reference.safetensors` in a folder of its name.

        A `folder` or a `reference` among ``keys`` decide the place instead; cases of one folder
        share equal files.

        ``expected`` are outputs by name; or a function that is called with ``inputs`` by name and
        returns them, or one output, which is then named `out`. A function runs a second time in
        f64, and the difference decides the tolerance, unless ``keys``, which are further keys of
        the case in the manifest, have one.

        Raises:
            ConfigError: ``usage``: the case is there already, or an array cannot be encoded.
        """
        if case in self.manifest["cases"]:
            raise ConfigError(Problem("usage", f"the case {case!r} is added twice"))
        inputs = dict(inputs or {})
        entry: dict[str, Any] = {"reference": "reference.safetensors"}
        folder = keys.get("folder", case)
        if callable(expected):
            outputs = _name_outputs(expected(**inputs))
            if not {"tolerance", "exact", "tensors"} & keys.keys():
                wide = _name_outputs(_double_module(expected)(**widen(inputs)))
                entry["tensors"] = {
                    name: {"tolerance": suggest_tolerance(value, wide[name])}
                    for name, value in outputs.items()
                }
        else:
            outputs = dict(expected)
        if inputs:
            entry["inputs"] = [f"inputs/{name}.npy" for name in inputs]
        for name, value in inputs.items():
            self.add_file(f"{folder}/inputs/{name}.npy", value)
        entry |= keys
        self.add_file(f"{folder}/{entry['reference']}", outputs)
        self.manifest["cases"][case] = entry

    def measure_size(self) -> int:
        """Return how many bytes the files have until now, with the manifest."""
        return sum(map(len, self.list_files().values()))

    def list_files(self) -> dict[str, bytes]:
        """Return all files by their paths, the manifest among them."""
        return {**self.files, "parity.json": packing.encode_json(self.manifest, (",", ":"))}

    def write(self, target_dir: Path | str) -> Path:
        """Pack the bundle with its manifest as ``NAME.tar``, and check it as `pin tensors` does.

        Raises:
            ConfigError, ReferenceSuspectError: As ``pins.tensors.pack_folder``.
        """
        files = self.list_files()
        packing.check_member_names([f"{self.name}/{path}" for path in files])
        with TemporaryDirectory(prefix="parity-") as folder:
            packing.write_files(Path(folder, self.name), files)
            return tensors.pack_folder(Path(target_dir), Path(folder, self.name))

    def pack(self, target_dir: Path | str) -> Path:
        """Pack the files alone, for a manifest beside the lockfile; only names are checked."""
        return packing.pack(self.files, Path(target_dir, f"{self.name}.tar"))


def suggest_tolerance(value: Any, wide: Any) -> Any:
    """Suggest how far a port may be from ``value``, whose exact value is about ``wide``.

    Return ``"exact"`` for integers, and where both are equal; else ``atol``: four times the largest
    difference, rounded up to 1, 2 or 5 times a power of ten.
    """
    if to_tensor(value).dtype[0] in "IUB" and to_tensor(value).dtype != "BF16":
        return "exact"
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        error = np.abs(to_array(value).astype(np.complex128) - to_array(wide))
    largest = float(np.max(error[np.isfinite(error)], initial=0.0)) * _ALLOWANCE
    if largest == 0.0:
        return "exact"
    power = 10.0 ** floor(log10(largest))
    return {"atol": float(f"{next(s for s in _STEPS if s * power >= largest) * power:.0e}")}


def _name_outputs(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, dict):
        return outputs
    if isinstance(outputs, (list, tuple)):
        return {f"out{number}": value for number, value in enumerate(outputs)}
    return {"out": outputs}


def _double_module(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a module of torch with its parameters in f64; any other function as it is."""
    if hasattr(function, "named_parameters"):
        module: Any = copy.deepcopy(function)
        wide: Callable[..., Any] = module.double()
        return wide
    return function
