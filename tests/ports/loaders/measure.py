"""Audit published loaders of Python, and write what they do as a table of docs/loaders.md.

``python measure.py [--write]`` runs every row below; without ``--write`` it ends with 1 where the
page has another table. Needs torch, torchdata, datasets, grain and webdataset,
and cargo for the crates.
"""

from __future__ import annotations

import copy
import importlib.metadata
import io
import itertools
import json
import logging
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    get_worker_info,
)

sys.path.insert(0, str(Path(__file__).parents[3]))

from parity.loaders import Run, audit_epochs, audit_ids, audit_ranks, check_repeated, check_resumed
from parity.results import Finding

PAGE = Path(__file__).parents[3] / "docs" / "loaders.md"
MARKS = "<!-- table of loaders -->", "<!-- end of the table -->"
ITEMS, FEW, BATCH = 1000, 18, 4

Found = list[Finding] | str


class Row(NamedTuple):
    """One thing that was looked at."""

    library: str
    setup: str
    check: str
    run: Callable[[], Found]


ROWS: list[Row] = []


def add(library: str, setup: str, check: str) -> Callable[[Callable[[], Found]], None]:
    return lambda function: ROWS.append(Row(library, setup, check, function))


def list_ids(batches: Iterable[Any]) -> list[int]:
    return [int(one) for batch in batches for one in np.ravel(batch)]


def run_of(batches: Iterable[Any], first: int = 0) -> Run:
    """Build the run of batches of ids alone."""
    columns = ([np.ravel(batch).astype(np.int64)] for batch in batches)
    return Run.of(((ids, ids, ids) for (ids,) in columns), first)


def check_cuts(
    make: Callable[[], Any], save: Callable[[Any], Any], load: Callable[[Any, Any], Any]
) -> Found:
    """Save after each batch, load in a new loader, and compare the rest with the whole run.

    ``make`` gives a loader with `__iter__`; ``save`` takes (loader, iterator), ``load`` (loader, state) and
    returns the iterator of the rest.
    """
    loader = make()
    iterator = iter(loader)
    batches, states = [], []
    for batch in iterator:
        batches.append(copy.deepcopy(batch))
        states.append(copy.deepcopy(save((loader, iterator))))
    whole, wrong = run_of(batches), []
    for cut, state in enumerate(states[:-1], 1):
        try:
            rest = list(load(make(), state))
        except Exception as error:  # noqa: BLE001 - what a loader raises is a rejection
            return f"rejected: {type(error).__name__}"
        wrong += check_resumed(whole, run_of(rest, cut), "the epoch")
    return wrong


# --- torch ------------------------------------------------------------------------------------


class Ids(Dataset):
    def __init__(self, count: int = ITEMS) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return int(index)


class Stream(IterableDataset):
    def __init__(self, count: int = ITEMS, *, sharded: bool = False) -> None:
        self.count, self.sharded = count, sharded

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info and self.sharded else (0, 1)
        return iter(range(first, self.count, step))


def sample_ranks(
    world: int, epoch: int | None = 0, seed: int = 0, **options: Any
) -> list[list[int]]:
    ranks = []
    for rank in range(world):
        data = Ids()
        sampler = DistributedSampler(data, world, rank, seed=seed, **options)
        if epoch is not None:
            sampler.set_epoch(epoch)
        ranks.append(list_ids(DataLoader(data, BATCH, sampler=sampler)))
    return ranks


@add("torch", "`DistributedSampler`, 3 ranks", "ranks, filled up")
def _() -> Found:
    return audit_ranks(sample_ranks(3), ITEMS, shortfall="fill")


@add("torch", "`DistributedSampler(drop_last=True)`, 3 ranks", "ranks, cut")
def _() -> Found:
    return audit_ranks(sample_ranks(3, drop_last=True), ITEMS, shortfall="trim")


@add("torch", "`DistributedSampler`, without `set_epoch`", "two epochs")
def _() -> Found:
    return audit_epochs({(0, epoch): sample_ranks(1, None)[0] for epoch in range(2)})


@add("torch", "`DistributedSampler`, with `set_epoch`", "seeds 0 and 1, epochs 0 and 1")
def _() -> Found:
    keys = itertools.product(range(2), range(2))
    return audit_epochs({(seed, epoch): sample_ranks(1, epoch, seed)[0] for seed, epoch in keys})


