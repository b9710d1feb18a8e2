"""What is fuzzed, by name: a function of bytes and a folder of its own, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import files, texts, values

#: Inputs that once went wrong, a folder a target.
FOUND = Path(__file__).parent / "found"


@dataclass(frozen=True)
class Target:
    """A function that must come to an end without an exception, and inputs to begin with."""

    run: Callable[[bytes, Path], None]
    seeds: Sequence[bytes]

    def inputs(self, name: str) -> list[bytes]:
        """Seeds, and whatever went wrong before."""
        kept = sorted((FOUND / name).glob("*"))
        return [*self.seeds, *(path.read_bytes() for path in kept)]


TARGETS: dict[str, Target] = {
    "bin": Target(files.bin_files, files.BINS),
    "npy": Target(files.npy_files, files.NPYS),
    "safetensors": Target(files.safetensors_files, files.SAFETENSORS),
    "archive": Target(files.archives, files.TARS),
    "manifest": Target(texts.manifests, texts.MANIFESTS),
    "lockfile": Target(texts.lockfiles, texts.LOCKFILES),
    "meta": Target(texts.metas, texts.METAS),
    "compare": Target(values.comparisons, values.PAIRS),
    "diagnose": Target(values.diagnoses, values.PAIRS),
    "blocks": Target(values.decoders, values.BLOCKS),
}
