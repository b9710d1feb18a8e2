"""DataLoader batches: the same items in batches of the same sizes, in the order that is owed.

ORDER owes the reference's order, SET its items in any order, SUBSET as many items
of the whole data set, none of them twice. Bound and modes: the dataset card of
ferrotorch's dataloader-batches-v1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import items
from parity.codecs import FormatError
from parity.codecs.bin import read_batch
from parity.items import Batches
from parity.layout import batch_files, case_folders, loader_case, suspect
from parity.matching import UNKNOWN, match
from parity.results import Finding
from parity.suites import item_findings
from parity.suites.base import Case, Dump, Outcome, Suite
from parity.suites.words import counted, listed, unreadable, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.bounds import Bounds
    from parity.items import Ints
    from parity.layout import LoaderCase

ARGS = ("--config", "{case}", "--seed", "{seed}", "--output-dir", "{output_dir}")
#: The seed that a case without one is given; upstream's own call passes it always.
SEED = 42
BOUNDS = {"max_abs": 1e-6}
#: Fewer items arrive in order by chance too often to be worth a warning (1/8! = 2.5e-5).
_SHUFFLED = 8


def cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of a dataloader bundle.

    Raises:
        ReferenceSuspectError: None, or a `meta.json` that lacks what a verdict needs.
    """
    return tuple(_case(loader_case(folder)) for folder in case_folders(tree))


def _case(meta: LoaderCase) -> Case:
    seed = SEED if meta.seed is None else meta.seed
    words = {"seed": str(seed)}
    return Case(id=meta.name, folder=meta.folder, words=words, bounds=BOUNDS, detail=meta)