def load_torch(workers: int, data: Any = None, **options: Any) -> DataLoader:
    if isinstance(data or Ids(), Ids):
        options |= {"shuffle": True, "generator": torch.Generator().manual_seed(7)}
    return DataLoader(Ids() if data is None else data, BATCH, num_workers=workers, **options)


@add("torch", "`DataLoader(shuffle=True)`, 3 workers", "items and shuffle")
def _() -> Found:
    return audit_ids(list_ids(load_torch(3)), ITEMS)


@add("torch", "`DataLoader(shuffle=True)`, 0 and 3 workers", "the same order")
def _() -> Found:
    return check_repeated(run_of(load_torch(0)), run_of(load_torch(3)), "0 workers")


@add("torch", "`DataLoader`, iterable, 3 workers", "items")
def _() -> Found:
    return audit_ids(list_ids(load_torch(3, Stream())), ITEMS, shuffled=False)


@add("torch", "`DataLoader`, iterable that shares by `get_worker_info`, 3 workers", "items")
def _() -> Found:
    return audit_ids(list_ids(load_torch(3, Stream(sharded=True))), ITEMS, shuffled=False)


# --- torchdata --------------------------------------------------------------------------------


def load_stateful(workers: int, *, stream: bool = False, shared: bool = True) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    if stream:
        return StatefulDataLoader(Stream(FEW, sharded=True), BATCH, num_workers=workers)
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7) if shared else None
    return StatefulDataLoader(
        Ids(FEW), BATCH, shuffle=True, num_workers=workers, generator=generator
    )


def load_state(loader: Any, state: Any) -> Any:
    loader.load_state_dict(state)
    return loader


def check_stateful(workers: int, other: int | None = None, *, stream: bool = False) -> Found:
    counts = itertools.chain([workers], itertools.repeat(workers if other is None else other))
    return check_cuts(
        lambda: load_stateful(next(counts), stream=stream),
        lambda pair: pair[0].state_dict(),
        load_state,
    )


for _workers in (0, 2):
    for _stream in (False, True):
        _kind = "iterable that shares" if _stream else "shuffled"
        add("torchdata", f"`StatefulDataLoader`, {_kind}, {_workers} workers", "state at each cut")(
            partial(check_stateful, _workers, stream=_stream)
        )
for _pair in ((0, 2), (2, 0), (2, 3)):
    add(
        "torchdata",
        f"`StatefulDataLoader`, saved with {_pair[0]} workers, loaded with {_pair[1]}",
        "state at each cut",
    )(partial(check_stateful, *_pair))


def check_end(workers: int, *, shared: bool) -> Found:
    """Compare the epoch after a state saved at the end of one with the uninterrupted second epoch."""
    whole = load_stateful(workers, shared=shared)
    list(whole)
    state = copy.deepcopy(whole.state_dict())
    second = run_of(list(whole))
    after = load_state(load_stateful(workers, shared=shared), state)
    return check_repeated(second, run_of(list(after)), "the next epoch")


for _workers, _shared in itertools.product((0, 2), (True, False)):
    _kind = "with" if _shared else "without"
    add(
        "torchdata",
        f"`StatefulDataLoader`, shuffled, {_workers} workers, {_kind} a `generator`",
        "state at the end starts the next epoch",
    )(partial(check_end, _workers, shared=_shared))


def check_again(workers: int) -> Found:
    """Compare a state with the one that a loader saves right after it has loaded it."""
    loader = load_stateful(workers)
    iterator = iter(loader)
    next(iterator)
    state = copy.deepcopy(loader.state_dict())
    other = load_state(load_stateful(workers), state)
    iter(other)
    again = other.state_dict()
    same = repr(state) == repr(again)
    rest = run_of(list(load_state(load_stateful(workers), copy.deepcopy(again))), 1)
    found = check_repeated(run_of(list(iterator), 1), rest, "the state saved once")
    return found or ([] if same else "same order; the state has other bytes")


add("torchdata", "`StatefulDataLoader`, shuffled, 0 workers", "save, load, save")(
    partial(check_again, 0)
)


# --- Hugging Face datasets --------------------------------------------------------------------


def make_dataset(count: int = ITEMS) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({"id": list(range(count))})


def read_column(data: Iterable[Any]) -> list[int]:
    return [int(row["id"]) for row in data]


@add("datasets", "`Dataset.shuffle(seed)`", "items and shuffle")
def _() -> Found:
    return audit_ids(read_column(make_dataset().shuffle(seed=0)), ITEMS)


