"""Make the bundle on loaders at scale: ranks, workers, saved states; of the lesson's records.

Names say nothing of a cut, so that a run that loads a state learns it from the state alone: runs
that save end in ``-save-X``, those that load that state in ``-load-X``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.items.records import Dataset, Policy, Shortfall
from parity.lab.pins import pipeline
from parity.lab.pins.pipeline import RunSettings

BUNDLE_ID = "loader-scale-v1"


def _make_ranks(
    world: int, shortfall: Shortfall, *, policy: Policy = "keep", batch_size: int = 2, **more: Any
) -> list[RunSettings]:
    """Make a case of each rank of one epoch."""
    epoch, draws = more.get("epoch", 0), more.pop("draws", False)
    name = f"{policy}-batch-{batch_size}-{shortfall}-world-{world}"
    name += f"-epoch-{epoch}" if epoch else ""
    whole = RunSettings(name=name, policy=policy, batch_size=batch_size, **more)
    scale = {"world": world, "shortfall": shortfall, **({"draws": True} if draws else {})}
    return [
        replace(whole, name=f"{name}-rank-{rank}", scale={"rank": rank, **scale})
        for rank in range(world)
    ]


def _make_workers(base: RunSettings, *counts: int, **relations: str) -> list[RunSettings]:
    """Make a case for each number of workers; all deliver the same."""
    return [
        replace(
            base,
            name=f"{base.name}-workers-{count}",
            relations=relations,
            scale={**base.scale, "workers": count},
        )
        for count in counts
    ]


def _save(base: RunSettings, letter: str, stop_after: int, **more: Any) -> RunSettings:
    """Make the case that saves its state after so many batches."""
    scale = {**base.scale, "stop_after": stop_after, **more}
    whole = base.relations.get("resume_of", base.name)
    name, relations = f"{base.name}-save-{letter}", {"resume_of": whole}
    return replace(base, name=name, relations=relations, scale=scale)


def _load(
    saved: RunSettings, name: str, start: int, whole: str, epoch: int = 0, **more: Any
) -> RunSettings:
    """Make the case that continues ``saved`` at batch ``start`` of ``whole``."""
    scale = {key: value for key, value in saved.scale.items() if key != "stop_after"}
    return replace(
        saved,
        name=name,
        epoch=epoch,
        start_batch=start,
        relations={"resume_of": whole},
        scale={**scale, "load_from": saved.name, **more},
    )


def _reject(saved: RunSettings, name: str, why: str, **more: Any) -> RunSettings:
    """Make the case that must reject the state of ``saved``; no batch is left to deliver."""
    settings = {key: more.pop(key) for key in ("seed",) if key in more}
    case = _load(saved, name, _END, "", expect="refuse", why=why, **more)
    return replace(case, relations={}, **settings)


_END = 3  # Batches of four of eleven records
_KEEP = RunSettings(name="keep")
_NEXT = RunSettings(name="keep-epoch-1", epoch=1, relations={"other_epoch_of": "keep"})
_PAD = RunSettings(name="pad", policy="pad")
_DROP = RunSettings(name="drop", policy="drop")
_DRAWN = replace(_KEEP, scale={"draws": True})
_STREAM = RunSettings(
    name="sequential-batch-1-stream", shuffle=False, batch_size=1, scale={"any_order": True}
)
_LETTERS = "mktr"  # of the cuts after 0, 1, 2 and 3 batches
_CUTS = [_save(_KEEP, letter, cut) for cut, letter in enumerate(_LETTERS)]
_TWO = _make_workers(_DRAWN, 2)[0]
_TWO_SAVED = _save(_TWO, "g", 1)
_RANK = _make_ranks(2, "fill")[1]
_RANK_SAVED = _save(_RANK, "h", 1)
_CHAINED = _save(_load(_CUTS[1], "keep-load-k", 1, "keep"), "e", 1)
_PAD_SAVED, _DROP_SAVED = _save(_PAD, "p", 2), _save(_DROP, "q", 2)
CASES = (
    *_make_ranks(4, "fill", draws=True),
    *_make_ranks(4, "trim"),
    *_make_ranks(2, "fill"),
    *_make_ranks(2, "fill", epoch=1),
    *_make_ranks(2, "uneven"),
    *_make_ranks(2, "fill", policy="drop", batch_size=4),
    *_make_ranks(2, "fill", policy="pad", batch_size=4),
    *_make_workers(_DRAWN, 0),
    *_make_workers(_DRAWN, 1, 2, 3, same_as="keep-workers-0"),
    replace(
        _DRAWN,
        name="keep-workers-2-epoch-1",
        epoch=1,
        relations={"other_epoch_of": "keep-workers-0"},
        scale={"draws": True, "workers": 2},
    ),
    replace(
        _DRAWN,
        name="keep-workers-2-seed-18",
        seed=18,
        relations={"other_seed_of": "keep-workers-0"},
        scale={"draws": True, "workers": 2},
    ),
    *_make_workers(_STREAM, 2, 3),
    _KEEP,
    _NEXT,
    _PAD,
    _DROP,
    RunSettings(name="drop-epoch-1", policy="drop", epoch=1, relations={"other_epoch_of": "drop"}),
    *_CUTS,
    *(_load(_CUTS[cut], f"keep-load-{_LETTERS[cut]}", cut, "keep") for cut in range(_END)),
    _load(_CUTS[_END], "keep-load-r", 0, "keep-epoch-1", 1),
    _CHAINED,
    _load(_CHAINED, "keep-load-e", 2, "keep"),
    _save(_load(_CUTS[2], "keep-load-t", 2, "keep"), "f", 0),
    _PAD_SAVED,
    _load(_PAD_SAVED, "pad-load-p", 2, "pad"),
    _DROP_SAVED,
    _load(_DROP_SAVED, "drop-load-q", 0, "drop-epoch-1", 1),
    _TWO_SAVED,
    _load(_TWO_SAVED, "keep-workers-2-load-g", 1, _TWO.name),
    *(
        _load(
            _TWO_SAVED,
            f"keep-workers-{count}-load-g",
            1,
            _TWO.name,
            workers=count,
            expect="either",
            why=f"a state of 2 workers is loaded with {count}",
        )
        for count in (0, 3)
    ),
    _RANK_SAVED,
    _load(_RANK_SAVED, f"{_RANK.name}-load-h", 1, _RANK.name),
    *(
        _reject(_CUTS[1], f"keep-load-{letter}", why, damage=damage)
        for letter, damage, why in (
            ("u", "empty", "the state is an empty file"),
            ("v", "cut", "the state is cut in half"),
            ("w", "flip", "one bit of the state is another"),
            ("x", "foreign", "the state is that of another program"),
        )
    ),
    _reject(_CUTS[1], "keep-seed-18-load-k", "the state is that of another seed", seed=18),
)


def pin(target_dir: Path, *, dataset: Dataset | None = None) -> Path:
    """Write ``loader-scale-v1.tar``; return its path.

    Raises:
        ConfigError: As ``pipeline.pin``.
        ReferenceSuspectError: As ``pipeline.pin``.
    """
    return pipeline.pin(target_dir, dataset=dataset, name=BUNDLE_ID, cases=CASES)
