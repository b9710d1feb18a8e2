"""Read the files of each bundle kind into typed records; `docs/pipeline.md` has its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from parity.errors import Problem, ReferenceSuspectError
from parity.items.records import POLICIES, SHORTFALLS, Policy, Shortfall

Expectation = Literal["load", "refuse", "either"]
EqualityMode = Literal["ORDER", "SET", "SUBSET"]
MODES: tuple[EqualityMode, ...] = ("ORDER", "SET", "SUBSET")
#: A `meta.json` contains the items of its case as text.
MAX_JSON = 256 * 2**20
MAX_WORLD = 2**16  # Ranks
_BATCH = re.compile(r"batch_([0-9]{4,9})\.bin")
#: How llama.cpp and the Hub's libraries name the parts of a checkpoint; not more than 9,999.
_PART = re.compile(r"(.+)-([0-9]{5})-of-(0[0-9]{4})(\.[a-z]+)")
_NEAR_BATCH = re.compile(r"batch[-_. ]{0,2}([0-9]{1,20})\.bin", re.IGNORECASE)


def make_suspect_error(path: Path, message: str) -> ReferenceSuspectError:
    """Return the error of a bundle whose own files are inconsistent."""
    text = f"{path.parent.name}/{path.name}: {message}"
    return ReferenceSuspectError(Problem("reference-malformed", text))


def describe_nesting(tree: Path) -> str:
    """Say that a bundle's content is folders too deep; ``""`` where it is not."""
    places = {path.parent for path in tree.rglob("parity.json")}
    places |= {path.parent.parent for path in tree.rglob("meta.json")}
    below = [place.relative_to(tree) for place in places if tree in place.parents]
    if len(places) != 1 or not below:
        return ""
    name, depth = below[0].as_posix(), len(below[0].parts)
    return (
        f"; all cases are in the folder {name!a} of the archive, "
        f"{'one folder' if depth == 1 else f'{depth} folders'} too deep: "
        f"pack its content (tar -C {name!a} -cf bundle.tar .)"
    )