@add("datasets", "`Dataset.shuffle(seed)`", "seeds 0 to 3")
def _() -> Found:
    return audit_epochs(
        {(seed, 0): read_column(make_dataset().shuffle(seed=seed)) for seed in range(4)}
    )


def stream_dataset(shards: int = 1, count: int = ITEMS, size: int = 100) -> Any:
    return (
        make_dataset(count).to_iterable_dataset(num_shards=shards).shuffle(seed=0, buffer_size=size)
    )


for _shards, _size in ((1, 100), (1, 1000), (10, 100)):
    add(
        "datasets",
        f"iterable, {_shards} shard{'s' * (_shards > 1)}, `shuffle(buffer_size={_size})`",
        "items and shuffle",
    )(
        lambda shards=_shards, size=_size: audit_ids(
            read_column(stream_dataset(shards, size=size)), ITEMS
        )
    )


@add("datasets", "iterable, 1 shard, `shuffle(buffer_size=1000)`, `set_epoch`", "epochs 0 to 3")
def _() -> Found:
    orders = {}
    for epoch in range(4):
        data = stream_dataset(size=1000)
        data.set_epoch(epoch)
        orders[0, epoch] = read_column(data)
    return audit_epochs(orders)


def check_dataset_state(size: int) -> Found:
    def make() -> Any:
        data = make_dataset(FEW).to_iterable_dataset(num_shards=2)
        return data.shuffle(seed=0, buffer_size=size) if size else data

    def load(data: Any, state: Any) -> Any:
        data.load_state_dict(state)
        return ([row["id"]] for row in data)

    loader = make()
    ids, states = [], []
    for row in loader:
        ids.append([row["id"]])
        states.append(copy.deepcopy(loader.state_dict()))
    found = []
    for cut, state in enumerate(states[:-1], 1):
        found += check_resumed(run_of(ids), run_of(load(make(), state), cut), "the epoch")
    return found


add("datasets", "iterable, in order, 2 shards", "`state_dict` at each cut")(
    partial(check_dataset_state, 0)
)
add("datasets", "iterable, `shuffle(buffer_size=10)`", "`state_dict` at each cut")(
    partial(check_dataset_state, 10)
)


def load_streams(shards: int, workers: int) -> list[int]:
    return [
        int(one)
        for batch in DataLoader(stream_dataset(shards, size=1000), BATCH, num_workers=workers)
        for one in batch["id"]
    ]


for _shards in (4, 3, 1):
    add(
        "datasets",
        f"iterable, {_shards} shard{'s' * (_shards > 1)}, torch `DataLoader`, 2 workers",
        "items",
    )(lambda shards=_shards: audit_ids(load_streams(shards, 2), ITEMS, shuffled=False))
for _shards in (4, 3):

    def _check_split(shards: int = _shards) -> Found:
        from datasets.distributed import split_dataset_by_node

        ranks = [
            split_dataset_by_node(stream_dataset(shards, size=1000), rank, 2) for rank in range(2)
        ]
        return audit_ranks(
            [read_column(rank) for rank in ranks], ITEMS, shortfall="fill", shuffled=False
        )

    add("datasets", f"iterable, {_shards} shards, `split_dataset_by_node`, 2 ranks", "ranks")(
        _check_split
    )


# --- Grain ------------------------------------------------------------------------------------


