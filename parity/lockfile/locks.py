"""Read ``locked`` of a lockfile: the digests and sizes that ``bump`` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from parity.bundle.yaml_reader import Node, Reader, YamlReader
from parity.lockfile.contents import EXTRA_LOCK_KEYS, LOCK_KEYS, Locked


def read_locked(yaml_reader: YamlReader, node: Node, what: str) -> Locked:
    """Return what ``bump`` wrote of a bundle's archive and of its extra files."""
    return _read_lock(yaml_reader, node, what, LOCK_KEYS, extra=_read_extra_locks)


def _read_lock(
    yaml_reader: YamlReader, node: Node, what: str, keys: Iterable[str], **more: Reader
) -> Locked:
    readers = {**{key: _make_lock_reader(LOCK_KEYS[key]) for key in keys}, **more}
    values, entries = yaml_reader.read_record(node, what, readers, required=("sha256",))
    places = {key: yaml_reader.locate(value) for key, (_, value) in entries.items()}
    return Locked(**{"sha256": "", **values}, where=places)


def _read_extra_locks(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, Locked]:
    locks = {}
    for name, (_, value) in yaml_reader.read_mapping(node, what).items():
        lock = _read_lock(yaml_reader, value, f"{name!r:.60} of {what}", EXTRA_LOCK_KEYS)
        locks[name] = replace(lock, where={"sha256": yaml_reader.locate(value), **lock.where})
    return locks


def _make_lock_reader(form: int | tuple[str, int]) -> Reader:
    if isinstance(form, int):
        return lambda yaml_reader, node, what: yaml_reader.read_integer(node, what, form)
    return lambda yaml_reader, node, what: _read_digest(yaml_reader, node, what, *form)


def _read_digest(yaml_reader: YamlReader, node: Node, what: str, prefix: str, digits: int) -> str:
    value = yaml_reader.read_string(node, what)
    digest = value.removeprefix(prefix)
    if value and (digest == value or not re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)):
        short = len(digest) if digest != value and len(digest) != digits else 0
        found = f", not {short:,}" if short else ""
        form = f"it must be '{prefix}' and {digits} lower-case hex digits{found}"
        yaml_reader.add_problem(node, f"{what} is {value!r:.90}; {form}", "lockfile-digest")
    return digest
