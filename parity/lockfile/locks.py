"""Read ``locked`` of a lockfile: the digests and sizes that ``bump`` writes."""

from __future__ import annotations

import re

from parity.bundle.yaml_reader import Node, Reader, YamlReader
from parity.lockfile.contents import EXTRA_LOCK_KEYS, LOCK_KEYS, Locked


def read_locked(yaml_reader: YamlReader, node: Node, what: str) -> Locked:
    """Return what ``bump`` wrote of a bundle's archive and of its extra files."""
    readers: dict[str, Reader] = {key: _make_lock_reader(form) for key, form in LOCK_KEYS.items()}
    readers["extra"] = _read_extra_locks
    values, entries = yaml_reader.read_record(node, what, readers, required=("sha256",))
    places = {key: yaml_reader.locate(value) for key, (_, value) in entries.items()}
    return Locked(**{"sha256": "", **values}, where=places)


def _read_extra_locks(yaml_reader: YamlReader, node: Node, what: str) -> dict[str, Locked]:
    readers = {key: _make_lock_reader(LOCK_KEYS[key]) for key in EXTRA_LOCK_KEYS}
    locks = {}
    for name, (_, value) in yaml_reader.read_mapping(node, what).items():
        own = f"{name!r:.60} of {what}"
        values, entries = yaml_reader.read_record(value, own, readers, required=("sha256",))
        places = {key: yaml_reader.locate(one) for key, (_, one) in entries.items()}
        where = {"sha256": yaml_reader.locate(value), **places}
        locks[name] = Locked(**{"sha256": "", **values}, where=where)
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