def find_case_folders(tree: Path) -> list[Path]:
    """Return the folders of a bundle that have a `meta.json`, by name.

    Raises:
        ReferenceSuspectError: There is none.
    """
    folders = sorted(path.parent for path in tree.glob("*/meta.json"))
    if not folders:
        message = f"the bundle has no case: no folder in it has a meta.json{describe_nesting(tree)}"
        raise ReferenceSuspectError(Problem("no-cases", message))
    return folders


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a bundle's file.

    Raises:
        ReferenceSuspectError: Not readable, too large, not JSON, or not an object.
    """
    value = _load_json(path)
    if not isinstance(value, dict):
        raise make_suspect_error(path, f"contains {type(value).__name__}, not an object")
    return value


def _load_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON:
            raise make_suspect_error(path, f"larger than {MAX_JSON:,} bytes")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise make_suspect_error(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise make_suspect_error(path, f"is not JSON: {error}") from None


def read_names(path: Path) -> list[str]:
    """Read the JSON list of distinct strings in a bundle's file.

    Raises:
        ReferenceSuspectError: Not readable, not JSON, or something else.
    """
    names = _load_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise make_suspect_error(path, "must be a list of names")
    if len(set(names)) < len(names):
        raise make_suspect_error(path, "lists a name twice")
    return names


def find_batch_files(folder: Path) -> dict[int, Path]:
    """Return the `batch_NNNN.bin` files of ``folder`` by number, ascending."""
    paths = [path for path in folder.iterdir() if _is_batch_name(path.name) and path.is_file()]
    return dict(sorted((int(path.stem.removeprefix("batch_")), path) for path in paths))


def find_misnamed_batches(folder: Path) -> dict[Path, int]:
    """Return misnamed batch files of ``folder`` in the order of names, with their numbers.

    Another number of digits, another separator or case; or the right name of a folder, a
    pipe, or a broken link. `batch_0001.bin.tmp` and the like are other files.
    """
    found = {}
    for path in sorted(folder.iterdir()):
        match = _NEAR_BATCH.fullmatch(path.name)
        if match and not (_is_batch_name(path.name) and path.is_file()):
            found[path] = int(match[1])
    return found


def _is_batch_name(name: str) -> bool:
    match = _BATCH.fullmatch(name)
    # More zeros than necessary would give one batch two names.
    return match is not None and name == f"batch_{int(match[1]):04}.bin"


def list_parts(checkpoint: Path) -> tuple[Path, ...]:
    """Return the files that a checkpoint must have: `a-00002-of-00003.gguf` is one of three.

    Any of them names all; another name is a file by itself. The files may be missing.
    """
    match = _PART.fullmatch(checkpoint.name)
    count = int(match[3]) if match else 1
    if not match or not 0 < int(match[2]) <= count:
        return (checkpoint,)
    names = (f"{match[1]}-{n:05}-of-{count:05}{match[4]}" for n in range(1, count + 1))
    return tuple(checkpoint.with_name(name) for name in names)


@dataclass(frozen=True, kw_only=True)
class LoaderCase:
    """One case of a dataloader bundle, from its `meta.json`."""

    name: str
    folder: Path
    mode: EqualityMode  # How much of the items' order a port must match
    batch_size: int
    shuffle: bool
    drop_last: bool
    seed: int | None = None
    batch_sizes: tuple[int, ...]  # Of the reference
    features: list[Any] | None  # ``[n][d]``, the whole data set where `meta.json` has it
    labels: list[Any] | None  # ``[n]``


def read_loader_case(folder: Path) -> LoaderCase:
    """Read the case in ``folder`` of a dataloader bundle.

    Raises:
        ReferenceSuspectError: `meta.json` is unreadable or lacks a key that the comparison needs.
    """
    path = folder / "meta.json"
    meta = read_json(path)
    sizes = tuple(_require(path, meta, "batch_sizes", list))
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise make_suspect_error(path, "batch_sizes are not all positive whole numbers")
    for key in ("num_batches", "expected_num_batches"):
        if meta.get(key) not in (None, len(sizes)):
            message = f"{key} is {meta[key]!r:.60}, but batch_sizes names {len(sizes)}"
            raise make_suspect_error(path, message)
    kinds = {"batch_size": int, "shuffle": bool, "drop_last": bool}
    kinds |= {"seed": int} if meta.get("seed") is not None else {}
    return LoaderCase(
        name=folder.name,
        folder=folder,
        mode=_choose(path, meta, "equality_mode", MODES),
        **{key: _require(path, meta, key, kind) for key, kind in kinds.items()},
        batch_sizes=sizes,
        features=meta.get("full_dataset_features"),
        labels=meta.get("full_dataset_labels"),
    )


def _require(path: Path, meta: dict[str, Any], key: str, kind: type) -> Any:
    value = meta.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise make_suspect_error(path, f"{key} must be {kind.__name__}, not {value!r:.60}")
    return value


#: Damages of a saved state, by name, each of which a port must reject.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda state: state[: len(state) // 2],
    "flip": lambda state: bytes(b ^ (2 * k == len(state) & ~1) for k, b in enumerate(state)),
    "foreign": lambda _: b'{"epoch": 0, "rng": [624, 17], "position": 4}\n',
}
#: Keys by which a pipeline case names another case that it is related to.
RELATIONS = ("same_as", "other_epoch_of", "other_seed_of", "resume_of")


@dataclass(frozen=True, kw_only=True)
class PipelineCase:
    """One case of a pipeline bundle, from its `meta.json`."""

    name: str
    folder: Path
    policy: Policy  # How a last batch that is not full is treated
    shuffle: bool
    batch_size: int
    seed: int
    epoch: int
    start_batch: int  # Number of the first one that is delivered
    batch_sizes: tuple[int, ...]
    order: tuple[int, ...]  # Ids of all records in the order of the epoch
    omitted_ids: tuple[int, ...]
    fingerprint: str  # 64 hex digits, of x and y
    masked_mean: float | None
    ids: list[Any]  # Of the data set, ``[n]``, as are x and y
    x: list[Any]
    y: list[Any]
    relations: dict[str, str]  # Case named by each key of ``RELATIONS`` that is present
    disjoint_with: tuple[str, ...] = ()  # Cases that share no record with this one
    rank: int | None = None  # None: one process alone
    world: int = 1  # Number of ranks
    shortfall: Shortfall = "fill"
    workers: int | None = None
    any_order: bool = False  # The epoch may have any order, and another for other ``workers``
    draws: bool = False  # The port must state the random number that it drew for each slot
    stop_after: int | None = None  # Batches of this run after which it saves its state and ends
    load_from: str = ""  # Case whose saved state this run continues
    damage: str = ""  # One of ``DAMAGES``, done to that state before
    expect: str = ""  # As a case of tensors has it; empty for an ordinary run
    why: str = ""


def read_pipeline_case(folder: Path) -> PipelineCase:
    """Read the case in ``folder`` of a pipeline bundle.

    Raises:
        ReferenceSuspectError: `meta.json` is unreadable or lacks a key that the comparison needs.
    """
    path = folder / "meta.json"
    meta = read_json(path)
    data = _require(path, meta, "dataset", dict)
    mean = meta.get("masked_mean")
    case = PipelineCase(
        name=folder.name,
        folder=folder,
        masked_mean=None if mean is None else float(_require(path, meta, "masked_mean", float)),
        **{key: _require(path, data, key, list) for key in ("ids", "x", "y")},
        relations={key: _require(path, meta, key, str) for key in RELATIONS if key in meta},
        **{
            key: read(path, meta, key)
            for key, read in _PIPELINE_KEYS.items()
            if key in meta or not hasattr(PipelineCase, key)  # the key has no default
        },
    )
    if (case.rank is None) == ("world" in meta) or not (case.rank or 0) < case.world <= MAX_WORLD:
        text = f"rank {case.rank} of world {case.world:,}; expected rank < world <= {MAX_WORLD:,}"
        raise make_suspect_error(path, text)
    if case.damage and not case.load_from:
        raise make_suspect_error(path, "damage needs load_from, the case whose state is damaged")
    return case


def _choose(path: Path, meta: dict[str, Any], key: str, allowed: Collection[str]) -> Any:
    value = _require(path, meta, key, str)
    if value not in allowed:
        raise make_suspect_error(path, f"{key} is {value!r:.60}; known: {', '.join(allowed)}")
    return value


def _read_count(path: Path, meta: dict[str, Any], key: str, least: int = 0) -> int:
    value: int = _require(path, meta, key, int)
    if value < least:
        raise make_suspect_error(path, f"{key} is {value}; it must be at least {least}")
    return value


def _read_all(path: Path, meta: dict[str, Any], key: str, kind: type) -> tuple[Any, ...]:
    values = tuple(_require(path, meta, key, list))
    if any(not isinstance(value, kind) or isinstance(value, bool) for value in values):
        raise make_suspect_error(path, f"{key} must contain only {kind.__name__}")
    return values


#: Readers of the keys of a pipeline case; those of a field with a default may be missing.
_PIPELINE_KEYS: dict[str, Callable[[Path, dict[str, Any], str], Any]] = {
    "batch_size": partial(_read_count, least=1),
    **dict.fromkeys(("seed", "epoch", "start_batch"), _read_count),
    **dict.fromkeys(("rank", "world", "workers", "stop_after"), _read_count),
    **dict.fromkeys(("batch_sizes", "order", "omitted_ids"), partial(_read_all, kind=int)),
    **dict.fromkeys(("shuffle", "any_order", "draws"), partial(_require, kind=bool)),
    **dict.fromkeys(("fingerprint", "load_from", "why"), partial(_require, kind=str)),
    "disjoint_with": partial(_read_all, kind=str),
    "policy": partial(_choose, allowed=POLICIES),
    "shortfall": partial(_choose, allowed=SHORTFALLS),
    "damage": partial(_choose, allowed=DAMAGES),
    "expect": partial(_choose, allowed=get_args(Expectation)),
}