@dataclass(frozen=True)
class _Reference:
    table: NDArray[np.float32]
    labels: NDArray[np.float32]
    due: Ints
    batches: Batches


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold a dump's batches against the reference's.

    Raises:
        ReferenceSuspectError: The reference's own batches do not hold together.
    """
    meta: LoaderCase = case.detail
    reference = _reference(meta)
    width = reference.batches.features.shape[1]
    # Room for a port that delivers everything in one batch, and for wrong sizes to be told.
    most = 4 * (reference.table.nbytes + reference.labels.nbytes) + 2**20
    delivered, found = _delivered(dump.folder, width, most)
    if delivered is None:
        return Outcome(findings=tuple(found))
    found += _sizes(reference.batches.sizes, delivered.sizes)
    found += _line(dump.line, delivered.sizes)
    audit, gap = _audit(
        meta, reference, delivered, 0.0 if bounds.get("exact") else bounds["max_abs"]
    )
    part = meta.mode == "SUBSET"
    due = np.arange(len(reference.table)) if part else reference.due
    members = items.membership(due, audit.came, part=part)
    found += item_findings.findings(audit, members)
    found += item_findings.label_findings(audit, reference.labels)
    found += _unshuffled(meta, audit.came)
    return Outcome(
        findings=tuple(found),
        measures={"items": len(audit.came), "batches": len(delivered.sizes), "max_abs": gap},
        margin=gap / audit.bound if audit.bound else None,
        compared=delivered.features.size + delivered.labels.size,
        tensors=("features", "labels"),
    )


def _reference(meta: LoaderCase) -> _Reference:
    batches, found = _delivered(meta.folder, None, None)
    if batches is None:
        raise suspect(meta.folder / "meta.json", f"the reference's own {found[0].message}")
    if batches.sizes != meta.batch_sizes:
        message = f"batch_sizes {_sizes_text(meta.batch_sizes)} is not what the batch files hold: "
        raise suspect(meta.folder / "meta.json", message + _sizes_text(batches.sizes))
    if meta.features is None or meta.labels is None:
        if meta.mode == "SUBSET":
            message = "SUBSET needs full_dataset_features and full_dataset_labels"
            raise suspect(meta.folder / "meta.json", message)
        due = np.arange(len(batches.features))
        return _Reference(batches.features, batches.labels, due, batches)
    table, labels = _full(meta, batches.features.shape[1])
    due = match(table, batches.features, 0.0)
    if (due == UNKNOWN).any() or not np.array_equal(labels[due], batches.labels):
        message = "full_dataset_features and _labels are not those of the batch files"
        raise suspect(meta.folder / "meta.json", message)
    return _Reference(table, labels, due, batches)


def _full(meta: LoaderCase, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    try:
        table = np.asarray(meta.features, np.float32)
        labels = np.asarray(meta.labels, np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        message = f"the full data set is not a table of numbers: {error}"
        raise suspect(meta.folder / "meta.json", message) from None
    if table.ndim < 1 or labels.shape != table.shape[:1] or table[0].size != width:
        message = (
            f"full_dataset_features {list(table.shape)} and _labels {list(labels.shape)} "
            f"do not fit batches of {width} features"
        )
        raise suspect(meta.folder / "meta.json", message)
    return table.reshape(len(table), width), labels


def _delivered(
    folder: Path, width: int | None, most: int | None
) -> tuple[Batches | None, list[Finding]]:
    """The batches in ``folder``, or why they cannot be read; ``width`` is that of a row."""
    files = batch_files(folder)
    found = _gaps(list(files))
    features, labels = [], []
    for path in files.values():
        try:
            pair = read_batch(path, most)
        except FormatError as error:
            found.append(unreadable(path.name, error))
            continue
        if complaint := _shape(path.name, pair, width):
            found.append(complaint)
            continue
        width = pair[0].reshape(len(pair[0]), -1).shape[1] if width is None else width
        features.append(pair[0].reshape(len(pair[0]), width))
        labels.append(pair[1])
    if found or not features:
        return None, found
    sizes = tuple(len(part) for part in labels)
    return Batches(np.concatenate(features), np.concatenate(labels), sizes), []


def _gaps(numbers: list[int]) -> list[Finding]:
    if not numbers:
        message = "holds no batch_NNNN.bin; expected batch_0000.bin and so on"
        return [wrong("batch-missing", f"the folder {message}", kind="dump")]
    absent = sorted(set(range(numbers[-1] + 1)).difference(numbers)) if numbers[-1] < 2**20 else [0]
    if not absent:
        return []
    names = listed(f"batch_{number:04}.bin" for number in absent)
    return [wrong("batch-missing", f"{names} is missing, batch_{numbers[-1]:04}.bin is there")]


def _shape(name: str, tensors: list[NDArray[np.float32]], width: int | None) -> Finding | None:
    if len(tensors) != 2:  # noqa: PLR2004 - features and labels
        message = f"{name} holds {counted(len(tensors), 'tensor')}, expected 2: features and labels"
        return wrong("tensor-count", message, tensor=name)
    features, labels = tensors
    shapes = f"features {list(features.shape)} and labels {list(labels.shape)}"
    if labels.ndim != 1 or features.ndim < 1 or len(features) != len(labels) or not len(labels):
        message = f"{name} has {shapes}; expected [B, …] and [B] with B of at least 1"
        return wrong("shape", message, tensor=name)
    if width is not None and features[0].size != width:
        message = f"{name} has {shapes}; expected {width} features an item"
        return wrong("shape", message, tensor=name)
    return None


def _sizes(due: tuple[int, ...], came: tuple[int, ...]) -> list[Finding]:
    if len(due) != len(came):
        message = (
            f"{counted(len(came), 'batch', 'batches')} came, {len(due):,} are due "
            f"(sizes {_sizes_text(came)}, expected {_sizes_text(due)})"
        )
        return [wrong("batch-count", message, expected=str(len(due)), obtained=str(len(came)))]
    differing = [n for n, (d, c) in enumerate(zip(due, came, strict=True)) if d != c]
    if not differing:
        return []
    first = differing[0]
    message = (
        f"batch {first} has {counted(came[first], 'item')}, {due[first]:,} are due "
        f"(sizes {_sizes_text(came)}, expected {_sizes_text(due)})"
    )
    return [wrong("batch-size", message, expected=str(due[first]), obtained=str(came[first]))]


def _sizes_text(sizes: tuple[int, ...]) -> str:
    return f"[{listed(sizes)}]"


def _line(line: Mapping[str, Any] | None, sizes: tuple[int, ...]) -> list[Finding]:
    """The JSON line on stdout is a courtesy, but it may not contradict the files."""
    found = []
    held = {"num_batches": len(sizes), "batch_sizes": list(sizes)}
    for key, files in held.items():
        said = None if line is None else line.get(key)
        if said is not None and said != files:
            message = f"stdout says {key} = {said!r:.200}, the files hold {files!r:.200}"
            found.append(wrong("contradiction", message, measures={"key": key}))
    return found


def _audit(
    meta: LoaderCase, reference: _Reference, delivered: Batches, bound: float
) -> tuple[item_findings.Audit, float]:
    came = match(reference.table, delivered.features, bound)
    due, ordered = reference.due, meta.mode == "ORDER"
    if ordered:
        # Where several items lie within the bound of a row, the one that is due counts.
        length = min(len(due), len(came))
        expected = reference.table[due[:length]].astype(np.float64)
        right = (np.abs(expected - delivered.features[:length]) <= bound).all(axis=1)
        came[:length][right] = due[:length][right]
    known = came != UNKNOWN
    gaps = np.abs(reference.table[came[known]].astype(np.float64) - delivered.features[known])
    audit = item_findings.Audit(
        table=reference.table,
        due=due,
        due_sizes=reference.batches.sizes,
        batches=delivered,
        came=came,
        bound=bound,
        ordered=ordered,
    )
    return audit, float(np.nanmax(gaps, initial=0.0))


def _unshuffled(meta: LoaderCase, came: Ints) -> list[Finding]:
    if not meta.shuffle or len(came) < _SHUFFLED or not (np.diff(came) > 0).all():
        return []
    message = (
        f"the case shuffles (seed {meta.seed}), yet all {len(came):,} items came in the data "
        "set's own order; is the shuffle switched on?"
    )
    return [Finding(level="warning", code="not-shuffled", message=message)]


SUITE = Suite(name="dataloader", args=ARGS, cases=cases, verify=verify)
