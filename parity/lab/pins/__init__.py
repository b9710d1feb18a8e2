"""Make bundles: one module a kind, each with ``pin(target_dir, **options) -> Path``.

The same installed libraries give the same bytes, whatever the machine. Options:

* ``dataloader``: none;
* ``pipeline``, ``loader-scale``: ``dataset`` (a ``items.records.Dataset``; not for a command line);
* ``serialize``: ``pth`` and ``gguf`` (paths of real checkpoints), ``size`` (``small`` or
  ``full``), ``upstream_only`` (bool);
* ``tensors``: ``folder`` (the references with their `parity.json`);
* ``trace``: as ``trace.pin``;
* ``zoo``, ``op-zoo``, ``writers``: none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parity.lab import resolve_hook
from parity.lockfile.parse import SUITES
from parity.suites import find_suite

#: Kinds of bundles that are compared by a suite of another name.
_OWN = {
    "loader-scale": "parity.lab.pins.loader_scale:pin",
    "zoo": "parity.lab.zoo:pin",
    "op-zoo": "parity.lab.op_zoo:pin",
    "trace": "parity.lab.pins.trace:pin",
    "writers": "parity.lab.pins.writers:pin",
}


def find_pin(kind: str) -> Callable[..., Path]:
    """Return the maker of a kind of bundle, one of ``list_kinds()``.

    It takes the folder to write into and the kind's own keyword options, writes
    ``<bundle id>.tar`` there and returns its path.
    """
    suite = find_suite(kind)
    pin: Callable[..., Path] = resolve_hook(_OWN[kind] if suite is None else suite.pin)
    return pin


def list_kinds() -> list[str]:
    """List the kinds of bundles that can be made."""
    return [*SUITES, *_OWN]


#: The models of `model-traces-v1`, functions of `trace_models.py`.
_TRACED = ("mlp", "cnn", "encoder", "decoder", "lstm", "bag", "mixer", "layers")

#: The bundles in `tests/bundles`, by id: kind and options that make each.
EMBEDDED: dict[str, tuple[str, dict[str, object]]] = {
    "dataloader-batches-v1": ("dataloader", {}),
    "serialize-parity-v1": ("serialize", {}),
    "serialize-upstream-v1": ("serialize", {"upstream_only": True}),
    "input-pipeline-v1": ("pipeline", {}),
    "loader-scale-v1": ("loader-scale", {}),
    "checkpoint-zoo-v1": ("zoo", {}),
    "op-zoo-v1": ("op-zoo", {}),
    "writer-parity-v1": ("writers", {}),
    "model-traces-v1": (
        "trace",
        {
            "model": [f"{Path(__file__).with_name('trace_models.py')}:{name}" for name in _TRACED],
            "name": "model-traces-v1",
            "train": 3,
        },
    ),
}