class Source:
    """Ids. Grain compares ``repr`` when it sets a saved state."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> np.int64:
        return np.int64(index)

    def __repr__(self) -> str:
        return f"Source({self.count})"


def load_grain(
    workers: int = 0,
    count: int = ITEMS,
    seed: int = 0,
    shard: tuple[int, int] | None = None,
    epochs: int = 1,
    *,
    drop: bool = False,
) -> Any:
    import grain.python as grain

    options = (
        grain.NoSharding() if shard is None else grain.ShardOptions(*shard, drop_remainder=drop)
    )
    sampler = grain.IndexSampler(
        num_records=count, shard_options=options, shuffle=True, num_epochs=epochs, seed=seed
    )
    return grain.DataLoader(
        data_source=Source(count),
        sampler=sampler,
        operations=[grain.Batch(BATCH, drop_remainder=False)],
        worker_count=workers,
    )


@add("Grain", "`DataLoader`, `IndexSampler`", "items and shuffle")
def _() -> Found:
    return audit_ids(list_ids(load_grain()), ITEMS)


@add("Grain", "`DataLoader`, seeds 0 and 1, two epochs of each", "seeds and epochs")
def _() -> Found:
    orders = {}
    for seed in range(2):
        ids = list_ids(load_grain(seed=seed, epochs=2))
        orders |= {(seed, 0): ids[:ITEMS], (seed, 1): ids[ITEMS:]}
    return audit_epochs(orders)


@add("Grain", "`DataLoader`, 0 and 2 workers", "the same order")
def _() -> Found:
    return check_repeated(run_of(load_grain(0)), run_of(load_grain(2)), "0 workers")


for _drop in (False, True):
    add(
        "Grain",
        f"`DataLoader`, 3 shards, `drop_remainder={_drop}`",
        "ranks, cut" if _drop else "ranks, uneven",
    )(
        lambda drop=_drop: audit_ranks(
            [list_ids(load_grain(shard=(rank, 3), drop=drop)) for rank in range(3)],
            ITEMS,
            shortfall="trim" if drop else "uneven",
        )
    )


def check_grain(workers: int, other: int) -> Found:
    counts = itertools.chain([workers], itertools.repeat(other))

    def load(loader: Any, state: Any) -> Any:
        iterator = iter(loader)
        iterator.set_state(state)
        return iterator

    return check_cuts(lambda: load_grain(next(counts), FEW), lambda pair: pair[1].get_state(), load)


for _pair in ((0, 0), (2, 2), (0, 2), (2, 0)):
    add(
        "Grain",
        f"`DataLoader`, saved with {_pair[0]} workers, loaded with {_pair[1]}",
        "state at each cut",
    )(partial(check_grain, *_pair))


def make_map(seed: int, count: int = ITEMS) -> Any:
    import grain.python as grain

    return grain.MapDataset.source(Source(count)).shuffle(seed=seed)


@add("Grain", "`MapDataset.shuffle(seed)`", "items and shuffle")
def _() -> Found:
    return audit_ids(list_ids(make_map(0)), ITEMS)


@add(
    "Grain",
    "`MapDataset.shuffle(seed).repeat()`, seeds 0 and 1, two epochs of each",
    "seeds and epochs",
)
def _() -> Found:
    orders = {}
    for seed in range(2):
        data = make_map(seed).repeat(2)
        ids = [int(data[index]) for index in range(2 * ITEMS)]
        orders |= {(seed, 0): ids[:ITEMS], (seed, 1): ids[ITEMS:]}
    return audit_epochs(orders)


@add("Grain", "`WindowShuffleIterDataset`, windows of 100", "items and shuffle")
def _() -> Found:
    import grain.python as grain
    from grain import experimental

    source = grain.MapDataset.source(Source(ITEMS)).to_iter_dataset()
    return audit_ids(
        list_ids(experimental.WindowShuffleIterDataset(source, window_size=100, seed=0)), ITEMS
    )


# --- webdataset -------------------------------------------------------------------------------

SHARDS = 10


def write_shards(folder: Path) -> list[str]:
    names = []
    for shard, part in enumerate(np.split(np.arange(ITEMS), SHARDS)):
        path = folder / f"{shard:03}.tar"
        with tarfile.open(path, "w") as tar:
            for item in part:
                data = str(item).encode()
                entry = tarfile.TarInfo(f"{item:06}.txt")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        names.append(str(path))
    return names


def load_web(shard: Any = False, size: int = 0, **options: Any) -> Any:
    import webdataset

    data = webdataset.WebDataset(SHARD_FILES, shardshuffle=shard, empty_check=False, **options)
    data = data.shuffle(size, seed=0) if size else data
    return data.decode().map(_read_item)


def _read_item(sample: dict[str, Any]) -> int:
    return int(sample["txt"])


SHARD_FILES: list[str] = []

for _shard, _size in ((False, 100), (False, 1000), (SHARDS, 100), (SHARDS, 1000)):
    add(
        "webdataset",
        f"`shardshuffle={_shard}`, `shuffle({_size})`, {SHARDS} shards of 100",
        "items and shuffle",
    )(lambda shard=_shard, size=_size: audit_ids(list(load_web(shard, size, seed=0)), ITEMS))
for _workers in (2, 3, 12):
    add("webdataset", f"`DataLoader`, {_workers} workers, {SHARDS} shards", "items")(
        lambda workers=_workers: audit_ids(
            list_ids(DataLoader(load_web(), BATCH, num_workers=workers)), ITEMS, shuffled=False
        )
    )


def read_rank(rank: int, world: int, splitter: str) -> list[int]:
    import webdataset

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    try:
        chosen = getattr(webdataset, splitter, None)
        options = {"nodesplitter": chosen} if chosen else {}
        return [int(item) for item in load_web(**options)]
    finally:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]


for _splitter in ("", "split_by_node"):
    for _world in (2, 3):

        def _check_nodes(world: int = _world, splitter: str = _splitter) -> Found:
            try:
                ranks = [read_rank(rank, world, splitter) for rank in range(world)]
            except ValueError as error:
                return f"rejected: {type(error).__name__}"
            return audit_ranks(ranks, ITEMS, shortfall="fill", shuffled=False)

        _name = f"`nodesplitter={_splitter}`" if _splitter else "default `nodesplitter`"
        add("webdataset", f"{_name}, {_world} ranks, {SHARDS} shards", "ranks")(_check_nodes)


@add(
    "webdataset", "`WebDataset(seed=0)`, `shuffle(1000)` without a seed, two runs", "the same order"
)
def _() -> Found:
    runs = [run_of([item] for item in load_web(SHARDS, seed=0).shuffle(1000)) for _ in range(2)]
    found = check_repeated(runs[0], runs[1], "the first run")
    return "`not-repeated`" if found else []  # the message differs each time


@add(
    "webdataset", "`detshuffle(1000, seed)`, seeds 0 and 1, two epochs of each", "seeds and epochs"
)
def _() -> Found:
    import webdataset

    orders = {}
    for seed in range(2):
        data = webdataset.WebDataset(SHARD_FILES, shardshuffle=False)
        data = data.compose(webdataset.detshuffle(1000, seed=seed)).decode().map(_read_item)
        orders |= {(seed, epoch): list(data) for epoch in range(2)}
    return audit_epochs(orders)


# --- crates ------------------------------------------------------------------------------------

HERE = Path(__file__).parent
#: Their folders have the version of the crate that they use; NAME.lock.yaml claims cases.
CRATES = ("ferrotorch-data", "burn", "ai-dataloader")
#: As in their lockfiles, so that nothing is built twice: bundled C sources of a dependency predate
#: what newer compilers refuse.
CRATE_ENV = {"ferrotorch-data": {"CFLAGS": "-Wno-implicit-function-declaration"}}


def run_crate(library: str, config: str, *, items: int = ITEMS, **words: object) -> list[list[int]]:
    """Return the batches of ids that a crate's program prints for a configuration."""
    pairs = [(f"--{name}", str(value)) for name, value in words.items()]
    args = ["cargo", "run", "--release", "--quiet", "--example", "loader_dump", "--"]
    args += ["--items", str(items), "--config", config, *itertools.chain(*pairs)]
    folder, env = HERE / library, os.environ | CRATE_ENV.get(library, {})
    done = subprocess.run(args, cwd=folder, env=env, check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_contract(library: str) -> Found:
    """Run the program on the claimed cases of `loader-scale-v1`, as `parity verify` does."""
    with tempfile.TemporaryDirectory() as folder:
        args = ["--lockfile", str(HERE / f"{library}.lock.yaml"), "--report-dir", folder]
        words = [sys.executable, "-m", "parity", "verify", *args]
        done = subprocess.run(words, cwd=HERE.parents[2], check=False, stdout=sys.stderr)
        report = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
    cases = [case for bundle in report["bundles"] for case in bundle["cases"]]
    failures = filter(is_failure, itertools.chain(*(case["findings"] for case in cases)))
    verdicts = Counter(case["verdict"] for case in cases)
    claimed = len(cases) - verdicts["skipped"]
    texts = [f"{verdicts['pass']} of {claimed} claimed cases pass"]
    texts += [f"`{code}`" for code in sorted({one["code"] for one in failures})]
    return ", ".join(texts) + "; not as its lockfile states" * (done.returncode > 0)


def is_failure(finding: dict[str, Any]) -> bool:
    return finding["level"] == "error" or finding["message"].startswith("known failure")


def audit_keys(library: str, seeds: int, epochs: int) -> Found:
    keys = itertools.product(range(seeds), range(epochs))
    return audit_epochs(
        {
            (seed, epoch): list_ids(run_crate(library, "keep", seed=seed, epoch=epoch))
            for seed, epoch in keys
        }
    )


def compare_workers(library: str, workers: int) -> Found:
    runs = [
        run_of(run_crate(library, "keep", seed=0, epoch=0, workers=count)) for count in (0, workers)
    ]
    return "`not-repeated`" if check_repeated(*runs, "0 workers") else []


for _name in CRATES:
    add(_name, "program in `tests/ports/loaders`", "`loader-scale-v1`, 57 cases")(
        partial(check_contract, _name)
    )
for _name, _kind in (("ferrotorch-data", "`shuffle(true)`"), ("burn", "`shuffle(seed)`")):
    add(_name, f"`DataLoader`, {_kind}", "items and shuffle")(
        lambda name=_name: audit_ids(list_ids(run_crate(name, "keep", seed=0, epoch=0)), ITEMS)
    )
    add(_name, f"`DataLoader`, {_kind}, seeds 0 to 5, two epochs of each", "seeds and epochs")(
        partial(audit_keys, _name, 6, 2)
    )
    add(_name, "`DataLoader`, 0 and 3 workers", "the same order")(
        partial(compare_workers, _name, 3)
    )


def audit_parts(library: str, shortfall: Any) -> Found:
    parts = [
        list_ids(run_crate(library, f"keep-{shortfall}", seed=0, epoch=0, rank=rank, world=3))
        for rank in range(3)
    ]
    return audit_ranks(parts, ITEMS, shortfall=shortfall)


add("ferrotorch-data", "`DistributedSampler`, 3 ranks", "ranks, filled up")(
    partial(audit_parts, "ferrotorch-data", "fill")
)
add("burn", "`split_dataloader`, 3 devices", "ranks, uneven")(
    partial(audit_parts, "burn", "uneven")
)


@add("burn", "`DataLoader`, 3 workers", "items and sizes of batches")
def _() -> Found:
    batches = run_crate("burn", "keep", seed=0, epoch=0, workers=3)
    found = audit_ids(list_ids(batches), ITEMS)
    short = [len(batch) for batch in batches if len(batch) != BATCH]
    return found or ([] if not short else f"sizes {sorted(short)} and {BATCH}")


for _kind in ("indexable", "iterable"):
    add("ai-dataloader", f"{_kind}, `shuffle()`", "items and shuffle")(
        lambda kind=_kind: audit_ids(list_ids(run_crate("ai-dataloader", "keep", kind=kind)), ITEMS)
    )


@add("ai-dataloader", "indexable, `shuffle()`, which takes no seed, two runs", "the same order")
def _() -> Found:
    runs = [run_of(run_crate("ai-dataloader", "keep")) for _ in range(2)]
    found = check_repeated(runs[0], runs[1], "the first run")
    return "`not-repeated`" if found else []  # the message differs each time


@add("ai-dataloader", "indexable, `drop_last()`, 999 items", "sizes of batches")
def _() -> Found:
    sizes = {len(batch) for batch in run_crate("ai-dataloader", "drop", items=999)}
    return [] if sizes == {BATCH} else f"sizes {sorted(sizes)}"


# --- the table --------------------------------------------------------------------------------


def describe(found: Found) -> str:
    """Return the cell of a result: the codes of findings that are no notice, or what was said."""
    if isinstance(found, str):
        return found
    codes = dict.fromkeys(one.code for one in found if one.level != "notice")
    texts = {one.code: one.message for one in reversed(found)}
    return "; ".join(f"`{code}`: {shorten(texts[code])}" for code in codes) or "as expected"


def shorten(text: str) -> str:
    for before in ("the epoch shuffles, but compared with the data set's order, ", "; first: "):
        head, _, tail = text.partition(before)
        text = tail if not head else text
    return text.replace("|", "\\|")[:300]


def find_version(library: str) -> str:
    if library not in CRATES:
        return importlib.metadata.version(library.lower())
    text = (HERE / library / "Cargo.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["package"]["version"]


def write_table() -> str:
    versions = {name: find_version(name) for name in dict.fromkeys(row.library for row in ROWS)}
    lines = ["| library | set-up | what is checked | result |", "|---|---|---|---|"]
    for row in ROWS:
        result = describe(row.run())
        print(f"{row.library}: {row.setup}: {row.check}: {result}", file=sys.stderr, flush=True)
        lines.append(
            f"| {row.library} {versions[row.library]} | {row.setup} | {row.check} | {result} |"
        )
        sys.stderr.flush()
    return "\n".join(lines)


def main() -> int:
    """Measure; write the page or compare it."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        SHARD_FILES[:] = write_shards(Path(folder))
        table = write_table()
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(MARKS[0])
    _, _, tail = rest.partition(MARKS[1])
    print(table)
    new = f"{head}{MARKS[0]}\n{table}\n{MARKS[1]}{tail}"
    if "--write" in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        print("docs/loaders.md has another table", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
