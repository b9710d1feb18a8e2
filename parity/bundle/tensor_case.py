"""One case of a generic bundle, as its manifest states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parity.bundle.layout import Expectation
from parity.bundle.manifest_outputs import JsonRule
from parity.bundle.samples import Sample
from parity.bundle.stages import Stage
from parity.bundle.tensor_rules import EXACT, Check, Rules


@dataclass(frozen=True, kw_only=True)
class TensorCase:
    """One case of a generic bundle."""

    id: str
    folder: Path  # Its folder, with ``checkpoint``, ``reference`` and ``inputs``
    group: str = ""
    why: str = ""
    rule: str = ""
    blind: str = ""  # Reason for tolerances under which zeros or a constant would pass
    expect: Expectation = "load"  # What a port must do: load it, refuse it, or either
    #: The bundle states ``expect``; its result then includes the port's ending
    has_expectation: bool = False
    checkpoint: Path | None = None
    #: A folder or a file of tensors; None only where nothing is to be loaded
    reference: Path | None = None
    #: Names of the tensors in each file of the reference, where the manifest states them
    layout: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules, compare=False)  # How each tensor is compared
    #: Placeholders of the case's own, ``{words.NAME}``
    words: Mapping[str, str] = field(default_factory=dict)
    #: Rules of each JSON document by pointer, ``stdout`` for the last line printed
    documents: Mapping[str, Mapping[str, JsonRule]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()  # Files of text, which must be equal
    #: Entries that `__metadata__` of a dump must have: those of the reference (True), stated ones,
    #: or not asked for (None)
    metadata: bool | Mapping[str, str] | None = None
    #: Files that the port must write, each with its format, or with another one that has its bytes
    writes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    #: Tensors that a port may be asked for by name, where no reference names them
    names: tuple[str, ...] = ()
    #: The steps of a model in the order of execution; a port may leave out any of them that is not
    #: among ``outputs``
    stages: tuple[Stage, ...] = ()
    outputs: tuple[str, ...] = ()
    #: Tensors of which the reference has these elements alone, by name
    samples: Mapping[str, Sample] = field(default_factory=dict)
    is_transposed: bool = False  # The port's dump has the dimensions of its reference in reverse

    def find_document(self, source: str) -> Path:
        """Return the reference of a JSON document or a text."""
        place = self.reference or self.folder
        folder = place if place.is_dir() else self.folder
        return folder / ("stdout.json" if source == "stdout" else source)

    @property
    def tolerances(self) -> Mapping[str, float]:
        """The tolerances of a tensor without a rule of its own."""
        checks: tuple[Check, ...] = self.rules.default.checks or EXACT
        return checks[0].bounds
